"""Rules of what is handed to Kubernetes: names, labels, quantities, tolerations, affinity. What it would refuse is told here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Finding
from dpone_contract.model_findings import validate_tree
from dpone_packbuilder.catalog import PodOptions
from dpone_packbuilder.kubernetes_names import (
    find_quantity,
    is_absolute_path,
    is_dns_label,
    is_dns_name,
    is_image,
    is_label_key,
    is_label_value,
    is_secret_key,
)
from dpone_packbuilder.kubernetes_shapes import Affinity, Toleration
from dpone_packbuilder.pod_policy import connection_place, pod_place, resolve_connections
from dpone_packbuilder.project import Workload
from dpone_packbuilder.rule import error_at

AIRFLOW_LABELS = frozenset(
    {
        "dag_id", "task_id", "run_id", "map_index", "try_number", "kubernetes_pod_operator", "already_checked",
        "airflow_version", "airflow_kpo_in_cluster", "airflow-worker", "execution_date", "parent_dag_id", "dag_version",
    }
)  # fmt: skip
"""Labels by which Airflow finds its pods again."""

_ANNOTATIONS_LIMIT_BYTES = 256 * 1024
_DNS_NAME = "use lower-case letters, digits, dashes and dots"
_NAMES: tuple[tuple[str, Callable[[str], bool], str, str], ...] = (
    ("image", is_image, "an image", "write it as registry/path:tag, the path in lower case"),
    ("namespace", is_dns_label, "a namespace", "use at most 63 lower-case letters, digits and dashes"),
    ("service_account", is_dns_name, "a service account", _DNS_NAME),
    ("priority_class", is_dns_name, "a priority class", _DNS_NAME),
    ("pod_template_file", is_absolute_path, "an absolute path", "begin it with a slash"),
    ("pack_path", is_absolute_path, "an absolute path", "begin it with a slash"),
)
_SMALLEST_MEMORY = 2**20


def check_kubernetes_syntax(workload: Workload, pod: PodOptions) -> Iterator[Finding]:
    """Apply every rule of this module."""
    yield from require_names(workload, pod)
    for key in ("labels", "annotations", "node_selector"):
        yield from require_labels(workload, key, getattr(pod, key) or {})
    yield from require_secret_names(workload, pod)
    yield from require_quantities(workload, pod)
    yield from require_tolerations(workload, pod)
    yield from require_affinity(workload, pod)


def require_names(workload: Workload, pod: PodOptions) -> Iterator[Finding]:
    """A name that Kubernetes would refuse is refused here."""
    for key, fits, kind, step in _NAMES:
        text = getattr(pod, key)
        if text is not None and not fits(text):
            yield _refuse(workload, (key,), f"{key} {text!r} is not {kind}", step)
    for index, name in enumerate(pod.image_pull_secrets or ()):
        if not is_dns_name(name):
            yield _refuse(
                workload, ("image_pull_secrets", index), f"{name!r} is not the name of a secret", _DNS_NAME
            )


def require_labels(workload: Workload, block: str, labels: Mapping[str, str]) -> Iterator[Finding]:
    """Keys are `name` or `prefix/name`; values of labels are short, those of annotations any text."""
    for key, text in labels.items():
        if not is_label_key(key):
            yield _refuse(
                workload,
                (block, key),
                f"{key!r} is not a key of {block}",
                "use at most 63 letters, digits, dashes, underscores and dots; a prefix ends with one slash",
            )
        elif block == "labels" and key in AIRFLOW_LABELS:
            yield _refuse(
                workload, (block, key), f"the label {key} is Airflow's own, it finds pods by it", "rename it"
            )
        elif block != "annotations" and not is_label_value(text):
            yield _refuse(
                workload,
                (block, key),
                f"{key}: {text[:80]!r} is not the value of a label",
                "use at most 63 letters, digits, dashes, underscores and dots, or put it under annotations",
            )
    size_bytes = sum(len(key) + len(text.encode()) for key, text in labels.items())
    if block == "annotations" and size_bytes > _ANNOTATIONS_LIMIT_BYTES:
        yield _refuse(
            workload,
            (block,),
            f"annotations have {size_bytes} bytes, more than {_ANNOTATIONS_LIMIT_BYTES}",
            "shorten them",
        )


def require_secret_names(workload: Workload, _pod: PodOptions) -> Iterator[Finding]:
    """A connection's secret and key are names."""
    for name, found in resolve_connections(workload).items():
        if not is_dns_name(found.secret):
            place = connection_place(workload, name, "secret")
            message = f"{found.secret!r} is not the name of a secret"
            yield error_at(place, ErrorCode.MANIFEST_INVALID, message, _DNS_NAME)
        if not is_secret_key(found.key):
            place = connection_place(workload, name, "key")
            message = f"{found.key!r} is not a key of a secret"
            step = "use letters, digits, dashes, underscores and dots"
            yield error_at(place, ErrorCode.MANIFEST_INVALID, message, step)


