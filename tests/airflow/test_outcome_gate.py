"""The gate passes on evidence of a campaign that is complete, and on nothing else."""

import pytest

from airflow_provider_dpone import DponeDag, DponeTaskGroup
from airflow_provider_dpone.outcome_gate import DponeOutcomeGate
from airflow_provider_dpone.version_compat import DAG, AirflowFailException, Asset
from dpone_contract.errors import PackInvalidError
from dpone_contract.manifest import PublicationOptions
from dpone_contract.mapping_item import mapping_item
from dpone_contract.outcome import AttemptIdentity
from dpone_contract.pack import ExecutionBackend, Hook, Hooks
from dpone_contract.pod import PodArguments
from tests.airflow.airflow_stand_ins import make_context
from tests.factories import DIGEST, make_outcome, make_pack, make_process, make_process_plan

ATTEMPT = AttemptIdentity(dag_id="flights_history", dag_run_id="manual__1", try_number=1)


def swapping_process(process):
    """The same process, its rows loaded aside and made visible by a swap."""
    sink = process.manifest.sink
    backfill = sink.strategy.backfill.replaced(publication=PublicationOptions(mode="shadow_swap"))
    strategy = sink.strategy.replaced(backfill=backfill)
    return process.replaced(manifest=process.manifest.replaced(sink=sink.replaced(strategy=strategy)))


MAPPED = make_process(items=3, chunks=7)
INTERNAL = make_process(mode="internal")
POD = PodArguments(image="dpone:1")


def make_plan(mode="summary", backend=ExecutionBackend.PROCESS, **plan):
    plan.setdefault("process", MAPPED if mode == "summary" else INTERNAL)
    return make_process_plan(backend=backend, pod=POD, **plan)


def gate_of(mode="summary", **plan):
    return DponeDag(make_pack(processes=(make_plan(mode, outcome_gate=True, **plan),))).get_task(
        "flights_history_gate"
    )


def item_outcome(index, status="open", **changes):
    plan = make_process_plan(MAPPED).mapping
    return with_backfill(
        make_outcome(MAPPED, mapping_item(plan, plan.items[index]), attempt=ATTEMPT),
        campaign_status=status,
        **changes,
    )


def whole_outcome(status="complete", **changes):
    return with_backfill(make_outcome(INTERNAL, attempt=ATTEMPT), campaign_status=status, **changes)


def with_backfill(outcome, **changes):
    return outcome.replaced(backfill=outcome.backfill.replaced(**changes))


def execute(gate, *outcomes):
    context = make_context(gate)
    pulled = [
        outcome if not hasattr(outcome, "to_document") else outcome.to_document() for outcome in outcomes
    ]

    def xcom_pull(task_ids):
        assert task_ids == ["flights_history"]
        return pulled

    context["ti"].xcom_pull = xcom_pull
    return gate.execute(context)


@pytest.mark.parametrize("status", ["complete", "published"])
@pytest.mark.parametrize("seen", [(0, 1, 2), (2,), (0, 2)])
def test_one_item_that_saw_the_campaign_complete_is_enough(seen, status):
    outcomes = [item_outcome(index, status if index == 2 else "open") for index in seen]
    result = execute(gate_of(), *outcomes)
    assert (result["campaign_status"], result["outcomes"]) == (status, len(seen))
    assert result["run_key"] == outcomes[0].backfill.run_key


def test_a_single_task_that_saw_the_campaign_complete_is_enough():
    assert execute(gate_of("internal"), whole_outcome())["campaign_status"] == "complete"


def test_what_airflow_has_nothing_of_is_passed_over():
    assert execute(gate_of(), None, item_outcome(1, "complete"), None)["outcomes"] == 1


SWAPPING = {
    mode: swapping_process(process) for mode, process in (("summary", MAPPED), ("internal", INTERNAL))
}


def outcome_of_a_swap(mode, status):
    process = SWAPPING[mode]
    plan = make_process_plan(process).mapping
    item = mapping_item(plan, plan.items[2]) if mode == "summary" else None
    return with_backfill(make_outcome(process, item, attempt=ATTEMPT), campaign_status=status)


