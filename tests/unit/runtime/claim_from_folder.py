"""A process that claims and commits chunks of a folder's ledger, for tests: `FOLDER LAST`; says each chunk that it committed.

Nothing of it is dpone's: what two of it leave is decided by the ledger alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dpone_runtime.ports.connectors import LoadReceipt
from dpone_runtime.services.chunk_claims import ChunkClaims
from tests.campaign_factories import make_plan
from tests.file_ledgers import ledger_in


def main(folder: str, last: str) -> None:
    """Try every chunk in order, and commit those that are won."""
    ledger = ledger_in(Path(folder))
    plan = make_plan(int(last))
    claims = ChunkClaims(ledger, plan, max_active=None, dag_run_id=None)
    for index in range(1, int(last) + 1):
        request = claims.claim(index).request
        if request is not None:
            ledger.record_commit(request, LoadReceipt(index, index, 0))
            sys.stdout.write(f"{index}\n")
            sys.stdout.flush()
    ledger.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
