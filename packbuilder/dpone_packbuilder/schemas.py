"""The JSON Schemas (draft 2020-12) of every format, made from the models: what editors, CI and other readers hold files to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from dpone_contract.manifest import Manifest
from dpone_contract.mapping_item import MappingItem
from dpone_contract.mapping_plan import MappingPlan
from dpone_contract.outcome import OutcomeError, RunOutcome
from dpone_contract.pack import Pack
from dpone_contract.process import Process
from dpone_contract.run_identity import RunIdentity
from dpone_packbuilder.airflow_preview import AirflowPreview
from dpone_packbuilder.catalog import WorkloadCatalog
from dpone_packbuilder.findings_text import CheckReport
from dpone_packbuilder.release_index import ReleaseIndex
from dpone_packbuilder.schema_examples import FIELD_EXAMPLES, WHOLE_EXAMPLES

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class SchemaKind(StrEnum):
    """Formats that have a schema."""

    MANIFEST = "manifest"
    CATALOG = "catalog"
    PACK = "pack"
    PLAN = "plan"
    ITEM = "item"
    OUTCOME = "outcome"
    ERROR = "error"
    PROCESS = "process"
    RUN_IDENTITY = "run-identity"
    RELEASE_INDEX = "release-index"
    CHECK = "check"
    AIRFLOW_PREVIEW = "airflow-preview"


@dataclass(frozen=True)
class SchemaSource:
    """What a schema is made from. `text_form` is how its documents are written."""

    model: type[BaseModel]
    title: str
    text_form: str = "JSON"

    @property
    def format_name(self) -> str | None:
        """The value of a document's `schema`; None for what people write, which has none."""
        field = self.model.model_fields.get("schema_")
        return None if field is None else str(field.default)


SOURCES = {
    SchemaKind.MANIFEST: SchemaSource(Manifest, "Manifest: one process", "YAML"),
    SchemaKind.CATALOG: SchemaSource(WorkloadCatalog, "Catalog: workloads and their DAGs", "YAML"),
    SchemaKind.PACK: SchemaSource(Pack, "Pack: one workload, compiled"),
    SchemaKind.PLAN: SchemaSource(MappingPlan, "Mapping plan: ranges of chunks by item"),
    SchemaKind.ITEM: SchemaSource(MappingItem, "Mapping item: the range of one mapped task"),
    SchemaKind.OUTCOME: SchemaSource(RunOutcome, "Outcome: how a run ended"),
    SchemaKind.ERROR: SchemaSource(OutcomeError, "Error: what happened, where, and what to do"),
    SchemaKind.PROCESS: SchemaSource(Process, "Process: a compiled load"),
    SchemaKind.RUN_IDENTITY: SchemaSource(RunIdentity, "Run identity: release, deployment, pack and process"),
    SchemaKind.RELEASE_INDEX: SchemaSource(ReleaseIndex, "Release index: the packs of one build"),
    SchemaKind.CHECK: SchemaSource(CheckReport, "Check report: findings of `dpone check`"),
    SchemaKind.AIRFLOW_PREVIEW: SchemaSource(
        AirflowPreview, "Airflow preview: what packs become, of `dpone airflow preview`"
    ),
}


def schema_file_name(kind: SchemaKind) -> str:
    """Give the name of a schema's file; its version is that of the format."""
    return f"{kind.value}.v1.schema.json"


def build_schema(kind: SchemaKind) -> dict[str, Any]:
    """Give the schema of a format."""
    source = SOURCES[kind]
    made = source.model.model_json_schema(schema_generator=_WithoutFieldTitles)
    for schema in _schemas_in(made):
        if "patternProperties" in schema:
            schema["additionalProperties"] = False
        version = schema.get("properties", {}).get("schema", {})
        if "const" in version:
            version.setdefault("description", "Name and version of this format.")
    for name, schema in {source.model.__name__: made, **made.get("$defs", {})}.items():
        for key, example in FIELD_EXAMPLES.get(name, {}).items():
            schema["properties"][key]["examples"] = [example]
    if kind is SchemaKind.PACK:  # the one document whose reader looks at its version before anything else
        made["required"] = ["schema", *made["required"]]
    head = {
        "$schema": DIALECT,
        "$id": f"urn:dpone:schema:{kind.value}:v1",
        "title": source.title,
        "description": made.pop("description"),
    }
    return {
        **head,
        **{key: value for key, value in made.items() if key != "title"},
        "examples": [WHOLE_EXAMPLES[kind]],
    }


def render_schema(kind: SchemaKind) -> str:
    """Give the text of a schema's file."""
    return json.dumps(build_schema(kind), indent=2, ensure_ascii=False) + "\n"


class _WithoutFieldTitles(GenerateJsonSchema):
    """A title made from a field's name tells nothing, and editors show it before the description."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # pydantic's signature
        return False


def _schemas_in(schema: object) -> Iterator[dict[str, Any]]:
    """Give a schema and every schema within it."""
    if isinstance(schema, list):
        for item in schema:
            yield from _schemas_in(item)
    if not isinstance(schema, dict):
        return
    yield schema
    for key in ("properties", "$defs", "patternProperties"):
        for inner in schema.get(key, {}).values():
            yield from _schemas_in(inner)
    for key in ("items", "prefixItems", "anyOf", "oneOf", "allOf", "additionalProperties"):
        yield from _schemas_in(schema.get(key))
