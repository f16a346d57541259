"""Sections of a report for people: plain text for a pipe, Markdown for a pull request, colour for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import typer

WIDE_ENOUGH = 80
"""Columns of a terminal; on a narrower one the plain text is easier to read."""


@dataclass(frozen=True)
class Section:
    """A heading, rows of as many cells each, and commands to copy."""

    title: str
    rows: tuple[tuple[str, ...], ...] = ()
    commands: tuple[str, ...] = ()


def plain_text(heading: str, sections: Sequence[Section]) -> str:
    """Give sections as text that lines up, without a final newline."""
    lines = [heading]
    for section in sections:
        lines += ["", section.title]
        widths = _widths(section)
        for row in section.rows:
            cells = [f"{cell:<{width}}" for cell, width in zip(row[:-1], widths, strict=True)]
            lines.append("  " + "  ".join([*cells, row[-1]]).rstrip())
        for command in section.commands:
            lines += [f"  {line}" for line in command.splitlines()]
    return "\n".join(lines)


def markdown(heading: str, sections: Sequence[Section]) -> str:
    """Give sections as Markdown, without a final newline."""
    lines = [f"### {heading}"]
    for section in sections:
        lines += ["", f"**{section.title}**", ""]
        if section.rows:
            columns = len(section.rows[0])
            lines += ["| " * columns + "|", "|---" * columns + "|"]
            lines += ["| " + " | ".join([row[0], *map(_cell, row[1:])]) + " |" for row in section.rows]
        if section.commands:
            lines += (
                ["", "```bash", *section.commands, "```"]
                if section.rows
                else ["```bash", *section.commands, "```"]
            )
    return "\n".join(lines)


def print_sections(heading: str, sections: Sequence[Section]) -> None:
    """Print sections to a terminal, in colour unless NO_COLOR says otherwise; commands stay as they can be copied."""
    # Only a terminal needs it, and its import would cost every other call.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False)
    if console.width < WIDE_ENOUGH:
        typer.echo(plain_text(heading, sections) + "\n")
        return
    console.print(Text(heading, style="bold"))
    for section in sections:
        console.print()
        console.print(Text(section.title, style="bold cyan"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(width=0)
        for width in _widths(section):
            grid.add_column(min_width=width, no_wrap=True)
        grid.add_column(overflow="fold")
        for row in section.rows:
            first, *others = row
            grid.add_row("", Text(first, style="dim"), *map(Text, others))
        if section.rows:
            console.print(grid)
        for command in section.commands:
            console.print(
                Text("\n".join(f"  {line}" for line in command.splitlines()), style="green"), soft_wrap=True
            )
    console.print()


def _widths(section: Section) -> list[int]:
    return [max(map(len, column)) for column in zip(*(row[:-1] for row in section.rows), strict=True)]


def _cell(text: str) -> str:
    return "`" + text.replace("|", "\\|").replace("`", "'") + "`" if text else ""
