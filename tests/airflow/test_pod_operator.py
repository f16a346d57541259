"""A pod's task passes only with the run's own outcome, whatever Airflow's operator and the triggerer make of the pod."""

from datetime import UTC, datetime

import pytest
from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException

from airflow_provider_dpone import DponeDag, kubernetes_calls, leftover_pods
from airflow_provider_dpone.pod_manager import OutcomePodManager
from airflow_provider_dpone.version_compat import AirflowException, AirflowFailException
from dpone_contract.mapping_item import mapping_item
from dpone_contract.outcome import OUTCOME_SIZE_LIMIT_BYTES, AttemptIdentity, OutcomeError
from dpone_contract.pack import ExecutionBackend
from dpone_contract.pod import PodArguments
from tests.airflow.airflow_stand_ins import DATED, render
from tests.airflow.pod_api_stand_in import PodApiStandIn, make_pod, terminated, waiting
from tests.factories import make_outcome, make_pack, make_process, make_process_plan

INTERNAL = make_process(mode="internal")
MAPPED = make_process(items=3, chunks=7)
ATTEMPT = AttemptIdentity(dag_id="flights_history", dag_run_id="manual__1", try_number=1)
RUNNING = k8s.V1ContainerState(running=k8s.V1ContainerStateRunning())


def own_outcome(**changes):
    return make_outcome(INTERNAL, attempt=ATTEMPT, **changes)


def to_bytes(outcome):
    return outcome.model_dump_json(by_alias=True).encode()


def operator(process=INTERNAL, *, map_index=-1, deferrable=False, **pod):
    """A rendered operator and its context."""
    settings = PodArguments(image="dpone:1", namespace="loads", deferrable=deferrable, **pod)
    plan = make_process_plan(process, backend=ExecutionBackend.KUBERNETES, pod=settings)
    context = render(
        DponeDag(make_pack(processes=(plan,))).get_task("flights_history"), DATED, map_index=map_index
    )
    return context["task"], context


def judged(task, context, *, document=None, pod=None, failure=None, killed=False, gone=False):
    """What becomes of the task when this was seen of its pod, and Airflow's operator ended with `failure`."""
    task._killed = killed

    def run():
        task._document, task.seen_pod, task.pod_is_gone = document, pod, gone
        if failure is not None:
            raise failure

    return task._watch(context, run)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(kubernetes_calls.time, "sleep", lambda _: None)


ENDED = make_pod(phase="Running", base=terminated(0, "Completed"))


def test_passed_outcome_is_the_tasks_result():
    outcome = own_outcome()
    assert judged(*operator(), document=to_bytes(outcome), pod=ENDED) == outcome.to_document()


def test_its_own_evidence_outweighs_what_the_pod_operator_says():
    outcome = own_outcome()
    failure = AirflowException("Pod returned a failure.")
    assert (
        judged(*operator(), document=to_bytes(outcome), pod=ENDED, failure=failure) == outcome.to_document()
    )


@pytest.mark.parametrize("index", range(3))
def test_each_mapped_item_is_judged_by_its_own_evidence(index):
    plan = make_process_plan(MAPPED)
    items = [mapping_item(plan.mapping, item) for item in plan.mapping.items]
    for claimed in range(3):
        outcome = make_outcome(MAPPED, items[claimed], attempt=ATTEMPT)
        task, context = operator(MAPPED, map_index=index)
        if claimed == index:
            assert judged(task, context, document=to_bytes(outcome), pod=ENDED) == outcome.to_document()
        else:
            with pytest.raises(AirflowException, match=f"another mapping item: {claimed} instead of {index}"):
                judged(task, context, document=to_bytes(outcome), pod=ENDED)


def forbidden(status=403, body='{"message": "pods \\"x\\" is forbidden"}'):
    error = ApiException(status=status, reason="Forbidden")
    error.body = body
    return error


def behind(error, first):
    error.__context__ = first
    return error


