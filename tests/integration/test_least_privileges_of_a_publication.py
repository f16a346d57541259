"""What the manual lists is enough to publish: the ledger's privileges, the live table or membership in its owner, CREATE."""

from __future__ import annotations

import pytest

from tests.integration.campaigns import History
from tests.integration.publications import receipt, status, swapped
from tests.integration.test_mistakes import PASSWORD, as_user
from tests.integration.test_privileges import listed, placed

OWNER = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = %s::oid"


@pytest.fixture
def loader(history: History) -> History:
    """A user `loader` who may read the source and write the ledger, a role `keepers` that owns the live table, and a reader of it."""
    ddl = history.run("state", "ddl", history.manifest())
    history.sql(ddl.stdout)
    database = str(history.value("SELECT current_database()"))
    history.sql(f'REVOKE TEMPORARY ON DATABASE "{database}" FROM PUBLIC')
    history.add_user("loader", PASSWORD)
    history.add_user("keepers", PASSWORD)
    history.add_user("reader", PASSWORD)
    for what, schema in (("source", "source"), ("ledger that is there", "dpone_audit")):
        for privilege, on in listed(what):
            history.sql(f"GRANT {placed(privilege, on, schema, database)} TO loader")
    history.sql(
        "GRANT USAGE, CREATE ON SCHEMA target TO loader, keepers; GRANT USAGE ON SCHEMA target TO reader;"
        "ALTER TABLE target.history OWNER TO keepers; CREATE INDEX history_day ON target.history (day);"
        "SET ROLE keepers; GRANT SELECT ON target.history TO reader; RESET ROLE"
    )
    history.environ = {name: as_user(history.uri, "loader") for name in history.environ}
    return history


@pytest.mark.parametrize("mode", ["incremental_append", "partition_replace", "full_refresh"])
@pytest.mark.parametrize("owner", ["loader", "keepers"])
def test_an_owner_or_a_member_of_the_owner_may_publish_with_nothing_else(
    loader: History, owner: str, mode: str
) -> None:
    loader.sql(f"ALTER TABLE target.history OWNER TO {owner}")
    if owner == "keepers":
        loader.sql("GRANT keepers TO loader")
    text = swapped(mode=mode)
    if mode == "full_refresh":
        text = text.replace("step: 1d", "step: 3d")

    done = loader.run("run", loader.manifest(text))

    assert (0, "published") == (done.exit_code, status(loader)), done.output
    owners = [loader.value(OWNER, receipt(loader)[key]) for key in ("live_relation", "replaced_relation")]
    assert [owner, owner] == owners
    assert loader.value("SELECT has_table_privilege('reader', 'target.history', 'SELECT')")
    assert not loader.value("SELECT has_table_privilege('reader', 'target.history', 'INSERT')")
