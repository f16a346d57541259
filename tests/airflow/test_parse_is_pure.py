"""While packs are parsed nothing is opened but pack files: no network, no process, no setting of Airflow, no database."""

import builtins
import io
import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_dpone import DponeTaskGroup, load_dpone_dags
from airflow_provider_dpone.version_compat import DAG
from dpone_contract.pack import ExecutionBackend, Hook, Hooks
from tests.airflow.test_pods_of_packs import EVERYTHING
from tests.factories import make_pack, make_process, make_process_plan, write_pack_file

OURS = ("airflow_provider_dpone", "dpone_contract")


class ForbiddenError(AssertionError):
    pass


def forbid(what):
    def refuse(*_args, **_kwargs):
        raise ForbiddenError(what)

    return refuse


def called_by_us():
    """Whether the nearest caller outside of Airflow's configuration is ours: its own constructors read defaults there."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(
        ("airflow.configuration", "airflow._shared.configuration", "airflow.sdk.configuration")
    ):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in OURS


def forbid_to_us(original, what):
    def read(*args, **kwargs):
        if called_by_us():
            raise ForbiddenError(what)
        return original(*args, **kwargs)

    return read


@pytest.fixture
def packs(tmp_path):
    for number in range(3):
        plans = (
            make_process_plan(make_process("mapped", items=30), outlets=("postgres://db/flights",)),
            make_process_plan(make_process("internal", mode="internal"), env_vars={"TZ": "UTC"}),
            make_process_plan(
                make_process("mapped_pods", items=30),
                backend=ExecutionBackend.KUBERNETES,
                pod=EVERYTHING,
                hooks=Hooks(pre=(Hook(name="before", command=("true",)),)),
            ),
            make_process_plan(
                make_process("pod", mode="internal"),
                backend=ExecutionBackend.KUBERNETES,
                pod=EVERYTHING.replaced(deferrable=None, pod_template_file="/nowhere/template.yaml"),
                hooks=Hooks(post=(Hook(name="after", command=("true",)),)),
            ),
        )
        pack = make_pack(
            f"w{number}", processes=plans, dag={"schedule": "@daily", "start_date": "2013-01-01"}
        )
        write_pack_file(tmp_path, pack)
    return tmp_path


@pytest.fixture
def opened(monkeypatch, packs):
    """Everything but pack files is forbidden; gives the files that were opened."""
    # Once before: what Airflow imports on first use is not parsing.
    load_dpone_dags(packs, {}, strict=True)
    monkeypatch.setattr(socket, "socket", forbid("socket"))
    monkeypatch.setattr(socket, "create_connection", forbid("socket"))
    monkeypatch.setattr(socket, "getaddrinfo", forbid("name look-up"))
    monkeypatch.setattr(subprocess, "Popen", forbid("process"))
    monkeypatch.setattr(os, "fork", forbid("process"))
    monkeypatch.setattr(os, "posix_spawn", forbid("process"))
    monkeypatch.setattr(os, "system", forbid("process"))
    monkeypatch.setattr(sqlite3, "connect", forbid("database"))
    _forbid_airflow(monkeypatch)
    files = []

    def recorded(original):
        def open_recorded(file, *args, **kwargs):
            # What Airflow itself reads of its installation, as for the words of a cron expression, is not ours.
            if not str(file).startswith(sys.prefix):
                files.append(Path(file))
            return original(file, *args, **kwargs)

        return open_recorded

    monkeypatch.setattr(builtins, "open", recorded(builtins.open))
    monkeypatch.setattr(io, "open", recorded(io.open))
    return files


def _forbid_airflow(monkeypatch):
    from airflow import settings
    from airflow.configuration import AirflowConfigParser
    from airflow.models import Connection, Variable

    for name in ("get", "getboolean", "getint", "getfloat", "getlist", "getjson", "getimport", "getsection"):
        if hasattr(AirflowConfigParser, name):
            original = getattr(AirflowConfigParser, name)
            monkeypatch.setattr(AirflowConfigParser, name, forbid_to_us(original, "Airflow's configuration"))
    monkeypatch.setattr(Variable, "get", forbid("Variable"))
    monkeypatch.setattr(Variable, "set", forbid("Variable"))
    if hasattr(Connection, "get_connection_from_secrets"):
        monkeypatch.setattr(Connection, "get_connection_from_secrets", forbid("Connection"))
    monkeypatch.setattr(settings, "Session", forbid("metadata database"))
    try:
        from airflow import sdk
    except ImportError:
        return
    monkeypatch.setattr(sdk.Variable, "get", forbid("Variable"))
    monkeypatch.setattr(sdk.Connection, "get", forbid("Connection"))


def test_loading_a_folder_opens_its_packs_and_nothing_else(packs, opened):
    dags = load_dpone_dags(packs, {}, strict=True)
    assert sum(len(dag.tasks) for dag in dags.values()) == 24
    assert sorted(opened) == sorted(packs.rglob("airflow-pack.json"))


def test_a_task_group_opens_its_pack_and_nothing_else(packs, opened):
    path = packs / "w0/airflow-pack.json"
    with DAG(dag_id="mine", schedule=None):
        DponeTaskGroup(pack=path)
    assert opened == [path]


def test_what_runs_pods_is_imported_for_pods_alone(tmp_path):
    write_pack_file(tmp_path, make_pack("processes"))
    program = (
        "import sys\n"
        "from airflow_provider_dpone import load_dpone_dags\n"
        f"load_dpone_dags({str(tmp_path)!r}, {{}}, strict=True)\n"
        "print(sorted(name for name in sys.modules if name.startswith('airflow_provider_dpone.pod_')))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr


def test_the_guard_would_notice_us(opened):
    from airflow.configuration import conf

    source = "from airflow.configuration import conf\nconf.get('core', 'dags_folder')"
    with pytest.raises(ForbiddenError, match="configuration"):
        exec(source, {"__name__": "airflow_provider_dpone.anything"})
    assert conf.get("core", "dags_folder")


@pytest.mark.parametrize("name", sorted(path.stem for path in Path("airflow_provider_dpone").glob("*.py")))
def test_only_one_module_asks_which_airflow_this_is(name):
    text = Path(f"airflow_provider_dpone/{name}.py").read_text(encoding="utf-8")
    asking = ("from airflow.", "from airflow ", "import airflow.", "import airflow ")
    names_airflow = any(
        line.lstrip().startswith(asking)
        # Imported where pods are, since it takes seconds; the same names in every release.
        and not line.startswith("from airflow.providers.cncf.kubernetes.")
        for line in text.splitlines()
    )
    assert names_airflow == (name == "version_compat")