FAILED = own_outcome(
    status="failed",
    error=OutcomeError(code="DPONE_BACKFILL_CHUNK_FAILED", message="2 of 7", next_step="mend it"),
)
CASES = {
    "failed": ({"document": to_bytes(FAILED), "pod": make_pod(base=terminated(1))}, "CHUNK_FAILED: 2 of 7"),
    "failed with exit code 0": ({"document": to_bytes(FAILED), "pod": ENDED}, "DPONE_OUTCOME_NOT_PASSED"),
    "exit code 0 without a document": ({"pod": ENDED}, r"left no outcome \(exit code 0\)"),
    "empty document": ({"document": b"", "pod": ENDED}, r"left no outcome \(exit code 0\)"),
    "exit code 1 with passed": (
        {"document": to_bytes(own_outcome()), "pod": make_pod(base=terminated(1, "Error"))},
        "says passed, but the run ended with 1",
    ),
    "another attempt": (
        {
            "document": to_bytes(own_outcome().replaced(attempt=ATTEMPT.replaced(try_number=2))),
            "pod": ENDED,
        },
        "another try number: 2 instead of 1",
    ),
    "another process": (
        {
            "document": to_bytes(make_outcome(make_process("other", mode="internal"), attempt=ATTEMPT)),
            "pod": ENDED,
        },
        "another process",
    ),
    "truncated": ({"document": to_bytes(own_outcome())[:-9], "pod": ENDED}, "not JSON"),
    "oversize": ({"document": b" " * (OUTCOME_SIZE_LIMIT_BYTES + 1), "pod": ENDED}, "more than"),
    "out of memory": (
        {"pod": make_pod(base=terminated(137, "OOMKilled"))},
        r"OOMKilled, it used more memory than container_resources.limits allow \(exit code 137\)",
    ),
    "evicted": (
        {
            "pod": make_pod(
                phase="Failed", reason="Evicted", message="The node was low on\n resource: memory."
            )
        },
        "Evicted, its node had to make room, The node was low on resource: memory.",
    ),
    "drained": (
        {
            "pod": make_pod(
                phase="Failed",
                base=terminated(143, "Error"),
                conditions=[
                    k8s.V1PodCondition(type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI")
                ],
            )
        },
        r"EvictionByEvictionAPI \(exit code 143\)",
    ),
    "deadline": (
        {"pod": make_pod(phase="Failed", reason="DeadlineExceeded")},
        "longer than active_deadline_seconds allow",
    ),
    "image": (
        {
            "pod": make_pod(phase="Pending", base=waiting("ImagePullBackOff", "Back-off pulling image")),
            "failure": AirflowException("Pod took too long to start"),
        },
        "ImagePullBackOff, Back-off pulling image",
    ),
    "unschedulable": (
        {
            "pod": make_pod(
                phase="Pending",
                conditions=[
                    k8s.V1PodCondition(
                        type="PodScheduled", status="False", reason="Unschedulable", message="0/3 nodes"
                    )
                ],
            )
        },
        "Unschedulable, 0/3 nodes",
    ),
    "gone": ({"gone": True}, "the pod is gone, and what it left"),
    "gone before it was seen": (
        {"failure": ApiException(status=404, reason="Not Found")},
        "HTTP 404: Not Found",
    ),
    "busy API": (
        {"failure": ApiException(status=500, reason="Internal Server Error")},
        "HTTP 500: Internal Server Error",
    ),
    "started too late": (
        {"failure": AirflowException("Pod took too long to start.")},
        "took too long to start",
    ),
    "cleaned up after": (
        {
            "failure": behind(
                AirflowException("Pod x returned a failure."), AirflowException("took too long to start")
            )
        },
        "left no outcome: AirflowException: took too long to start",
    ),
    "killed": (
        {"killed": True, "failure": forbidden()},
        "Airflow ended the task, and its pod with it",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_anything_but_its_own_passed_outcome_fails_the_task(name):
    seen, message = CASES[name]
    with pytest.raises(AirflowException, match=message) as caught:
        judged(*operator(), **seen)
    assert not isinstance(caught.value, AirflowFailException), "a retry may help"
    assert "committed chunks will be skipped on retry" in str(caught.value)
    assert caught.value.__suppress_context__, "the pod operator's own error would hide the run's"


def denied_while_reading():
    error = AirflowException("Pod returned a failure")
    error.__context__ = ApiException(status=0, reason="Handshake status 403 Forbidden -+-+- {'Date': 'now'}")
    return error


REFUSALS = {
    "denied": (forbidden(), 'HTTP 403: pods "x" is forbidden'),
    "invalid": (
        forbidden(422, '{"message": "spec.containers[0].image: Required"}'),
        "HTTP 422: spec.containers",
    ),
    "denied exec": (denied_while_reading(), "HTTP 403: Handshake status 403 Forbidden |"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_kubernetes_refuses_is_not_retried(name):
    failure, message = REFUSALS[name]
    with pytest.raises(AirflowFailException) as caught:
        judged(*operator(), failure=failure)
    assert str(caught.value).startswith("DPONE_POD_REFUSED: ")
    assert message in str(caught.value)
    assert "at task flights_history | next: " in str(caught.value)


def test_a_namespace_that_is_full_has_room_later():
    full = forbidden(body='{"message": "pods \\"x\\" is forbidden: exceeded quota: loads, used: pods=9"}')
    with pytest.raises(AirflowException, match="exceeded quota: loads") as caught:
        judged(*operator(), failure=full)
    assert not isinstance(caught.value, AirflowFailException)


@pytest.mark.parametrize("exit_code", [2, 4])
@pytest.mark.parametrize("told", [False, True], ids=["silent", "told"])
def test_a_run_that_would_be_refused_or_find_the_same_again_is_not_retried(told, exit_code):
    document = to_bytes(own_outcome(status="failed", exit_code=exit_code)) if told else None
    with pytest.raises(AirflowFailException):
        judged(*operator(), document=document, pod=make_pod(base=terminated(exit_code, "Error")))


@pytest.mark.parametrize("exit_code", [2, 4])
def test_a_run_that_says_so_is_believed_without_an_exit_code(exit_code):
    with pytest.raises(AirflowFailException):
        judged(*operator(), document=to_bytes(own_outcome(status="failed", exit_code=exit_code)))


def test_failed_outcome_is_kept_as_xcom():
    task, context = operator()
    with pytest.raises(AirflowException):
        judged(task, context, document=to_bytes(FAILED), pod=make_pod(base=terminated(1)))
    assert context["ti"].xcoms == {"dpone_outcome": FAILED.to_document()}


def test_a_deferral_passes_through():
    from airflow_provider_dpone.version_compat import TaskDeferred

    task, context = operator(deferrable=True)
    with pytest.raises(TaskDeferred):
        judged(task, context, failure=TaskDeferred(trigger=None, method_name="trigger_reentry"))


@pytest.mark.parametrize("outcome", [own_outcome(), FAILED], ids=["passed", "failed"])
def test_a_pod_that_has_ended_before_it_is_deferred_is_judged_once(outcome):
    task, context = operator(deferrable=True)
    pushed = []
    context["ti"].xcom_push = lambda **values: pushed.append(values)

    def run():
        # Newer releases re-enter at once, and drop what that gives.
        task._watch(context, seen)

    def seen():
        task._document, task.seen_pod = to_bytes(outcome), make_pod(base=terminated(outcome.exit_code))

    if outcome is FAILED:
        with pytest.raises(AirflowException, match="CHUNK_FAILED: 2 of 7"):
            task._watch(context, run)
        assert len(pushed) == 1
    else:
        assert task._watch(context, run) == outcome.to_document()


def test_a_pod_that_nobody_watches_any_more_is_ended():
    task, context = operator()
    task.client = api = PodApiStandIn(make_pod("mine", base=RUNNING))
    task.own_pod = make_pod("mine")
    with pytest.raises(AirflowException, match="left no outcome: HTTP 500: away"):
        judged(task, context, failure=ApiException(status=500, reason="away"))
    assert not api.pods


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("action", ["delete_pod", "delete_succeeded_pod", "keep_pod"])
def test_a_pod_that_is_kept_has_ended(action, ended):
    task, context = operator(on_finish_action=action)
    task.client = api = PodApiStandIn(make_pod("mine", base=terminated(1) if ended else RUNNING))
    task.own_pod = make_pod("mine")

    def run():
        task.process_pod_deletion(make_pod("mine", phase="Pending"), reraise=False)
        raise ApiException(status=500, reason="the log is away")

    with pytest.raises(AirflowException, match="left no outcome"):
        task._watch(context, run)
    assert bool(api.pods) is (ended and action != "delete_pod")


@pytest.mark.parametrize("there", [True, False])
def test_a_pod_that_was_gone_before_it_was_cleaned_up_is_told(there):
    task, context = operator()
    task.client = api = PodApiStandIn(*[make_pod("mine", base=terminated(0))] * there)
    task.own_pod = make_pod("mine")

    def run():
        task.process_pod_deletion(make_pod("mine", phase="Succeeded"))
        raise ApiException(status=404, reason="Not Found")

    expected = (
        r"HTTP 404: Not Found \(exit code 0\)" if there else "the pod is gone, and what it left with it"
    )
    with pytest.raises(AirflowException, match=f"left no outcome: {expected}"):
        task._watch(context, run)
    assert not api.pods


def test_a_pod_that_is_gone_when_the_triggerer_is_done_is_told():
    task, context = operator(deferrable=True)
    task.client = PodApiStandIn()
    with pytest.raises(AirflowException, match="left no outcome: the pod is gone"):
        task.trigger_reentry(context, {"status": "success", "name": "mine", "namespace": "loads"})


def test_an_interruption_by_airflow_is_not_judged():
    class TimedOut(BaseException):
        pass

    with pytest.raises(TimedOut):
        judged(*operator(), failure=TimedOut())


# --- pods of earlier attempts --------------------------------------------------------------------------------------------

OURS = {"dag_id": "d", "run_id": "r", "task_id": "t", "kubernetes_pod_operator": "True"}


def end(api, labels=OURS):
    return leftover_pods.end_leftover_pods(api, "loads", labels)


def test_leftover_pods_are_marked_and_ended():
    api = PodApiStandIn(
        make_pod("running", labels=OURS),
        make_pod("ended", phase="Failed", labels=OURS),
        make_pod("other-task", labels={**OURS, "task_id": "x"}),
        make_pod("an-item", labels={**OURS, "map_index": "1"}),
        make_pod("a-worker", labels={**OURS, "airflow-worker": "1"}),
    )
    assert set(end(api)) == {"running", "ended"}
    assert set(api.pods) == {"ended", "other-task", "an-item", "a-worker"}
    assert api.pods["ended"].metadata.labels["already_checked"] == "True"


def test_a_late_pod_of_an_earlier_attempt_is_not_taken_for_the_attempts_own():
    task, context = operator()
    labels = {**task._get_ti_pod_labels(context), **task.labels}
    task.own_pod = make_pod("own", labels=labels)
    late = make_pod("late", labels={**labels, "try_number": "0"})
    for pod, minute in ((task.own_pod, 1), (late, 2)):
        pod.status.start_time = datetime(2024, 3, 1, 0, minute, tzinfo=UTC)
    task.client = PodApiStandIn(task.own_pod, late)
    assert task.find_pod("loads", context=context).metadata.name == "own"
    assert set(task.client.pods) == {"own", "late"}


def test_only_the_pods_of_the_item_itself_are_ended():
    api = PodApiStandIn(*(make_pod(f"item-{n}", labels={**OURS, "map_index": str(n)}) for n in range(3)))
    assert end(api, {**OURS, "map_index": "1"}) == ("item-1",)
    assert set(api.pods) == {"item-0", "item-2"}


def test_a_pod_that_does_not_end_is_not_waited_for_without_bound(monkeypatch):
    api = PodApiStandIn(make_pod("stubborn", labels=OURS))
    api.stubborn = {"stubborn"}
    clock = iter(range(0, 10_000, 20))
    monkeypatch.setattr(leftover_pods.time, "monotonic", lambda: next(clock))
    assert end(api) == ("stubborn",)


@pytest.mark.parametrize("status", [410, 429, 500, 503])
def test_a_busy_api_is_asked_again(status):
    api = PodApiStandIn(make_pod("running", labels=OURS), failures=(ApiException(status=status),) * 3)
    assert end(api) == ("running",)
    assert not api.pods


@pytest.mark.parametrize("status, calls", [(500, 5), (403, 1)])
def test_an_api_that_stays_busy_or_refuses_ends_the_asking(status, calls):
    api = PodApiStandIn(failures=(ApiException(status=status),) * 9)
    with pytest.raises(ApiException):
        end(api)
    assert len(api.calls) == calls


def test_on_kill_ends_the_pod_in_bounded_time():
    task, _ = operator(termination_grace_period=20)
    task.on_kill()
    task.client = api = PodApiStandIn(make_pod("mine"), failures=(ApiException(status=500),))
    task.pod = make_pod("mine")
    lines = []
    task.log.error = lambda message, *values: lines.append(message % values)
    task.on_kill()
    assert (api.pods, api.calls) == ({}, [("delete", "mine")] * 2)
    (line,) = lines
    assert line == (
        "DPONE_INTERRUPTED: Airflow ends this task, and its pod with it | at task flights_history | "
        "next: clear the task to run it again; committed chunks will be skipped"
    )


def test_on_kill_tells_of_a_pod_that_it_could_not_end(caplog):
    task, _ = operator()
    task.client = api = PodApiStandIn(failures=(ApiException(status=500),) * 9)
    task.pod_request_obj = make_pod("mine")
    task.on_kill()
    assert len(api.calls) == 3


# --- starting and watching -----------------------------------------------------------------------------------------------


def start(api, name="mine"):
    return OutcomePodManager(kube_client=api).run_pod_async(make_pod(name))


def test_a_pod_is_started_once_the_api_answers():
    api = PodApiStandIn(failures=(ApiException(status=500), ApiException(status=429)))
    assert start(api).metadata.name == "mine"
    assert list(api.pods) == ["mine"]


def test_a_pod_whose_start_was_not_answered_is_not_started_twice():
    api = PodApiStandIn()
    api.answer_lost = True
    assert start(api).metadata.name == "mine"
    assert [what for what, _ in api.calls] == ["create", "create", "read"]


def test_a_pod_of_that_name_which_is_there_already_is_not_taken_over():
    with pytest.raises(ApiException) as caught:
        start(PodApiStandIn(make_pod("mine")))
    assert caught.value.status == 409


def test_an_api_that_is_away_for_a_while_does_not_end_the_watch():
    api = PodApiStandIn(make_pod("mine"), failures=(ApiException(status=503),) * 6)
    assert OutcomePodManager(kube_client=api).read_pod(make_pod("mine")).metadata.name == "mine"
