"""The verbs that the runtime adds to `dpone`: `run` and `backfill`. Arguments in, one use case called, exit code out.

This module stays light: each verb imports what it does when it is called, so that help answers at once.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from dpone_runtime.command_options import (
    IntervalFlags,
    OutputFormat,
    Overrides,
    VerificationFlags,
)
from dpone_runtime.domain.verification import VerificationMethod

ManifestArgument = Annotated[Path, typer.Argument(help="The manifest file.", show_default=False)]
FormatOption = Annotated[OutputFormat, typer.Option("--format", help="Of the document on stdout.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
PlanHashOption = Annotated[str | None, typer.Option("--plan-hash", help="Refuse any plan but this one.")]

backfill_commands = typer.Typer(
    name="backfill",
    help="Plan, run, resume, inspect, verify or cancel a campaign.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


state_commands = typer.Typer(
    name="state",
    help="Look after the ledger.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@state_commands.callback()
def _state() -> None:
    """Look after the ledger."""


@state_commands.command("ddl")
def ddl_command(manifest: ManifestArgument) -> None:
    """Print the statements that create the ledger, for a role that may create it."""
    from dpone_runtime import verbs  # help does not need it

    verbs.show_ledger_ddl(manifest)


def _interval_options(
    interval_start: Annotated[str | None, typer.Option(help="First instant of the data interval.")] = None,
    interval_end: Annotated[str | None, typer.Option(help="End of the data interval.")] = None,
    execution_date: Annotated[str | None, typer.Option(help="Logical date of the run.")] = None,
) -> IntervalFlags:
    return IntervalFlags(interval_start, interval_end, execution_date)


def _override_options(  # noqa: PLR0917  # one a flag, in the order of the help
    column: Annotated[str | None, typer.Option(help="Instead of chunk.column.")] = None,
    from_: Annotated[str | None, typer.Option("--from", help="Instead of chunk.from.")] = None,
    to: Annotated[str | None, typer.Option(help="Instead of chunk.to.")] = None,
    step: Annotated[str | None, typer.Option(help="Instead of chunk.step.")] = None,
    kind: Annotated[str | None, typer.Option(help="Instead of chunk.kind.")] = None,
    inner_mode: Annotated[str | None, typer.Option(help="Instead of inner_mode.")] = None,
    parallel_workers: Annotated[int | None, typer.Option(help="Instead of parallel_workers.")] = None,
    max_chunks: Annotated[int | None, typer.Option(help="Instead of max_chunks.")] = None,
    state_dir: Annotated[str | None, typer.Option(help="Instead of state_dir.")] = None,
    backfill_id: Annotated[str | None, typer.Option(help="Instead of backfill_id.")] = None,
    **interval: Any,
) -> tuple[Overrides, IntervalFlags]:
    overrides = Overrides(
        column, from_, to, step, kind, inner_mode, parallel_workers, max_chunks, state_dir, backfill_id
    )
    return overrides, _interval_options(**interval)


def _with_window(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the window's options on its command line, and their values as `overrides` and `interval`."""
    own = _parameters(verb)
    shared = {**_parameters(_override_options), **_parameters(_interval_options)}
    del own["overrides"], own["interval"], shared["interval"]

    @functools.wraps(verb)
    def called(**given: Any) -> None:
        overrides, interval = _override_options(**{name: given.pop(name) for name in shared})
        verb(overrides=overrides, interval=interval, **given)

    parameters = [*own.values(), *shared.values()]
    called.__annotations__ = {item.name: item.annotation for item in parameters}
    vars(called)["__signature__"] = inspect.Signature(parameters)
    return called


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    return {
        name: item.replace(annotation=hints.get(name), kind=inspect.Parameter.KEYWORD_ONLY)
        for name, item in inspect.signature(function).parameters.items()
    }


