"""The committed JSON Schemas are those of the models, say what every key means, and hold for every example and golden file.

What the schemas of manifest and catalog take is what the parser takes: neither is stricter than the other.
"""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from dpone_contract.errors import DponeError, PlanInvalidError
from dpone_contract.manifest import Manifest
from dpone_contract.mapping_item import mapping_item
from dpone_contract.mapping_policy import MappingOptions, resolve_mapping_policy
from dpone_contract.model_findings import validate_tree
from dpone_contract.outcome import OutcomeError
from dpone_contract.pack import ExecutionBackend
from dpone_contract.process import plan_campaign
from dpone_contract.yaml_tree import YamlTree, parse_yaml
from dpone_packbuilder.airflow_preview import airflow_preview
from dpone_packbuilder.catalog import WorkloadCatalog
from dpone_packbuilder.checks import check_project
from dpone_packbuilder.findings_text import findings_document
from dpone_packbuilder.init import FirstProject, render_project
from dpone_packbuilder.project import load_project
from dpone_packbuilder.release_index import build_release_index
from dpone_packbuilder.schemas import (
    DIALECT,
    SOURCES,
    SchemaKind,
    build_schema,
    render_schema,
    schema_file_name,
)
from tests.factories import make_outcome, make_pack, make_process, make_process_plan
from tests.unit.packbuilder.project_files import manifest, workload, write_project

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "schemas"
BACKFILL = ("sink", "strategy", "backfill")


@cache
def validator(kind: SchemaKind) -> Draft202012Validator:
    return Draft202012Validator(json.loads((FOLDER / schema_file_name(kind)).read_text(encoding="utf-8")))


def problems(kind: SchemaKind, document: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator(kind).iter_errors(document)]


def value_of(text: str) -> Any:
    tree = parse_yaml(text, "example")
    assert tree.findings == []
    return tree.value


# The files


@pytest.mark.parametrize("kind", SchemaKind)
def test_the_committed_schema_is_the_one_that_the_command_prints(kind):
    text = (FOLDER / schema_file_name(kind)).read_text(encoding="utf-8")
    assert render_schema(kind) == text, "run: python docs/generate_schemas.py"


def test_no_other_schema_is_committed():
    names = {path.name for path in FOLDER.glob("*.json")}
    assert {schema_file_name(kind) for kind in SchemaKind} == names


@pytest.mark.parametrize("kind", SchemaKind)
def test_a_schema_is_one_of_its_dialect(kind):
    schema = build_schema(kind)
    Draft202012Validator.check_schema(schema)
    assert (DIALECT, f"urn:dpone:schema:{kind}:v1") == (schema["$schema"], schema["$id"])


