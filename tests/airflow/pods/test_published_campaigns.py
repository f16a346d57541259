"""A campaign that is published by a swap, in pods: the last item publishes, the gate asks for that, and clearing does nothing."""

from tests.airflow.pods.pod_runs import GATE, TASK, build
from tests.integration.campaigns import FIRST_DAY, day
from tests.integration.publications import receipt, relation, swapped

CHUNKS = 5
OUTLET = "postgres://warehouse/target/history"


def test_items_publish_once_and_the_gate_asks_for_it(pods):
    history = pods.history
    history.add_stale_rows()
    before = relation(history)
    process = build(chunks=CHUNKS, items=3, text=swapped(CHUNKS))

    first = pods.run(process, outlets=(OUTLET,))

    assert "success" == first.state, first.log
    assert "success" == first.tasks(GATE)[-1].state
    window = f"day BETWEEN '{FIRST_DAY}' AND '{day(CHUNKS)}'"
    assert history.content("source.history", window) == history.content("target.history")
    found = receipt(history)
    assert (before, relation(history)) == (found["replaced_relation"], found["live_relation"])
    states = [outcome["backfill"]["campaign_status"] for outcome in first.xcoms(TASK).values()]
    assert "published" in states
    assert set(states) <= {"open", "published"}

    again = pods.run(process, outlets=(OUTLET,))

    assert "success" == again.state, again.log
    assert 1 == history.events(None).count("published")
    assert [0] * 3 == [outcome["backfill"]["chunks_committed"] for outcome in again.xcoms(TASK).values()]
