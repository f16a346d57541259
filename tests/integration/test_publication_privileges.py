"""Who may publish: whoever may act as the live table's owner and make tables in its schema; the new table belongs to that owner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.campaigns import History
from tests.integration.publications import swapped, tables
from tests.integration.test_mistakes import PASSWORD, as_user

OWNED = """
CREATE ROLE keeper NOLOGIN;
GRANT USAGE, CREATE ON SCHEMA target TO keeper;
ALTER TABLE target.history OWNER TO keeper;
GRANT SELECT, INSERT ON target.history TO reading WITH GRANT OPTION;
GRANT SELECT ON target.history TO PUBLIC;
ALTER DEFAULT PRIVILEGES IN SCHEMA target GRANT ALL ON TABLES TO PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE loading IN SCHEMA target GRANT UPDATE ON TABLES TO reading;
GRANT USAGE ON SCHEMA source, target TO loading;
GRANT SELECT ON source.history TO loading
"""
PRIVILEGES = """
SELECT pg_get_userbyid(c.relowner), a.grantee::regrole::text, a.privilege_type, a.is_grantable
  FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = 'target.history'::regclass ORDER BY 1, 2, 3
"""


@pytest.fixture
def loading(history: History) -> Iterator[History]:
    """A user `loading` that runs, a role `keeper` that owns the live table, a user `reading` that has been granted rights."""
    ddl = history.run("state", "ddl", history.manifest())
    history.sql(ddl.stdout)
    history.add_user("loading", PASSWORD)
    history.add_user("reading", PASSWORD)
    history.sql(OWNED)
    history.sql("GRANT USAGE ON SCHEMA dpone_audit TO loading")
    history.sql("GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA dpone_audit TO loading")
    history.environ = dict.fromkeys(history.environ, as_user(history.uri, "loading"))
    yield history
    history.sql("DROP OWNED BY keeper CASCADE; DROP ROLE keeper")


def test_the_new_table_has_the_owner_and_the_privileges_of_the_old_one(loading: History) -> None:
    loading.sql("GRANT keeper TO loading; GRANT CREATE ON SCHEMA target TO loading")
    before = loading.sql(PRIVILEGES)

    done = loading.run("run", loading.manifest(swapped()))

    assert 0 == done.exit_code, done.output
    assert 2 == len(tables(loading))
    assert before == loading.sql(PRIVILEGES)
    assert {"keeper"} == {row[0] for row in before}
    assert {"keeper", "reading", "-"} == {row[1] for row in before}


def test_who_may_not_act_as_the_owner_is_refused_before_anything_is_made(loading: History) -> None:
    loading.sql("GRANT SELECT, INSERT ON target.history TO loading; GRANT CREATE ON SCHEMA target TO loading")

    refused = loading.run("run", loading.manifest(swapped()))

    assert (5, "DPONE_DATABASE_FAILED") == (refused.exit_code, refused.error_code), refused.output
    assert "this user may not rename target.history: it belongs to keeper" in refused.stderr
    assert 'GRANT "keeper" to this user' in refused.stderr
    assert ["history"] == tables(loading)


def test_who_may_not_make_a_table_in_the_schema_is_refused_before_anything_is_made(loading: History) -> None:
    loading.sql("GRANT keeper TO loading; REVOKE CREATE ON SCHEMA target FROM keeper")

    refused = loading.run("run", loading.manifest(swapped()))

    assert (5, "DPONE_DATABASE_FAILED") == (refused.exit_code, refused.error_code), refused.output
    assert "may not create a table in the schema of target.history" in refused.stderr
    assert 'GRANT CREATE ON SCHEMA "target"' in refused.stderr
    assert ["history"] == tables(loading)


def test_an_owner_that_may_not_have_a_table_in_the_schema_is_named(loading: History) -> None:
    loading.sql(
        "GRANT keeper TO loading; GRANT CREATE ON SCHEMA target TO loading; REVOKE CREATE ON SCHEMA target FROM keeper"
    )

    refused = loading.run("run", loading.manifest(swapped()))

    assert (5, "DPONE_DATABASE_FAILED") == (refused.exit_code, refused.error_code), refused.output
    assert "its owner keeper may not create a table in the schema of target.history" in refused.stderr
    step = 'GRANT CREATE ON SCHEMA "target" TO "keeper"'
    assert f"next: {step}\n" in refused.stderr
    loading.sql(step)
    assert 0 == loading.run("run", loading.manifest(swapped())).exit_code
