"""The manifest: one process (source, sink, strategy, state) as a person declares it.

Every documented key has a field here. What the machinery of this release cannot do is refused by name in
`manifest_support`, never ignored.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, ValidationInfo, field_validator, model_validator

from dpone_contract.chunk_options import MAX_CHUNKS_DEFAULT, MAX_CHUNKS_LIMIT, ChunkOptions
from dpone_contract.frozen import FrozenModel
from dpone_contract.mapping_policy import MappingOptions

Name = Annotated[str, Field(min_length=1, max_length=128)]
ProcessName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,99}$")]
ConnectionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,127}$")]
Names = Annotated[tuple[Name, ...], Field(min_length=1, json_schema_extra={"uniqueItems": True})]
Options = dict[str, JsonValue]


class DatabaseType(StrEnum):
    """Kinds of source and sink that the contract knows."""

    POSTGRES = "postgres"
    MSSQL = "mssql"
    CLICKHOUSE = "clickhouse"
    KAFKA = "kafka"


class InnerMode(StrEnum):
    """What happens to a chunk's slice of the target."""

    PARTITION_REPLACE = "partition_replace"
    REPLACE = "replace"
    INCREMENTAL_APPEND = "incremental_append"
    INCREMENTAL_MERGE = "incremental_merge"
    FULL_REFRESH = "full_refresh"


class RetryPolicy(StrEnum):
    """Which chunks of a campaign a run selects."""

    NON_COMMITTED = "non_committed"
    FAILED_ONLY = "failed_only"


class StateBackend(StrEnum):
    """Where the ledger lives."""

    AUDIT_SCHEMA = "audit_schema"
    LOCAL_FILE = "local_file"


class TableName(FrozenModel):
    """A table, its names exactly as the database has them."""

    schema_: Name = Field(alias="schema", description="Schema, case kept.")
    name: Name = Field(description="Table, case kept.")

    def __str__(self) -> str:
        return f"{self.schema_}.{self.name}"


_CONNECTION_KEYS = ("connection_ref", "connection_id")


class _Endpoint(FrozenModel):
    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": [key], "properties": {key: {"type": "string"}}} for key in _CONNECTION_KEYS
            ]
        }
    )

    type: DatabaseType = Field(description="Kind of database.")
    connection_ref: ConnectionName | None = Field(default=None, description="Name of the connection.")
    connection_id: ConnectionName | None = Field(default=None, description="Synonym of connection_ref.")
    table: TableName = Field(description="Schema and name of the table.")

    @model_validator(mode="after")
    def _require_one_connection(self) -> _Endpoint:
        if (self.connection_ref is None) == (self.connection_id is None):
            raise ValueError("a connection is named once; write it as connection_ref")
        return self

    @property
    def connection(self) -> str:
        """The connection's name under either key."""
        return self.connection_ref or self.connection_id or ""


class XminExecutionOptions(FrozenModel):
    """How an incremental load by transaction ids begins."""

    mode: Literal["initial"] = Field(description="initial: this load hands over to an incremental one.")
    handoff_id: Name | None = Field(default=None, description="Names the handover.")


class SourceConnectorOptions(FrozenModel):
    """The `source.options` block."""

    incremental_strategy: Literal["xmin"] | None = Field(
        default=None, description="How later loads find changes."
    )
    xmin_execution: XminExecutionOptions | None = Field(default=None, description="Handover to such loads.")


