"""The `dpone` command: finds the verb, imports it only then, and turns every error into lines and an exit code.

The builder's own verbs stand in a table; further ones are entry points of the group `dpone.commands`, each a Typer app or
a function. Help lines stand here too, so that help imports no verb.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from dpone_contract.error_text import render_error
from dpone_contract.errors import DponeError, ExitCode, InternalError, InterruptedRunError, UsageError

GROUP = "dpone.commands"

BUILDER_VERBS = {
    "init": (
        "dpone_packbuilder.cli_init:init_command",
        "Write a catalog and a manifest, or a further workload.",
    ),
    "check": (
        "dpone_packbuilder.cli_check:check_command",
        "Check catalog and manifests; opens no connection.",
    ),
    "pack": ("dpone_packbuilder.cli_pack:pack_commands", "Build packs for Airflow, or preview them."),
    "airflow": ("dpone_packbuilder.cli_airflow:airflow_commands", "See what packs become in Airflow."),
    "schema": (
        "dpone_packbuilder.cli_schema:schema_command",
        "Print the JSON Schema of a file format, for editors and CI.",
    ),
    "version": ("dpone_packbuilder.cli_version:version_command", "Show which dpone is installed."),
}
"""Verb: where it is found, and its line in the help."""

OTHER_VERBS = {
    "run": ("dpone-runtime", "Run a process: load every chunk that is not committed yet."),
    "backfill": ("dpone-runtime", "Plan, run, resume, inspect or cancel a campaign."),
    "state": ("dpone-runtime", "Look after the ledger: print its DDL."),
}
"""Verb of another wheel: that wheel, and the verb's line in the help."""

EPILOG = """\b
Exit codes:
  0  done
  1  finished, but chunks failed
  2  refused: usage, configuration or plan
  3  the selected work succeeded, the campaign is incomplete
  4  verification found a mismatch
  5  ownership lost, interrupted, or infrastructure
"""

# typer carries its own copy of click or uses the installed one; either way this is the class of every usage error.
_CommandLineError: type[Exception] = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)

# What some releases of typer give for Ctrl-C in place of an exception.
_INTERRUPTED_BY_TYPER = 130


class LazyVerbs(TyperGroup):
    """A group whose verbs are imported when they are called. `ctx` is a click context, whose home differs by release."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # click's signature
        return [*BUILDER_VERBS, *sorted({*OTHER_VERBS, *(point.name for point in entry_points(group=GROUP))})]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in BUILDER_VERBS:
            module, _, attribute = BUILDER_VERBS[cmd_name][0].partition(":")
            return _command_of(cmd_name, getattr(import_module(module), attribute))
        found = [point for point in entry_points(group=GROUP) if point.name == cmd_name]
        if found:
            return _command_of(cmd_name, _load(found[0]))
        if cmd_name in OTHER_VERBS:
            wheel = OTHER_VERBS[cmd_name][0]
            raise UsageError(f"the verb {cmd_name!r} comes with {wheel}", next_step=f"pip install {wheel}")
        close = get_close_matches(cmd_name, self.list_commands(ctx), n=1)
        hint = f"did you mean `dpone {close[0]}`?" if close else "see `dpone --help`"
        raise UsageError(f"there is no verb {cmd_name!r}", next_step=hint)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        installed = {point.name for point in entry_points(group=GROUP)}
        rows = []
        for name in self.list_commands(ctx):
            if name in BUILDER_VERBS:
                rows.append((name, BUILDER_VERBS[name][1]))
            else:
                wheel, text = OTHER_VERBS.get(name, ("", "A verb of another package."))
                rows.append((name, text if name in installed else f"{text} Needs: pip install {wheel}"))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


app = typer.Typer(
    name="dpone",
    cls=LazyVerbs,
    add_completion=False,
    rich_markup_mode=None,
    invoke_without_command=True,
    epilog=EPILOG,
    help="Declare historical loads in YAML, compile them into packs for Airflow, and run them exactly once.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"dpone {version('dpone-packbuilder')}")
        except PackageNotFoundError:
            typer.echo("dpone, from a folder of sources")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(ExitCode.REFUSED)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line and leave the process with the exit code of the design."""
    sys.exit(run_command_line(arguments))


def run_command_line(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and give its exit code; errors are told on stderr."""
    command = get_command(app)
    try:
        result = command.main(
            args=None if arguments is None else list(arguments), prog_name="dpone", standalone_mode=False
        )
    except DponeError as error:
        return _tell(error)
    except _CommandLineError as error:
        return _tell_usage(error)
    except (typer.Abort, KeyboardInterrupt):
        return _tell_interrupt()
    except Exception as error:  # noqa: BLE001  # the process boundary: whatever it is, it is reported
        traceback.print_exc()
        return _tell(
            InternalError(f"{type(error).__name__}: {error}", next_step="report it with the lines above")
        )
    if result == _INTERRUPTED_BY_TYPER:
        return _tell_interrupt()
    return result if isinstance(result, int) else ExitCode.DONE


def _command_of(name: str, verb: object) -> Any:
    if isinstance(verb, typer.Typer):
        group = get_group(verb)
        group.name = name
        return group
    if not callable(verb):
        raise UsageError(
            f"the verb {name!r} is neither a Typer app nor a function",
            next_step="ask the package that declares it in the entry-point group dpone.commands",
        )
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    function: Callable[..., Any] = verb
    single.command(name)(function)
    return get_command(single)


def _load(point: EntryPoint) -> object:
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        package = point.dist.name if point.dist else point.value
        raise UsageError(
            f"the verb {point.name!r} of {package} cannot be loaded: {error}",
            next_step=f"install {package} again, in the version of dpone-packbuilder",
        ) from error


def _tell(error: DponeError) -> int:
    typer.echo(render_error(error), err=True)
    return error.exit_code


def _tell_interrupt() -> int:
    return _tell(InterruptedRunError("stopped", next_step="run it again when you are ready"))


def _tell_usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "dpone"
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(message, err=True)
        return ExitCode.REFUSED
    return _tell(UsageError(message.strip(), next_step=f"see `{command} --help`"))
