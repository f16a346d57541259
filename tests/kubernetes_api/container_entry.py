"""The runtime of one container: a process tree with a root, a user and an environment of its own; run as a file, never imported.

    starter --> this process --> the command (process 1 of its own namespace, or the leader of a session)

It is told in a JSON file what to run. In `namespaces` the command sees the machine's programs below a root of its own, with the
pod's volumes, a private /tmp and nothing of the other pods' processes; it has no capability. In `processes`, where the machine allows
no namespaces, it is an ordinary process tree. Both end whole: with the command ends whatever it has started, SIGUSR1 kills it, SIGTERM
is handed on, and the death of the starter, SIGKILL included, kills it too.

One line goes to the descriptor that the file names: `started`, or why not. Needs the standard library only; started with `-I -S`.
"""

import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
MS_RDONLY = 1
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
# Flags of a mount that a later change of it must name again; the numbers of statvfs are those of mount.
KEPT_FLAGS = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
MS_RELATIME = 1 << 21
NOT_FOUND, NOT_EXECUTABLE, NOT_STARTED = 127, 126, 128

libc = ctypes.CDLL(None, use_errno=True)


class Mount(TypedDict):
    """A folder or file of this machine, and where the container sees it."""

    source: str
    target: str
    read_only: bool


class Orders(TypedDict):
    """What to run and how; `root` is an empty folder."""

    isolation: str
    command: list[str]
    environment: dict[str, str]
    working_folder: str
    root: str
    mounts: list[Mount]
    read_only_root: bool
    user: int
    report_to: int


class StartError(Exception):
    """The command could not be started; has the exit code that tells so."""

    def __init__(self, message: str, exit_code: int = NOT_STARTED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def main() -> int:
    """Run the command to its end; give its exit code, 128 and more for a signal."""
    orders: Orders = json.loads(Path(sys.argv[1]).read_bytes())
    starter = int(sys.argv[2])
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != starter:
        return NOT_STARTED
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        if orders["isolation"] == "namespaces":
            enter_namespaces()
        child = start(orders)
    except (StartError, OSError) as error:
        report(orders, str(error))
        return error.exit_code if isinstance(error, StartError) else NOT_STARTED
    report(orders, "started")
    exit_code = wait_for(child)
    end_children()
    return exit_code


def report(orders: Orders, text: str) -> None:
    """Tell the starter, as one line."""
    with suppress(BrokenPipeError):
        os.write(orders["report_to"], text.replace("\n", " ").encode() + b"\n")
    os.close(orders["report_to"])


def start(orders: Orders) -> int:
    """Start the command; give its process id once it runs.

    Errors: StartError with the reason when it does not.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.close(orders["report_to"])
        become_the_command(orders, writer)
    os.close(writer)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    signal.signal(signal.SIGUSR1, lambda *_: os.kill(child, signal.SIGKILL))
    with os.fdopen(reader, "rb") as pipe:
        # Closed by a successful exec, and so empty then.
        said = pipe.read()
    if said:
        os.waitpid(child, 0)
        failure = json.loads(said)
        raise StartError(failure["message"], failure["exit_code"])
    return child


def become_the_command(orders: Orders, failures: int) -> None:
    """Turn this child into the command, or write why not and end."""
    exit_code = NOT_STARTED
    try:
        os.setsid()
        if orders["isolation"] == "namespaces":
            enter_root(orders)
        # Only now, as a change of user takes it back.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The parent has no number in this process table, but it alone reads the pipe.
        if reader_is_gone(failures):
            os._exit(NOT_STARTED)
        # What Python ignores would stay ignored.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.chdir(orders["working_folder"])
        # The search follows the container's PATH, as a container runtime's does.
        os.execvpe(orders["command"][0], orders["command"], orders["environment"])
    except FileNotFoundError as error:
        exit_code, message = NOT_FOUND, f"exec: {orders['command'][0]}: {error.strerror}"
    except PermissionError as error:
        exit_code, message = NOT_EXECUTABLE, f"{error.filename}: {error.strerror}"
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
    os.write(failures, json.dumps({"message": message, "exit_code": exit_code}).encode())
    os._exit(exit_code)


def reader_is_gone(pipe: int) -> bool:
    """Whether nobody reads a pipe any more."""
    poller = select.poll()
    poller.register(pipe, 0)
    return any(event & select.POLLERR for _, event in poller.poll(0))


def wait_for(child: int) -> int:
    """Wait for the command, burying whatever else ends meanwhile."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def end_children() -> None:
    """Kill what the command has left behind, which is this process's child by now, and its children in turn."""
    while orphans := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for pid in orphans:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(-1, 0)


def enter_namespaces() -> None:
    """Give the next child of this process a process table of its own; root needs no user namespace for it."""
    if os.geteuid() != 0:
        enter_user_namespace(0)
    unshare(CLONE_NEWPID)


def enter_root(orders: Orders) -> None:
    """See the machine through a root of this container's own, as its user, without a capability."""
    unshare(CLONE_NEWNS)
    mount("none", Path("/"), MS_REC | MS_PRIVATE)
    build_root(orders)
    # Not chroot: a process with another root than its mount namespace may not make a user namespace.
    os.chdir(orders["root"])
    if libc.pivot_root(b".", b".") != 0 or libc.umount2(b".", MNT_DETACH) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "pivot_root")
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # To the machine it stays whoever started it, so that it reads what that one may read; to itself it is the pod's user.
    enter_user_namespace(orders["user"])