class SourceOptions(_Endpoint):
    """Where rows come from."""

    columns: Names | None = Field(default=None, description="Columns to load; default all.")
    exclude_columns: Names | None = Field(default=None, description="Columns to leave out.")
    where: Annotated[str, Field(pattern=r"\S")] | None = Field(
        default=None, description="Further SQL filter."
    )
    options: SourceConnectorOptions | None = Field(default=None, description="Connector options.")

    @field_validator("columns", "exclude_columns")
    @classmethod
    def _require_each_once(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if names is not None and len(set(names)) < len(names):
            raise ValueError("name each column once")
        return names

    @field_validator("where")
    @classmethod
    def _require_plain_condition(cls, where: str | None) -> str | None:
        if where is not None and "{{" in where:
            raise ValueError("tokens stand in the window's bounds only")
        return where


class BackfillStateOptions(FrozenModel):
    """The ledger of a campaign."""

    backend: StateBackend | None = Field(default=None, description="audit_schema or local_file.")
    schema_: Name = Field(
        default="dpone_audit", alias="schema", description="Audit schema of the ledger's tables."
    )
    require_distributed_lock: bool = Field(default=False, description="Refuse a ledger without such a lock.")
    connection_ref: ConnectionName | None = Field(default=None, description="Ledger of a ClickHouse sink.")

    @property
    def in_a_file(self) -> bool:
        """Whether it is kept in a folder, and not beside the target."""
        return self.backend is StateBackend.LOCAL_FILE


class PublicationOptions(FrozenModel):
    """How a finished campaign becomes visible."""

    mode: Literal["direct", "shadow_swap"] = Field(default="direct", description="direct or shadow_swap.")
    retain_backup: bool = Field(default=True, description="Keep the table that was live before.")
    artifact_scope: Literal["campaign"] = Field(default="campaign", description="Scope of shadow names.")

    @property
    def swaps(self) -> bool:
        """Whether it is loaded aside, and becomes visible at once."""
        return self.mode == "shadow_swap"


class BackfillOptions(FrozenModel):
    """The `sink.strategy.backfill` block."""

    inner_mode: InnerMode = Field(default=InnerMode.PARTITION_REPLACE, description="What happens to a slice.")
    chunk: ChunkOptions | None = Field(default=None, description="The window and how it is cut.")
    backfill_id: str | None = Field(default=None, description="Pins the campaign's key.")
    parallel_workers: Annotated[int, Field(ge=1, le=64)] = Field(default=1, description="Lanes of one run.")
    retry_policy: RetryPolicy = Field(default=RetryPolicy.NON_COMMITTED, description="Chunks a run selects.")
    lease_ttl_minutes: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Accepted and reported; leases last 90 seconds."
    )
    max_chunks: Annotated[int, Field(ge=1, le=MAX_CHUNKS_LIMIT)] = Field(
        default=MAX_CHUNKS_DEFAULT, description="Refuse a plan with more chunks."
    )
    stop_after_failures: Annotated[int, Field(ge=1, le=MAX_CHUNKS_LIMIT)] | None = Field(
        default=None, description="Halt the campaign after so many failed chunks, at most max_chunks."
    )
    state: BackfillStateOptions = Field(default=BackfillStateOptions(), description="The ledger.")
    state_dir: str | None = Field(
        default=None, description="Folder of a local_file ledger, and of what a run leaves."
    )
    publication: PublicationOptions = Field(
        default=PublicationOptions(), description="direct or shadow_swap."
    )
    verify: Literal["counts", "strict", "checksum"] = Field(
        default="counts", description="Depth of verification."
    )

    @field_validator("stop_after_failures")
    @classmethod
    def _require_reachable(cls, failures: int | None, found: ValidationInfo) -> int | None:
        most = found.data.get("max_chunks", MAX_CHUNKS_LIMIT)
        if failures is not None and failures > most:
            raise ValueError(f"so many chunks never fail: max_chunks is {most}")
        return failures


class StrategyOptions(FrozenModel):
    """The `sink.strategy` block."""

    mode: Literal["backfill"] = Field(description="backfill is what dpone runs.")
    unique_key: tuple[Name, ...] | None = Field(default=None, description="Columns that identify a row.")
    version_column: Name | None = Field(default=None, description="Orders rows of one key.")
    only_new_rows: bool = Field(default=False, description="Skip rows that exist already.")
    backfill: BackfillOptions = Field(description="The campaign.")


class SinkOptions(_Endpoint):
    """Where rows go."""

    strategy: StrategyOptions = Field(description="How rows are written.")
    create_target: Literal["if_missing", "never"] = Field(
        default="if_missing", description="A missing target."
    )
    options: Options | None = Field(default=None, description="Connector options.")


class GitopsAirflowOptions(FrozenModel):
    """What a manifest may say about Airflow itself, where no catalog says it."""

    mapping: MappingOptions | None = Field(default=None, description="How many tasks show the campaign.")


class GitopsOptions(FrozenModel):
    """The `gitops` block."""

    airflow: GitopsAirflowOptions | None = Field(default=None, description="Projection on Airflow.")
    airflow_xcom_summary: JsonValue = Field(
        default=None, description="Shape of the summary that Airflow gets."
    )


class StateOptions(FrozenModel):
    """The `state` block at the top: where an incremental route keeps its watermark. The ledger is `backfill.state`."""

    type: DatabaseType | None = Field(default=None, description="Kind of database.")
    connection_ref: ConnectionName | None = Field(default=None, description="Name of the connection.")
    atomicity: Literal["target_atomic"] | None = Field(
        default=None, description="State commits with the target."
    )
    provisioning: Literal["external"] | None = Field(
        default=None, description="Who creates the state's tables."
    )


class Manifest(FrozenModel):
    """One process, as declared."""

    name: ProcessName = Field(description="Name of the process.")
    description: str | None = Field(default=None, max_length=2000, description="For people.")
    source: SourceOptions = Field(description="Where rows come from.")
    sink: SinkOptions = Field(description="Where rows go.")
    state: StateOptions | None = Field(default=None, description="State of incremental routes.")
    gitops: GitopsOptions | None = Field(default=None, description="Projection on Airflow.")

    @property
    def backfill(self) -> BackfillOptions:
        """The campaign's options."""
        return self.sink.strategy.backfill

    @property
    def dataset(self) -> str:
        """The target as `schema.table`."""
        return str(self.sink.table)
