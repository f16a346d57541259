"""A valid project as plain values, changed by what a test is about, and its files."""

import json
import re
from copy import deepcopy
from pathlib import Path

MANIFEST = {
    "name": "orders",
    "source": {
        "type": "postgres",
        "connection_ref": "operations",
        "table": {"schema": "public", "name": "orders"},
    },
    "sink": {
        "type": "postgres",
        "connection_ref": "warehouse",
        "table": {"schema": "analytics", "name": "orders"},
        "strategy": {
            "mode": "backfill",
            "backfill": {
                "inner_mode": "partition_replace",
                "chunk": {"column": "order_date", "from": "2024-01-01", "to": "2024-01-10", "step": "1d"},
                "state": {"backend": "audit_schema", "require_distributed_lock": True},
            },
        },
    },
}
SUMMARY = {"mode": "summary", "max_items": 4, "max_active": 2}
EXECUTION = {"backend": "process"}


def manifest(**changes):
    """Give the manifest with keys changed, named by their path: `sink__strategy__backfill__parallel_workers=4`.

    `backfill` and `chunk` stand for the path to that block; the value None removes a key.
    """
    document = deepcopy(MANIFEST)
    for name, value in changes.items():
        path = name.split("__")
        if path[0] == "chunk":
            path = ["backfill", *path]
        if path[0] == "backfill":
            path = ["sink", "strategy", *path]
        holder = document
        for key in path[:-1]:
            holder = holder.setdefault(key, {})
        if value is None:
            holder.pop(path[-1], None)
        else:
            holder[path[-1]] = value
    return document


def workload(*, mapping=SUMMARY, manifest_path="orders.yaml", **execution):
    """Give a catalog entry; further arguments are keys of `execution`."""
    return {
        "manifest": manifest_path,
        "airflow": {"mapping": mapping, "execution": {**EXECUTION, **execution}},
    }


def as_yaml(value, indent=0):
    """Give a value as block YAML, one key a line, so that every key has a line of its own."""
    lines = []
    for name, item in value.items():
        key = name if re.fullmatch(r"[^{}%#: ]+", name) else json.dumps(name)
        if isinstance(item, dict) and item:
            lines += [f"{' ' * indent}{key}:", as_yaml(item, indent + 2)]
        else:
            lines.append(f"{' ' * indent}{key}: {json.dumps(item)}")
    return "\n".join(lines)


def write_project(folder: Path, *, workloads=None, manifests=None, **catalog) -> Path:
    """Write a catalog and its manifests; the default is one workload in mode summary."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {"workloads": workloads or {"orders": workload()}, **catalog}
    (folder / "workloads.yaml").write_text(as_yaml(document), encoding="utf-8")
    for name, content in (manifests or {"orders.yaml": manifest()}).items():
        (folder / name).write_text(as_yaml(content), encoding="utf-8")
    return folder


def line_of(path: Path, key: str) -> int:
    """Give the first line that begins with a key, counted from one."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip().startswith((f"{key}:", f"{json.dumps(key)}:")):
            return number
    raise AssertionError(f"{path} has no key {key}")
