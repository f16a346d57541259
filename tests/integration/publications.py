"""Campaigns of the tests that are published by a shadow swap: their manifest, and the tables that they leave."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.integration.campaigns import History, manifest_text, mapped_process
from tests.integration.child_runs import Fault, Finished, Run
from tests.integration.fault_lane import KILL_COORDINATOR

LIVE = """
ALTER TABLE target.history ADD CONSTRAINT price_kept CHECK (price IS NULL OR price >= 0), ALTER COLUMN note SET DEFAULT 'none';
ALTER TABLE target.history ALTER COLUMN note SET STATISTICS 300, SET (autovacuum_enabled = false, fillfactor = 90);
CREATE UNIQUE INDEX history_key ON target.history (day, id);
CREATE INDEX history_note ON target.history (lower(note)) WHERE amount IS NOT NULL;
COMMENT ON TABLE target.history IS 'what was loaded';
COMMENT ON COLUMN target.history.note IS 'of a person';
GRANT SELECT ON target.history TO PUBLIC
"""
"""What a live table may have, beside its columns."""

RECEIPT = "SELECT detail FROM dpone_audit.__dpone__backfill_events WHERE kind = 'published' ORDER BY event_id DESC LIMIT 1"
RELATIONS = (
    "SELECT relname FROM pg_class WHERE relnamespace = 'target'::regnamespace AND relkind = 'r' ORDER BY 1"
)


def swapped(
    chunks: int = 3, *, mode: str | None = "incremental_append", keep: bool = True, text: str | None = None
) -> str:
    """Give a manifest whose campaign is published by a swap; without a `mode` the text has its own."""
    kept = "" if keep else ", retain_backup: false"
    told = f"      inner_mode: {mode}\n" if mode else ""
    told += f"      publication: {{ mode: shadow_swap{kept} }}\n"
    return (text or manifest_text(chunks)).replace("    backfill:\n", f"    backfill:\n{told}")


def relation(history: History, table: str = "target.history") -> str:
    """Give the object id of what has a name now."""
    return str(history.value("SELECT %s::regclass::oid::text", table))


def tables(history: History) -> list[str]:
    """Give the tables beside the target, it included, by name."""
    return [str(row[0]) for row in history.sql(RELATIONS)]


def shadow(history: History) -> str | None:
    """Give the table that a campaign loads, as SQL writes it; None where there is none."""
    found = [name for name in tables(history) if "__dpone_shadow_" in name]
    assert len(found) < 2, found
    return f'target."{found[0]}"' if found else None


def receipt(history: History) -> dict[str, Any]:
    """Give the last publication's receipt."""
    found: dict[str, Any] = json.loads(str(history.value(RECEIPT)))
    return found


def status(history: History) -> str:
    """Give the campaign's state."""
    return str(history.value("SELECT status FROM dpone_audit.__dpone__backfill_campaigns"))


def start(
    history: History,
    *,
    mapped: bool = False,
    faults: Sequence[Fault] | None = None,
    environ: Mapping[str, str] | None = None,
    text: str | None = None,
) -> Run:
    """Start a run of such a campaign, or its one item."""
    told = text or swapped()
    if mapped:
        return history.start_item(mapped_process(text=told), faults=faults, environ=environ)
    return history.start("run", history.manifest(told), faults=faults, environ=environ)


def leave_unpublished(history: History, *, mapped: bool = False, text: str | None = None) -> None:
    """Run such a campaign up to its completion, and no further."""
    died = start(history, mapped=mapped, faults=[("completed", 0, KILL_COORDINATOR)], text=text).finish()
    assert -9 == died.exit_code, died.output
    assert "complete" == status(history)


def require_published(history: History, done: Finished, *, chunks: int = 3, loaded: int = 0) -> None:
    """Require a run to have passed and to tell of a published campaign, of which it has loaded so many chunks itself."""
    assert 0 == done.exit_code, done.output
    assert done.outcome is not None
    assert done.outcome.backfill is not None
    assert ("published", loaded) == (
        done.outcome.backfill.campaign_status,
        done.outcome.backfill.chunks_committed,
    )
    assert "Traceback" not in done.output
    require_live(history, chunks)


def require_live(history: History, chunks: int = 3) -> None:
    """Require what was loaded to be live, whole, by one publication, and nothing else beside it but what was live."""
    assert 1 == history.events(None).count("published")
    found = receipt(history)
    assert (relation(history), 20 * chunks) == (found["live_relation"], found["rows"])
    assert 20 * chunks == history.value("SELECT count(*) FROM target.history")
    assert found["replaced_relation"] == relation(history, found["backup"])
    assert (2, None) == (len(tables(history)), shadow(history))
    history.require_loaded(chunks)
