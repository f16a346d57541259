"""`dpone schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpone_contract.errors import UsageError
from dpone_packbuilder.editor_schemas import editor_schema_files
from dpone_packbuilder.project import shown_path
from dpone_packbuilder.schemas import SOURCES, SchemaKind, render_schema
from dpone_packbuilder.writer import write_whole


def schema_command(
    kind: Annotated[
        SchemaKind | None,
        typer.Argument(help="Which schema; without it they are listed.", show_default=False),
    ] = None,
    *,
    refresh: Annotated[
        Path | None,
        typer.Option(
            help="Write the schemas that editors use into the project of this folder.", show_default=False
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of a format, or list the formats. Opens nothing."""
    if refresh is not None:
        if kind is not None:
            raise UsageError(
                "--refresh writes the schemas of editors, and takes no kind", next_step="leave one out"
            )
        for path, text in editor_schema_files().items():
            state = "wrote" if write_whole(refresh / path, text.encode()) else "unchanged"
            typer.echo(f"{state} {shown_path(refresh / path)}")
    elif kind is not None:
        typer.echo(render_schema(kind), nl=False)
    else:
        width = max(map(len, SchemaKind))
        for known, source in SOURCES.items():
            typer.echo(f"{known.value:<{width}}  {source.text_form}  {source.title}")
