"""The same rows, whether a campaign runs in one pod or in several, watched by a worker or by the triggerer."""

import pytest

from tests.airflow.pods.pod_runs import TASK, build

CHUNKS = 6


@pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])
@pytest.mark.parametrize("mode, tasks", [("internal", [-1]), ("summary", [0, 1, 2])])
def test_rows_are_the_sources(pods, mode, tasks, deferrable):
    finished = pods.run(build(mode, chunks=CHUNKS), pod={"deferrable": deferrable})
    assert "success" == finished.state, finished.log
    assert tasks == sorted(finished.tasks(TASK))
    pods.history.require_loaded(CHUNKS)
