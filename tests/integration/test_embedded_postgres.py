"""The embedded server keeps strangers out and never outlives the process that started it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import psycopg
import pytest

from quickstart import embedded_postgres
from quickstart.embedded_postgres import EmbeddedPostgres, EmbeddedPostgresError
from tests.waiting import wait_until

# What every starter below does first; `server` and `report` are in reach of the rest of its script.
STARTER = """
import json, os, signal, sys
import psycopg
from quickstart.embedded_postgres import EmbeddedPostgres

server = EmbeddedPostgres()
server.start()

def report(**facts):
    print(json.dumps(facts), flush=True)

report(uri=server.uri(), port=server.port, pid=server.server_pid, folder=str(server.folder))
"""


@contextmanager
def started(script: str) -> Iterator[subprocess.Popen[str]]:
    """A starter process in a process group of its own, killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", STARTER + textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def read_report(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdout is not None
    facts: dict[str, object] = json.loads(process.stdout.readline())
    return facts


def is_listening(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def processes_of(server: psutil.Process) -> tuple[psutil.Process, ...]:
    watchdog = server.parent()
    assert watchdog is not None
    return (watchdog, server, *server.children(recursive=True))


def wait_until_gone(facts: dict[str, object], processes: tuple[psutil.Process, ...]) -> None:
    wait_until(lambda: not any(process.is_running() for process in processes), 20, "the end of every process")
    wait_until(lambda: not Path(str(facts["folder"])).exists(), 20, "the end of the folder")
    assert not is_listening(int(str(facts["port"])))


def test_the_right_password_connects(postgres: EmbeddedPostgres) -> None:
    with psycopg.connect(postgres.uri()) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("postgres",)


@pytest.mark.parametrize("password", ["wrong", None])
def test_a_wrong_or_missing_password_is_refused(postgres: EmbeddedPostgres, password: str | None) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(postgres.uri(user=postgres.user, password=password))


def test_every_line_of_pg_hba_asks_for_scram(postgres: EmbeddedPostgres) -> None:
    with psycopg.connect(postgres.uri()) as connection:
        methods = connection.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules").fetchall()
    assert methods == [("scram-sha-256",)]


def test_the_folder_is_private_and_keeps_no_password(postgres: EmbeddedPostgres) -> None:
    assert postgres.folder.stat().st_mode & 0o077 == 0
    assert not (postgres.folder / "password").exists()
    assert not any(postgres.password in path.read_text() for path in postgres.folder.glob("*.log"))


def test_the_server_listens_on_loopback_only_and_syncs(postgres: EmbeddedPostgres) -> None:
    names = ("listen_addresses", "unix_socket_directories", "fsync", "synchronous_commit", "max_connections")
    with psycopg.connect(postgres.uri()) as connection:
        values = [connection.execute("SELECT current_setting(%s)", [name]).fetchone() for name in names]
    assert values == [("127.0.0.1",), ("",), ("on",), ("on",), ("200",)]


def test_psql_of_the_package_runs(postgres: EmbeddedPostgres) -> None:
    command = [str(postgres.bin("psql")), "--no-psqlrc", "-Atc", "SELECT 6 * 7", postgres.uri()]
    assert subprocess.check_output(command, text=True).strip() == "42"


def test_names_are_quoted(postgres: EmbeddedPostgres) -> None:
    name = 'a "b" /c?'
    postgres.create_database(name)
    with psycopg.connect(postgres.uri(name)) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == (name,)


def test_two_servers_run_at_once_with_settings_of_their_own(postgres: EmbeddedPostgres) -> None:
    with EmbeddedPostgres(settings={"work_mem": "7MB"}) as other:
        assert other.port != postgres.port
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(other.uri(password=postgres.password))
        with psycopg.connect(other.uri()) as connection:
            assert connection.execute("SHOW work_mem").fetchone() == ("7MB",)


def test_stop_ends_every_process_and_removes_the_folder() -> None:
    server = EmbeddedPostgres()
    server.start()
    facts: dict[str, object] = {"folder": server.folder, "port": server.port}
    processes = processes_of(psutil.Process(server.server_pid))
    server.stop()
    server.stop()
    wait_until_gone(facts, processes)


def test_a_failed_start_shows_the_log_and_leaves_nothing() -> None:
    server = EmbeddedPostgres(settings={"shared_preload_libraries": "no_such_library"})
    with pytest.raises(EmbeddedPostgresError, match="no_such_library"):
        server.start()
    assert not server.folder.exists()


def test_a_watchdog_that_cannot_start_leaves_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    server = EmbeddedPostgres()
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(FileNotFoundError):
        server.start()
    assert not server.folder.exists()


def test_a_folder_in_use_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(EmbeddedPostgresError, match="not empty"):
        EmbeddedPostgres(folder=tmp_path).start()
    assert (tmp_path / "precious").exists()


def test_nothing_outlives_a_starter_killed_with_sigkill() -> None:
    with started("signal.pause()") as starter:
        facts = read_report(starter)
        processes = processes_of(psutil.Process(int(str(facts["pid"]))))
        with psycopg.connect(str(facts["uri"])):
            starter.kill()
            wait_until_gone(facts, processes)


def test_a_forked_child_with_the_open_pipe_does_not_keep_the_server_alive() -> None:
    with started("report(child=os.fork() or os.getpid()); signal.pause()") as starter:
        facts = read_report(starter)
        processes = processes_of(psutil.Process(int(str(facts["pid"]))))
        assert {"child"} == read_report(starter).keys() == read_report(starter).keys()
        starter.kill()
        wait_until_gone(facts, processes)


def test_nothing_outlives_a_starter_killed_while_a_server_process_is_frozen() -> None:
    with started("signal.pause()") as starter:
        facts = read_report(starter)
        processes = processes_of(psutil.Process(int(str(facts["pid"]))))
        processes[1].suspend()
        starter.kill()
        wait_until_gone(facts, processes)


def test_nothing_outlives_a_starter_interrupted_from_the_terminal() -> None:
    with started("signal.pause()") as starter:
        facts = read_report(starter)
        processes = processes_of(psutil.Process(int(str(facts["pid"]))))
        os.killpg(starter.pid, signal.SIGINT)
        wait_until_gone(facts, processes)


def test_the_server_still_answers_a_starter_that_handles_the_interrupt() -> None:
    script = """
        try:
            report(ready=True)
            signal.pause()
        except KeyboardInterrupt:
            with psycopg.connect(server.uri()) as connection:
                report(answer=connection.execute("SELECT 1").fetchone())
    """
    with started(script) as starter:
        facts = read_report(starter)
        processes = processes_of(psutil.Process(int(str(facts["pid"]))))
        assert read_report(starter) == {"ready": True}
        os.killpg(starter.pid, signal.SIGINT)
        assert read_report(starter) == {"answer": [1]}
        wait_until_gone(facts, processes)


def test_a_detached_server_lives_on_until_its_stop_command() -> None:
    with started("report(stop=server.detach())") as starter:
        facts = read_report(starter)
        stop_command = str(read_report(starter)["stop"])
        processes = processes_of(psutil.Process(int(str(facts["pid"]))))
        starter.wait(10)
        with psycopg.connect(str(facts["uri"])) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        subprocess.run(stop_command, shell=True, check=True)
        wait_until_gone(facts, processes)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts the server under another account")
def test_binaries_out_of_the_accounts_reach_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = EmbeddedPostgres().bin("postgres").parents[2]
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    for folder in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(folder, hidden / folder.name, symlinks=True)
    installation = hidden / package.name / embedded_postgres.INSTALLATION
    monkeypatch.setattr(embedded_postgres, "_find_installation", lambda: installation)
    with EmbeddedPostgres() as copied, psycopg.connect(copied.uri()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert hidden.stat().st_mode & 0o777 == 0o700
