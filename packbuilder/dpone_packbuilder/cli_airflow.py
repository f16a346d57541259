"""`dpone airflow preview`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from dpone_contract.errors import PackInvalidError, UsageError, located
from dpone_contract.pack import Pack, parse_pack
from dpone_packbuilder.airflow_preview import airflow_preview
from dpone_packbuilder.airflow_sections import airflow_reports
from dpone_packbuilder.preview import PreviewFormat
from dpone_packbuilder.project import shown_path
from dpone_packbuilder.reviewed_packs import Deployment, OneWorkload, Release, compile_for_preview
from dpone_packbuilder.told_sections import markdown, plain_text, print_sections

airflow_commands = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="See what packs become in Airflow.",
)


@airflow_commands.callback()
def _group() -> None:
    # Keeps the name of the only verb part of the command.
    pass


@airflow_commands.command("preview")
def preview(
    path: Annotated[
        Path | None,
        typer.Argument(
            help="Folder with workloads.yaml, or a catalog file; the current folder.", show_default=False
        ),
    ] = None,
    *,
    pack: Annotated[
        Path | None, typer.Option(help="A built pack, in place of a project.", show_default=False)
    ] = None,
    workload: OneWorkload = None,
    release: Release = "local",
    deployment: Deployment = "local",
    form: Annotated[
        PreviewFormat, typer.Option("--format", help="Form of the preview.")
    ] = PreviewFormat.TEXT,
) -> None:
    """Show what will appear in Airflow: DAG, tasks and their order, limits, pods, secrets and pool to create. Opens nothing."""
    if pack is None:
        packs = compile_for_preview(path or Path(), release=release, deployment=deployment, workload=workload)
    else:
        packs = (_read_pack(pack, path, workload),)
    if form is PreviewFormat.JSON:
        typer.echo(json.dumps(airflow_preview(packs).to_document(), indent=2, ensure_ascii=False))
        return
    reports = airflow_reports(packs)
    if form is PreviewFormat.MD:
        typer.echo("\n\n".join(markdown(*report) for report in reports))
    elif sys.stdout.isatty():
        for report in reports:
            print_sections(*report)
    else:
        typer.echo("\n\n".join(plain_text(*report) for report in reports))


def _read_pack(path: Path, project: Path | None, workload: str | None) -> Pack:
    if project is not None or workload is not None:
        raise UsageError(
            "a pack is looked at alone: --pack goes without a project and without --workload",
            next_step="leave out one of them",
        )
    try:
        with located(shown_path(path)):
            return parse_pack(path.read_bytes())
    except OSError as error:
        raise PackInvalidError(
            f"the pack cannot be read: {error.strerror}",
            where=shown_path(path),
            next_step="name a file that `dpone pack build` wrote, such as packs/NAME/airflow-pack.json",
        ) from error
