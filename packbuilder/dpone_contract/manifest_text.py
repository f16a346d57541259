"""A manifest's text to its model, with the place of everything that is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from dpone_contract.errors import ManifestInvalidError, NotSupportedError
from dpone_contract.finding import Finding, Severity
from dpone_contract.manifest import Manifest
from dpone_contract.manifest_support import report_unsupported
from dpone_contract.model_draft import find_draft
from dpone_contract.model_findings import validate_tree
from dpone_contract.yaml_tree import YamlTree, parse_yaml

_ENTRY = "workloads.<name> in the catalog"
_AIRFLOW = "workloads.<name>.airflow in the catalog"
_EXECUTION = "workloads.<name>.airflow.execution in the catalog"

CATALOG_KEYS = {
    "workloads": "the top of the catalog",
    "defaults": "the top of the catalog",
    "manifest": _ENTRY,
    "pod": _ENTRY,
    "connections": _ENTRY,
    "execution": _AIRFLOW,
    "hooks": _AIRFLOW,
    "pre": "workloads.<name>.airflow.hooks in the catalog",
    "post": "workloads.<name>.airflow.hooks in the catalog",
    "dag_id": _EXECUTION,
    "schedule": _EXECUTION,
    "start_date": _EXECUTION,
    "catchup": _EXECUTION,
    "retries": _EXECUTION,
    "retry_delay_seconds": _EXECUTION,
    "max_active_runs": _EXECUTION,
    "tags": _EXECUTION,
    "owner": _EXECUTION,
    "execution_timeout_seconds": _EXECUTION,
    "outlets": _EXECUTION,
    "outcome_gate": _EXECUTION,
    "delivery": _EXECUTION,
}
"""Keys that only a catalog has, and where each belongs, for those who write it into a manifest."""


@dataclass(frozen=True)
class ManifestText:
    """A read manifest (None where it cannot be used) and the tree that later checks report into.

    `draft` is what they look at: the manifest, or where that is None what remains without its errors, if anything.
    """

    manifest: Manifest | None
    draft: Manifest | None
    tree: YamlTree


def read_manifest_text(text: str, path: str) -> ManifestText:
    """Read a manifest and collect findings; `path` only names the file in them."""
    tree = parse_yaml(text, path)
    usable = not tree.findings
    manifest = validate_tree(tree, Manifest, CATALOG_KEYS)
    draft = manifest or find_draft(tree, Manifest)
    if draft is not None:
        report_unsupported(draft, tree)
    return ManifestText(manifest if usable else None, draft, tree)


def parse_manifest(text: str, path: str) -> Manifest:
    """Read a manifest.

    Errors: ManifestInvalidError or NotSupportedError with the first finding's place; further ones are counted.
    """
    read = read_manifest_text(text, path)
    errors = [finding for finding in read.tree.findings if finding.severity is Severity.ERROR]
    if errors or read.manifest is None:
        raise error_of_findings(errors)
    return read.manifest


def error_of_findings(findings: list[Finding]) -> ManifestInvalidError | NotSupportedError:
    """Give the exception that stands for findings: the first in full, the others counted."""
    first, more = findings[0], len(findings) - 1
    kind = NotSupportedError if first.code == NotSupportedError.code else ManifestInvalidError
    suffix = f" (and {more} more; `dpone check` lists all)" if more else ""
    return kind(first.message + suffix, where=first.where, next_step=first.next_step or None)
