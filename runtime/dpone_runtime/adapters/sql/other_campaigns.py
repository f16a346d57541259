"""The campaigns of a target, in every audit schema of its database that this user may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpone_contract.chunk_plan import RunKey
from dpone_contract.errors import CampaignBusyError
from dpone_runtime.adapters.sql.rows import campaign_from_row
from dpone_runtime.adapters.sql.session import SqlSession
from dpone_runtime.domain.campaign import TableIdentity, Window
from dpone_runtime.ports.ledger import OtherCampaign


def campaigns_on_target(
    session: SqlSession, target: TableIdentity, schemas: tuple[str, ...], own: str | None, *, over: bool
) -> tuple[OtherCampaign, ...]:
    """Read them by schema and key; with `over` also those that can no longer write. `own` is the schema of the asking ledger."""
    statements = [
        session.queries_for_schema(schema).statement(
            "campaigns_on_target",
            server=target.server,
            database=target.database,
            relation=target.relation,
            over=over,
        )
        for schema in schemas
    ]
    found = session.batch(statements) if statements else []
    return tuple(
        OtherCampaign(campaign_from_row(row), row[31], schema, foreign=schema != own)
        for schema, rows in zip(schemas, found, strict=True)
        for row in rows
    )


def add_committed(session: SqlSession, others: tuple[OtherCampaign, ...]) -> tuple[OtherCampaign, ...]:
    """Add what each has committed. The chunks are read of those alone that are not finished."""
    partly = [other for other in others if not other.campaign.finished and not other.campaign.unseen]
    statements = [
        session.queries_for_schema(other.ledger).statement("committed_ranges", run_key=other.campaign.run_key)
        for other in partly
    ]
    found = session.batch(statements) if statements else []
    ranges = {
        (other.ledger, other.campaign.run_key): tuple(
            replace(other.campaign.window, lower=row[0], upper=row[1]) for row in rows
        )
        for other, rows in zip(partly, found, strict=True)
    }
    return tuple(replace(other, committed=_committed(other, ranges)) for other in others)


def _committed(
    other: OtherCampaign, ranges: Mapping[tuple[str, RunKey], tuple[Window, ...]]
) -> tuple[Window, ...]:
    if other.campaign.unseen:
        return ()
    return ranges.get((other.ledger, other.campaign.run_key), (other.campaign.window,))


def require_same_table(run_key: RunKey, target: TableIdentity, found: set[str]) -> None:
    """Require a target's name to lead to the table that was looked at; a swap may have come since, and it is the backup now."""
    if found and target.relation not in found:
        raise CampaignBusyError(
            f"{target.name} is another table now than the one that this run has looked at: another campaign was published just now, "
            "or somebody has replaced it",
            where=f"campaign {run_key}",
            next_step="run it again",
            run_key=run_key,
        )
