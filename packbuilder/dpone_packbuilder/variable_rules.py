"""Rules of what is written into a pod or its variables: no template, no credential, no name that is somebody else's."""

from __future__ import annotations

from collections.abc import Iterator

from dpone_contract.environment import CONNECTION_PREFIXES, CONNECTIONS_DIR, STATE_DIR, EnvVar
from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Finding
from dpone_contract.pack import ENVIRONMENT_VALUE_LIMIT_BYTES
from dpone_packbuilder.authored_texts import (
    find_template_mark,
    looks_like_credential,
    names_a_secret,
    texts_in,
)
from dpone_packbuilder.catalog import PodOptions
from dpone_packbuilder.kubernetes_names import is_variable
from dpone_packbuilder.pod_policy import pod_place
from dpone_packbuilder.project import Workload
from dpone_packbuilder.rule import error_at

_SETTABLE = (CONNECTIONS_DIR, STATE_DIR)
_OWNED = frozenset(name.value for name in EnvVar)
_CONNECTIONS = (
    "name a connection under connections: it reaches the run from a Kubernetes secret, as DPONE_CONN_<NAME>"
)


def refuse_template_marks(workload: Workload, pod: PodOptions) -> Iterator[Finding]:
    """Airflow renders a pod's settings, and nothing that is written here is meant to be rendered."""
    for path, text in texts_in(pod.to_document()):
        mark = find_template_mark(text)
        if mark is not None:
            yield error_at(
                pod_place(workload, *path),
                ErrorCode.MANIFEST_INVALID,
                f"pod.{path[0]} holds {mark}, and nothing in pod is a template",
                "write the text itself; a run finds its interval in DPONE_INTERVAL_START and DPONE_INTERVAL_END",
            )


def check_variables(workload: Workload, pod: PodOptions) -> Iterator[Finding]:
    """Apply the rules of `env_vars`, one finding a variable."""
    for name, text in (pod.env_vars or {}).items():
        problem = _find_name_problem(name) or _find_value_problem(name, text)
        if problem is not None:
            yield error_at(pod_place(workload, "env_vars", name), ErrorCode.MANIFEST_INVALID, *problem)


def _find_name_problem(name: str) -> tuple[str, str] | None:
    if not is_variable(name):
        return (
            f"{name!r} is not the name of a variable",
            "use letters, digits and underscores, a letter first",
        )
    if name in _OWNED:
        return f"the variable {name} is written by the provider and cannot be set", "remove it"
    if name.startswith(CONNECTION_PREFIXES):
        return f"the variable {name} would hold a connection, with its password, in the pack", _CONNECTIONS
    if name.startswith("AIRFLOW_"):
        return f"the variable {name} would configure Airflow itself", "remove it: a run needs none of them"
    if name.startswith("DPONE_") and name not in _SETTABLE:
        return (
            f"names that begin with DPONE_ are dpone's own, and it reads no {name} from here",
            f"remove it; {' and '.join(_SETTABLE)} can be set",
        )
    return None


def _find_value_problem(name: str, text: str) -> tuple[str, str] | None:
    if names_a_secret(name):
        return (
            f"the variable {name} is named like a credential, and a pack holds none",
            _CONNECTIONS,
        )
    if looks_like_credential(text):
        return f"the variable {name} seems to hold a credential, and a pack holds none", _CONNECTIONS
    size_bytes = len(text.encode())
    if size_bytes > ENVIRONMENT_VALUE_LIMIT_BYTES:
        return (
            f"the variable {name} has {size_bytes} bytes, more than {ENVIRONMENT_VALUE_LIMIT_BYTES}",
            "put the text into a file of the image, and its path here",
        )
    return None