@pytest.mark.parametrize("backend", ExecutionBackend)
@pytest.mark.parametrize("mode", SWAPPING)
def test_what_is_published_by_a_swap_is_not_there_before_it_is_published(mode, backend):
    gate = gate_of(mode, backend=backend, process=SWAPPING[mode])
    assert execute(gate, outcome_of_a_swap(mode, "published"))["campaign_status"] == "published"
    with pytest.raises(
        AirflowFailException,
        match=r"nothing says that the campaign is published: campaign \S+ is complete, .*next: clear ",
    ) as caught:
        execute(gate, outcome_of_a_swap(mode, "complete"))
    assert str(caught.value).startswith("DPONE_OUTCOME_NOT_PASSED: ")


OPEN = {
    "nothing": (
        [],
        "no task has left an outcome; without an outcome, .*: 2013-01-01 .. 2013-01-03, 2013-01-04",
    ),
    "two of three": (
        [item_outcome(0, campaign_chunks_committed=3), item_outcome(1, campaign_chunks_committed=5)],
        (
            r"is open, 5 of 7 chunks were committed .*; without an outcome, as after being marked successful by hand: "
            r"2013-01-06 \.\. 2013-01-07 \|.*next: clear these items, and then this task"
        ),
    ),
    "all, and none complete": (
        [item_outcome(index) for index in range(3)],
        "is open.*next: clear the task before this one",
    ),
    "halted": ([item_outcome(0, "halted")], "is halted"),
    "a new round": ([item_outcome(0, "complete"), item_outcome(1, round=2)], "is open"),
}


@pytest.mark.parametrize("name", OPEN)
def test_without_such_evidence_it_fails_for_good_and_names_the_items(name):
    outcomes, message = OPEN[name]
    with pytest.raises(AirflowFailException, match=message) as caught:
        execute(gate_of(), *outcomes)
    assert str(caught.value).startswith("DPONE_OUTCOME_NOT_PASSED: ")
    assert "committed chunks will be skipped" in str(caught.value)
    assert "at DAG flights_history, run manual__1" in str(caught.value)


def test_a_long_list_of_items_is_cut():
    gate = gate_of(process=make_process(items=9))
    with pytest.raises(AirflowFailException, match="2013-01-05 and 4 more"):
        execute(gate)


def of_plan(outcome, **changes):
    mapping = outcome.backfill.mapping.replaced(**changes)
    return with_backfill(outcome, mapping=mapping)


