"""Verbs of `dpone backfill` that load: each shows first and moves rows with `--execute`, but `resume`, which always does.

This module stays light: each verb imports what it does when it is called, so that help answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from dpone_runtime.command_options import IntervalFlags, OutputFormat, Overrides, RunFlags
from dpone_runtime.verb_options import (
    ExecuteOption,
    FormatOption,
    ManifestArgument,
    PlanHashOption,
    QuietOption,
    with_window,
)


@with_window
def backfill_run_command(
    manifest: ManifestArgument,
    *,
    execute: ExecuteOption = False,
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
    from dpone_runtime import looking_verbs, running_verbs  # help does not need it

    flags = RunFlags(plan_hash, reason, quiet=quiet)
    if execute:
        running_verbs.run_campaign_of(manifest, overrides, interval, flags, form)
    else:
        looking_verbs.show_plan(manifest, overrides, interval, form, dry_run=True)


@with_window
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
    from dpone_runtime import running_verbs  # help does not need it

    running_verbs.resume(manifest, overrides, interval, RunFlags(plan_hash, reason, quiet=quiet), form)


@with_window
def retry_failed_command(
    manifest: ManifestArgument,
    *,
    execute: ExecuteOption = False,
    require_complete: Annotated[
        bool, typer.Option("--require-complete", help="End with 3 unless the campaign is complete after it.")
    ] = False,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why; lifts a cancellation or a halt, kept in the ledger.")
    ] = None,
    plan_hash: PlanHashOption = None,
    quiet: QuietOption = False,
    form: FormatOption = OutputFormat.TEXT,
    overrides: Overrides,
    interval: IntervalFlags,
) -> None:
    """Load failed chunks and those of a lapsed lease with --execute, never pending ones; without it, list them."""
    from dpone_runtime import looking_verbs, running_verbs  # help does not need it

    if not execute:
        looking_verbs.show_failed(manifest, overrides, interval, form)
        return
    flags = RunFlags(plan_hash, reason, quiet=quiet)
    running_verbs.retry_failed(manifest, overrides, interval, flags, form, require_complete=require_complete)


@with_window
def restart_command(
    manifest: ManifestArgument,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the ledger.")],
    execute: ExecuteOption = False,
    plan_hash: PlanHashOption = None,
    quiet: QuietOption = False,
    form: FormatOption = OutputFormat.TEXT,
    overrides: Overrides,
    interval: IntervalFlags,
) -> None:
    """Load every chunk again, in a new round, with --execute; lifts a halt or cancellation, and opens what was closed."""
    from dpone_runtime import looking_verbs, running_verbs  # help does not need it

    if execute:
        flags = RunFlags(plan_hash, reason, quiet=quiet)
        running_verbs.restart(manifest, overrides, interval, flags, form)
    else:
        looking_verbs.show_restart(manifest, overrides, interval, form)
