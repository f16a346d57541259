"""Verbs of `dpone backfill` that look at a campaign or ask it to stop; none of them moves a row but `verify --repair`.

This module stays light: each verb imports what it does when it is called, so that help answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from dpone_runtime.command_options import IntervalFlags, OutputFormat, Overrides, VerificationFlags
from dpone_runtime.domain.verification import VerificationMethod
from dpone_runtime.verb_options import FormatOption, ManifestArgument, QuietOption, with_window


@with_window
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
    from dpone_runtime import looking_verbs  # help does not need it

    looking_verbs.show_plan(manifest, overrides, interval, form)
    if connect:
        looking_verbs.show_connections(manifest, overrides, interval, form)


@with_window
def status_command(
    manifest: ManifestArgument,
    *,
    form: FormatOption = OutputFormat.TEXT,
    overrides: Overrides,
    interval: IntervalFlags,
) -> None:
    """Show what the ledger knows of the campaign."""
    from dpone_runtime import looking_verbs  # help does not need it

    looking_verbs.show_status(manifest, overrides, interval, form)


@with_window
def doctor_command(
    manifest: ManifestArgument,
    *,
    form: FormatOption = OutputFormat.TEXT,
    overrides: Overrides,
    interval: IntervalFlags,
) -> None:
    """Tell how the campaign is and what to do next; changes nothing."""
    from dpone_runtime import looking_verbs  # help does not need it

    looking_verbs.show_diagnosis(manifest, overrides, interval, form)


@with_window
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
    from dpone_runtime import looking_verbs  # help does not need it

    told = VerificationFlags(method, anew=anew, repair=repair, reason=reason, quiet=quiet)
    looking_verbs.verify_campaign_of(manifest, overrides, interval, told, form)


@with_window
def cancel_command(
    manifest: ManifestArgument,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the ledger.")],
    requested_by: Annotated[str | None, typer.Option("--requested-by", help="Who asks.")] = None,
    overrides: Overrides,
    interval: IntervalFlags,
) -> None:
    """Ask a campaign to begin no further chunk; chunks at work may finish."""
    from dpone_runtime import looking_verbs  # help does not need it

    looking_verbs.cancel(manifest, overrides, interval, reason=reason, requested_by=requested_by)
