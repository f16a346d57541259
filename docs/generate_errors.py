"""Writes `docs/errors.md` from the error classes of `dpone_contract.errors`: their docstrings are the catalogue.

Run it with `python docs/generate_errors.py` in an environment that has `dpone_contract`; a test compares file and classes.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from dpone_contract.errors import authoring, campaign, database, handover, mapping, publication, root
from dpone_contract.errors.codes import ExitCode
from dpone_contract.errors.root import DponeError

PAGE = Path(__file__).with_name("errors.md")

_GROUPS: tuple[tuple[str, ModuleType], ...] = (
    ("What people write", authoring),
    ("Connections, tables and columns", database),
    ("Campaigns, chunks and lanes", campaign),
    ("Publication by shadow swap", publication),
    ("Mapping onto Airflow tasks", mapping),
    ("Between builder, Airflow and run", handover),
    ("Everything else", root),
)

_ENTRY = re.compile(r"(?P<what>.+) Raised: (?P<raised>.+) Retry: (?P<retry>.+) Do: (?P<step>.+)")

_ENDS: Mapping[ExitCode, str] = {
    ExitCode.CHUNKS_FAILED: "finished with failed chunks",
    ExitCode.REFUSED: "refused",
    ExitCode.INCOMPLETE: "the campaign is incomplete",
    ExitCode.VERIFICATION_MISMATCH: "verification mismatch",
    ExitCode.OWNERSHIP_OR_INFRASTRUCTURE: "ownership lost or infrastructure",
}

_HEAD = """\
# Errors

Generated from the classes in `dpone_contract.errors` by `docs/generate_errors.py`; do not edit.

An error has a stable code, which never changes its meaning. It is shown as three lines on stderr:

```
error DPONE_BACKFILL_CAMPAIGN_MISSING: the ledger has no campaign orders-2024
  at: schema dpone_audit of connection target_db
  next: begin it with `dpone backfill run orders.yaml --execute`, or check window and overrides
```

With `--format json` the same stands in the outcome's `error`, as a document of schema `dpone.error.v1` with `code`, `message`,
`where`, `next_step` and `fields`. No error holds a predicate, a row value, a credential or a connection string. Exit codes are
those of [running.md](running.md#exit-codes); **retry** says whether the same command, or Airflow's retry of the task, can help.

`at:` is the closest place that is known: a file with line and column, a key, a variable, a table, a connection, a campaign or a
chunk of it, a task, a mapping item.
"""


def error_classes(module: ModuleType) -> list[type[DponeError]]:
    """Give the error classes that a module defines, in its order, the root left out."""
    found = [
        kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, DponeError)
    ]
    return [kind for kind in found if kind.__module__ == module.__name__ and kind is not DponeError]


def render_errors() -> str:
    """Give the whole page."""
    parts = [_HEAD]
    for title, module in _GROUPS:
        parts.append(f"## {title}\n")
        parts += [_entry(kind) for kind in error_classes(module)]
    return "\n".join(parts)


def _entry(kind: type[DponeError]) -> str:
    told = _ENTRY.fullmatch(" ".join(inspect.cleandoc(kind.__doc__ or "").split()))
    if told is None:
        raise ValueError(
            f"{kind.__name__}: the docstring is not `What happened. Raised: ... Retry: ... Do: ...`"
        )
    exit_code = ExitCode(kind.exit_code)
    return (
        f"### {kind.code.value}\n\n{told['what']}\n\n"
        f"- **Exit code**: {int(exit_code)}, {_ENDS[exit_code]}\n"
        f"- **Raised**: {told['raised']}\n- **Retry**: {told['retry']}\n- **Do**: {told['step']}\n"
    )


def main() -> None:
    """Write the page and say where."""
    PAGE.write_text(render_errors(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")


if __name__ == "__main__":
    main()
