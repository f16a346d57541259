"""What the image holds, built here by the image's own commands, and a load in it under a pod's constraints."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from dpone_contract.errors import ErrorCode
from dpone_contract.outcome import OutcomeStatus, parse_outcome
from dpone_contract.process import encode_process
from tests.image.dockerfile import ENVIRONMENT, ROOT, pinned, python_version, read_stages
from tests.image.pod_stand_in import PodStandIn, has_namespaces, open_folder
from tests.integration.campaigns import History, item_environ, items_of, mapped_process, opened_history
from tests.waiting import wait_until

BUILD, IMAGE = read_stages()
BUDGET_MEBIBYTES = 45
STOPPED_WITHIN = 30
# What a pod tries to write to. It tells what it could.
WRITE = """
import json, os, sys
written = []
for folder in sys.argv[1:]:
    try:
        path = os.path.join(folder, "written")
        open(path, "w").close()
        os.unlink(path)
        written.append(folder)
    except OSError:
        pass
print(json.dumps({"written": written, "user": os.getuid(), "home": os.environ.get("HOME"), "pid": os.getpid()}))
"""
LOOK = "import importlib.util, json, sys; print(json.dumps([importlib.util.find_spec(n) is not None for n in sys.argv[1:]]))"


def image_python() -> str:
    """The image's Python where the machine has it, else the one that runs this."""
    named = shutil.which(f"python{python_version()}")
    works = named and subprocess.run([named, "-c", ""], capture_output=True, check=False).returncode == 0
    return named if named and works else sys.executable


@pytest.fixture(scope="module")
def environment() -> Iterator[Path]:
    """The environment of the image, made by the commands of the Dockerfile's first stage, read-only."""
    with open_folder("dpone-image-") as folder:
        tools, built, context = folder / "tools", folder / "environment", folder / "build"
        subprocess.run([image_python(), "-m", "venv", str(tools)], check=True)
        context.mkdir()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        env = {**inherited, "PATH": f"{tools}/bin:{os.environ['PATH']}"}
        for each in BUILD.instructions:
            if each.keyword == "COPY":
                *sources, _ = each.text.split()
                for source in sources:
                    copy(ROOT / source, context / (source if (ROOT / source).is_dir() else Path(source).name))
            elif each.keyword == "RUN":
                command = each.text.replace(ENVIRONMENT, str(built))
                done = subprocess.run(
                    ["sh", "-c", command], cwd=context, env=env, capture_output=True, text=True, check=False
                )
                assert done.returncode == 0, done.stdout + done.stderr
        for place, _, _ in os.walk(built):
            Path(place).chmod(0o555)
        yield built


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    else:
        shutil.copy(source, target)


@pytest.fixture
def pod(environment: Path) -> Iterator[PodStandIn]:
    with open_folder("dpone-pod-") as folder:
        base = subprocess.check_output(
            [environment / "bin/python", "-c", "import sys; print(sys.base_prefix)"], text=True
        )
        opened = PodStandIn(environment, Path(base.strip()), IMAGE, folder)
        yield opened
        opened.close()


@pytest.fixture
def history(database: str, tmp_path: Path) -> Iterator[History]:
    with opened_history(database, tmp_path) as opened:
        yield opened


def finish(started: subprocess.Popen[str]) -> tuple[int, str, str]:
    stdout, stderr = started.communicate(timeout=60)
    return started.returncode, stdout, stderr


def answer(pod: PodStandIn, program: str, *arguments: str) -> object:
    code, stdout, stderr = finish(pod.start("python", "-c", program, *arguments, env={}))
    assert code == 0, stderr
    return json.loads(stdout)


def run_item(pod: PodStandIn, history: History) -> subprocess.Popen[str]:
    """Start the one item of three days, as the pod operator would."""
    process = mapped_process()
    env = {**history.environ, **item_environ(process, items_of(process)[0])}
    return pod.start("dpone", "run", "--process", encode_process(process), env=env)


