"""A project: a catalog and its manifests, read from files. No other module of the builder reads one.

What cannot be read is a finding with a place and a way out, never an exception.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path as FilePath
from stat import S_ISREG

from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Finding
from dpone_contract.manifest import Manifest
from dpone_contract.manifest_text import ManifestText, read_manifest_text
from dpone_contract.model_draft import find_draft
from dpone_contract.model_findings import validate_tree
from dpone_contract.model_keys import all_keys
from dpone_contract.yaml_tree import MAX_BYTES, YamlTree, parse_yaml
from dpone_packbuilder.catalog import CatalogDefaults, WorkloadCatalog, WorkloadOptions, workload_path

CATALOG_NAMES = ("workloads.yaml", "workloads.yml")


@dataclass(frozen=True)
class Workload:
    """One workload and the trees that its findings point into.

    `manifest` is None where it cannot be used; `draft` is then what remains of it for further checks. `catalog_tree` and
    `options` are None for a manifest given alone.
    """

    name: str
    manifest: Manifest | None
    manifest_tree: YamlTree
    draft: Manifest | None = None
    options: WorkloadOptions | None = None
    defaults: CatalogDefaults | None = None
    catalog_tree: YamlTree | None = None


@dataclass(frozen=True)
class Project:
    """What was read, in the catalog's order, and what was found wrong while reading."""

    path: str
    workloads: tuple[Workload, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def is_catalog(self) -> bool:
        """Whether the workloads come from a catalog, so that packs can be built from them."""
        return all(workload.options is not None for workload in self.workloads)


def load_project(root: FilePath | str) -> Project:
    """Read a folder with a catalog, a catalog file, or a single manifest."""
    shown = shown_path(root)
    path, finding = _find_file(FilePath(root), shown)
    if finding is not None:
        return Project(shown, findings=(finding,))
    text = read_text(path)
    if isinstance(text, Finding):
        return Project(shown, findings=(text,))
    return _read_project(text, path, read_text)


def project_of_texts(texts: Mapping[str, str], catalog: str) -> Project:
    """Read a project whose files, by name, are not written yet."""
    return _read_project(texts[catalog], FilePath(catalog), lambda path: texts[path.name])


def project_with(catalog: FilePath, texts: Mapping[str, str]) -> Project:
    """Read a project as it would be with the texts of some of its files, by name; the others are read from their folder."""

    def read(path: FilePath) -> str | Finding:
        beside = path.parent == catalog.parent and path.name in texts
        return texts[path.name] if beside else read_text(path)

    return _read_project(texts[catalog.name], catalog, read)


def _read_project(text: str, path: FilePath, read: Callable[[FilePath], str | Finding]) -> Project:
    tree = parse_yaml(text, shown_path(path))
    if (
        isinstance(tree.value, dict)
        and "workloads" not in tree.value
        and {"source", "sink"} & tree.value.keys()
    ):
        return _lone_manifest(text, tree.path)
    return _Reading(tree, path.parent, read).project()


def read_text(path: FilePath) -> str | Finding:
    """Give the text of a file, or the finding that says why there is none."""
    shown = shown_path(path)

    def refuse(message: str, next_step: str, line: int = 0, column: int = 0) -> Finding:
        return Finding(shown, line, column, ErrorCode.MANIFEST_INVALID, message, next_step)

    try:
        status = path.stat()
        if not S_ISREG(status.st_mode):
            return refuse("this is not a file", "name a YAML file")
        if status.st_size > MAX_BYTES:
            return refuse(f"the file has {status.st_size} bytes, more than {MAX_BYTES}", "split it")
        data = path.read_bytes()
    except FileNotFoundError:
        return refuse("the file does not exist", _suggest_file(path))
    except OSError as error:
        return refuse(f"the file cannot be read: {error.strerror}", "check the path and its permissions")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        return refuse("the file is not UTF-8 text", "save it as UTF-8", line, column)


def shown_path(path: FilePath | str) -> str:
    """Give a path as findings show it: relative to the current folder."""
    try:
        return os.path.relpath(path)
    except (ValueError, OSError):  # another drive, or the current folder is gone
        return str(path)


def _find_file(root: FilePath, shown: str) -> tuple[FilePath, Finding | None]:
    if not root.is_dir():
        return root, None
    found = [root / name for name in CATALOG_NAMES if (root / name).exists()]
    if len(found) == 1:
        return found[0], None
    if found:
        message, next_step = "the folder holds workloads.yaml and workloads.yml", "keep one of them"
    else:
        message = "the folder holds no workloads.yaml"
        next_step = f"begin with `dpone init {shown}`, or name a catalog or a manifest"
    return root, Finding(shown, 0, 0, ErrorCode.MANIFEST_INVALID, message, next_step)


def _suggest_file(path: FilePath) -> str:
    try:
        names = sorted(entry.name for entry in path.parent.iterdir() if entry.suffix in (".yaml", ".yml"))
    except OSError:
        return f"create it; the folder {shown_path(path.parent)} does not exist either"
    close = get_close_matches(path.name, names, n=1)
    return f"did you mean {shown_path(path.parent / close[0])}?" if close else "create it, or mend the path"


def _lone_manifest(text: str, path: str) -> Project:
    read = read_manifest_text(text, path)
    name = read.manifest.name if read.manifest else FilePath(path).stem
    return Project(path, (Workload(name, read.manifest, read.tree, read.draft),), tuple(read.tree.findings))


def _manifest_keys() -> dict[str, str]:
    """Give the keys of a manifest and where each belongs, for those who write it into a catalog."""
    homes = {key: f"{home} in the manifest" for home, key in reversed(list(all_keys(Manifest)))}
    return homes | {
        "gitops": "the top of the manifest; in a catalog, mapping stands under workloads.<name>.airflow"
    }


@dataclass
class _Reading:
    """One catalog while it is read; a manifest that several workloads share is read once."""

    tree: YamlTree
    folder: FilePath
    read: Callable[[FilePath], str | Finding]
    manifests: dict[FilePath, ManifestText] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def project(self) -> Project:
        catalog = validate_tree(self.tree, WorkloadCatalog, _manifest_keys())
        if catalog is None:
            catalog = find_draft(self.tree, WorkloadCatalog)  # its findings keep anything from being built
        workloads: tuple[Workload, ...] = ()
        if catalog is not None:
            workloads = tuple(
                self.workload(name, options, catalog.defaults) for name, options in catalog.workloads.items()
            )
        return Project(self.tree.path, workloads, (*self.tree.findings, *self.findings))

    def workload(self, name: str, options: WorkloadOptions, defaults: CatalogDefaults | None) -> Workload:
        read = self.manifest(name, self.folder / options.manifest)
        return Workload(name, read.manifest, read.tree, read.draft, options, defaults, self.tree)

    def manifest(self, workload: str, path: FilePath) -> ManifestText:
        if path not in self.manifests:
            text = self.read(path)
            if isinstance(text, Finding):
                at = workload_path(workload, "manifest")
                missing = not text.line
                if missing:  # the catalog's line is where the path is mended
                    self.tree.report(text.code, at, f"manifest {text.path}: {text.message}", text.next_step)
                else:
                    self.findings.append(text)
                self.manifests[path] = ManifestText(None, None, YamlTree(shown_path(path)))
            else:
                read = read_manifest_text(text, shown_path(path))
                self.findings.extend(read.tree.findings)
                self.manifests[path] = read
        return self.manifests[path]
