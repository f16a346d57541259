"""The pod that a task will start, defaults filled in; the secrets that have to exist, and what Airflow may do in its cluster."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from dpone_contract.frozen import FrozenModel
from dpone_contract.pod import (
    DEADLINE_AFTER_TIMEOUT_SECONDS,
    ON_FINISH_ACTION,
    POLL_INTERVAL_SECONDS,
    RUN_AS_USER,
    STARTUP_TIMEOUT_SECONDS,
    PodArguments,
    PodResources,
    SecretVariable,
)

PLACEHOLDER = "postgresql://USER:PASSWORD@HOST:5432/DATABASE"
"""What stands in a command for the value of a connection."""

Seconds = Annotated[int, Field(ge=1)]


class Permission(FrozenModel):
    """What an account may do with one kind of object."""

    resource: str = Field(description="Kind of object, of the core group.")
    verbs: tuple[str, ...] = Field(description="What is done with it.")


PERMISSIONS = (
    Permission(resource="pods", verbs=("create", "get", "list", "watch", "delete", "patch")),
    Permission(resource="pods/log", verbs=("get",)),
    Permission(resource="pods/exec", verbs=("create", "get")),
    Permission(resource="events", verbs=("list", "watch")),
)
"""What Airflow's account needs in the namespace of the pods."""


class PodSecurity(FrozenModel):
    """What a pod runs as."""

    run_as_user: int = Field(description="Number of its user, never root.")
    fs_group: int | None = Field(default=None, description="Group that owns its volumes.")
    read_only_root_filesystem: bool = Field(
        default=True, description="Nothing but /tmp, a volume of its own, can be written."
    )
    capabilities: tuple[str, ...] = Field(default=(), description="Capabilities that are left.")
    seccomp: str = Field(default="RuntimeDefault", description="Seccomp profile.")
    token_mounted: bool = Field(description="Whether a token of its service account is mounted.")


class PreviewedPod(FrozenModel):
    """One pod."""

    image: str | None = Field(default=None, description="Image; none where a template names it.")
    image_pull_policy: str | None = Field(default=None, description="When it is pulled.")
    namespace: str | None = Field(
        default=None, description="Namespace; none for that of the cluster's connection."
    )
    kubernetes_conn_id: str | None = Field(default=None, description="Airflow connection of the cluster.")
    pod_template_file: str | None = Field(default=None, description="Template on the Airflow worker.")
    service_account: str | None = Field(default=None, description="Its service account.")
    resources: PodResources | None = Field(default=None, description="Processor and memory.")
    security: PodSecurity = Field(description="What it runs as.")
    deferrable: bool = Field(description="Whether the triggerer waits for it.")
    poll_interval_seconds: Seconds = Field(description="Pause between the triggerer's looks.")
    startup_timeout_seconds: Seconds = Field(description="How long it may take to start.")
    active_deadline_seconds: Seconds | None = Field(default=None, description="How long it may live.")
    termination_grace_seconds: Seconds | None = Field(
        default=None, description="From Kubernetes' request to end to its kill."
    )
    on_finish_action: str = Field(description="What becomes of it.")
    pack_path: str | None = Field(default=None, description="Where it finds its pack.")
    secrets: tuple[SecretVariable, ...] = Field(description="Variables that are filled from secrets.")
    secret_commands: tuple[str, ...] = Field(
        description="Commands that create these secrets, with placeholders."
    )
    permissions: tuple[Permission, ...] = Field(description="What Airflow's account needs.")


def pod_preview(pod: PodArguments, execution_timeout_seconds: int | None) -> PreviewedPod:
    """Give the pod that some arguments lead to."""
    return PreviewedPod(
        image=pod.image,
        image_pull_policy=pod.image_pull_policy,
        namespace=pod.namespace,
        kubernetes_conn_id=pod.kubernetes_conn_id,
        pod_template_file=pod.pod_template_file,
        service_account=pod.service_account_name,
        resources=pod.container_resources,
        security=PodSecurity(
            run_as_user=pod.run_as_user or RUN_AS_USER,
            fs_group=pod.fs_group,
            token_mounted=pod.service_account_name is not None,
        ),
        deferrable=pod.deferrable or False,
        poll_interval_seconds=pod.poll_interval or POLL_INTERVAL_SECONDS,
        startup_timeout_seconds=pod.startup_timeout_seconds or STARTUP_TIMEOUT_SECONDS,
        active_deadline_seconds=pod.active_deadline_seconds or _deadline(execution_timeout_seconds),
        termination_grace_seconds=pod.termination_grace_period,
        on_finish_action=pod.on_finish_action or ON_FINISH_ACTION,
        pack_path=pod.pack_path,
        secrets=pod.secrets or (),
        secret_commands=tuple(secret_commands(pod)),
        permissions=PERMISSIONS,
    )


def secret_commands(pod: PodArguments) -> Iterator[str]:
    """Give one command a secret, which creates it with a placeholder a key; never a value."""
    keys: dict[str, list[str]] = {}
    for found in pod.secrets or ():
        if found.key not in keys.setdefault(found.secret, []):
            keys[found.secret].append(found.key)
    namespace = f" --namespace {shlex.quote(pod.namespace)}" if pod.namespace else ""
    for secret, names in keys.items():
        literals = "".join(f" \\\n  --from-literal={shlex.quote(name)}='{PLACEHOLDER}'" for name in names)
        yield f"kubectl create secret generic {shlex.quote(secret)}{namespace}{literals}"


def _deadline(execution_timeout_seconds: int | None) -> int | None:
    if execution_timeout_seconds is None:
        return None
    return execution_timeout_seconds + DEADLINE_AFTER_TIMEOUT_SECONDS
