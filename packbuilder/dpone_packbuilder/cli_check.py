"""`dpone check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpone_contract.errors import ExitCode
from dpone_packbuilder.checks import review_project
from dpone_packbuilder.findings_text import FindingsFormat, render_findings
from dpone_packbuilder.project import load_project


def check_command(
    path: Annotated[
        Path,
        typer.Argument(
            help="Folder with workloads.yaml, a catalog, or a single manifest.", show_default=False
        ),
    ] = Path(),
    *,
    form: Annotated[
        FindingsFormat, typer.Option("--format", help="github gives the annotations of a workflow.")
    ] = FindingsFormat.TEXT,
) -> None:
    """Check a project without opening a connection. Exit code 2 if there is an error; warnings alone give 0."""
    project = load_project(path)
    review = review_project(project)
    typer.echo(render_findings(review.findings, len(project.workloads), form))
    if review.errors:
        raise typer.Exit(ExitCode.REFUSED)
