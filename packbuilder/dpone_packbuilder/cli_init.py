"""`dpone init`."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dpone_packbuilder.init import FirstProject, render_project, require_absent
from dpone_packbuilder.project import shown_path
from dpone_packbuilder.writer import write_whole

_DEFAULTS = FirstProject()


class Mode(StrEnum):
    """How many tasks Airflow shows."""

    INTERNAL = "internal"
    VISIBLE = "visible"
    SUMMARY = "summary"


def init_command(
    folder: Annotated[Path, typer.Argument(help="Folder of the project; created if missing.")] = Path(),
    *,
    name: Annotated[str, typer.Option(help="Name of the workload.")] = _DEFAULTS.name,
    source_table: Annotated[str, typer.Option(help="schema.table to read.")] = _DEFAULTS.source_table,
    target_table: Annotated[str, typer.Option(help="schema.table to write.")] = _DEFAULTS.target_table,
    chunk_column: Annotated[str, typer.Option(help="Date column to cut along.")] = _DEFAULTS.chunk_column,
    first: Annotated[str, typer.Option("--from", help="First day.")] = _DEFAULTS.first,
    last: Annotated[str, typer.Option("--to", help="Last day, included.")] = _DEFAULTS.last,
    step: Annotated[str, typer.Option(help="Size of a chunk: Nd, Nw, Nmo or Ny.")] = _DEFAULTS.step,
    mode: Annotated[Mode, typer.Option(help="How many tasks Airflow shows.")] = Mode.INTERNAL,
) -> None:
    """Write workloads.yaml and a manifest to begin with. Overwrites nothing; what it writes passes `dpone check`."""
    project = FirstProject(
        name=name,
        source_table=source_table,
        target_table=target_table,
        chunk_column=chunk_column,
        first=first,
        last=last,
        step=step,
        mode=mode.value,
    )
    files = render_project(project)
    require_absent(folder, tuple(files))
    for file_name, text in files.items():
        write_whole(folder / file_name, text.encode())
        typer.echo(f"wrote {shown_path(folder / file_name)}")
    place = shlex.quote(shown_path(folder))
    typer.echo(f"""\
next:
  edit {shown_path(folder / project.manifest_file_name)}: connections, tables, the window
  dpone check {place}
  dpone pack preview {place}
  dpone pack build {place} --out packs""")
