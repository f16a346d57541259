"""What a model refuses is told in the words of the file."""

import pytest

from dpone_contract.manifest_text import read_manifest_text
from tests.unit.packbuilder.project_files import as_yaml, manifest


def only(text):
    read = read_manifest_text(text, "m.yaml")
    (finding,) = read.tree.findings
    assert read.manifest is None
    return finding


def only_of(**changes):
    return only(as_yaml(manifest(**changes)))


@pytest.mark.parametrize(
    "changes, message, hint",
    [
        ({"sorce": {}}, "unknown key 'sorce'", "did you mean 'source'?"),
        ({"chunk__colum": "x"}, "unknown key 'colum'", "did you mean 'column'?"),
        ({"source__tabel": 1}, "unknown key 'tabel'", "did you mean 'table'?"),
        (
            {"chunk__parallel_workers": 2},
            "unknown key 'parallel_workers'",
            "it belongs under sink.strategy.backfill",
        ),
        ({"inner_mode": "replace"}, "unknown key 'inner_mode'", "it belongs under sink.strategy.backfill"),
        (
            {"sink__max_chunk": 5},
            "unknown key 'max_chunk'",
            "did you mean 'max_chunks', under sink.strategy.backfill?",
        ),
        ({"source__zzzzzz": 1}, "unknown key 'zzzzzz'", "known here: type, connection_ref"),
        ({"chunk__column": None}, "key 'column' is missing in sink.strategy.backfill.chunk", "add it"),
        ({"name": None}, "key 'name' is missing", "add it"),
        ({"name": 5}, "name must be text", "write text; put quotes around it"),
        ({"description": True}, "description must be text", "put quotes around it"),
        ({"source__connection_ref": False}, "connection_ref must be text", "put quotes around it"),
        ({"source__table__name": 2024}, "name must be text", "put quotes around it"),
        ({"backfill__backfill_id": 1.5}, "backfill_id must be text", "put quotes around it"),
        ({"chunk__column": True}, "column must be text", "put quotes around it"),
        ({"sink__strategy__unique_key": ["a", 1]}, "unique_key[1] must be text", "put quotes around it"),
        ({"backfill__max_chunks": 5.0}, "max_chunks must be a whole number", "without quotes"),
        ({"backfill__max_chunks": True}, "max_chunks must be a whole number", "without quotes"),
        ({"gitops__airflow__execution": {}}, "unknown key 'execution'", "airflow in the catalog"),
        ({"name": "1st"}, "name '1st' is not allowed", "use letters, digits and underscores, a letter first"),
        ({"source": "orders"}, "source must be a block of keys", "write a block of keys"),
        ({"sink__strategy__unique_key": "id"}, "unique_key must be a list", "write a list"),
        ({"backfill__parallel_workers": "2"}, "parallel_workers must be a whole number", "without quotes"),
        (
            {"backfill__stop_after_failures": 11, "backfill__max_chunks": 10},
            "so many chunks never fail: max_chunks is 10",
            "",
        ),
        (
            {"backfill__parallel_workers": 0},
            "parallel_workers must be greater than or equal to 1",
            "write a value",
        ),
        (
            {"backfill__state__require_distributed_lock": "yes"},
            "require_distributed_lock must be true or false",
            "without quotes",
        ),
        ({"source__type": "postgre"}, "type 'postgre' is not known", "did you mean 'postgres'?"),
        (
            {"backfill__inner_mode": "partition_relace"},
            "inner_mode 'partition_relace'",
            "did you mean 'partition_re",
        ),
        ({"sink__strategy__mode": "append"}, "mode 'append' is not known", "use 'backfill'"),
        ({"source__connection_id": "x"}, "source: a connection is named once", "write it as connection_ref"),
        ({"chunk__from": [1]}, "from must be a single value", "write one value"),
        ({"chunk__from": 1.5}, "from must be", ""),
    ],
)
def test_a_refused_key_is_told_with_a_hint(changes, message, hint):
    finding = only_of(**changes)
    assert finding.code == "DPONE_MANIFEST_INVALID"
    assert message in finding.message
    assert hint in finding.next_step
    assert finding.next_step


def test_the_place_is_that_of_the_key():
    text = as_yaml(manifest(chunk__colum="x"))
    line = next(n for n, row in enumerate(text.splitlines(), start=1) if "colum:" in row)
    finding = only(text)
    assert (finding.line, finding.column) == (line, 9)


def test_every_wrong_key_of_a_manifest_is_told():
    text = as_yaml(manifest(sorce=1, chunk__colum=1, name=None))
    findings = read_manifest_text(text, "m.yaml").tree.findings
    assert sorted(finding.message for finding in findings) == [
        "key 'name' is missing",
        "unknown key 'colum'",
        "unknown key 'sorce'",
    ]


def test_a_list_is_no_manifest():
    assert only("- a\n").message == "the file is not a block of keys"


def test_no_value_of_the_file_is_told_where_it_may_be_a_secret():
    finding = only_of(source__password="hunter2")
    assert "hunter2" not in finding.message + finding.next_step