def objects(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "file", schema
    yield from schema.get("$defs", {}).items()


@pytest.mark.parametrize("kind", SchemaKind)
def test_every_block_is_closed_and_every_key_says_what_it_means(kind):
    for name, found in objects(build_schema(kind)):
        if "enum" in found:
            assert found["description"], name
        if "enum" in found or name == "JsonValue":
            continue
        assert found["additionalProperties"] is False, name
        for key, value in found["properties"].items():
            described = value.get("description") or "$ref" in value
            assert described, f"{name}.{key}"
            assert "title" not in value, f"{name}.{key}"


@pytest.mark.parametrize("kind", [SchemaKind.MANIFEST, SchemaKind.CATALOG])
def test_every_free_value_that_people_write_has_an_example_that_fits(kind):
    schema = build_schema(kind)
    for name, found in objects(schema):
        for key, value in found.get("properties", {}).items():
            text = json.dumps(value)
            if "$ref" in text or "enum" in text or '"boolean"' in text or '"const"' in text:
                continue
            (example,) = value["examples"]
            assert Draft202012Validator(value).is_valid(example), f"{name}.{key}"


@pytest.mark.parametrize("kind", SchemaKind)
def test_the_example_of_a_whole_document_fits(kind):
    (example,) = build_schema(kind)["examples"]
    assert [] == problems(kind, example)
    SOURCES[kind].model.model_validate_json(json.dumps(example))
    assert SOURCES[kind].format_name == example.get("schema")


# Documents


def test_every_yaml_of_the_documentation_and_the_example_fits():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    texts = {
        f"{page.name} {number}": text
        for page in pages
        for number, text in enumerate(
            re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        )
    }
    texts |= {path.name: path.read_text() for path in (ROOT / "example_dags").rglob("*.yaml")}
    texts |= render_project(FirstProject())
    kinds = set()
    for name, text in texts.items():
        document = value_of(text)
        kind = SchemaKind.CATALOG if "workloads" in document else SchemaKind.MANIFEST
        kinds.add(kind)
        assert [] == problems(kind, document), name
    assert len(kinds) == 2
    assert len(texts) >= 6


def test_every_golden_file_fits():
    folder = ROOT / "tests" / "golden"
    packs = list(folder.rglob("*.pack.json"))
    assert packs
    for path in packs:
        assert [] == problems(SchemaKind.PACK, json.loads(path.read_bytes())), path.name
    golden = json.loads((folder / "identities.json").read_bytes())
    assert [] == problems(SchemaKind.ITEM, json.loads(golden["first_mapping_item"]))
    assert [] == problems(SchemaKind.RUN_IDENTITY, json.loads(golden["run_identity"]))


def documents(tmp_path) -> Iterator[tuple[SchemaKind, Any]]:
    process = make_process()
    mapping = plan_campaign(process).mapping_plan(process.mapping)
    item = mapping_item(mapping, mapping.items[0])
    for mode in ("internal", "visible", "summary"):
        yield SchemaKind.PACK, make_pack(mode=mode).to_document()
    yield SchemaKind.PROCESS, process.to_document()
    yield SchemaKind.PLAN, mapping.to_document()
    yield SchemaKind.ITEM, item.to_document()
    yield SchemaKind.OUTCOME, make_outcome(process, item).to_document()
    error = OutcomeError.model_validate(PlanInvalidError("no", next_step="mend it").to_payload())
    yield SchemaKind.OUTCOME, make_outcome(process, status="failed", error=error).to_document()
    yield SchemaKind.ERROR, PlanInvalidError("no", where="a:1:2", next_step="mend it", index=3).to_payload()
    yield SchemaKind.ERROR, DponeError("no").to_payload()
    yield SchemaKind.RELEASE_INDEX, build_release_index("r", "d", ((make_pack(), 5),)).to_document()
    for mode in ("internal", "summary"):
        for backend in ExecutionBackend:
            plan = make_process_plan(make_process(mode=mode), backend=backend)
            yield SchemaKind.AIRFLOW_PREVIEW, airflow_preview((make_pack(processes=(plan,)),)).to_document()
    write_project(tmp_path, workloads={"orders": workload(retries=9)})
    yield SchemaKind.CHECK, findings_document(check_project(load_project(tmp_path)), 1)


def test_what_is_written_fits(tmp_path):
    kinds = set()
    for kind, document in documents(tmp_path):
        kinds.add(kind)
        assert [] == problems(kind, json.loads(json.dumps(document))), kind
        assert problems(kind, {**document, "colour": "blue"}), kind
        assert problems(kind, {**document, "schema": "dpone.other.v9"}), kind
    # A run identity is among the golden files.
    assert set(SchemaKind) - kinds == {SchemaKind.MANIFEST, SchemaKind.CATALOG, SchemaKind.RUN_IDENTITY}


# Schema and parser


VALUES = (
    None,
    True,
    False,
    0,
    1,
    7,
    201,
    -1,
    1.5,
    "",
    "x",
    "1x",
    "a b",
    "2024-01-01",
    [],
    ["x"],
    [1],
    [""],
    {},
    {"x": "y"},
)
"""Values that each key is given in turn. No whole number written with a fraction: for a JSON Schema 1.0 is an integer."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from places(inner, (*path, key))


def names_in(value: Any) -> Iterator[str]:
    """Give every key of a document, those within lists too."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from names_in(inner)


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    document = deepcopy(document)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return document


def full_manifest() -> Any:
    """A manifest in which every key stands, except the second name of a connection."""
    return manifest(
        description="x",
        source__columns=["a"],
        source__exclude_columns=["a"],
        source__where="x",
        source__options={
            "incremental_strategy": "xmin",
            "xmin_execution": {"mode": "initial", "handoff_id": "h"},
        },
        sink__options={"a": 1},
        sink__create_target="never",
        sink__strategy__unique_key=["a"],
        sink__strategy__version_column="a",
        sink__strategy__only_new_rows=True,
        backfill__backfill_id="x",
        backfill__parallel_workers=1,
        backfill__retry_policy="failed_only",
        backfill__lease_ttl_minutes=1,
        # That stop_after_failures is at most this no schema can say.
        backfill__max_chunks=1_000_000,
        backfill__stop_after_failures=1,
        backfill__state={
            "backend": "local_file",
            "schema": "x",
            "require_distributed_lock": True,
            "connection_ref": "x",
        },
        backfill__state_dir="x",
        backfill__publication={"mode": "direct", "retain_backup": True, "artifact_scope": "campaign"},
        backfill__verify="counts",
        chunk__kind="date",
        chunk__timezone="UTC",
        chunk__nulls="fail",
        chunk__boundaries=["x"],
        chunk__buckets=1,
        state={
            "type": "mssql",
            "connection_ref": "x",
            "atomicity": "target_atomic",
            "provisioning": "external",
        },
        gitops={
            "airflow": {"mapping": {"mode": "visible", "max_items": 9, "max_active": 9, "pool": "p"}},
            "airflow_xcom_summary": 1,
        },
    )


def full_catalog() -> Any:
    """A catalog in which every key stands."""
    execution = {
        "dag_id": "a",
        "description": "x",
        "schedule": None,
        "start_date": "2024-01-01",
        "catchup": True,
        "retries": 1,
        "retry_delay_seconds": 1,
        "max_active_runs": 1,
        "tags": ["a"],
        "owner": "x",
        "outlets": ["a://b"],
        "backend": "process",
        "delivery": "file",
        "execution_timeout_seconds": 1,
        "outcome_gate": True,
    }
    pod = {
        "image": "x",
        "image_pull_policy": "Never",
        "image_pull_secrets": ["x"],
        "namespace": "x",
        "service_account": "x",
        "labels": {"a": "b"},
        "annotations": {"a": "b"},
        "node_selector": {"a": "b"},
        "tolerations": [{"a": 1}],
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
        "affinity": {"a": 1},
        "priority_class": "x",
        "env_vars": {"A": "b"},
        "kubernetes_conn_id": "x",
        "pod_template_file": "x",
        "run_as_user": 1,
        "fs_group": 1,
        "on_finish_action": "keep_pod",
        "startup_timeout_seconds": 1,
        "active_deadline_seconds": 1,
        "termination_grace_seconds": 1,
        "deferrable": True,
        "poll_interval_seconds": 1,
        "pack_path": "x",
    }
    hook = {"name": "x", "command": ["x"]}
    mapping = {"mode": "summary", "max_items": 9, "max_active": 9, "pool": "p"}
    shared = {
        "airflow": {"mapping": mapping, "execution": execution, "hooks": {"pre": [hook], "post": [hook]}},
        "pod": pod,
        "connections": {"warehouse": {"secret": "x", "key": "x"}},
    }
    return {"workloads": {"orders": {"manifest": "x", **shared}}, "defaults": deepcopy(shared)}


def parser_takes(kind: SchemaKind, document: Any) -> bool:
    tree = YamlTree("file", document, {(): (1, 1), **dict.fromkeys(places(document), (1, 1))})
    model: Any = {SchemaKind.MANIFEST: Manifest, SchemaKind.CATALOG: WorkloadCatalog}[kind]
    read = validate_tree(tree, model)
    if read is None or tree.findings:
        return False
    try:
        for options in mappings_of(document):
            resolve_mapping_policy(MappingOptions(**options))
    except DponeError:
        return False
    return True


def mappings_of(document: Any) -> Iterator[dict[str, Any]]:
    if isinstance(document, dict):
        for key, value in document.items():
            if key == "mapping" and isinstance(value, dict):
                # Each key is looked at alone: that max_active is at most max_items no schema can say.
                yield from ({name: inner} for name, inner in value.items() if name != "max_active")
                yield from (
                    {"max_items": 200, name: inner} for name, inner in value.items() if name == "max_active"
                )
            else:
                yield from mappings_of(value)


FULL = {SchemaKind.MANIFEST: full_manifest(), SchemaKind.CATALOG: full_catalog()}


@pytest.mark.parametrize("kind", FULL)
def test_every_key_stands_in_the_full_document(kind):
    keys = {key for _, found in objects(build_schema(kind)) for key in found.get("properties", {})}
    assert keys - set(names_in(FULL[kind])) <= {"connection_id"}
    assert problems(kind, FULL[kind]) == []
    assert parser_takes(kind, FULL[kind])


CASES = [
    pytest.param(kind, path, id=f"{kind}:{'.'.join(map(str, path))}")
    for kind in FULL
    for path in places(FULL[kind])
]


@pytest.mark.parametrize("kind, path", CASES)
def test_schema_and_parser_agree_on_every_value_of_every_key(kind, path):
    differ = {}
    for value in VALUES:
        document = changed(FULL[kind], path, value)
        if parser_takes(kind, document) is not (problems(kind, document) == []):
            differ[repr(value)] = problems(kind, document)
    assert {} == differ


@pytest.mark.parametrize("kind, path", CASES)
def test_schema_and_parser_agree_on_which_keys_are_needed_and_known(kind, path):
    without = deepcopy(FULL[kind])
    holder = without
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    beside = changed(FULL[kind], (*path[:-1], "colour"), "x")
    for document in (without, beside):
        assert parser_takes(kind, document) is (problems(kind, document) == [])


@pytest.mark.parametrize(
    "keys, valid",
    [
        ({"connection_ref": "a"}, True),
        ({"connection_id": "a"}, True),
        ({"connection_ref": None, "connection_id": "a"}, True),
        ({"connection_ref": "a", "connection_id": "a"}, False),
        ({"connection_ref": None}, False),
        ({}, False),
    ],
)
def test_schema_and_parser_agree_that_a_connection_is_named_once(keys, valid):
    document = manifest()
    document["source"].pop("connection_ref")
    document["source"].update(keys)
    assert valid is parser_takes(SchemaKind.MANIFEST, document)
    assert valid is (problems(SchemaKind.MANIFEST, document) == [])


@pytest.mark.parametrize("name", ["", "..", "a/b", "_a", "a" * 129, "a.b"])
def test_schema_and_parser_agree_on_names_of_workloads(name):
    document = {"workloads": {name: {"manifest": "x"}}}
    assert parser_takes(SchemaKind.CATALOG, document) is (problems(SchemaKind.CATALOG, document) == [])
