"""The operator runs a real child process, streams its output, judges its outcome and leaves nothing behind."""

import json
import os
import signal
import sys
import tempfile
import threading
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from airflow_provider_dpone import DponeDag, child_task, process_operator
from airflow_provider_dpone.version_compat import AirflowException, AirflowFailException
from dpone_contract.mapping_item import mapping_item
from dpone_contract.outcome import OUTCOME_SIZE_LIMIT_BYTES, AttemptIdentity, OutcomeError
from dpone_contract.process import decode_process
from tests.airflow.airflow_stand_ins import DATED, render
from tests.factories import make_outcome, make_pack, make_process, make_process_plan
from tests.waiting import wait_until

# Does what the variables tell: prints, leaves an outcome, ends as it is told.
CHILD = """
import json, os, signal, subprocess, sys, time
env = os.environ
if "FAKE_RECORD" in env:
    with open(env["FAKE_RECORD"], "w") as file:
        json.dump({"argv": sys.argv[1:], "env": dict(env), "session": os.getsid(0), "pid": os.getpid()}, file)
print(env.get("FAKE_SAY", "working"), flush=True)
print("to stderr", file=sys.stderr, flush=True)
if "FAKE_OUTCOME" in env:
    with open(env["DPONE_OUTCOME_PATH"], "w") as file:
        file.write(env["FAKE_OUTCOME"])
if "FAKE_GRANDCHILD" in env:
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", stubborn])
    with open(env["FAKE_GRANDCHILD"] + ".part", "w") as file:
        file.write(str(child.pid))
    os.rename(env["FAKE_GRANDCHILD"] + ".part", env["FAKE_GRANDCHILD"])
if "FAKE_STUBBORN" in env:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "FAKE_LAST_WORDS" in env:
    def last_words(*_):
        print("released what was not started", flush=True)
        sys.exit(5)
    signal.signal(signal.SIGTERM, last_words)
if "FAKE_READY" in env:
    open(env["FAKE_READY"], "w").close()
if "FAKE_SLEEP" in env:
    time.sleep(float(env["FAKE_SLEEP"]))
if "FAKE_SIGNAL" in env:
    os.kill(os.getpid(), int(env["FAKE_SIGNAL"]))
sys.exit(int(env.get("FAKE_EXIT", "0")))
"""
COMMAND = (sys.executable, "-c", CHILD)
INTERNAL = make_process(mode="internal")
MAPPED = make_process(items=3, chunks=7)
MAPPED_PLAN = make_process_plan(MAPPED)
ATTEMPT = AttemptIdentity(dag_id="flights_history", dag_run_id="manual__1", try_number=1)


def own_outcome(**changes):
    return make_outcome(INTERNAL, attempt=ATTEMPT, **changes)


def to_text(outcome):
    return outcome.model_dump_json(by_alias=True)


def operator(plan=None, **env):
    plan = plan or make_process_plan(INTERNAL, env_vars={name: str(value) for name, value in env.items()})
    task = DponeDag(make_pack(processes=(plan,))).get_task("flights_history")
    if isinstance(task, process_operator.DponeProcessOperator):
        task.command = COMMAND
    return task


def execute(task, context=None):
    context = context or render(task, DATED)
    return context["task"].execute(context)


@pytest.fixture(autouse=True)
def private_temp(tmp_path, monkeypatch):
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == [], "the outcome's file was left behind"


def test_passed_outcome_is_the_tasks_result():
    outcome = own_outcome()
    assert execute(operator(FAKE_OUTCOME=to_text(outcome))) == outcome.to_document()


def test_result_is_plain_json():
    result = execute(operator(FAKE_OUTCOME=to_text(own_outcome())))
    assert json.loads(json.dumps(result)) == result
    assert len(json.dumps(result)) < OUTCOME_SIZE_LIMIT_BYTES


def test_output_is_streamed_into_the_tasks_log(monkeypatch):
    lines = []
    monkeypatch.setattr(
        process_operator.DponeProcessOperator, "_log_line", lambda _, line: lines.append(line)
    )
    execute(operator(FAKE_OUTCOME=to_text(own_outcome()), FAKE_SAY="chunk 1 committed\nchunk 2 committed"))
    assert lines == ["chunk 1 committed", "chunk 2 committed", "to stderr"]


def test_child_gets_the_process_the_rendered_environment_and_a_session_of_its_own(tmp_path):
    record = tmp_path / "record.json"
    execute(operator(FAKE_OUTCOME=to_text(own_outcome()), FAKE_RECORD=record))
    seen = json.loads(record.read_text())
    assert seen["argv"][:2] == ["run", "--process"]
    assert decode_process(seen["argv"][2]) == INTERNAL
    assert seen["env"]["DPONE_DAG_RUN_ID"] == "manual__1"
    assert seen["env"]["DPONE_INTERVAL_START"] == "2024-03-01T00:00:00+00:00"
    assert seen["env"]["DPONE_PARENT_PID"] == str(os.getpid())
    assert seen["session"] == seen["pid"] != os.getsid(0)
    assert Path(seen["env"]["DPONE_OUTCOME_PATH"]).parent.parent.name == "temp"


