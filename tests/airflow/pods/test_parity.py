"""The same rows, whether a campaign runs in one pod or in several, watched by a worker or by the triggerer."""

import pytest

from dpone_contract.outcome import OUTCOME_SIZE_LIMIT_BYTES
from tests.airflow.pods.pod_runs import TASK, build
from tests.integration.campaigns import manifest_text

CHUNKS = 7
ITEMS = 3
# What a TEXT column of MySQL holds, which some deployments keep XComs in.
MYSQL_LIMIT_BYTES = 65_535


@pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])
def test_internal_and_mapped_load_the_same_rows(pods, deferrable):
    pod = {"deferrable": deferrable}
    internal = pods.run(build("internal", chunks=CHUNKS), pod=pod)
    assert "success" == internal.state, internal.log
    assert [-1] == list(internal.tasks(TASK))
    pods.history.require_loaded(CHUNKS)
    loaded = pods.history.content("target.history")
    pods.history.sql("TRUNCATE target.history; DROP SCHEMA dpone_audit CASCADE")

    mapped = pods.run(build(chunks=CHUNKS, items=ITEMS), pod=pod)
    assert "success" == mapped.state, mapped.log
    pods.history.require_loaded(CHUNKS)
    assert loaded == pods.history.content("target.history")
    # Seven chunks as three, two and two.
    assert {
        0: ("success", "2013-01-01 .. 2013-01-03"),
        1: ("success", "2013-01-04 .. 2013-01-05"),
        2: ("success", "2013-01-06 .. 2013-01-07"),
    } == {index: (task.state, task.label) for index, task in mapped.tasks(TASK).items()}
    outcomes = [outcome["backfill"] for _, outcome in sorted(mapped.xcoms(TASK).items())]
    assert [3, 2, 2] == [outcome["chunks_committed"] for outcome in outcomes]
    assert internal.xcoms(TASK)[-1]["backfill"]["rows_loaded"] == sum(
        each["rows_loaded"] for each in outcomes
    )
    pods.api.wait_for(lambda pod: pod.gone)
    assert [0] * (1 + ITEMS) == [pod.exit_code for pod in pods.api.pods()]
    assert all(seen.gone for seen in pods.api.pods()), "a pod that has ended well is deleted"


def test_xcom_of_a_thousand_chunks_is_bounded(pods):
    text = manifest_text(1000)
    finished = pods.run(build(chunks=1000, items=1, max_active=1, text=text))
    assert "success" == finished.state, finished.log
    assert 1000 == finished.xcoms(TASK)[0]["backfill"]["chunks_committed"]
    size_bytes = finished.xcom_bytes(TASK)[0]
    assert size_bytes < OUTCOME_SIZE_LIMIT_BYTES < MYSQL_LIMIT_BYTES
    assert pods.history.content("source.history") == pods.history.content("target.history")
    assert {("committed", 1)} == set(pods.history.chunks().values())
