"""The verbs that the runtime adds to `dpone`: `run` and `backfill`. Arguments in, one use case called, exit code out.

A file of this name stays light: what opens databases is imported by the verb that needs it, so that help is quick.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpone_contract.errors import DponeError, ExitCode, UsageError

if TYPE_CHECKING:
    from dpone_contract.outcome import RunOutcome
    from dpone_contract.process import Process
    from dpone_runtime.execute import Executed, RunOrder
    from dpone_runtime.run_context import IntervalFlags, RunContext


class OutputFormat(StrEnum):
    """How a document is written to stdout."""

    TEXT = "text"
    JSON = "json"
    MD = "md"


ManifestArgument = Annotated[Path, typer.Argument(help="The manifest file.", show_default=False)]
FormatOption = Annotated[OutputFormat, typer.Option("--format", help="Of the document on stdout.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr; errors only.")]
PlanHashOption = Annotated[
    str | None, typer.Option("--plan-hash", help="Refuse any plan but this one.", show_default=False)
]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", help="Why; kept in the ledger.", show_default=False)
]
IntervalStart = Annotated[str | None, typer.Option("--interval-start", help="Data interval, first instant.")]
IntervalEnd = Annotated[str | None, typer.Option("--interval-end", help="Data interval, end.")]
ExecutionDate = Annotated[str | None, typer.Option("--execution-date", help="Logical date of the run.")]
Column = Annotated[str | None, typer.Option("--column", help="Override chunk.column.")]
From = Annotated[str | None, typer.Option("--from", help="Override chunk.from.")]
To = Annotated[str | None, typer.Option("--to", help="Override chunk.to.")]
Step = Annotated[str | None, typer.Option("--step", help="Override chunk.step.")]
Kind = Annotated[str | None, typer.Option("--kind", help="Override chunk.kind.")]
InnerModeOption = Annotated[str | None, typer.Option("--inner-mode", help="Override inner_mode.")]
Workers = Annotated[int | None, typer.Option("--parallel-workers", help="Override parallel_workers.")]
MaxChunks = Annotated[int | None, typer.Option("--max-chunks", help="Override max_chunks.")]
StateDir = Annotated[str | None, typer.Option("--state-dir", help="Override state_dir.")]
BackfillId = Annotated[str | None, typer.Option("--backfill-id", help="Override backfill_id.")]

backfill_commands = typer.Typer(
    name="backfill",
    help="Plan, run, resume, inspect or cancel a campaign.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


def run_command(
    manifest: Annotated[Path | None, typer.Argument(help="A manifest, by hand.", show_default=False)] = None,
    *,
    process: Annotated[str | None, typer.Option("--process", help="A compiled process, from Airflow.")] = None,
    pack: Annotated[Path | None, typer.Option("--pack", help="A pack file.")] = None,
    process_name: Annotated[str | None, typer.Option("--process-name", help="Which of the pack.")] = None,
    pack_fingerprint: Annotated[str | None, typer.Option("--pack-fingerprint", help="The only pack to run.")] = None,
    interval_start: IntervalStart = None,
    interval_end: IntervalEnd = None,
    execution_date: ExecutionDate = None,
    plan_hash: PlanHashOption = None,
    quiet: QuietOption = False,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Run a process: load every chunk that is not committed yet, or the item that Airflow names."""
    from dpone_contract.process import decode_process  # the verb, not the help, needs models
    from dpone_runtime.execute import RunOrder
    from dpone_runtime.process_input import Overrides, process_of_manifest, process_of_pack
    from dpone_runtime.run_context import IntervalFlags

    def load() -> Process:
        if process is not None:
            return decode_process(process)
        if pack is not None:
            return process_of_pack(pack, process_name, pack_fingerprint)
        if manifest is None:
            raise UsageError("nothing to run", next_step="name a manifest: dpone run MANIFEST")
        return process_of_manifest(manifest, Overrides())

    if sum(given is not None for given in (manifest, process, pack)) > 1:
        raise UsageError("name one of MANIFEST, --process and --pack")
    flags = IntervalFlags(interval_start, interval_end, execution_date)
    _run(load, flags, RunOrder(quiet=quiet, plan_hash=plan_hash), form)