def test_connections_pass_and_airflows_own_settings_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_FLIGHTS", "postgresql://u:p@h/db")
    monkeypatch.setenv("DPONE_CONN_FLIGHTS", "postgresql://u:p@h/db")
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "sqlite:////x")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "k")
    monkeypatch.setenv("AIRFLOW_VAR_X", "v")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "d")
    monkeypatch.setenv("__AIRFLOW_SUPERVISOR_FD", "3")
    monkeypatch.setenv("DPONE_AIRFLOW_MAPPING_ITEM", "{}")
    record = tmp_path / "record.json"
    task = operator(FAKE_OUTCOME=to_text(own_outcome()), FAKE_RECORD=record)
    monkeypatch.delenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID")
    monkeypatch.setenv("_AIRFLOW_ANYTHING", "d")
    execute(task)
    seen = json.loads(record.read_text())["env"]
    assert {name for name in seen if "AIRFLOW" in name} == {
        "AIRFLOW_CONN_FLIGHTS",
        "DPONE_AIRFLOW_RUN_IDENTITY",
    }
    assert "DPONE_CONN_FLIGHTS" in seen
    assert "PATH" in seen


@pytest.mark.parametrize("index", range(3))
def test_each_mapped_item_is_judged_by_its_own_evidence(index):
    items = [mapping_item(MAPPED_PLAN.mapping, item) for item in MAPPED_PLAN.mapping.items]
    for claimed in range(3):
        outcome = make_outcome(MAPPED, items[claimed], attempt=ATTEMPT)
        plan = make_process_plan(MAPPED, env_vars={"FAKE_OUTCOME": to_text(outcome)})
        task = operator(plan)
        context = render(task, DATED, map_index=index)
        context["task"].command = COMMAND
        if claimed == index:
            assert execute(task, context) == outcome.to_document()
        else:
            with pytest.raises(AirflowException, match=f"another mapping item: {claimed} instead of {index}"):
                execute(task, context)


