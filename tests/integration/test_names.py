"""Names as a database may have them, in every place where a manifest says one: planned, loaded, shown, resumed."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from psycopg import sql

from tests.integration.campaigns import DAYS, FIRST_DAY, History, day
from tests.integration.fault_lane import KILL_LANE

LONGEST = "żółw" * 9  # four characters in seven bytes: 63 bytes, as much as a name may have
NAMES = {
    "mixed case": "Order Lines",
    "quotes": """a"b'c""",
    "two quotes": '""',
    "spaces around": "  x ",
    "percent signs": "100%s %(name)s %%",
    "parameters": ":schema {chunks} $1 ?",
    "a reserved word": "select",
    "a number": "1",
    "dots": "a.b.c",
    "backslashes": "a\\n\\",
    "a comment": "a -- b /* c",
    "a semicolon": "a; DROP TABLE b",
    "tabs and newlines": "a\tb\nc",
    "unicode": "Straße_日本_👩‍🚀",
    "a combining mark beside its letter": "é_e\u0301",
    "63 bytes": LONGEST,
}


@dataclass(frozen=True)
class Places:
    """A name in each of the places; the second column and the key differ from it by one character."""

    name: str

    @property
    def key(self) -> str:
        return "k" + self.name[1:] if self.name == LONGEST else self.name + "k"

    def source(self) -> str:
        return quoted("s" + self.name[1:], self.name)

    def target(self) -> str:
        return quoted(self.target_schema, self.name)

    @property
    def target_schema(self) -> str:
        return "t" + self.name[1:]

    @property
    def audit_schema(self) -> str:
        return "a" + self.name[1:]


def quoted(*names: str) -> str:
    return sql.Identifier(*names).as_string(None)


def manifest_of(places: Places, *, chunks: int = 3) -> str:
    """Give a manifest in which every name is an odd one; JSON is YAML."""
    return json.dumps(
        {
            "name": "odd",
            "source": {
                "type": "postgres",
                "connection_ref": "source_db",
                "table": {"schema": "s" + places.name[1:], "name": places.name},
            },
            "sink": {
                "type": "postgres",
                "connection_ref": "target_db",
                "table": {"schema": places.target_schema, "name": places.name},
                "strategy": {
                    "mode": "backfill",
                    "unique_key": [places.key],
                    "backfill": {
                        "chunk": {
                            "column": places.name,
                            "from": FIRST_DAY.isoformat(),
                            "to": day(chunks).isoformat(),
                            "step": "1d",
                        },
                        "state": {"schema": places.audit_schema, "require_distributed_lock": True},
                    },
                },
            },
        },
        ensure_ascii=False,
    )


def fill(history: History, places: Places) -> None:
    column, key = quoted(places.name), quoted(places.key)
    history.sql(f"CREATE SCHEMA {quoted('s' + places.name[1:])}")
    history.sql(f"CREATE TABLE {places.source()} ({column} date, {key} integer, note text)")
    history.sql(
        f"INSERT INTO {places.source()} SELECT date '{FIRST_DAY}' + n / 10, n, 'row ' || n"
        f" FROM generate_series(0, {DAYS * 10 - 1}) n"
    )


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_works_in_every_place(history: History, name: str) -> None:
    places = Places(name)
    fill(history, places)
    manifest = history.manifest(manifest_of(places))

    planned = history.run("backfill", "plan", manifest, "--connect")
    assert 0 == planned.exit_code, planned.output
    assert f"CREATE TABLE IF NOT EXISTS {places.target()}" in planned.stdout

    broken = history.run("run", manifest, faults=[("copied", 2, KILL_LANE)])
    assert 0 != broken.exit_code, broken.output
    status = history.run("backfill", "status", manifest)
    assert 0 == status.exit_code, status.output
    resumed = history.run("backfill", "resume", manifest)
    assert 0 == resumed.exit_code, resumed.output

    window = f"{quoted(name)} <= '{day(3)}'"
    assert history.content(places.source(), window) == history.content(places.target())
    chunks = quoted(places.audit_schema, "__dpone__backfill_chunks")
    assert [("committed",)] * 3 == history.sql(f"SELECT status FROM {chunks}")

    before = history.sql(f"SELECT ctid::text, xmin::text FROM {places.target()} ORDER BY 1")
    again = history.run("run", manifest)
    assert 0 == again.exit_code, again.output
    assert before == history.sql(f"SELECT ctid::text, xmin::text FROM {places.target()} ORDER BY 1")


def test_names_that_differ_in_case_alone_are_two_names(history: History) -> None:
    history.sql('CREATE TABLE source."HISTORY" (day text, "DAY" date, "Day" integer)')
    history.sql(f"INSERT INTO source.\"HISTORY\" VALUES ('a', '{FIRST_DAY}', 1), ('b', '{day(2)}', 2)")
    history.sql('CREATE TABLE target."HISTORY" ("Day" integer, day text, "DAY" date)')
    history.sql(f"INSERT INTO target.\"HISTORY\" VALUES (0, 'stale', '{FIRST_DAY}'), (0, 'kept', '{day(9)}')")
    text = json.loads(manifest_of(Places("DAY")))
    text["source"]["table"] = {"schema": "source", "name": "HISTORY"}
    text["sink"]["table"] = {"schema": "target", "name": "HISTORY"}
    del text["sink"]["strategy"]["unique_key"]
    done = history.run("run", history.manifest(json.dumps(text)))
    assert 0 == done.exit_code, done.output
    rows = history.sql('SELECT day, "Day" FROM target."HISTORY" ORDER BY 2')
    assert [("kept", 0), ("a", 1), ("b", 2)] == rows
    assert [(0,)] == history.sql("SELECT count(*) FROM target.history")


@pytest.mark.parametrize(
    "change",
    [
        {"source": {"table": {"schema": "source", "name": "x" * 64}}},
        {"sink": {"table": {"schema": "é" * 32, "name": "history"}}},
        {"state": "a" * 64},
    ],
    ids=["source table", "target schema", "audit schema"],
)
@pytest.mark.parametrize("command", [("run",), ("backfill", "plan", "--connect")])
def test_a_name_that_the_server_would_cut_off_is_refused(
    history: History, change: dict[str, object], command: tuple[str, ...]
) -> None:
    places = Places("day")
    fill(history, places)
    # The server cuts names off: without a check these tables would be found under another name.
    history.sql(f"CREATE TABLE source.{'x' * 63} (LIKE source.history)")
    document = json.loads(manifest_of(places))
    for side in ("source", "sink"):
        document[side].update(change.get(side, {}))
    if "state" in change:
        document["sink"]["strategy"]["backfill"]["state"]["schema"] = change["state"]
    refused = history.run(*command, history.manifest(json.dumps(document)))
    assert 2 == refused.exit_code, refused.output
    assert "longer than the 63 bytes" in refused.stderr
    assert not history.has_ledger_rows()
