"""A manifest's text to its model, with the place of everything that is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from dpone_contract.errors import ManifestInvalidError, NotSupportedError
from dpone_contract.finding import Finding, Severity
from dpone_contract.manifest import Manifest
from dpone_contract.manifest_support import report_unsupported
from dpone_contract.model_findings import validate_tree
from dpone_contract.yaml_tree import YamlTree, parse_yaml


@dataclass(frozen=True)
class ManifestText:
    """A read manifest (None where it cannot be used) and the tree that later checks report into."""

    manifest: Manifest | None
    tree: YamlTree


def read_manifest_text(text: str, path: str) -> ManifestText:
    """Read a manifest and collect findings; `path` only names the file in them."""
    tree = parse_yaml(text, path)
    usable = not tree.findings
    manifest = validate_tree(tree, Manifest)
    if manifest is not None:
        report_unsupported(manifest, tree)
    return ManifestText(manifest if usable else None, tree)


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
