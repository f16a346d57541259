"""What the running verbs do: find the process, run it, write the outcome, tell people, leave with a code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from dpone_contract.environment import EnvVar
from dpone_contract.errors import DponeError, ExitCode, UsageError, located
from dpone_contract.manifest import RetryPolicy
from dpone_contract.outcome import RunOutcome
from dpone_contract.process import Process, decode_process
from dpone_runtime import campaign_view
from dpone_runtime.command_options import IntervalFlags, OutputFormat, Overrides, RunFlags, command_line
from dpone_runtime.execute import Executed, RunOrder, execute
from dpone_runtime.interruption import Interruption, die_with_airflow
from dpone_runtime.process_input import process_of_manifest, process_of_pack
from dpone_runtime.result import refused, write_outcome
from dpone_runtime.run_context import RunContext, outcome_path, read_run_context

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
    manifest: Path, overrides: Overrides, interval: IntervalFlags, flags: RunFlags, form: OutputFormat
) -> None:
    """`dpone backfill run --execute`."""
    order = _order(manifest, flags)
    _exit_unless_complete(_run(lambda: process_of_manifest(manifest, overrides), interval, order, form))


def resume(
    manifest: Path, overrides: Overrides, interval: IntervalFlags, flags: RunFlags, form: OutputFormat
) -> None:
    """`dpone backfill resume`: like a run, but there has to be something to resume."""
    order = replace(_order(manifest, flags), policy=RetryPolicy.NON_COMMITTED, continues=True)
    _exit_unless_complete(_run(_begun(manifest, overrides, interval), interval, order, form))


def retry_failed(
    manifest: Path,
    overrides: Overrides,
    interval: IntervalFlags,
    flags: RunFlags,
    form: OutputFormat,
    *,
    require_complete: bool,
) -> None:
    """`dpone backfill retry-failed --execute`: its own success is success, whatever else is pending."""
    order = replace(_order(manifest, flags), policy=RetryPolicy.FAILED_ONLY, continues=True)
    done = _run(_begun(manifest, overrides, interval), interval, order, form)
    if require_complete:
        _exit_unless_complete(done)


def restart(
    manifest: Path, overrides: Overrides, interval: IntervalFlags, flags: RunFlags, form: OutputFormat
) -> None:
    """`dpone backfill restart --execute`: a new round, and a run of it.

    Errors: UsageError without a reason.
    """
    if not (flags.reason or "").strip():
        raise UsageError(
            "a restart loads what is committed again, and says why",
            where="--reason",
            next_step='give --reason "..."; it is kept in the ledger',
        )
    order = replace(_order(manifest, flags), policy=RetryPolicy.NON_COMMITTED, restart=True)
    _exit_unless_complete(_run(_begun(manifest, overrides, interval), interval, order, form))


def _order(manifest: Path, flags: RunFlags) -> RunOrder:
    return RunOrder(quiet=flags.quiet, plan_hash=flags.plan_hash, place=str(manifest), reason=flags.reason)


def _begun(manifest: Path, overrides: Overrides, interval: IntervalFlags) -> Callable[[], Process]:
    """Give what loads the process of a campaign that the ledger knows."""

    def load() -> Process:
        process = process_of_manifest(manifest, overrides)
        context = read_run_context(os.environ, interval)
        command = command_line(manifest, overrides, interval)
        campaign_view.require_begun(process, context, os.environ, command)
        return process

    return load


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
