"""What Kubernetes, or this stand-in, refuses in a pod before it exists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")
LABEL_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
LABEL_NAME = re.compile(
    r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
VARIABLE_NAME = re.compile(r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")
KNOWN_VOLUMES = frozenset({"emptyDir", "hostPath"})


class InvalidPodError(Exception):
    """The pod is refused; `status` is 400 for what is not a pod at all, else 422."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


def require_valid_pod(document: Mapping[str, Any]) -> None:
    """Refuse a pod that a real API would refuse, and one that this stand-in cannot run.

    Errors: InvalidPodError naming the first field.
    """
    problem = next(_untyped(document), None)
    if problem is not None:
        raise InvalidPodError(problem, 400)
    problem = next(_invalid(document), None)
    if problem is not None:
        raise InvalidPodError(problem)


def _untyped(document: Mapping[str, Any]) -> Iterator[str]:
    for container in document.get("spec", {}).get("containers", ()):
        for variable in container.get("env") or ():
            if not isinstance(variable.get("value", ""), str):
                yield f"cannot unmarshal {type(variable['value']).__name__} into Go struct field EnvVar.value of type string"
        for word in (container.get("command") or []) + (container.get("args") or []):
            if not isinstance(word, str):
                yield "cannot unmarshal a value that is no string into Go struct field Container.args of type string"
    for kind in ("labels", "annotations"):
        for value in (document.get("metadata", {}).get(kind) or {}).values():
            if not isinstance(value, str):
                yield f"cannot unmarshal {type(value).__name__} into Go struct field ObjectMeta.{kind} of type string"


def _invalid(document: Mapping[str, Any]) -> Iterator[str]:
    metadata, spec = document.get("metadata", {}), document.get("spec", {})
    name = metadata.get("name") or metadata.get("generateName", "").rstrip("-")
    if not NAME.match(name):
        yield f"metadata.name: Invalid value: {name!r}: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
    for key, value in (metadata.get("labels") or {}).items():
        if not LABEL_NAME.match(key) or not LABEL_VALUE.match(value):
            yield f"metadata.labels: Invalid value: {key}={value!r}: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'"
    if not spec.get("containers"):
        yield "spec.containers: Required value"
    # What follows is possible in a cluster, and not here.
    if spec.get("initContainers"):
        yield "spec.initContainers: this stand-in runs none"
    if spec.get("restartPolicy") != "Never":
        yield "spec.restartPolicy: this stand-in starts no container twice, so it must be Never"
    for volume in spec.get("volumes") or ():
        if not KNOWN_VOLUMES & set(volume):
            yield f"spec.volumes[{volume.get('name')}]: this stand-in knows {', '.join(sorted(KNOWN_VOLUMES))} alone"
    yield from _invalid_containers(spec)


def _invalid_containers(spec: Mapping[str, Any]) -> Iterator[str]:
    volumes = {volume["name"] for volume in spec.get("volumes") or ()}
    seen: set[str] = set()
    for index, container in enumerate(spec.get("containers") or ()):
        place = f"spec.containers[{index}]"
        if not container.get("name") or container["name"] in seen:
            yield f"{place}.name: Duplicate or missing value: {container.get('name')!r}"
        seen.add(container.get("name", ""))
        if not container.get("image"):
            yield f"{place}.image: Required value"
        for variable in container.get("env") or ():
            if not VARIABLE_NAME.match(variable.get("name") or ""):
                yield f"{place}.env: Invalid value: {variable.get('name')!r}: a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.'"
        for mounted in container.get("volumeMounts") or ():
            if mounted["name"] not in volumes:
                yield f"{place}.volumeMounts: Not found: {mounted['name']!r}"
