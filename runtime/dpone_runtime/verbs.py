"""What the runtime's verbs do: find the process, call the use case, write the outcome, tell people, leave with a code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import typer

from dpone_contract.environment import EnvVar
from dpone_contract.errors import DponeError, ExitCode, UsageError, located
from dpone_contract.manifest import RetryPolicy
from dpone_contract.outcome import RunOutcome
from dpone_contract.process import CampaignPlan, Process, decode_process, plan_campaign
from dpone_runtime import campaign_view
from dpone_runtime.bootstrap import inspect_ends, ledger_ddl, resolve_connections
from dpone_runtime.command_options import IntervalFlags, OutputFormat, Overrides, VerificationFlags
from dpone_runtime.execute import Executed, RunOrder, execute
from dpone_runtime.interruption import Interruption, die_with_airflow
from dpone_runtime.plan_view import plan_document, plan_text
from dpone_runtime.process_input import process_of_manifest, process_of_pack
from dpone_runtime.result import refused, write_outcome
from dpone_runtime.run_context import RunContext, outcome_path, read_run_context
from dpone_runtime.verification import VerificationOrder, verify

_FINISHED = ("complete", "published")


@dataclass(frozen=True)
class ProcessPlace:
    """Where `dpone run` finds its process: exactly one of the first three."""

    manifest: Path | None = None
    process: str | None = None
    pack: Path | None = None
    process_name: str | None = None
    pack_fingerprint: str | None = None

    @property
    def shown(self) -> str | None:
        """The file that it stands in, where there is one."""
        path = self.manifest or self.pack
        return None if path is None else str(path)

    def load(self) -> Process:
        """Read the process.

        Errors: UsageError, ManifestInvalidError, PackInvalidError, RunContextInvalidError.
        """
        if sum(given is not None for given in (self.manifest, self.process, self.pack)) > 1:
            raise UsageError(
                "a manifest, --process and --pack name a process each",
                next_step="name one of MANIFEST, --process and --pack",
            )
        if self.process is not None:
            with located("--process"):
                return decode_process(self.process)
        if self.pack is not None:
            return process_of_pack(self.pack, self.process_name, self.pack_fingerprint)
        if self.manifest is None:
            raise UsageError("nothing to run", next_step="name a manifest: dpone run MANIFEST")
        return process_of_manifest(self.manifest, Overrides())


def run(
    place: ProcessPlace, interval: IntervalFlags, plan_hash: str | None, form: OutputFormat, *, quiet: bool
) -> None:
    """`dpone run`: also what every Airflow task calls."""
    _run(place.load, interval, RunOrder(quiet=quiet, plan_hash=plan_hash, place=place.shown), form)


def run_campaign_of(
    manifest: Path,
    overrides: Overrides,
    interval: IntervalFlags,
    plan_hash: str | None,
    form: OutputFormat,
    *,
    reason: str | None,
    quiet: bool,
) -> None:
    """`dpone backfill run --execute`."""
    order = RunOrder(quiet=quiet, plan_hash=plan_hash, place=str(manifest), reason=reason)
    _exit_unless_complete(_run(lambda: process_of_manifest(manifest, overrides), interval, order, form))


def resume(
    manifest: Path,
    overrides: Overrides,
    interval: IntervalFlags,
    plan_hash: str | None,
    form: OutputFormat,
    *,
    reason: str | None,
    quiet: bool,
) -> None:
    """`dpone backfill resume`: like a run, but there has to be something to resume."""

    def load() -> Process:
        process = process_of_manifest(manifest, overrides)
        campaign_view.require_begun(
            process, read_run_context(os.environ, interval), os.environ, str(manifest)
        )
        return process

    order = RunOrder(
        quiet=quiet,
        plan_hash=plan_hash,
        place=str(manifest),
        policy=RetryPolicy.NON_COMMITTED,
        reason=reason,
    )
    _exit_unless_complete(_run(load, interval, order, form))


def show_plan(
    manifest: Path,
    overrides: Overrides,
    interval: IntervalFlags,
    form: OutputFormat,
    *,
    dry_run: bool = False,
) -> None:
    """`dpone backfill plan`, and `run` without `--execute`."""
    process, planned = _planned(manifest, overrides, interval)
    if form is OutputFormat.JSON:
        _write_json(plan_document(process, planned))
    else:
        typer.echo(plan_text(process, planned, markdown=form is OutputFormat.MD))
    if dry_run:
        flags = f"--execute --plan-hash {planned.plan_hash}"
        typer.echo(f"dry run: nothing was opened. To load it, repeat this with {flags}", err=True)


def show_connections(
    manifest: Path, overrides: Overrides, interval: IntervalFlags, form: OutputFormat
) -> None:
    """The part of `plan --connect` that opens both ends."""
    process, planned = _planned(manifest, overrides, interval)
    connections = resolve_connections(process.manifest, os.environ)
    for line in inspect_ends(process, planned, connections):
        typer.echo(line, err=form is OutputFormat.JSON)


def _planned(manifest: Path, overrides: Overrides, interval: IntervalFlags) -> tuple[Process, CampaignPlan]:
    process = process_of_manifest(manifest, overrides)
    context = read_run_context(os.environ, interval)
    with located(str(manifest)):
        return process, plan_campaign(process, context.interval)


def show_status(manifest: Path, overrides: Overrides, interval: IntervalFlags, form: OutputFormat) -> None:
    """`dpone backfill status`."""
    process = process_of_manifest(manifest, overrides)
    context = read_run_context(os.environ, interval)
    status = campaign_view.campaign_status(process, context, os.environ, str(manifest))
    if form is OutputFormat.JSON:
        _write_json(status.document)
    else:
        typer.echo(status.text(markdown=form is OutputFormat.MD))


def verify_campaign_of(
    manifest: Path,
    overrides: Overrides,
    interval: IntervalFlags,
    flags: VerificationFlags,
    form: OutputFormat,
) -> None:
    """`dpone backfill verify`.

    Errors: those of `verification.verify`, and the one that stands for a verification that is no success.
    """
    process = process_of_manifest(manifest, overrides)
    interruption = Interruption()
    with interruption.listening():
        context = read_run_context(os.environ, interval)
        order = VerificationOrder(str(manifest), flags)
        verified = verify(process, context, os.environ, order, interruption)
    if form is OutputFormat.JSON:
        _write_json(verified.document())
    else:
        lead = "- " if form is OutputFormat.MD else ""
        typer.echo("\n".join(lead + line.strip() if lead else line for line in verified.text().splitlines()))
    sys.stdout.flush()
    if verified.error is not None:
        raise verified.error


def cancel(
    manifest: Path, overrides: Overrides, interval: IntervalFlags, *, reason: str, requested_by: str | None
) -> None:
    """`dpone backfill cancel`."""
    process = process_of_manifest(manifest, overrides)
    context = read_run_context(os.environ, interval)
    told = campaign_view.cancel(process, context, os.environ, str(manifest), reason=reason, by=requested_by)
    typer.echo(told)


def show_ledger_ddl(manifest: Path) -> None:
    """`dpone state ddl`."""
    process = process_of_manifest(manifest, Overrides())
    statements = ledger_ddl(process.manifest)
    if not statements:
        typer.echo(
            "-- the ledger is local_file: a folder, in which a run makes its files; there is nothing to create"
        )
    else:
        typer.echo("\n\n".join(f"{statement};" for statement in statements))


def _run(
    load: Callable[[], Process], interval: IntervalFlags, order: RunOrder, form: OutputFormat
) -> Executed:
    """Run a process; the outcome document is written however it ends.

    Errors: the one that stands for a run which did not load its selection.
    """
    die_with_airflow(os.environ.get(EnvVar.PARENT_PID, ""))
    process: Process | None = None
    context: RunContext | None = None
    interruption = Interruption()
    try:
        with interruption.listening():
            context = read_run_context(os.environ, interval)
            process = load()
            done = execute(process, context, os.environ, order, interruption)
    except DponeError as error:
        outcome = refused(error, process, context)
        _write_outcome(outcome)
        if form is OutputFormat.JSON:
            _write_json(outcome.to_document())
        raise
    _write_outcome(done.outcome)
    if form is OutputFormat.JSON:
        _write_json(done.outcome.to_document())
    else:
        lead = "- " if form is OutputFormat.MD else ""
        typer.echo("\n".join(lead + line for line in done.summary.splitlines()))
    sys.stdout.flush()
    if done.error is not None:
        raise done.error
    return done


def _exit_unless_complete(done: Executed) -> None:
    backfill = done.outcome.backfill
    if backfill is not None and backfill.campaign_status not in _FINISHED:
        typer.echo("the selected chunks are committed, the campaign is not complete yet", err=True)
        raise typer.Exit(ExitCode.INCOMPLETE)


def _write_outcome(outcome: RunOutcome) -> None:
    path = outcome_path(os.environ)
    if path is None:
        return
    try:
        write_outcome(outcome, path)
    except OSError as error:
        # The operator treats a missing document as a failure, so the run itself need not.
        typer.echo(f"the outcome could not be written to {path}: {error.strerror}", err=True)


def _write_json(document: object) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
