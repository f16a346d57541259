"""A process that replaces a file and stops for ever at one step of it: `python -m tests.unit.packbuilder.killed_write FILE STEP`."""

import os
import sys
import time
from pathlib import Path

from dpone_packbuilder.writer import write_whole


def stop(*_arguments: object) -> None:
    sys.stdout.write("stopped\n")
    sys.stdout.flush()
    time.sleep(600)


def main(path: Path, step: str) -> None:
    if step == "written":
        os.fsync = stop
    elif step == "synced":
        Path.replace = stop  # type: ignore[method-assign,assignment]  # it never returns
    write_whole(path, b"new" * 100_000)
    stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
