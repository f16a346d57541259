"""The environment, command and user of a pod's container, as the kubelet works them out from its spec and from secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

IMAGE_USER = 10001
"""The numeric user that the image names."""

Secrets = Mapping[str, Mapping[str, str]]
_REFERENCE = re.compile(r"\$(\$|\(([-._a-zA-Z][-._a-zA-Z0-9]*)\))")


class ContainerConfigError(Exception):
    """The container cannot be configured, and so waits with CreateContainerConfigError."""


def container_environment(
    pod: Mapping[str, Any], container: Mapping[str, Any], image: Mapping[str, str], secrets: Secrets
) -> dict[str, str]:
    """Give the image's variables and, over them, the container's own; nothing else.

    Errors: ContainerConfigError for a secret or key that is not there.
    """
    found = dict(image)
    for source in container.get("envFrom") or ():
        found |= _all_of(source, secrets)
    for variable in container.get("env") or ():
        if origin := variable.get("valueFrom"):
            value = _value_from(origin, pod, secrets)
            if value is not None:
                found[variable["name"]] = value
        else:
            found[variable["name"]] = expanded(variable.get("value") or "", found)
    return found


def container_command(container: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    """Give command and arguments, references expanded.

    Errors: ContainerConfigError where there is neither: this image has no entrypoint.
    """
    words: Sequence[str] = [*(container.get("command") or []), *(container.get("args") or [])]
    if not words:
        raise ContainerConfigError("no command specified")
    return [expanded(word, environment) for word in words]


def container_user(pod: Mapping[str, Any], container: Mapping[str, Any]) -> int:
    """Give the numeric user.

    Errors: ContainerConfigError where root is asked for and refused at once.
    """
    contexts = (container.get("securityContext") or {}, pod["spec"].get("securityContext") or {})
    user = next((each["runAsUser"] for each in contexts if each.get("runAsUser") is not None), IMAGE_USER)
    non_root = next(
        (each["runAsNonRoot"] for each in contexts if each.get("runAsNonRoot") is not None), False
    )
    if non_root and user == 0:
        raise ContainerConfigError("container has runAsNonRoot and image will run as root")
    return int(user)


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """Put in the variables that a text names as `$(NAME)`; what is not known stays, `$$` is a dollar."""

    def replacement(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        return environment.get(found[2], found[0])

    return _REFERENCE.sub(replacement, text)


def _all_of(source: Mapping[str, Any], secrets: Secrets) -> dict[str, str]:
    reference = source.get("secretRef")
    if reference is None:
        raise ContainerConfigError("this stand-in has no config maps")
    name = reference["name"]
    if name not in secrets:
        if reference.get("optional"):
            return {}
        raise ContainerConfigError(f'secret "{name}" not found')
    prefix = source.get("prefix") or ""
    return {prefix + key: value for key, value in secrets[name].items()}


def _value_from(origin: Mapping[str, Any], pod: Mapping[str, Any], secrets: Secrets) -> str | None:
    if field := origin.get("fieldRef"):
        return _field(field["fieldPath"], pod)
    reference = origin.get("secretKeyRef")
    if reference is None:
        raise ContainerConfigError("this stand-in knows secrets and fields of the pod alone")
    name, key = reference["name"], reference["key"]
    if name in secrets and key in secrets[name]:
        return secrets[name][key]
    if reference.get("optional"):
        return None
    if name not in secrets:
        raise ContainerConfigError(f'secret "{name}" not found')
    raise ContainerConfigError(f"couldn't find key {key} in Secret {pod['metadata']['namespace']}/{name}")


def _field(path: str, pod: Mapping[str, Any]) -> str:
    if path in {"metadata.name", "metadata.namespace", "metadata.uid"}:
        return str(pod["metadata"][path.removeprefix("metadata.")])
    if labelled := re.match(r"^metadata\.labels\['([^']+)'\]$", path):
        return str(pod["metadata"]["labels"].get(labelled[1], ""))
    raise ContainerConfigError(f"this stand-in does not know the field {path}")
