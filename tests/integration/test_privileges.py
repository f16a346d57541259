"""The least privileges that the manual lists: enough for every inner mode, internal and mapped, and each of them needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpone_contract.errors import DatabaseFailedError
from dpone_contract.process import plan_campaign
from dpone_runtime.bootstrap import prepare_run, resolve_connections
from tests.integration.campaigns import History, mapped_process
from tests.integration.inner_modes import KEY, UNIQUE, mode_text
from tests.integration.test_mistakes import PASSWORD, as_user

MANUAL = Path(__file__).parents[2] / "docs" / "ledger.md"
ROW = re.compile(r"^\| (source|target of .*|ledger of .*|ledger that is there) \| (.*) \|$", re.MULTILINE)
MODES = ("partition_replace", "replace", "full_refresh", "incremental_append", "incremental_merge")
LEDGER = "dpone_audit.__dpone__backfill_"


def listed(what: str) -> list[tuple[str, str]]:
    """Give the privileges that the manual lists, each with what it is on."""
    (needs,) = (needs for found, needs in ROW.findall(MANUAL.read_text(encoding="utf-8")) if what in found)
    grants = []
    for part in needs.split("; "):
        privileges, on = re.split(r" on | of ", part, maxsplit=1)
        grants += [(privilege, on) for privilege in privileges.split(", ")]
    return grants


def placed(privilege: str, on: str, schema: str, database: str) -> str:
    """Say in SQL what a privilege of the manual is on."""
    match on:
        case "its schema":
            return f"{privilege} ON SCHEMA {schema}"
        case "the table":
            return f"{privilege} ON {schema}.history"
        case "the database":
            return f'{privilege} ON DATABASE "{database}"'
        case _:
            return f"{privilege} ON {LEDGER}{on}"


def grants_of(history: History, mode: str) -> list[str]:
    """Give what the manual lists for the target of a mode."""
    database = str(history.value("SELECT current_database()"))
    return [placed(privilege, on, "target", database) for privilege, on in listed(f"`{mode}`")]


@pytest.fixture
def least(history: History) -> History:
    """A user `least` with a login, what the manual lists for source and ledger, and nothing else; an empty ledger."""
    key = {"DPONE_CONN_SOURCE_DB": history.uri, "DPONE_CONN_TARGET_DB": history.uri}
    ddl = history.run("state", "ddl", history.manifest(), environ=key)
    history.sql(ddl.stdout)
    history.sql(UNIQUE)
    database = str(history.value("SELECT current_database()"))
    history.sql(f'REVOKE TEMPORARY ON DATABASE "{database}" FROM PUBLIC')
    history.add_user("least", PASSWORD)
    for what, schema in (("source", "source"), ("ledger that is there", "dpone_audit")):
        for privilege, on in listed(what):
            history.sql(f"GRANT {placed(privilege, on, schema, database)} TO least")
    history.environ = {
        name: as_user(history.uri, "least") for name in ("DPONE_CONN_SOURCE_DB", "DPONE_CONN_TARGET_DB")
    }
    return history


def text_of(mode: str) -> str:
    return mode_text(mode, 1, key=KEY if mode == "incremental_merge" else None)


@pytest.mark.parametrize("mapped", [False, True], ids=["internal", "mapped"])
@pytest.mark.parametrize("mode", MODES)
def test_a_user_with_what_the_manual_lists_may_run(least: History, mode: str, *, mapped: bool) -> None:
    for grant in grants_of(least, mode):
        least.sql(f"GRANT {grant} TO least")
    if mapped:
        done = least.start_item(mapped_process(text=text_of(mode))).finish()
    else:
        done = least.run("run", least.manifest(text_of(mode)))
    assert 0 == done.exit_code, done.output
    least.require_loaded(1)


VERIFY = "`dpone backfill verify`"


@pytest.mark.parametrize("mode", ["partition_replace", "incremental_merge"])
def test_who_verifies_needs_to_read_and_to_write_what_was_found(least: History, mode: str) -> None:
    path = least.manifest(text_of(mode).replace("    backfill:\n", "    backfill:\n      verify: checksum\n"))
    owner = dict.fromkeys(least.environ, least.uri)
    assert 0 == least.run("run", path, environ=owner).exit_code
    database = str(least.value("SELECT current_database()"))
    least.sql("REVOKE ALL ON ALL TABLES IN SCHEMA dpone_audit FROM least")
    for what, schema in (("target", "target"), ("ledger", "dpone_audit")):
        for privilege, on in listed(f"{what} of {VERIFY}"):
            least.sql(f"GRANT {placed(privilege, on, schema, database)} TO least")
    done = least.run("backfill", "verify", path)
    assert 0 == done.exit_code, done.output
    assert "1 of 1 chunks" in done.output
    repair = least.run("backfill", "verify", path, "--repair", "--reason", "again")
    assert repair.exit_code != 0
    assert "lacks" in repair.stderr
    least.sql("REVOKE SELECT ON target.history FROM least")
    refused = least.run("backfill", "verify", path)
    assert "lacks SELECT on target table target.history, which a verification needs" in refused.stderr


@pytest.mark.parametrize("mode", MODES)
def test_a_user_with_one_less_is_refused_by_name_before_anything_moves(least: History, mode: str) -> None:
    process = mapped_process(text=text_of(mode))
    planned, connections = (
        plan_campaign(process),
        resolve_connections(process.manifest, least.environ),
    )
    grants = grants_of(least, mode)
    for grant in grants:
        least.sql(f"GRANT {grant} TO least")
    for grant in grants:
        least.sql(f"REVOKE {grant} FROM least")
        with pytest.raises(DatabaseFailedError) as refused:
            prepare_run(process, planned, connections)
        privilege, _, on = grant.partition(" ON ")
        assert (refused.value.next_step or "").startswith("GRANT ")
        assert privilege in (refused.value.next_step or "")
        if on == "target.history":
            assert f"lacks {privilege} on target table target.history" in refused.value.message
        least.sql(f"GRANT {grant} TO least")
    assert not least.has_ledger_rows()


def test_a_source_that_may_not_be_read_is_refused_by_name(least: History) -> None:
    process = mapped_process(text=text_of("incremental_append"))
    for grant in grants_of(least, "incremental_append"):
        least.sql(f"GRANT {grant} TO least")
    connections = resolve_connections(process.manifest, least.environ)
    for grant in ("SELECT ON source.history", "USAGE ON SCHEMA source"):
        least.sql(f"REVOKE {grant} FROM least")
        with pytest.raises(DatabaseFailedError) as refused:
            prepare_run(process, plan_campaign(process), connections)
        assert f"GRANT {grant.partition(' ')[0]} ON" in (refused.value.next_step or "")
        assert "source" in refused.value.message
        least.sql(f"GRANT {grant} TO least")
