"""A pod's constraints without a container: an ordinary user, a read-only root, `/tmp` to write to, nothing inherited.

Where the test is root and Linux lets it, the command is process 1 of a root of its own, which holds the operating system,
the interpreter and the image's environment, all read-only, an empty `/tmp`, and the folder of the outcome. Elsewhere what
can be had is had: an ordinary user, an environment that cannot be written, and no variable but a pod's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import psutil

from dpone_contract.environment import POD_OUTCOME_PATH, EnvVar
from tests.image.dockerfile import ENVIRONMENT, Stage

USER = 10001
ADMINISTRATION_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
# Arguments: the new root, the interpreter's folder, the environment's, the outcome's; then the command.
ENTER = """
set -eu
root=$1 interpreter=$2 environment=$3 outcome=$4
shift 4
read_only() {
    mkdir -p "$root$1"
    mount --bind "$1" "$root$1"
    mount -o remount,bind,ro "$root$1"
}
mount -t tmpfs -o mode=755 tmpfs "$root"
for each in /usr /etc /bin /sbin /lib /lib32 /lib64; do
    if [ -L "$each" ]; then cp -P "$each" "$root$each"; elif [ -d "$each" ]; then read_only "$each"; fi
done
mkdir "$root/tmp" "$root/proc" "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
read_only "$interpreter"
read_only "$environment"
mkdir -p "$root/airflow/xcom"
mount --bind "$outcome" "$root/airflow/xcom"
mount -t proc proc "$root/proc"
for each in null zero urandom; do
    touch "$root/dev/$each"
    mount --bind "/dev/$each" "$root/dev/$each"
done
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid 10001 --regid 10001 --clear-groups --bounding-set=-all --no-new-privs "$@"
"""


@cache
def has_namespaces() -> bool:
    """Whether a root of its own can be had here."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    done = subprocess.run(
        [*NAMESPACES, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
    )
    return done.returncode == 0


@dataclass
class PodStandIn:
    """Runs commands of an environment as a pod of the image would. `folder` is its place outside."""

    environment: Path
    interpreter: Path
    image: Stage
    folder: Path
    _started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def outcome_file(self) -> Path:
        """Where a run's outcome is found from outside."""
        return self.folder / "xcom" / Path(POD_OUTCOME_PATH).name

    def start(self, *arguments: str, env: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a program of the environment with the image's variables and these; there are no others."""
        program = [str(self.environment / "bin" / arguments[0]), *arguments[1:]]
        for name in ("root", "xcom", "work"):
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / "xcom").chmod(0o777)
        (self.folder / "work").chmod(0o777)
        started = self._in_namespaces(program, env) if has_namespaces() else self._as_a_user(program, env)
        self._started.append(started)
        return started

    def first_process(self, started: subprocess.Popen[str]) -> psutil.Process:
        """Give the command itself, which in a root of its own is a child of what was started."""
        process = psutil.Process(started.pid)
        return process.children()[0] if has_namespaces() else process

    def close(self) -> None:
        """End what is left."""
        for started in self._started:
            started.kill()
            started.communicate()

    def _variables(self, env: Mapping[str, str]) -> dict[str, str]:
        image = self.image.pairs("ENV")
        path = image["PATH"].replace(ENVIRONMENT, str(self.environment)).replace("$PATH", os.defpath)
        return {**image, "PATH": path, **env}

    def _in_namespaces(self, program: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
        folders = (self.folder / "root", self.interpreter, self.environment, self.folder / "xcom")
        variables = [f"{name}={value}" for name, value in self._variables(env).items()]
        inside = ["env", "--ignore-environment", f"--chdir={self.image.one('WORKDIR')}", *variables, *program]
        command = [*NAMESPACES, "sh", "-c", ENTER, "sh", *map(str, folders), *inside]
        return _open(command, env={"PATH": ADMINISTRATION_PATH})

    def _as_a_user(self, program: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
        variables = {EnvVar.OUTCOME_PATH.value: str(self.outcome_file), **self._variables(env)}
        user = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
        return _open(program, env=variables, cwd=self.folder / "work", **user)


def _open(command: Sequence[str], **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]  # spelled out by the callers
    )


@contextmanager
def open_folder(prefix: str) -> Iterator[Path]:
    """Give a fresh folder that every user may enter, removed in the end."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        for place, _, _ in os.walk(folder):
            Path(place).chmod(0o755)
        shutil.rmtree(folder)
