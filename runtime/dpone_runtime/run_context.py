"""What a run is told from outside, parsed and checked before a manifest is read or a connection opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path

from dpone_contract.environment import POD_OUTCOME_PATH, EnvVar
from dpone_contract.errors import MappingItemInvalidError, RunContextInvalidError
from dpone_contract.mapping_item import MappingItem, parse_item
from dpone_contract.outcome import AttemptIdentity
from dpone_contract.process import Process, process_digest
from dpone_contract.run_identity import RunIdentity, parse_run_identity
from dpone_contract.window_tokens import WindowToken
from dpone_runtime.command_options import IntervalFlags


@dataclass(frozen=True)
class RunContext:
    """Interval, attempt, identity and item of one run; all absent by hand."""

    interval: Mapping[WindowToken, str] = field(default_factory=dict)
    attempt: AttemptIdentity = field(default_factory=AttemptIdentity)
    identity: RunIdentity | None = None
    item: MappingItem | None = None


def read_run_context(environ: Mapping[str, str], flags: IntervalFlags | None = None) -> RunContext:
    """Parse the provider-owned variables.

    Errors: RunContextInvalidError, MappingItemInvalidError.
    Source: the design, runtime context.
    """
    flags = flags or IntervalFlags()
    try_number = environ.get(EnvVar.TRY_NUMBER, "")
    if try_number and not (try_number.isascii() and try_number.isdigit()):
        raise RunContextInvalidError(
            f"{EnvVar.TRY_NUMBER.value} is not a number",
            where=EnvVar.TRY_NUMBER.value,
            next_step="leave it to Airflow",
        )
    identity = environ.get(EnvVar.RUN_IDENTITY)
    item = environ.get(EnvVar.MAPPING_ITEM)
    return RunContext(
        interval=_interval(environ, flags),
        attempt=AttemptIdentity(
            dag_id=environ.get(EnvVar.DAG_ID) or None,
            dag_run_id=environ.get(EnvVar.DAG_RUN_ID) or None,
            try_number=int(try_number) if try_number else None,
        ),
        identity=parse_run_identity(identity) if identity else None,
        item=parse_item(item) if item else None,
    )


def require_process_of_context(process: Process, context: RunContext) -> None:
    """Require the process to be the one that the identity names, and a mapped one to come with its item.

    Errors: RunContextInvalidError, MappingItemInvalidError.
    """
    if context.identity is not None and process_digest(process) != context.identity.process_digest:
        raise RunContextInvalidError(
            "the process is not the one that the run identity names",
            where=EnvVar.RUN_IDENTITY.value,
            next_step="publish pack and runtime of one release together",
        )
    if context.item is not None and not process.mapping.mapped:
        raise MappingItemInvalidError(
            "a mapping item came with a process of mode internal",
            where=EnvVar.MAPPING_ITEM.value,
            next_step="let the provider write both",
        )
    if context.item is None and context.identity is not None and process.mapping.mapped:
        raise MappingItemInvalidError(
            "a mapped process came without its item: it would run the whole campaign in one task",
            where=EnvVar.MAPPING_ITEM.value,
            next_step="let the provider write the item; use mode internal to run the whole campaign",
        )


def outcome_path(environ: Mapping[str, str]) -> Path | None:
    """Give the file that the outcome goes to: named by the environment, else a pod's XCom file where there is one."""
    named = environ.get(EnvVar.OUTCOME_PATH)
    if named:
        return Path(named)
    pod = Path(POD_OUTCOME_PATH)
    return pod if pod.parent.is_dir() else None


def _interval(environ: Mapping[str, str], flags: IntervalFlags) -> dict[WindowToken, str]:
    logical = flags.execution_date or environ.get(EnvVar.LOGICAL_DATE, "")
    values = {
        WindowToken.DATA_INTERVAL_START: flags.start or environ.get(EnvVar.INTERVAL_START, ""),
        WindowToken.DATA_INTERVAL_END: flags.end or environ.get(EnvVar.INTERVAL_END, ""),
        WindowToken.LOGICAL_DATE: logical,
        WindowToken.DS: _day(logical),
        WindowToken.DAG_RUN_ID: environ.get(EnvVar.DAG_RUN_ID, ""),
    }
    return {token: value for token, value in values.items() if value and value != "None"}


def _day(logical_date: str) -> str:
    if not logical_date or logical_date == "None":
        return ""
    try:
        return datetime.fromisoformat(logical_date).date().isoformat()
    except ValueError:
        pass
    try:
        return date.fromisoformat(logical_date).isoformat()
    except ValueError as error:
        raise RunContextInvalidError(
            f"the logical date {logical_date!r} is not an ISO date",
            where=f"{EnvVar.LOGICAL_DATE.value} or --execution-date",
            next_step="write YYYY-MM-DD or an ISO instant",
        ) from error
