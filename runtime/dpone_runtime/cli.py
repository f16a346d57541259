"""The verbs that the runtime adds to `dpone`: `run`, `backfill` and `state`. Arguments in, one use case called, exit code out.

This module stays light: each verb imports what it does when it is called, so that help answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpone_runtime import looking_commands, running_commands
from dpone_runtime.command_options import IntervalFlags, OutputFormat
from dpone_runtime.verb_options import FormatOption, ManifestArgument, PlanHashOption, QuietOption

backfill_commands = typer.Typer(
    name="backfill",
    help="Plan, run, resume, repeat, inspect, verify or cancel a campaign.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
backfill_commands.command("plan")(looking_commands.plan_command)
backfill_commands.command("run")(running_commands.backfill_run_command)
backfill_commands.command("resume")(running_commands.resume_command)
backfill_commands.command("retry-failed")(running_commands.retry_failed_command)
backfill_commands.command("restart")(running_commands.restart_command)
backfill_commands.command("status")(looking_commands.status_command)
backfill_commands.command("doctor")(looking_commands.doctor_command)
backfill_commands.command("verify")(looking_commands.verify_command)
backfill_commands.command("cancel")(looking_commands.cancel_command)

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
    from dpone_runtime import looking_verbs  # help does not need it

    looking_verbs.show_ledger_ddl(manifest)


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
    from dpone_runtime import running_verbs  # help does not need it

    where = running_verbs.ProcessPlace(manifest, process, pack, process_name, pack_fingerprint)
    running_verbs.run(
        where, IntervalFlags(interval_start, interval_end, execution_date), plan_hash, form, quiet=quiet
    )
