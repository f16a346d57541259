"""`<run_key>.execution.json`: what a finished campaign has loaded, chunk by chunk, for reconciliation by others.

It is a copy of the ledger's rows at that moment and never read by dpone; it holds no row, predicate or credential.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TextIO

from dpone_contract.process import CampaignPlan, Process
from dpone_runtime.domain.campaign import Campaign, TableIdentity
from dpone_runtime.domain.chunk_record import ChunkRecord
from dpone_runtime.domain.coverage import Coverage
from dpone_runtime.ports.ledger import CampaignLedger
from dpone_runtime.state_directory import EXECUTION_SUFFIX
from dpone_runtime.status_view import publication_document

_PAGE = 1_000


def write_execution_file(
    directory: Path,
    process: Process,
    planned: CampaignPlan,
    campaign: Campaign,
    *,
    ledger: CampaignLedger,
    coverage: Coverage | None,
) -> Path:
    """Write the file in one piece; memory does not grow with the number of chunks. Gives its path.

    Errors: OSError where the folder cannot be written; those of the ledger.
    Source: the design, verification.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{campaign.run_key}{EXECUTION_SUFFIX}"
    handle, temporary = tempfile.mkstemp(dir=directory, prefix=".execution-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            _write(file, _head(process, planned, campaign, ledger, coverage), _chunks(ledger, campaign))
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def _write(file: TextIO, head: dict[str, object], chunks: Iterator[dict[str, object]]) -> None:
    """Write one object whose last member is the list of chunks, one a line."""
    text = json.dumps(head, indent=2, ensure_ascii=False)
    file.write(text.removesuffix("\n}") + ',\n  "chunks": [')
    for number, chunk in enumerate(chunks):
        file.write(",\n    " if number else "\n    ")
        file.write(json.dumps(chunk, ensure_ascii=False))
    file.write("\n  ]\n}\n")


def _head(
    process: Process,
    planned: CampaignPlan,
    campaign: Campaign,
    ledger: CampaignLedger,
    coverage: Coverage | None,
) -> dict[str, object]:
    manifest, spec = process.manifest, planned.plan.spec
    return {
        "schema": "dpone.backfill-execution.v1",
        "process": process.name,
        "run_key": campaign.run_key,
        "plan_hash": campaign.plan_hash,
        "config_hash": campaign.config_hash,
        "status": campaign.status.value,
        "publication": publication_document(campaign, ledger.campaign_events(campaign.run_key)),
        "round": campaign.round,
        "inner_mode": campaign.inner_mode,
        "source": _end(manifest.source.connection, campaign.source),
        "target": _end(manifest.sink.connection, campaign.target),
        "where": manifest.source.where is not None,
        "chunk_column": spec.column,
        "kind": spec.kind.value,
        "timezone": spec.timezone,
        "lower": planned.plan.lower,
        "upper": planned.plan.upper,
        "chunks_total": campaign.chunks_total,
        "coverage": coverage.to_document() if coverage else None,
        "state_authority": {**ledger.authority(), "run_key": campaign.run_key},
        "opened_at": _text(campaign.created_at),
        "completed_at": _text(campaign.updated_at),
    }


def _end(connection: str, table: TableIdentity) -> dict[str, str]:
    return {
        "connection": connection,
        "table": table.name,
        "server": table.server,
        "database": table.database,
        "relation": table.relation,
    }


def _chunks(ledger: CampaignLedger, campaign: Campaign) -> Iterator[dict[str, object]]:
    for first in range(1, campaign.chunks_total + 1, _PAGE):
        for record in ledger.read_chunks(campaign.run_key, first, first + _PAGE - 1):
            yield _chunk(record)


def _chunk(record: ChunkRecord) -> dict[str, object]:
    return {
        "chunk_index": record.chunk_index,
        "status": record.status.value,
        "lower": record.lower,
        "upper": record.upper,
        "idempotency_key": record.idempotency_key,
        "round": record.round,
        "attempt": record.attempt,
        "rows_extracted": record.rows_extracted,
        "rows_loaded": record.rows_loaded,
        "content_digest": record.content_digest,
        "dag_run_id": record.dag_run_id,
        "started_at": _text(record.started_at),
        "finished_at": _text(record.finished_at),
    }


def _text(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
