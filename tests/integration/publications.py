"""Campaigns of the tests that are published by a shadow swap: their manifest, and the tables that they leave."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.campaigns import History, manifest_text

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
    chunks: int = 3, *, mode: str = "incremental_append", keep: bool = True, text: str | None = None
) -> str:
    """Give a manifest whose campaign is published by a swap."""
    kept = "" if keep else ", retain_backup: false"
    told = f"      inner_mode: {mode}\n      publication: {{ mode: shadow_swap{kept} }}\n"
    return (text or manifest_text(chunks)).replace("    backfill:\n", f"    backfill:\n{told}")


def relation(history: History, table: str = "target.history") -> str:
    """Give the object id of what has a name now."""
    return str(history.value("SELECT %s::regclass::oid::text", table))


def tables(history: History) -> list[str]:
    """Give the tables beside the target, it included, by name."""
    return [str(row[0]) for row in history.sql(RELATIONS)]


def receipt(history: History) -> dict[str, Any]:
    """Give the last publication's receipt."""
    found: dict[str, Any] = json.loads(str(history.value(RECEIPT)))
    return found


def status(history: History) -> str:
    """Give the campaign's state."""
    return str(history.value("SELECT status FROM dpone_audit.__dpone__backfill_campaigns"))