def build_root(orders: Orders) -> None:
    """Build the root in an empty folder: the machine's top folders, as an image that nobody writes to, volumes, /proc and /tmp."""
    root = Path(orders["root"])
    mount("tmpfs", root, 0, "tmpfs")
    for entry in Path("/").iterdir():
        place = root / entry.name
        if entry.name in {"proc", "tmp"}:
            continue
        if entry.is_symlink():
            place.symlink_to(entry.readlink())
        elif entry.is_dir():
            place.mkdir()
            mount(str(entry), place, MS_BIND | MS_REC)
            make_read_only(place)
    for name, mode in (("proc", 0o555), ("tmp", 0o1777)):
        (root / name).mkdir()
        (root / name).chmod(mode)
    mount("proc", root / "proc", 0, "proc")
    for wanted in sorted(orders["mounts"], key=lambda each: each["target"].count("/")):
        bind(wanted, root / wanted["target"].lstrip("/"))
    if orders["read_only_root"]:
        make_read_only(root)


def bind(wanted: Mount, place: Path) -> None:
    """Show a folder or a file of the machine at a place, which is made where it is missing."""
    if Path(wanted["source"]).is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    mount(wanted["source"], place, MS_BIND | MS_REC)
    if wanted["read_only"]:
        make_read_only(place)


def make_read_only(place: Path) -> None:
    """Forbid writing through a mount."""
    found = os.statvfs(place).f_flag
    kept = (found & KEPT_FLAGS) | (MS_RELATIME if found & os.ST_RELATIME else 0)
    mount("none", place, MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def enter_user_namespace(user: int) -> None:
    """Be `user` from here on, and nobody else."""
    outer_user, outer_group = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {outer_user} 1")
    Path("/proc/self/gid_map").write_text(f"{user} {outer_group} 1")


def unshare(flags: int) -> None:
    """Part with namespaces of the parent."""
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "unshare")


def mount(source: str, target: Path, flags: int, kind: str | None = None) -> None:
    """Mount, bind or change a mount."""
    arguments: Sequence[bytes | None] = (
        source.encode(),
        str(target).encode(),
        kind.encode() if kind else None,
    )
    if libc.mount(*arguments, ctypes.c_ulong(flags), None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"mount {target}")


if __name__ == "__main__":
    sys.exit(main())