def require_quantities(workload: Workload, pod: PodOptions) -> Iterator[Finding]:
    """Processor and memory are quantities, and no more is asked for than may be used."""
    resources = pod.resources
    requests = resources.requests or {} if resources else {}
    limits = resources.limits or {} if resources else {}
    for block, quantities in (("requests", requests), ("limits", limits)):
        for name, text in quantities.items():
            problem = _find_quantity_problem(name, text)
            if problem is not None:
                yield _refuse(workload, ("resources", block, name), *problem)
    for name in requests.keys() & limits.keys():
        if _find_quantity_problem(name, requests[name]) or _find_quantity_problem(name, limits[name]):
            continue  # told already
        asked, allowed = find_quantity(requests[name]), find_quantity(limits[name])
        if asked is not None and allowed is not None and asked > allowed:
            yield _refuse(
                workload,
                ("resources", "requests", name),
                f"requests {name} {requests[name]} is above its limit, {limits[name]}",
                "lower the request or raise the limit",
            )


def require_tolerations(workload: Workload, pod: PodOptions) -> Iterator[Finding]:
    """Tolerations have Kubernetes' own keys."""
    for index, toleration in enumerate(pod.tolerations or ()):
        place = pod_place(workload, "tolerations", index)
        view = place.tree.below(place.path)
        if validate_tree(view, Toleration) is None:
            yield from view.findings
        elif toleration.get("operator") != "Exists" and "key" not in toleration:
            yield _refuse(
                workload,
                ("tolerations", index),
                "a toleration without key tolerates every taint, and needs operator: Exists to say so",
                "add the key of the taint, or operator: Exists",
            )
        elif toleration.get("operator") == "Exists" and "value" in toleration:
            yield _refuse(
                workload,
                ("tolerations", index, "value"),
                "operator: Exists takes no value",
                "remove value, or use operator: Equal",
            )


def require_affinity(workload: Workload, pod: PodOptions) -> Iterator[Finding]:
    """Affinity has Kubernetes' own keys."""
    for key in pod.affinity or {}:
        place = pod_place(workload, "affinity", key)
        view = place.tree.below(place.path[:-1])
        if validate_tree(view, Affinity) is None:
            yield from view.findings


def _find_quantity_problem(name: str, text: str) -> tuple[str, str] | None:
    if not is_label_key(name):
        return f"{name!r} is not a resource", 'write for example cpu: "1" and memory: "512Mi"'
    number = find_quantity(text)
    if number is None:
        return f"{name} {text!r} is not a quantity", 'write for example "500m" of cpu, or "512Mi" of memory'
    if name == "memory" and number < _SMALLEST_MEMORY:
        return f"memory {text!r} is less than a mebibyte", f'did you mean "{text.rstrip("mukKMi")}Mi"?'
    return None


def _refuse(workload: Workload, path: tuple[str | int, ...], message: str, next_step: str) -> Finding:
    return error_at(pod_place(workload, *path), ErrorCode.MANIFEST_INVALID, message, next_step)