COMPLETE = item_outcome(2, "complete")
CONTRADICTIONS = {
    "another DAG": COMPLETE.replaced(attempt=ATTEMPT.replaced(dag_id="x")),
    "another DAG run": COMPLETE.replaced(attempt=ATTEMPT.replaced(dag_run_id="manual__2")),
    "another status": COMPLETE.replaced(status="failed"),
    "another campaign": with_backfill(item_outcome(1), run_key="other"),
    "another chunk plan": with_backfill(item_outcome(1), plan_hash=DIGEST),
    "no outcome": {"status": "passed"},
    "no document": "passed",
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_anything_that_contradicts_fails_it(name):
    with pytest.raises(AirflowFailException, match="DPONE_OUTCOME_INVALID"):
        execute(gate_of(), CONTRADICTIONS[name], COMPLETE)


# Airflow keeps what an item has left that a changed pack has no more, and never runs that item again.
OF_EARLIER_PACKS = {
    "another process": COMPLETE.replaced(process_digest=DIGEST),
    "another mapping plan": of_plan(COMPLETE, plan_fingerprint=DIGEST),
    "a single task": with_backfill(COMPLETE, mapping=None),
}


@pytest.mark.parametrize("name", OF_EARLIER_PACKS)
def test_what_an_earlier_pack_has_left_in_the_run_is_no_evidence_for_or_against(name):
    assert execute(gate_of(), COMPLETE, OF_EARLIER_PACKS[name])["campaign_status"] == "complete"
    with pytest.raises(
        AirflowFailException,
        match=r"is open.*; 1 left one of another process or plan.*; without an outcome.*: 2013-01-04",
    ):
        execute(gate_of(), OF_EARLIER_PACKS[name], item_outcome(0))


def test_an_outcome_of_an_item_is_none_of_a_single_task():
    with pytest.raises(AirflowFailException, match="1 left one of another process or plan"):
        execute(gate_of("internal"), COMPLETE)


# --- where it stands -----------------------------------------------------------------------------------------------------

OUTLET = "postgres://db/flights"
REASONS = {
    "outlets": {"outlets": (OUTLET,)},
    "post hooks": {"hooks": Hooks(post=(Hook(name="after", command=("true",)),))},
    "asked for": {"outcome_gate": True},
}


@pytest.mark.parametrize("backend", ExecutionBackend)
@pytest.mark.parametrize("mode", ["internal", "summary"])
@pytest.mark.parametrize("reason", REASONS)
def test_it_stands_behind_the_runtime_task_where_something_waits_for_it(mode, backend, reason):
    dag = DponeDag(make_pack(processes=(make_plan(mode, backend, **REASONS[reason]),)))
    gate = dag.get_task("flights_history_gate")
    assert type(gate) is DponeOutcomeGate
    assert gate.upstream_task_ids == {"flights_history"}
    assert gate.trigger_rule == "none_failed_min_one_success"
    assert gate.outlets == ([Asset(OUTLET)] if reason == "outlets" else [])


@pytest.mark.parametrize("mode", ["internal", "summary"])
def test_the_outlets_are_on_no_other_task(mode):
    dag = DponeDag(make_pack(processes=(make_plan(mode, outlets=(OUTLET,)),)))
    runtime = dag.get_task("flights_history")
    assert not (runtime.partial_kwargs.get("outlets") if mode == "summary" else runtime.outlets)


@pytest.mark.parametrize("mode", ["internal", "summary"])
def test_without_a_reason_there_is_none(mode):
    assert DponeDag(make_pack(processes=(make_plan(mode),))).task_ids == ["flights_history"]


@pytest.mark.parametrize("backend", ExecutionBackend)
@pytest.mark.parametrize("mode", ["internal", "summary"])
def test_default_args_do_not_keep_the_outcome_from_it(mode, backend):
    plan = make_plan(mode, backend, outcome_gate=True)
    default_args = {"do_xcom_push": False, "multiple_outputs": True, "command": "ssh"}
    task = DponeDag(make_pack(processes=(plan,)), default_args=default_args).get_task("flights_history")
    said = getattr(task, "partial_kwargs", None) or vars(task)
    assert (said["do_xcom_push"], said["multiple_outputs"]) == (True, False)
    assert said.get("command") is None or backend is ExecutionBackend.KUBERNETES


def test_default_args_do_not_change_what_it_waits_for():
    hooks = Hooks(pre=(Hook(name="one", command=("true",)), Hook(name="two", command=("true",))))
    after = Hooks(pre=hooks.pre, post=(Hook(name="last", command=("true",)),))
    dag = DponeDag(make_pack(processes=(make_plan(hooks=after),)), default_args={"trigger_rule": "all_done"})
    assert {task.task_id: task.trigger_rule for task in dag.tasks} == {
        "one": "all_done",
        "two": "all_success",
        "flights_history": "all_success",
        "flights_history_gate": "none_failed_min_one_success",
        "last": "all_success",
    }


def test_in_a_group_it_asks_for_the_whole_id():
    with DAG(dag_id="mine", schedule=None) as dag:
        DponeTaskGroup(pack=make_pack(processes=(make_plan(outcome_gate=True),)), group_id="g")
    assert dag.get_task("g.flights_history_gate").runtime_task_id == "g.flights_history"


CLASHES = {
    "gate": (
        make_plan(outcome_gate=True),
        make_plan(process=make_process("flights_history_gate")),
    ),
    "hook and task": (make_plan(hooks=Hooks(pre=(Hook(name="flights_history", command=("x",)),))),),
    "hooks of two processes": tuple(
        make_plan(process=make_process(name), hooks=Hooks(pre=(Hook(name="prepare", command=("x",)),)))
        for name in ("a", "b")
    ),
    "hook twice": (
        make_plan(hooks=Hooks(pre=(Hook(name="h", command=("x",)),), post=(Hook(name="h", command=("x",)),))),
    ),
}


@pytest.mark.parametrize("name", CLASHES)
def test_ids_that_clash_are_refused(name):
    with pytest.raises(PackInvalidError, match="two tasks would have the id") as caught:
        DponeDag(make_pack(processes=CLASHES[name]))
    assert "give the process or the hook another name" in (caught.value.next_step or "")


def test_an_id_that_the_dag_has_already_is_refused():
    with DAG(dag_id="mine", schedule=None):
        DponeTaskGroup(pack=make_pack(), group_id="g", prefix_group_id=False)
        with pytest.raises(PackInvalidError, match="two tasks would have the id flights_history"):
            DponeTaskGroup(pack=make_pack(), group_id="h", prefix_group_id=False)
