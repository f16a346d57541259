"""The pod of a task: what a pack hands to the pod operator, as plain JSON, without a credential.

Fields are named after the arguments of Airflow's KubernetesPodOperator, where one of them means the same. What is absent
is left to the operator, which has its own defaults for a pod that loads data.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from dpone_contract.frozen import FrozenModel

ShortText = Annotated[str, Field(min_length=1, max_length=250)]
Seconds = Annotated[int, Field(ge=1, le=604_800)]
# What a pod has where its pack says nothing.
RUN_AS_USER = 10001
ON_FINISH_ACTION = "delete_pod"
# Images are pulled and nodes are added on demand; a load can wait for both.
STARTUP_TIMEOUT_SECONDS = 600
POLL_INTERVAL_SECONDS = 10
# Kubernetes ends a pod that Airflow could not: a deferred task is failed without a word to its pod.
DEADLINE_AFTER_TIMEOUT_SECONDS = 60

UserId = Annotated[int, Field(ge=1, le=2**31 - 1)]


class SecretVariable(FrozenModel):
    """An environment variable of the pod that Kubernetes fills from a secret."""

    variable: ShortText = Field(description="Name of the variable.")
    secret: ShortText = Field(description="Name of the Kubernetes secret.")
    key: ShortText = Field(description="Key within the secret.")


class PodResources(FrozenModel):
    """What a pod asks for and may use, each a Kubernetes quantity by its name."""

    requests: dict[ShortText, ShortText] = Field(default={}, description="What a pod asks for.")
    limits: dict[ShortText, ShortText] = Field(default={}, description="What a pod may use.")


class PodArguments(FrozenModel):
    """The pod operator's arguments; of the process backend, `env_vars` alone."""

    env_vars: dict[ShortText, str] | None = Field(default=None, description="Further variables of the run.")
    image: ShortText | None = Field(default=None, description="Image that holds dpone-runtime.")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = Field(
        default=None, description="When the image is pulled."
    )
    image_pull_secrets: tuple[ShortText, ...] | None = Field(
        default=None, description="Secrets that open the image's registry."
    )
    namespace: ShortText | None = Field(default=None, description="Namespace of the pod.")
    kubernetes_conn_id: ShortText | None = Field(
        default=None, description="Airflow connection of the cluster; none for the operator's own default."
    )
    service_account_name: ShortText | None = Field(default=None, description="Service account of the pod.")
    labels: dict[ShortText, str] | None = Field(default=None, description="Labels of the pod.")
    annotations: dict[ShortText, str] | None = Field(default=None, description="Annotations of the pod.")
    node_selector: dict[ShortText, str] | None = Field(
        default=None, description="Labels that a node must have."
    )
    tolerations: tuple[dict[str, JsonValue], ...] | None = Field(
        default=None, description="Taints that the pod tolerates, as Kubernetes writes them."
    )
    affinity: dict[str, JsonValue] | None = Field(
        default=None, description="Affinity, as Kubernetes writes it."
    )
    priority_class_name: ShortText | None = Field(default=None, description="Priority class of the pod.")
    container_resources: PodResources | None = Field(default=None, description="Processor and memory.")
    secrets: tuple[SecretVariable, ...] | None = Field(
        default=None, description="Variables that hold the connections, filled by Kubernetes."
    )
    pod_template_file: ShortText | None = Field(
        default=None, description="Pod template on the Airflow worker; what is said here goes over it."
    )
    run_as_user: UserId | None = Field(default=None, description="Numeric user of the run, never root.")
    fs_group: UserId | None = Field(default=None, description="Group that owns the pod's volumes.")
    on_finish_action: Literal["delete_pod", "delete_succeeded_pod", "keep_pod"] | None = Field(
        default=None, description="What becomes of a pod that has ended."
    )
    startup_timeout_seconds: Seconds | None = Field(
        default=None, description="How long a pod may take to start."
    )
    active_deadline_seconds: Seconds | None = Field(
        default=None, description="How long a pod may live before Kubernetes ends it."
    )
    termination_grace_period: Seconds | None = Field(
        default=None, description="Seconds between Kubernetes' request to end and its kill."
    )
    deferrable: bool | None = Field(
        default=None, description="Whether the triggerer waits for the pod instead of a worker."
    )
    poll_interval: Seconds | None = Field(
        default=None, description="Seconds between the triggerer's looks at the pod."
    )
    pack_path: ShortText | None = Field(
        default=None,
        description="Where the pod finds the pack, with delivery by file; else the process is an argument.",
    )