@backfill_commands.command("plan")
def plan_command(
    manifest: ManifestArgument,
    *,
    column: Column = None,
    from_: From = None,
    to: To = None,
    step: Step = None,
    kind: Kind = None,
    inner_mode: InnerModeOption = None,
    parallel_workers: Workers = None,
    max_chunks: MaxChunks = None,
    state_dir: StateDir = None,
    backfill_id: BackfillId = None,
    interval_start: IntervalStart = None,
    interval_end: IntervalEnd = None,
    execution_date: ExecutionDate = None,
    connect: Annotated[bool, typer.Option("--connect", help="Test connections, show DDL and warnings.")] = False,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show the deterministic plan; opens nothing without --connect."""
    from dpone_contract.process import plan_campaign
    from dpone_runtime.plan_view import plan_document, plan_text

    overrides = _overrides(locals())
    found = _process(manifest, overrides)
    planned = plan_campaign(found, _context(interval_start, interval_end, execution_date).interval)
    if form is OutputFormat.JSON:
        _print_json(plan_document(found, planned))
    else:
        print(plan_text(found, planned, markdown=form is OutputFormat.MD))
    if connect:
        from dpone_runtime.bootstrap import inspect_ends, resolve_connections

        for line in inspect_ends(found, resolve_connections(found.manifest, os.environ)):
            print(line, file=sys.stderr if form is OutputFormat.JSON else sys.stdout)


@backfill_commands.command("run")
def backfill_run_command(
    manifest: ManifestArgument,
    *,
    execute: Annotated[bool, typer.Option("--execute", help="Move data; without it only the plan is shown.")] = False,
    column: Column = None,
    from_: From = None,
    to: To = None,
    step: Step = None,
    kind: Kind = None,
    inner_mode: InnerModeOption = None,
    parallel_workers: Workers = None,
    max_chunks: MaxChunks = None,
    state_dir: StateDir = None,
    backfill_id: BackfillId = None,
    interval_start: IntervalStart = None,
    interval_end: IntervalEnd = None,
    execution_date: ExecutionDate = None,
    plan_hash: PlanHashOption = None,
    quiet: QuietOption = False,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Load pending chunks with --execute; without it, show the plan."""
    from dpone_contract.process import plan_campaign
    from dpone_runtime.execute import RunOrder
    from dpone_runtime.plan_view import plan_document, plan_text
    from dpone_runtime.run_context import IntervalFlags

    overrides = _overrides(locals())
    if execute:
        flags = IntervalFlags(interval_start, interval_end, execution_date)
        order = RunOrder(quiet=quiet, plan_hash=plan_hash)
        _run(lambda: _process(manifest, overrides), flags, order, form, campaign=True)
        return
    found = _process(manifest, overrides)
    planned = plan_campaign(found, _context(interval_start, interval_end, execution_date).interval)
    if form is OutputFormat.JSON:
        _print_json(plan_document(found, planned))
    else:
        print(plan_text(found, planned, markdown=form is OutputFormat.MD))
    print(
        f"dry run: nothing was opened. To load it: dpone backfill run {manifest} --execute "
        f"--plan-hash {planned.plan_hash}",
        file=sys.stderr,
    )


@backfill_commands.command("resume")
def resume_command(
    manifest: ManifestArgument,
    *,
    column: Column = None,
    from_: From = None,
    to: To = None,
    step: Step = None,
    kind: Kind = None,
    inner_mode: InnerModeOption = None,
    parallel_workers: Workers = None,
    max_chunks: MaxChunks = None,
    state_dir: StateDir = None,
    backfill_id: BackfillId = None,
    interval_start: IntervalStart = None,
    interval_end: IntervalEnd = None,
    execution_date: ExecutionDate = None,
    reason: ReasonOption = None,
    plan_hash: PlanHashOption = None,
    quiet: QuietOption = False,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Continue an interrupted campaign: every chunk that is not committed. --reason lifts a cancellation."""
    from dpone_contract.manifest import RetryPolicy
    from dpone_runtime.execute import RunOrder
    from dpone_runtime.run_context import IntervalFlags

    overrides = _overrides(locals())

    def load() -> Process:
        found = _process(manifest, overrides)
        _require_begun(found, _context(interval_start, interval_end, execution_date), manifest)
        return found

    flags = IntervalFlags(interval_start, interval_end, execution_date)
    order = RunOrder(quiet=quiet, plan_hash=plan_hash, policy=RetryPolicy.NON_COMMITTED, reason=reason)
    _run(load, flags, order, form, campaign=True)


@backfill_commands.command("status")
def status_command(
    manifest: ManifestArgument,
    *,
    column: Column = None,
    from_: From = None,
    to: To = None,
    step: Step = None,
    kind: Kind = None,
    inner_mode: InnerModeOption = None,
    parallel_workers: Workers = None,
    max_chunks: MaxChunks = None,
    state_dir: StateDir = None,
    backfill_id: BackfillId = None,
    interval_start: IntervalStart = None,
    interval_end: IntervalEnd = None,
    execution_date: ExecutionDate = None,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show what the ledger knows of the campaign."""
    from dpone_runtime.campaign_view import campaign_status

    found = _process(manifest, _overrides(locals()))
    status = campaign_status(
        found, _context(interval_start, interval_end, execution_date), os.environ, str(manifest)
    )
    if form is OutputFormat.JSON:
        _print_json(status.document)
    else:
        print(status.text(markdown=form is OutputFormat.MD))


@backfill_commands.command("cancel")
def cancel_command(
    manifest: ManifestArgument,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the ledger.")],
    requested_by: Annotated[str | None, typer.Option("--requested-by", help="Who asks.")] = None,
    column: Column = None,
    from_: From = None,
    to: To = None,
    step: Step = None,
    kind: Kind = None,
    inner_mode: InnerModeOption = None,
    parallel_workers: Workers = None,
    max_chunks: MaxChunks = None,
    state_dir: StateDir = None,
    backfill_id: BackfillId = None,
    interval_start: IntervalStart = None,
    interval_end: IntervalEnd = None,
    execution_date: ExecutionDate = None,
) -> None:
    """Ask a campaign to begin no further chunk; chunks at work may finish."""
    from dpone_runtime.campaign_view import cancel

    found = _process(manifest, _overrides(locals()))
    context = _context(interval_start, interval_end, execution_date)
    print(cancel(found, context, os.environ, reason=reason, by=requested_by))


def _run(
    load: Callable[[], Process],
    flags: IntervalFlags,
    order: RunOrder,
    form: OutputFormat,
    *,
    campaign: bool = False,
) -> None:
    """Run a process and leave with its exit code; the outcome document is written however it ends."""
    from dpone_runtime.execute import execute
    from dpone_runtime.interruption import Interruption
    from dpone_runtime.result import refused
    from dpone_runtime.run_context import read_run_context

    _die_with_airflow()
    process: Process | None = None
    context: RunContext | None = None
    interruption = Interruption()
    try:
        with interruption.listening():
            context = read_run_context(os.environ, flags)
            process = load()
            done = execute(process, context, os.environ, order, interruption)
    except DponeError as error:
        outcome = refused(error, process, context)
        _write(outcome)
        if form is OutputFormat.JSON:
            _print_json(outcome.to_document())
        raise
    _write(done.outcome)
    _tell(done, form)
    if done.error is not None:
        raise done.error
    if campaign and done.outcome.backfill and done.outcome.backfill.campaign_status not in ("complete", "published"):
        raise typer.Exit(ExitCode.INCOMPLETE)


def _tell(done: Executed, form: OutputFormat) -> None:
    if form is OutputFormat.JSON:
        _print_json(done.outcome.to_document())
    elif form is OutputFormat.MD:
        print("\n".join(f"- {line}" for line in done.summary.splitlines()))
    else:
        print(done.summary, flush=True)


def _write(outcome: RunOutcome) -> None:
    from dpone_runtime.result import write_outcome
    from dpone_runtime.run_context import outcome_path

    path = outcome_path(os.environ)
    if path is not None:
        try:
            write_outcome(outcome, path)
        except OSError as error:
            print(f"the outcome could not be written to {path}: {error.strerror}", file=sys.stderr)


def _die_with_airflow() -> None:
    from dpone_contract.environment import EnvVar

    parent = os.environ.get(EnvVar.PARENT_PID, "")
    if parent.isdigit():
        import signal

        from dpone_runtime.adapters.lanes.containment import die_with_parent

        die_with_parent(int(parent), signal.SIGTERM)


def _process(manifest: Path, overrides: dict[str, object]) -> Process:
    from dpone_runtime.process_input import Overrides, process_of_manifest

    return process_of_manifest(manifest, Overrides(**overrides))  # type: ignore[arg-type]  # options of the same names


def _overrides(given: dict[str, object]) -> dict[str, object]:
    names = (
        "column from_ to step kind inner_mode parallel_workers max_chunks state_dir backfill_id"
    ).split()
    return {name: given[name] for name in names}


def _context(start: str | None, end: str | None, execution_date: str | None) -> RunContext:
    from dpone_runtime.run_context import IntervalFlags, read_run_context

    return read_run_context(os.environ, IntervalFlags(start, end, execution_date))


def _require_begun(process: Process, context: RunContext, manifest: Path) -> None:
    from dpone_runtime.campaign_view import require_begun

    require_begun(process, context, os.environ, str(manifest))


def _print_json(document: object) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))
