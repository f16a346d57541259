"""The image that every container is started from: this interpreter with its `dpone`, and folders that a test adds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ENTRY = Path(__file__).with_name("container_entry.py")
SOURCES = (ROOT / "runtime", ROOT / "packbuilder", ROOT)
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Isolation(StrEnum):
    """How far a container is kept apart from the machine."""

    NAMESPACES = "namespaces"
    PROCESSES = "processes"


@dataclass(frozen=True)
class Image:
    """Interpreter, sources and what else is in the image: where the container sees it, and where it is on this machine."""

    interpreter: str = sys.executable
    folders: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that an image sets."""
        return {
            "PATH": f"{Path(self.interpreter).parent}{os.pathsep}{SYSTEM_PATH}",
            "PYTHONPATH": os.pathsep.join(map(str, SOURCES)),
            "LANG": "C.UTF-8",
            "HOME": "/",
        }

    def mounts(self) -> list[dict[str, Any]]:
        """Give what must be seen beside the machine's top folders: what lies in /tmp, which is the container's own there."""
        needed = {
            str(Path(sys.prefix)),
            str(Path(sys.base_prefix)),
            str(Path(self.interpreter).parents[1]),
            str(ROOT),
        }
        seen = {path: path for path in needed if path.startswith("/tmp/")} | dict(self.folders)
        return [{"source": source, "target": target, "read_only": True} for target, source in seen.items()]


def find_isolation() -> Isolation:
    """Try whether this machine allows namespaces, by running a container."""
    said = b""
    for isolation in Isolation:
        with tempfile.TemporaryDirectory(prefix="kubernetes-api-probe-") as folder:
            (Path(folder) / "root").mkdir()
            orders = Path(folder) / "orders.json"
            reader, writer = os.pipe()
            write_orders(orders, isolation, ["true"], {"PATH": SYSTEM_PATH}, Path(folder) / "root", writer)
            tried = subprocess.run(
                entry_command(orders), pass_fds=(writer,), capture_output=True, check=False, timeout=60
            )
            os.close(reader)
            os.close(writer)
        if tried.returncode == 0:
            return isolation
        said += tried.stderr
    raise RuntimeError(f"no container can be started here: {said.decode()}")


def entry_command(orders: Path) -> list[str]:
    """Give the command that runs a container of this process."""
    return [sys.executable, "-I", "-S", str(ENTRY), str(orders), str(os.getpid())]


def write_orders(
    path: Path,
    isolation: Isolation,
    command: list[str],
    environment: Mapping[str, str],
    root: Path,
    report_to: int,
    *,
    mounts: list[dict[str, Any]] | None = None,
    read_only_root: bool = True,
    user: int = 10001,
    working_folder: str = "/",
) -> None:
    """Write down what a container runs, readable to its starter alone: the environment holds secrets."""
    path.touch(mode=0o600)
    path.write_text(
        json.dumps(
            {
                "isolation": isolation.value,
                "command": command,
                "environment": dict(environment),
                "working_folder": working_folder,
                "root": str(root),
                "mounts": mounts or [],
                "read_only_root": read_only_root,
                "user": user,
                "report_to": report_to,
            }
        ),
        encoding="utf-8",
    )
