"""What the contract knows and this release cannot do yet: refused by name, so that nothing declared is ever ignored."""

from __future__ import annotations

from collections.abc import Iterator

from dpone_contract.errors import ErrorCode
from dpone_contract.manifest import DatabaseType, InnerMode, Manifest
from dpone_contract.yaml_tree import Path, YamlTree

_STRATEGY: Path = ("sink", "strategy")


def report_unsupported(manifest: Manifest, tree: YamlTree) -> None:
    """Add one finding for each key whose machinery does not exist yet."""
    for path, message, next_step in unsupported_keys(manifest):
        tree.report(ErrorCode.NOT_SUPPORTED, path, f"{message} is not supported yet", next_step)


def unsupported_keys(manifest: Manifest) -> Iterator[tuple[Path, str, str]]:
    """Give path, name and way out of each key that cannot be honoured."""
    yield from _unsupported_endpoint_keys(manifest)


def _unsupported_endpoint_keys(manifest: Manifest) -> Iterator[tuple[Path, str, str]]:
    for side, kind in (("source", manifest.source.type), ("sink", manifest.sink.type)):
        if kind is not DatabaseType.POSTGRES:
            yield (side, "type"), f"{side} type {kind.value}", "use postgres"
    if manifest.source.options is not None:
        yield ("source", "options"), "source.options", "remove it"
    if manifest.sink.options is not None:
        yield ("sink", "options"), "sink.options", "remove it"
    if manifest.state is not None:
        step = "remove it; the ledger is configured under backfill.state"
        yield ("state",), "state at the top of a manifest", step
    if manifest.gitops is not None and manifest.gitops.airflow_xcom_summary is not None:
        step = "remove it; the outcome in XCom holds interval and progress"
        yield ("gitops", "airflow_xcom_summary"), "gitops.airflow_xcom_summary", step
    strategy = manifest.sink.strategy
    if (
        strategy.version_column is not None
        and strategy.backfill.inner_mode is not InnerMode.INCREMENTAL_MERGE
    ):
        what = f"version_column with inner_mode {strategy.backfill.inner_mode.value}"
        yield (*_STRATEGY, "version_column"), what, "remove it, or use incremental_merge"
    if strategy.only_new_rows:
        yield (*_STRATEGY, "only_new_rows"), "only_new_rows: true", "remove it"