def run_command(
    manifest: Annotated[Path | None, typer.Argument(help="A manifest, by hand.", show_default=False)] = None,
    *,
    process: Annotated[str | None, typer.Option(help="A compiled process, from Airflow.")] = None,
    pack: Annotated[Path | None, typer.Option(help="A pack file.")] = None,
    process_name: Annotated[str | None, typer.Option(help="Which process of the pack.")] = None,
    pack_fingerprint: Annotated[str | None, typer.Option(help="The only pack that may run.")] = None,
    interval_start: Annotated[str | None, typer.Option(help="First instant of the data interval.")] = None,
    interval_end: Annotated[str | None, typer.Option(help="End of the data interval.")] = None,
    execution_date: Annotated[str | None, typer.Option(help="Logical date of the run.")] = None,
    plan_hash: PlanHashOption = None,
    quiet: QuietOption = False,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Run a process: load every chunk that is not committed yet, or the item that Airflow names."""
    from dpone_runtime import verbs  # help does not need it

    where = verbs.ProcessPlace(manifest, process, pack, process_name, pack_fingerprint)
    verbs.run(
        where, IntervalFlags(interval_start, interval_end, execution_date), plan_hash, form, quiet=quiet
    )


@backfill_commands.command("plan")
@_with_window
def plan_command(
    manifest: ManifestArgument,
    *,
    connect: Annotated[
        bool, typer.Option("--connect", help="Test the connections; show warnings and DDL.")
    ] = False,
    form: FormatOption = OutputFormat.TEXT,
    overrides: Overrides,
    interval: IntervalFlags,
) -> None:
    """Show the deterministic plan; opens nothing without --connect."""
    from dpone_runtime import verbs  # help does not need it

    verbs.show_plan(manifest, overrides, interval, form)
    if connect:
        verbs.show_connections(manifest, overrides, interval, form)


@backfill_commands.command("run")
@_with_window
def backfill_run_command(
    manifest: ManifestArgument,
    *,
    execute: Annotated[
        bool, typer.Option("--execute", help="Move data; without it only the plan is shown.")
    ] = False,
    reason: Annotated[
        str | None,
        typer.Option("--reason", help="Why an append may meet rows that are loaded already; as in resume."),
    ] = None,
    plan_hash: PlanHashOption = None,
    quiet: QuietOption = False,
    form: FormatOption = OutputFormat.TEXT,
    overrides: Overrides,
    interval: IntervalFlags,
) -> None:
    """Load pending chunks with --execute; without it, show the plan."""
    from dpone_runtime import verbs  # help does not need it

    if execute:
        verbs.run_campaign_of(manifest, overrides, interval, plan_hash, form, reason=reason, quiet=quiet)
    else:
        verbs.show_plan(manifest, overrides, interval, form, dry_run=True)


@backfill_commands.command("resume")
@_with_window
def resume_command(
    manifest: ManifestArgument,
    *,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why; lifts a cancellation or a halt, kept in the ledger.")
    ] = None,
    plan_hash: PlanHashOption = None,
    quiet: QuietOption = False,
    form: FormatOption = OutputFormat.TEXT,
    overrides: Overrides,
    interval: IntervalFlags,
) -> None:
    """Continue an interrupted campaign: every chunk that is not committed."""
    from dpone_runtime import verbs  # help does not need it

    verbs.resume(manifest, overrides, interval, plan_hash, form, reason=reason, quiet=quiet)


@backfill_commands.command("status")
@_with_window
def status_command(
    manifest: ManifestArgument,
    *,
    form: FormatOption = OutputFormat.TEXT,
    overrides: Overrides,
    interval: IntervalFlags,
) -> None:
    """Show what the ledger knows of the campaign."""
    from dpone_runtime import verbs  # help does not need it

    verbs.show_status(manifest, overrides, interval, form)


@backfill_commands.command("verify")
@_with_window
def verify_command(
    manifest: ManifestArgument,
    *,
    method: Annotated[
        VerificationMethod, typer.Option("--method", help="Compare row counts only, or contents.")
    ] = VerificationMethod.CONTENT,
    anew: Annotated[
        bool, typer.Option("--anew", help="Compare everything, also what an interrupted verification has.")
    ] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Load the chunks that differ again.")] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="Why; kept in the ledger.")] = None,
    quiet: QuietOption = False,
    form: FormatOption = OutputFormat.TEXT,
    overrides: Overrides,
    interval: IntervalFlags,
) -> None:
    """Compare what is committed with the source, chunk by chunk; go on where an earlier verification stopped."""
    from dpone_runtime import verbs  # help does not need it

    told = VerificationFlags(method, anew=anew, repair=repair, reason=reason, quiet=quiet)
    verbs.verify_campaign_of(manifest, overrides, interval, told, form)


@backfill_commands.command("cancel")
@_with_window
def cancel_command(
    manifest: ManifestArgument,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the ledger.")],
    requested_by: Annotated[str | None, typer.Option("--requested-by", help="Who asks.")] = None,
    overrides: Overrides,
    interval: IntervalFlags,
) -> None:
    """Ask a campaign to begin no further chunk; chunks at work may finish."""
    from dpone_runtime import verbs  # help does not need it

    verbs.cancel(manifest, overrides, interval, reason=reason, requested_by=requested_by)
