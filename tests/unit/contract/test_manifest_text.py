"""A manifest's text becomes a model, or says everything that is wrong; what is not supported yet is named."""

import pytest

from dpone_contract.errors import ManifestInvalidError, NotSupportedError
from dpone_contract.manifest_text import parse_manifest, read_manifest_text
from tests.unit.packbuilder.project_files import as_yaml, manifest


def test_a_manifest_is_read():
    read = parse_manifest(as_yaml(manifest()), "m.yaml")
    assert (read.name, read.dataset, read.source.connection) == ("orders", "analytics.orders", "operations")


def test_connection_id_is_a_synonym():
    text = as_yaml(manifest(source__connection_ref=None, source__connection_id="other"))
    assert parse_manifest(text, "m.yaml").source.connection == "other"


def test_the_order_of_keys_changes_nothing():
    document = manifest()
    turned = dict(reversed(document.items()))
    assert parse_manifest(as_yaml(document), "m.yaml") == parse_manifest(as_yaml(turned), "m.yaml")


@pytest.mark.parametrize(
    "changes, name",
    [
        ({"source__type": "mssql"}, "source type mssql"),
        ({"sink__type": "clickhouse"}, "sink type clickhouse"),
        ({"source__options": {}}, "source.options"),
        ({"sink__options": {}}, "sink.options"),
        ({"state": {}}, "state at the top of a manifest"),
        ({"sink__strategy__version_column": "v"}, "version_column with inner_mode partition_replace"),
        ({"sink__strategy__only_new_rows": True}, "only_new_rows: true"),
    ],
)
def test_what_is_not_supported_yet_is_named_and_never_ignored(changes, name):
    read = read_manifest_text(as_yaml(manifest(**changes)), "m.yaml")
    (finding,) = read.tree.findings
    assert (finding.code, finding.message) == ("DPONE_NOT_SUPPORTED", f"{name} is not supported yet")
    assert finding.next_step
    assert read.manifest is not None
    with pytest.raises(NotSupportedError):
        parse_manifest(as_yaml(manifest(**changes)), "m.yaml")


def test_an_error_names_the_first_place_and_counts_the_others():
    with pytest.raises(ManifestInvalidError) as caught:
        parse_manifest(as_yaml(manifest(sorce=1, colour=2)), "m.yaml")
    assert caught.value.message.endswith("(and 1 more; `dpone check` lists all)")
    assert caught.value.where is not None
    assert caught.value.where.startswith("m.yaml:")
    assert caught.value.next_step
