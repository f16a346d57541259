"""What the verbs of `dpone backfill` take from the command line: options that several share, and the window's, which all do."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from dpone_runtime.command_options import IntervalFlags, OutputFormat, Overrides

ManifestArgument = Annotated[Path, typer.Argument(help="The manifest file.", show_default=False)]
FormatOption = Annotated[OutputFormat, typer.Option("--format", help="Of the document on stdout.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
PlanHashOption = Annotated[str | None, typer.Option("--plan-hash", help="Refuse any plan but this one.")]
ExecuteOption = Annotated[
    bool, typer.Option("--execute", help="Move data; without it only what would be done is shown.")
]


def _interval_options(
    interval_start: Annotated[str | None, typer.Option(help="First instant of the data interval.")] = None,
    interval_end: Annotated[str | None, typer.Option(help="End of the data interval.")] = None,
    execution_date: Annotated[str | None, typer.Option(help="Logical date of the run.")] = None,
) -> IntervalFlags:
    return IntervalFlags(interval_start, interval_end, execution_date)


def _override_options(  # noqa: PLR0917  # one a flag, in the order of the help
    column: Annotated[str | None, typer.Option(help="Instead of chunk.column.")] = None,
    from_: Annotated[str | None, typer.Option("--from", help="Instead of chunk.from.")] = None,
    to: Annotated[str | None, typer.Option(help="Instead of chunk.to.")] = None,
    step: Annotated[str | None, typer.Option(help="Instead of chunk.step.")] = None,
    kind: Annotated[str | None, typer.Option(help="Instead of chunk.kind.")] = None,
    inner_mode: Annotated[str | None, typer.Option(help="Instead of inner_mode.")] = None,
    parallel_workers: Annotated[int | None, typer.Option(help="Instead of parallel_workers.")] = None,
    max_chunks: Annotated[int | None, typer.Option(help="Instead of max_chunks.")] = None,
    state_dir: Annotated[str | None, typer.Option(help="Instead of state_dir.")] = None,
    backfill_id: Annotated[str | None, typer.Option(help="Instead of backfill_id.")] = None,
    **interval: Any,
) -> tuple[Overrides, IntervalFlags]:
    overrides = Overrides(
        column, from_, to, step, kind, inner_mode, parallel_workers, max_chunks, state_dir, backfill_id
    )
    return overrides, _interval_options(**interval)


def with_window(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the window's options on its command line, and their values as `overrides` and `interval`."""
    own = _parameters(verb)
    shared = {**_parameters(_override_options), **_parameters(_interval_options)}
    del own["overrides"], own["interval"], shared["interval"]

    @functools.wraps(verb)
    def called(**given: Any) -> None:
        overrides, interval = _override_options(**{name: given.pop(name) for name in shared})
        verb(overrides=overrides, interval=interval, **given)

    parameters = [*own.values(), *shared.values()]
    called.__annotations__ = {item.name: item.annotation for item in parameters}
    vars(called)["__signature__"] = inspect.Signature(parameters)
    return called


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    return {
        name: item.replace(annotation=hints.get(name), kind=inspect.Parameter.KEYWORD_ONLY)
        for name, item in inspect.signature(function).parameters.items()
    }
