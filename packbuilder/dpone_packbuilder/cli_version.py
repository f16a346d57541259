"""`dpone version`."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import typer

WHEELS = ("dpone-packbuilder", "dpone-runtime", "airflow-provider-dpone")


def version_command() -> None:
    """Show which parts of dpone are installed here."""
    for wheel in WHEELS:
        typer.echo(f"{wheel} {_installed(wheel) or 'is not installed'}")


def _installed(wheel: str) -> str | None:
    try:
        return version(wheel)
    except PackageNotFoundError:
        return None
