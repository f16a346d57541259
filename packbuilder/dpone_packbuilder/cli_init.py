"""`dpone init`."""

from __future__ import annotations

import shlex
from codecs import BOM_UTF8
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dpone_contract.errors import UsageError
from dpone_contract.finding import Finding
from dpone_packbuilder.editor_schemas import editor_schema_files
from dpone_packbuilder.init import FirstProject, find_catalog, render_next, render_project, require_absent
from dpone_packbuilder.project import read_text, shown_path
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
    """Write a catalog and a manifest, or a further workload of a project. Overwrites nothing; the result passes `dpone check`."""
    workload = FirstProject(
        name=name,
        source_table=source_table,
        target_table=target_table,
        chunk_column=chunk_column,
        first=first,
        last=last,
        step=step,
        mode=mode.value,
    )
    catalog = find_catalog(folder)
    if catalog is None:
        _write_first(folder, workload)
    else:
        _write_next(folder, workload, catalog)
    for path, text in editor_schema_files().items():
        if not (folder / path).exists():  # one of another release is told apart by `dpone schema --refresh`
            _write(folder / path, text)
    place = shlex.quote(shown_path(folder))
    typer.echo(f"""\
next:
  edit {shown_path(folder / workload.manifest_file_name)}: connections, tables, the window
  dpone check {place}
  dpone airflow preview {place}
  dpone pack build {place} --out packs""")


def _write_first(folder: Path, workload: FirstProject) -> None:
    files = render_project(workload)
    require_absent(folder, tuple(files))
    for file_name, text in files.items():
        _write(folder / file_name, text)


def _write_next(folder: Path, workload: FirstProject, catalog: Path) -> None:
    text = read_text(catalog)
    if isinstance(text, Finding):
        raise UsageError(f"{shown_path(catalog)}: {text.message}", next_step=text.next_step)
    rendered = render_next(workload, catalog, text)
    require_absent(folder, (workload.manifest_file_name,))
    _write(folder / workload.manifest_file_name, rendered.manifest)
    if rendered.catalog is None:
        typer.echo(
            f"{shown_path(catalog)} is left as it is; put this under its workloads:\n{rendered.entry}",
            nl=False,
        )
        return
    mark = BOM_UTF8 if catalog.read_bytes().startswith(BOM_UTF8) else b""
    write_whole(catalog, mark + rendered.catalog.encode())
    typer.echo(f"added {workload.name} to {shown_path(catalog)}")


def _write(path: Path, text: str) -> None:
    write_whole(path, text.encode())
    typer.echo(f"wrote {shown_path(path)}")
