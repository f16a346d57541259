"""What the verbs of packs share: a project that is checked, its findings told, and the packs that it compiles to."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from dpone_contract.errors import ExitCode, UsageError
from dpone_contract.finding import Severity
from dpone_contract.pack import Pack
from dpone_packbuilder.checks import Review, review_project
from dpone_packbuilder.findings_text import FindingsFormat, finding_text, render_findings
from dpone_packbuilder.project import Project, load_project

ProjectPath = Annotated[
    Path, typer.Argument(help="Folder with workloads.yaml, or a catalog file.", show_default=False)
]
Release = Annotated[str, typer.Option(help="Name of the release, for example a commit.")]
Deployment = Annotated[str, typer.Option(help="Name of the deployment, for example prod.")]
OneWorkload = Annotated[str | None, typer.Option(help="Only this workload.", show_default=False)]


def review_packs(path: Path) -> tuple[Project, Review]:
    """Check a project that packs are built from.

    Errors: UsageError for a single manifest.
    """
    project = load_project(path)
    if project.workloads and not project.is_catalog:
        raise UsageError(
            "a pack is built from a catalog, and this is a single manifest",
            where=project.path,
            next_step="name it in a workloads.yaml, and pass that file or its folder",
        )
    return project, review_project(project)


def compile_for_preview(
    path: Path, *, release: str, deployment: str, workload: str | None
) -> tuple[Pack, ...]:
    """Compile the packs of a project, or one of them; findings are told on stderr, and errors end the command.

    Errors: UsageError for names that are none and for a workload that there is not.
    """
    require_names(release=release, deployment=deployment)
    project, review = review_packs(path)
    names = [found.name for found in project.workloads]
    if workload is not None and names and workload not in names:
        close = get_close_matches(workload, names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "use one of: " + ", ".join(names[:10])
        raise UsageError(f"the catalog has no workload {workload!r}", where=project.path, next_step=hint)
    if review.errors:
        typer.echo(render_findings(review.findings, len(names), FindingsFormat.TEXT), err=True)
        raise typer.Exit(ExitCode.REFUSED)
    tell_warnings(review)
    return review.compile_packs(release=release, deployment=deployment, workload=workload)


def require_names(**names: str) -> None:
    """Require that options are names. Errors: UsageError."""
    for option, name in names.items():
        if not 1 <= len(name) <= 250 or not name.isprintable():
            raise UsageError(
                f"--{option} is no name",
                next_step="give 1 to 250 printable characters",
            )


def tell_warnings(review: Review) -> None:
    """Tell the warnings of a review on stderr."""
    for finding in review.findings:
        if finding.severity is Severity.WARNING:
            typer.echo(finding_text(finding), err=True)
