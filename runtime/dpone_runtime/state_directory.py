"""Where a run keeps its files, and how they are called: a ledger in a file, and what is left for reconciliation."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dpone_contract.environment import STATE_DIR
from dpone_contract.manifest import Manifest

DEFAULT_STATE_DIRECTORY = Path(".dpone", "backfill")

LEDGER_SUFFIX = ".json"
JOURNAL_SUFFIX = ".journal.jsonl"
LOCK_SUFFIX = ".lock"
EXECUTION_SUFFIX = ".execution.json"

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TAKEN = re.compile(r"\.(journal|execution|lock|json|jsonl)$")


def state_directory(manifest: Manifest, environ: Mapping[str, str]) -> Path:
    """Give the folder: `backfill.state_dir`, else `DPONE_BACKFILL_STATE_DIR`, else `.dpone/backfill`; nothing is created.

    A relative folder is one of the current directory. The variable counts where it is not empty.
    """
    authored = manifest.backfill.state_dir or environ.get(STATE_DIR)
    return Path(authored) if authored else DEFAULT_STATE_DIRECTORY


@dataclass(frozen=True)
class StateFile:
    """The `<run_key>.json` of a campaign, where it is there, and what it is worth: of a ledger elsewhere it proves nothing."""

    cache_status: Literal["authoritative", "present_non_authoritative", "unavailable"]
    path: Path | None = None


NO_FILE = StateFile("unavailable")


def find_state_file(manifest: Manifest, environ: Mapping[str, str], run_key: str) -> StateFile:
    """Look for a campaign's file; its content is not read."""
    path = state_directory(manifest, environ) / f"{file_stem(run_key)}{LEDGER_SUFFIX}"
    found = path if path.is_file() else None
    if manifest.backfill.state.in_a_file:
        return StateFile("authoritative", found)
    return StateFile("present_non_authoritative", found) if found else NO_FILE


def file_stem(run_key: str) -> str:
    """Give the name, without a suffix, of a campaign's files: its key where that names a file, else a digest beside it.

    No two keys share a name, none leads out of the folder, and none ends as a file of another campaign does.
    """
    if _PLAIN.fullmatch(run_key) and not _TAKEN.search(run_key):
        return run_key
    readable = re.sub(r"[^A-Za-z0-9]+", "_", run_key).strip("_")[:48]
    return f"{readable or 'campaign'}~{hashlib.sha256(run_key.encode()).hexdigest()[:24]}"
