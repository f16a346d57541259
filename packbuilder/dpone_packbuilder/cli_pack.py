"""`dpone pack build` and `dpone pack preview`."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dpone_contract.errors import ExitCode
from dpone_contract.pack import Pack
from dpone_packbuilder.findings_text import FindingsFormat, render_findings
from dpone_packbuilder.preview import PreviewFormat, preview_document, preview_rows, render_preview
from dpone_packbuilder.project import shown_path
from dpone_packbuilder.reviewed_packs import (
    Deployment,
    OneWorkload,
    ProjectPath,
    Release,
    compile_for_preview,
    require_names,
    review_packs,
    tell_warnings,
)
from dpone_packbuilder.writer import WrittenRelease, write_release

pack_commands = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Build packs for Airflow, or preview them.",
)

_TABLE_WIDTH = 100


class BuildFormat(StrEnum):
    """Forms of a build's result."""

    TEXT = "text"
    JSON = "json"


@pack_commands.command("build")
def build(
    path: ProjectPath = Path(),
    *,
    out: Annotated[Path, typer.Option(help="Folder of the packs; created if missing.")] = Path("packs"),
    release: Release = "local",
    deployment: Deployment = "local",
    form: Annotated[BuildFormat, typer.Option("--format", help="Form of the result.")] = BuildFormat.TEXT,
) -> None:
    """Check a project and write one pack a workload and the release index. Nothing is written if a check fails."""
    require_names(release=release, deployment=deployment)
    project, review = review_packs(path)
    if review.errors:
        findings = FindingsFormat(form.value)
        typer.echo(render_findings(review.findings, len(project.workloads), findings))
        typer.echo("nothing was written", err=True)
        raise typer.Exit(ExitCode.REFUSED)
    tell_warnings(review)
    packs = review.compile_packs(release=release, deployment=deployment)
    written = write_release(out, packs, release=release, deployment=deployment)
    typer.echo(_build_json(written) if form is BuildFormat.JSON else _build_text(written, out))


@pack_commands.command("preview")
def preview(
    path: ProjectPath = Path(),
    *,
    workload: OneWorkload = None,
    release: Release = "local",
    deployment: Deployment = "local",
    form: Annotated[
        PreviewFormat, typer.Option("--format", help="Form of the preview.")
    ] = PreviewFormat.TEXT,
) -> None:
    """Show what is in each pack: window, identities, mapping, connections. Writes nothing."""
    packs = compile_for_preview(path, release=release, deployment=deployment, workload=workload)
    if form is PreviewFormat.JSON:
        document = {"schema": "dpone.previews.v1", "packs": [preview_document(pack) for pack in packs]}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    elif form is PreviewFormat.TEXT and sys.stdout.isatty():
        _print_tables(packs)
    else:
        typer.echo("\n\n".join(render_preview(pack, form) for pack in packs))


def _build_text(release: WrittenRelease, out: Path) -> str:
    index = release.index
    lines = [f"release {index.release}, deployment {index.deployment}"]
    for pack in index.packs:
        path = out / pack.path
        state = "unchanged" if path in release.unchanged else "written"
        lines.append(f"  {state:<9}  {shown_path(path)}  {pack.size_bytes:,} bytes  {pack.fingerprint}")
    lines += [f"  removed    {shown_path(path)}" for path in release.removed]
    count = len(index.packs)
    lines.append(
        f"{count} {'pack' if count == 1 else 'packs'} in {shown_path(out)}, index {index.fingerprint}"
    )
    return "\n".join(lines)


def _build_json(release: WrittenRelease) -> str:
    document = {
        "schema": "dpone.build.v1",
        "index": release.index.to_document(),
        "written": [shown_path(path) for path in release.written],
        "unchanged": [shown_path(path) for path in release.unchanged],
        "removed": [shown_path(path) for path in release.removed],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _print_tables(packs: tuple[Pack, ...]) -> None:
    # Only a terminal needs it, and its import would cost every other call.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False)
    for pack in packs:
        if console.width < _TABLE_WIDTH:  # a frame would break fingerprints that somebody wants to copy
            typer.echo(render_preview(pack, PreviewFormat.TEXT) + "\n")
            continue
        table = Table(
            title=f"workload {pack.workload}", title_justify="left", title_style="bold", show_header=False
        )
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in preview_rows(pack):
            table.add_row(Text(name), Text(value))
        console.print(table)
