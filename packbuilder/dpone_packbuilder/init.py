"""New workloads: the texts of a manifest and of a catalog, or of its next entry, that pass every check, with comments."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from dpone_contract.errors import UsageError
from dpone_contract.finding import Finding, Severity
from dpone_packbuilder.catalog_text import find_extended_catalog
from dpone_packbuilder.checks import check_project
from dpone_packbuilder.editor_schemas import modeline
from dpone_packbuilder.project import CATALOG_NAMES, project_of_texts, project_with
from dpone_packbuilder.schemas import SchemaKind

CATALOG_FILE_NAME = CATALOG_NAMES[0]


@dataclass(frozen=True)
class FirstProject:
    """What the files are filled with; tables as `schema.table`, days as ISO dates, both included."""

    name: str = "orders_history"
    source_table: str = "public.orders"
    target_table: str = "analytics.orders"
    chunk_column: str = "order_date"
    first: str = "2024-01-01"
    last: str = "2024-03-31"
    step: str = "1d"
    mode: str = "internal"

    @property
    def manifest_file_name(self) -> str:
        """Name of the manifest beside the catalog."""
        return f"{self.name}.yaml"


def render_project(first: FirstProject) -> dict[str, str]:
    """Give the files of a first project: text by name, the catalog first.

    Errors: UsageError naming the first thing that `dpone check` would find.
    """
    files = {CATALOG_FILE_NAME: _catalog(first), first.manifest_file_name: _manifest(first)}
    _require_no_error(check_project(project_of_texts(files, CATALOG_FILE_NAME)))
    return files


@dataclass(frozen=True)
class NextWorkload:
    """A further workload of a project: its manifest, the text of its entry, and the catalog with it, if that is safe."""

    manifest: str
    entry: str
    catalog: str | None


def render_next(next_: FirstProject, catalog: Path, text: str) -> NextWorkload:
    """Give a further workload of the project whose catalog has this text.

    Errors: UsageError naming a workload of this name, or the first thing that `dpone check` would find.
    """
    manifest, entry = _manifest(next_), render_entry(next_)
    extended = find_extended_catalog(text, entry, next_.name)
    before = project_with(catalog, {catalog.name: text})
    if any(workload.name == next_.name for workload in before.workloads):
        raise UsageError(
            f"{catalog} has a workload {next_.name} already",
            next_step="choose another --name, or edit that one",
        )
    if (
        extended is None
    ):  # what stands in the catalog is mended by hand; the new files are sound for themselves
        render_project(next_)
    else:
        known = set(check_project(before))
        after = project_with(catalog, {catalog.name: extended, next_.manifest_file_name: manifest})
        _require_no_error(tuple(found for found in check_project(after) if found not in known))
    return NextWorkload(manifest, entry, extended)


def find_catalog(folder: Path) -> Path | None:
    """Give the catalog that a folder has; the first where it has two, which `dpone check` refuses."""
    return next((folder / name for name in CATALOG_NAMES if (folder / name).exists()), None)


def require_absent(folder: Path, names: tuple[str, ...]) -> None:
    """Require that nothing would be overwritten.

    Errors: UsageError naming the file that is there.
    """
    for name in names:
        if (folder / name).exists() or (folder / name).is_symlink():
            step = f"edit it and run `dpone check {folder}`, or choose another --name or FOLDER"
            raise UsageError(f"{folder / name} exists already, and init overwrites nothing", next_step=step)


def _require_no_error(findings: tuple[Finding, ...]) -> None:
    for finding in findings:
        if finding.severity is Severity.ERROR:
            raise UsageError(
                f"with these options the project would not pass its check: {finding.message}",
                next_step=finding.next_step or "see `dpone init --help`",
            )


def _table(text: str, option: str) -> str:
    schema, dot, name = text.partition(".")
    if not dot or not schema or not name:
        raise UsageError(f"{option} {text!r} is not a table", next_step="write it as schema.table")
    return f"{{ schema: {_quoted(schema)}, name: {_quoted(name)} }}"


def _quoted(text: str) -> str:
    """Give a text as YAML: bare where nobody could read it otherwise, else quoted as JSON, which YAML reads."""
    bare = text.replace("_", "a").isalnum() and text.isascii() and not text[0].isdigit()
    reserved = text.lower() in ("null", "true", "false")
    return text if bare and not reserved else json.dumps(text, ensure_ascii=False)


def _catalog(first: FirstProject) -> str:
    return f"""\
{modeline(SchemaKind.CATALOG)}\
# The catalog: which workloads there are, and how Airflow shows and runs each of them.
# Check it with `dpone check`, compile it with `dpone pack build`.
workloads:
{render_entry(first)}"""


def render_entry(first: FirstProject) -> str:
    """Give the text of one workload as it stands in a catalog, indented by two."""
    return f"""\
  {_quoted(first.name)}:
    manifest: {_quoted(first.manifest_file_name)} # relative to this file
    airflow:
      mapping:
        # internal: one task runs every chunk.
        # visible:  one mapped task a chunk, at most max_items.
        # summary:  at most max_items mapped tasks, each a range of chunks.
        mode: {_quoted(first.mode)}
        max_items: 200 # most mapped tasks, 1..200
        max_active: 16 # most of them at once, 1..64
        pool: dpone_backfill # for visible and summary; `dpone airflow preview` shows how to create it
      execution:
        dag_id: {_quoted(first.name)}
        schedule: null # null: started by hand; else a preset such as "@daily", or a cron line
        start_date: "2024-01-01" # quote every date
        catchup: false
        retries: 0 # up to 3 are safe for a load that replaces its slices
        tags: [dpone]
        backend: process # a child process of the worker; for pods remove this line and uncomment what follows
    # pod:
    #   image: registry.example/dpone-runtime:0.1.0 # an image that holds dpone-runtime
    #   namespace: loads
    #   resources: {{ requests: {{ cpu: "500m", memory: "256Mi" }} }}
    # connections: # Kubernetes secrets; `dpone airflow preview` shows the commands that create them
    #   source_db: {{ secret: databases, key: source_db }}
    #   target_db: {{ secret: databases, key: target_db }}
"""


def _manifest(first: FirstProject) -> str:
    return f"""\
{modeline(SchemaKind.MANIFEST)}\
# The manifest: what is loaded, and how. No credential stands here: a connection is a name, which a run looks up
# in DPONE_CONN_<NAME>, then in AIRFLOW_CONN_<NAME>, for example
#   export DPONE_CONN_SOURCE_DB=postgresql://user:password@host:5432/database
name: {_quoted(first.name)}

source:
  type: postgres
  connection_ref: source_db
  table: {_table(first.source_table, "--source-table")}

sink:
  type: postgres
  connection_ref: target_db
  table: {_table(first.target_table, "--target-table")} # created from the source's columns if it is missing
  strategy:
    mode: backfill
    # unique_key: [order_id]     # the primary key of a created table
    backfill:
      inner_mode: partition_replace # a chunk deletes its own slice of the target and loads it again
      chunk:
        column: {_quoted(first.chunk_column)} # must not change while the load runs; an index on it helps
        from: {json.dumps(first.first, ensure_ascii=False)} # first day, quoted
        to: {json.dumps(first.last, ensure_ascii=False)} # last day, included
        step: {_quoted(first.step)} # Nd, Nw, Nmo or Ny
        nulls: fail # rows whose column is NULL: fail, include (a chunk of their own) or ignore
      state: # the ledger: which chunks are committed; it lives beside the target
        backend: audit_schema
        schema: dpone_audit
        require_distributed_lock: true
"""
