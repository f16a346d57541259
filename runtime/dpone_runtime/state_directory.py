"""Where a run keeps its files: a local_file ledger, the cache of another, and what it leaves for reconciliation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dpone_contract.environment import STATE_DIR
from dpone_contract.manifest import Manifest

DEFAULT_STATE_DIRECTORY = Path(".dpone", "backfill")


def state_directory(manifest: Manifest, environ: Mapping[str, str]) -> Path:
    """Give the folder: `backfill.state_dir`, else `DPONE_BACKFILL_STATE_DIR`, else `.dpone/backfill`; nothing is created.

    A relative folder is one of the current directory. The variable counts where it is not empty.
    """
    authored = manifest.backfill.state_dir or environ.get(STATE_DIR)
    return Path(authored) if authored else DEFAULT_STATE_DIRECTORY
