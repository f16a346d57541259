"""What the looking verbs do: find the process, read what the ledger knows, write a document or tell people."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import typer

from dpone_contract.errors import ExitCode, located
from dpone_contract.process import CampaignPlan, Process, plan_campaign
from dpone_runtime import campaign_view
from dpone_runtime.bootstrap import inspect_ends, ledger_ddl, resolve_connections
from dpone_runtime.command_options import (
    IntervalFlags,
    OutputFormat,
    Overrides,
    VerificationFlags,
    command_line,
)
from dpone_runtime.doctor import examine
from dpone_runtime.interruption import Interruption
from dpone_runtime.plan_view import plan_document, plan_text
from dpone_runtime.process_input import process_of_manifest
from dpone_runtime.run_context import read_run_context
from dpone_runtime.verification import VerificationOrder, verify


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
    command = command_line(manifest, overrides, interval)
    _show(campaign_view.campaign_status(process, context, os.environ, command), form)


def show_failed(manifest: Path, overrides: Overrides, interval: IntervalFlags, form: OutputFormat) -> None:
    """`dpone backfill retry-failed` without `--execute`."""
    process = process_of_manifest(manifest, overrides)
    context = read_run_context(os.environ, interval)
    command = command_line(manifest, overrides, interval)
    _show(campaign_view.failed_chunks(process, context, os.environ, command), form)


def show_restart(manifest: Path, overrides: Overrides, interval: IntervalFlags, form: OutputFormat) -> None:
    """`dpone backfill restart` without `--execute`."""
    process = process_of_manifest(manifest, overrides)
    context = read_run_context(os.environ, interval)
    command = command_line(manifest, overrides, interval)
    _show(campaign_view.next_round(process, context, os.environ, command), form)


def show_diagnosis(manifest: Path, overrides: Overrides, interval: IntervalFlags, form: OutputFormat) -> None:
    """`dpone backfill doctor`: ends with what the diagnosis says."""
    process = process_of_manifest(manifest, overrides)
    context = read_run_context(os.environ, interval)
    command = command_line(manifest, overrides, interval)
    diagnosis = examine(process, context, os.environ, str(command))
    _show(diagnosis, form)
    sys.stdout.flush()
    if diagnosis.exit_code is not ExitCode.DONE:
        raise typer.Exit(diagnosis.exit_code)


def _show(view: campaign_view.View, form: OutputFormat) -> None:
    if form is OutputFormat.JSON:
        _write_json(view.document)
    else:
        typer.echo(view.text(markdown=form is OutputFormat.MD))


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
        order = VerificationOrder(command_line(manifest, overrides, interval), flags)
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
    command = command_line(manifest, overrides, interval)
    told = campaign_view.cancel(process, context, os.environ, command, reason=reason, by=requested_by)
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


def _write_json(document: object) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