FAILED = own_outcome(
    status="failed",
    error=OutcomeError(code="DPONE_BACKFILL_CHUNK_FAILED", message="2 of 7", next_step="mend it"),
)
FAILURES = {
    "failed": ({"FAKE_OUTCOME": to_text(FAILED), "FAKE_EXIT": 1}, "DPONE_BACKFILL_CHUNK_FAILED: 2 of 7"),
    "failed with exit code 0": ({"FAKE_OUTCOME": to_text(FAILED)}, "DPONE_OUTCOME_NOT_PASSED"),
    "no outcome": ({}, r"left no outcome \(exit code 0\)"),
    "no outcome and a failure": ({"FAKE_EXIT": 3}, r"left no outcome \(exit code 3\)"),
    "passed with exit code 5": ({"FAKE_OUTCOME": to_text(own_outcome()), "FAKE_EXIT": 5}, "says passed, but"),
    "another attempt": (
        {"FAKE_OUTCOME": to_text(own_outcome().replaced(attempt=ATTEMPT.replaced(try_number=2)))},
        "another try number: 2 instead of 1",
    ),
    "truncated": ({"FAKE_OUTCOME": to_text(own_outcome())[:-9]}, "DPONE_OUTCOME_INVALID"),
    "oversize": ({"FAKE_OUTCOME": " " * (OUTCOME_SIZE_LIMIT_BYTES + 5)}, "more than"),
    "killed": ({"FAKE_SIGNAL": 9}, "ended by signal 9"),
    "killed after it had passed": (
        {"FAKE_OUTCOME": to_text(own_outcome()), "FAKE_SIGNAL": 9},
        "ended with -9",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_anything_but_its_own_passed_outcome_fails_the_task(name):
    env, message = FAILURES[name]
    with pytest.raises(AirflowException, match=message) as caught:
        execute(operator(**env))
    assert not isinstance(caught.value, AirflowFailException), "a retry may help"
    assert "next: " in str(caught.value)


@pytest.mark.parametrize("exit_code", [2, 4])
@pytest.mark.parametrize("told", [False, True], ids=["silent", "told"])
def test_a_run_that_would_be_refused_or_find_the_same_again_is_not_retried(told, exit_code):
    outcome = own_outcome(status="failed", exit_code=exit_code)
    env = {"FAKE_OUTCOME": to_text(outcome)} if told else {}
    with pytest.raises(AirflowFailException):
        execute(operator(**env, FAKE_EXIT=exit_code))


def test_failed_outcome_is_kept_as_xcom():
    task = operator(FAKE_OUTCOME=to_text(FAILED), FAKE_EXIT=1)
    context = render(task, DATED)
    with pytest.raises(AirflowException):
        execute(task, context)
    assert context["ti"].xcoms == {"dpone_outcome": FAILED.to_document()}


def test_an_xcom_that_cannot_be_kept_does_not_hide_the_failure():
    task = operator(FAKE_OUTCOME=to_text(FAILED), FAKE_EXIT=1)
    context = render(task, DATED)

    def refuse(**_):
        raise OSError("the API is away")

    context["ti"].xcom_push = refuse
    with pytest.raises(AirflowException, match="DPONE_BACKFILL_CHUNK_FAILED"):
        execute(task, context)


def test_a_command_that_is_not_there_names_what_to_install():
    task = operator()
    task.command = ("/nowhere/dpone",)
    with pytest.raises(AirflowException, match="install dpone-runtime"):
        execute(task)


def test_default_command_stands_beside_python_or_on_path(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert process_operator._default_command() == ("dpone",)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/dpone").touch(mode=0o755)
    assert process_operator._default_command() == (str(tmp_path / "bin/dpone"),)
    (tmp_path / "dpone").touch(mode=0o755)
    assert process_operator._default_command() == (str(tmp_path / "dpone"),)


@pytest.fixture
def killed_when(monkeypatch):
    """Runs a task and, once a file is there, interrupts it with a signal whose handler calls on_kill, as Airflow does."""
    monkeypatch.setattr(child_task, "KILL_GRACE", timedelta(seconds=1))

    def run(task, path):
        context = render(task, DATED)
        handler = signal.signal(signal.SIGUSR1, lambda *_: context["task"].on_kill())

        def interrupt():
            wait_until(path.exists, 20, "the child's start")
            os.kill(os.getpid(), signal.SIGUSR1)

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with pytest.raises(AirflowException) as caught:
                execute(task, context)
        finally:
            thread.join()
            signal.signal(signal.SIGUSR1, handler)
        return str(caught.value)

    return run


def test_on_kill_ends_the_child_and_its_stubborn_grandchild(tmp_path, killed_when):
    grandchild = tmp_path / "grandchild"
    message = killed_when(operator(FAKE_GRANDCHILD=grandchild, FAKE_SLEEP=600), grandchild)
    assert "ended by signal 15" in message
    pid = int(grandchild.read_text())
    wait_until(lambda: not psutil.pid_exists(pid), 10, "the grandchild's end")


def test_on_kill_kills_a_child_that_does_not_listen(tmp_path, killed_when):
    ready = tmp_path / "ready"
    message = killed_when(operator(FAKE_STUBBORN=1, FAKE_SLEEP=600, FAKE_READY=ready), ready)
    assert "ended by signal 9" in message


def test_on_kill_lets_the_child_say_its_last_words(tmp_path, monkeypatch, killed_when):
    lines = []
    monkeypatch.setattr(
        process_operator.DponeProcessOperator, "_log_line", lambda _, line: lines.append(line)
    )
    ready = tmp_path / "ready"
    message = killed_when(operator(FAKE_LAST_WORDS=1, FAKE_SLEEP=600, FAKE_READY=ready), ready)
    assert "released what was not started" in lines
    assert "exit code 5" in message


def test_on_kill_before_and_after_a_run_does_nothing():
    task = operator(FAKE_OUTCOME=to_text(own_outcome()))
    task.on_kill()
    execute(task)
    task.on_kill()


def test_leaving_by_an_exception_ends_the_child(tmp_path, monkeypatch):
    grandchild = tmp_path / "grandchild"
    task = operator(FAKE_GRANDCHILD=grandchild, FAKE_SLEEP=600)

    class TimedOut(BaseException):
        pass

    def time_out(_self, _line):
        wait_until(grandchild.exists, 20, "a started grandchild")
        raise TimedOut

    monkeypatch.setattr(process_operator.DponeProcessOperator, "_log_line", time_out)
    with pytest.raises(TimedOut):
        execute(task)
    pid = int(grandchild.read_text())
    wait_until(lambda: not psutil.pid_exists(pid), 10, "the grandchild's end")


def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_task(tmp_path):
    grandchild = tmp_path / "grandchild"
    outcome = own_outcome()
    task = operator(FAKE_GRANDCHILD=grandchild, FAKE_OUTCOME=to_text(outcome))
    assert execute(task) == outcome.to_document()
    pid = int(grandchild.read_text())
    wait_until(lambda: not psutil.pid_exists(pid), 10, "the grandchild's end")
