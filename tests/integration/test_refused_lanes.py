"""What cannot cross to a lane is refused before anything is taken, claimed or moved."""

import pytest

from dpone_contract.errors import InternalError
from dpone_runtime.adapters.lanes.frames import FRAME_LIMIT_BYTES
from dpone_runtime.execute import RunOrder, execute
from dpone_runtime.interruption import Interruption
from dpone_runtime.run_context import RunContext
from tests.integration.campaigns import History, mapped_process


def test_a_bootstrap_that_cannot_cross_is_refused_before_the_campaign_is_opened(history: History) -> None:
    order = RunOrder(quiet=True, lane_opener="x" * FRAME_LIMIT_BYTES)
    with pytest.raises(InternalError, match="not plain data"):
        execute(mapped_process(3), RunContext(), history.environ, order, Interruption())
    assert [] == history.sql("SELECT * FROM dpone_audit.__dpone__backfill_campaigns")
    assert [] == history.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'dpone fence'")
    assert 0 == history.value("SELECT count(*) FROM target.history")