def test_it_holds_the_two_wheels_and_what_is_pinned(environment):
    found = {}
    for path in environment.glob("lib/python3*/site-packages/*.dist-info"):
        name, _, version = path.stem.partition("-")
        found[name.lower().replace("_", "-").replace(".", "-")] = version
    wheels = {"dpone-packbuilder": "0.1.0", "dpone-runtime": "0.1.0"}
    assert {**pinned("runtime/image-requirements.txt"), **wheels} == found


def test_it_is_small(environment):
    files = {path.stat().st_ino: path.stat().st_size for path in environment.rglob("*") if path.is_file()}
    size = sum(files.values()) / 2**20
    assert size <= BUDGET_MEBIBYTES


def test_every_module_has_its_bytecode(environment):
    sources = [path for path in environment.rglob("*.py") if "/tests/" not in str(path)]
    missing = [path for path in sources if not list(path.parent.glob(f"__pycache__/{path.stem}.*.pyc"))]
    assert (True, []) == (len(sources) > 500, missing)


def test_it_holds_no_airflow_and_no_builder(pod):
    names = ("airflow", "airflow_provider_dpone", "pip", "hatchling", "dpone_runtime", "psycopg_binary")
    assert [False, False, False, False, True, True] == answer(pod, LOOK, *names)


def test_a_pod_is_no_root_has_no_home_and_writes_to_its_temporary_folder_alone(pod, environment):
    told = answer(
        pod, WRITE, "/", "/etc", "/usr/lib", str(environment), str(environment / "lib"), "/tmp", "."
    )
    assert isinstance(told, dict)
    assert (None, ["/tmp", "."]) == (told["home"], told["written"])
    assert told["user"] != 0
    if has_namespaces():
        assert (10001, 1) == (told["user"], told["pid"])


def test_the_command_tells_its_version(pod):
    code, stdout, stderr = finish(pod.start("dpone", "version", env={}))
    wheels = "dpone-packbuilder 0.1.0\ndpone-runtime 0.1.0\nairflow-provider-dpone is not installed\n"
    assert (0, wheels, "") == (code, stdout, stderr)


def test_zones_come_from_the_wheel(pod):
    program = "import json, zoneinfo; zoneinfo.ZoneInfo('Europe/Warsaw'); print(json.dumps(zoneinfo.TZPATH))"
    assert [] == answer(pod, program)


def test_a_load_in_a_pod_tells_its_outcome(pod, history):
    code, _, stderr = finish(run_item(pod, history))
    assert code == 0, stderr
    outcome = parse_outcome(pod.outcome_file.read_bytes())
    assert (OutcomeStatus.PASSED, 0) == (outcome.status, outcome.exit_code)
    assert "could not be written" not in stderr
    history.require_loaded(3)


def test_process_1_stops_when_kubernetes_asks_it_to(pod, history):
    with psycopg.connect(history.uri) as blocker:
        # The first chunk is claimed, and waits before it changes a row.
        blocker.execute("LOCK TABLE target.history IN SHARE MODE")
        started = run_item(pod, history)
        wait_until(lambda: history.has_ledger_rows() and history.live_leases() == 1, 60, "a chunk at work")
        pod.first_process(started).send_signal(signal.SIGTERM)
    _, stderr = started.communicate(timeout=STOPPED_WITHIN)
    assert started.returncode == 5, stderr
    assert {1: ("committed", 1)} == history.chunks()
    error = parse_outcome(pod.outcome_file.read_bytes()).error
    assert error is not None
    assert ErrorCode.INTERRUPTED == error.code


def test_its_postgres_library_speaks_tls(pod, history):
    uri = urlsplit(history.uri)._replace(query="sslmode=require").geturl()
    program = "import json, psycopg, sys\ntry:\n    psycopg.connect(sys.argv[1])\nexcept psycopg.OperationalError as error:\n    print(json.dumps(str(error)))"
    # A library without it would refuse the word `require` before it spoke to any server.
    assert "server does not support SSL, but SSL was required" in str(answer(pod, program, uri))
