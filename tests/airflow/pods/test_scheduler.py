"""A mapped load in pods under Airflow's own scheduler, API server and triggerer: limits, clearing, marking, one asset event.

One Airflow for all tests of this module, since its start is what takes longest; each has a DAG, a database and pods of its own.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quickstart.airflow_home import AirflowHome
from tests.airflow.pods.pod_runs import GATE, TASK, build
from tests.airflow.pods.scheduled_runs import LeaseSampler, ScheduledRuns, held_target
from tests.integration.campaigns import opened_history
from tests.kubernetes_api.kubernetes_api import KubernetesApi

pytestmark = pytest.mark.airflow_live

MAX_ACTIVE = 2
PARALLELISM = 4
PRELOAD = ("airflow.sdk.execution_time.task_runner", "airflow_provider_dpone.pod_operator")
TWO_DAYS = "day <= date '2013-01-02'"
NOTHING = (0, None)


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scheduler") / "dags"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def airflow(dags: Path, running_api: KubernetesApi) -> Iterator[AirflowHome]:
    environment = {
        "KUBECONFIG": str(running_api.kubeconfig),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    home = AirflowHome(dags.parent / "home", dags, environment, PARALLELISM, PRELOAD)
    with home:
        home.create_pool("dpone_backfill", MAX_ACTIVE, "loads of history")
        yield home


@pytest.fixture
def runs(
    database: str, tmp_path: Path, api: KubernetesApi, airflow: AirflowHome, dags: Path
) -> Iterator[ScheduledRuns]:
    with opened_history(database, tmp_path) as history:
        yield ScheduledRuns(history, api, airflow, dags)
        api.reset()


def test_deferred_items_keep_the_limit_and_clearing_them_moves_no_row(runs: ScheduledRuns) -> None:
    process = build(chunks=10, items=5, max_active=MAX_ACTIVE)
    with LeaseSampler(runs.history.uri) as leases:
        with held_target(runs.history.uri):
            runs.start("deferred", process, deferrable=True, outlets=["warehouse://deferred"])
            runs.wait_for_work(MAX_ACTIVE, "deferred")
            held = runs.states()
            assert MAX_ACTIVE == len(runs.api.pods())
        assert "success" == runs.finish()
    waiting = [each for each in held.values() if each == ("deferred", 1)]
    assert (MAX_ACTIVE, MAX_ACTIVE) == (len(waiting), max(leases.counts))
    items = {(TASK, index): ("success", 1) for index in range(5)}
    assert {**items, (GATE, -1): ("success", 1)} == runs.states()
    assert "2013-01-03 .. 2013-01-04" == runs.labels()[1]
    assert (5, ["warehouse://deferred/"]) == (len(runs.api.pods()), runs.asset_events())
    runs.history.require_loaded(10)
    rows = runs.rows()

    # One, then all of them, without what stands behind them: no row moves, nobody is told anew.
    assert "success" == runs.clear(2)
    assert "2 of 2 selected chunks were committed before and are skipped" in runs.log(TASK, 2, 2)
    assert "success" == runs.clear()
    tries = {(TASK, index): ("success", 3 if index == 2 else 2) for index in range(5)}
    assert {**tries, (GATE, -1): ("success", 1)} == runs.states()
    assert (rows, ["warehouse://deferred/"]) == (runs.rows(), runs.asset_events())

    # With what stands behind it, the gate judges again, and says again that the table is whole.
    assert "success" == runs.clear(4, downstream=True)
    assert (("success", 3), ("success", 2)) == (runs.states()[TASK, 4], runs.states()[GATE, -1])
    assert (rows, ["warehouse://deferred/"] * 2) == (runs.rows(), runs.asset_events())
    assert 5 + 1 + 5 + 1 == len(runs.api.pods())


@pytest.mark.parametrize("deferrable", [True, False], ids=["deferred", "watched"])
def test_marking_an_item_by_hand_ends_its_pod_and_is_no_evidence(
    runs: ScheduledRuns, *, deferrable: bool
) -> None:
    at_work = "deferred" if deferrable else "running"
    name = f"marked_{at_work}"
    history = runs.history
    with held_target(history.uri):
        process = build(chunks=4, items=2, max_active=MAX_ACTIVE)
        runs.start(name, process, deferrable=deferrable, outlets=[f"warehouse://{name}"])
        runs.wait_for_work(MAX_ACTIVE, at_work)
        runs.mark(0, "success")

    # Nobody has loaded its chunks, and the gate says so.
    assert "failed" == runs.finish()
    assert {(TASK, 0): ("success", 1), (TASK, 1): ("success", 1), (GATE, -1): ("failed", 1)} == runs.states()
    judged = runs.log(GATE, -1, 1)
    assert "DPONE_OUTCOME_NOT_PASSED" in judged
    assert "marked successful by hand: 2013-01-01 .. 2013-01-02" in judged
    # Not even the gate's own mark tells anybody that the table is whole.
    runs.airflow.mark(runs.dag_id, runs.run_id, GATE, -1, "success")
    assert (NOTHING, []) == (history.content("target.history", TWO_DAYS), runs.asset_events())

    # Its next attempt is marked failed in the middle of a chunk.
    history.lapse_leases()
    with held_target(history.uri):
        runs.begin_again(0, downstream=True)
        runs.wait_for_work(1, at_work)
        runs.mark(0, "failed")
    assert "failed" == runs.finish()
    assert (("failed", 2), "upstream_failed") == (runs.states()[TASK, 0], runs.states()[GATE, -1][0])
    assert (NOTHING, []) == (history.content("target.history", TWO_DAYS), runs.asset_events())

    # What a person does then.
    history.lapse_leases()
    assert "success" == runs.clear(0, downstream=True)
    history.require_loaded(4)
    assert [f"warehouse://{name}/"] == runs.asset_events()
