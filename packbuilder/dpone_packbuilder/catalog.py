"""The catalog: names of workloads, the manifest of each, and how Airflow shows and runs it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from dpone_contract.frozen import FrozenModel
from dpone_contract.manifest import ConnectionName, Options
from dpone_contract.mapping_policy import MappingOptions
from dpone_contract.pack import AirflowName, ExecutionBackend, Hook, ShortText
from dpone_contract.yaml_tree import Path

WorkloadName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}$")]
Tag = Annotated[str, Field(min_length=1, max_length=100)]
Seconds = Annotated[int, Field(ge=1, le=604_800)]


class Delivery(StrEnum):
    """How a task gets its process: in its own command line, or in a pack file that is there already."""

    ARGUMENT = "argument"
    FILE = "file"


class ExecutionOptions(FrozenModel):
    """The authored `airflow.execution` block: the DAG of a workload."""

    dag_id: AirflowName | None = Field(
        default=None, description="Id of the DAG; default the workload's name."
    )
    description: str | None = Field(default=None, max_length=2000, description="Shown by Airflow.")
    schedule: str | None = Field(default=None, description="A preset such as @daily, a cron line, or null.")
    start_date: str | None = Field(
        default=None, description="Quoted ISO date or instant; needed by a schedule."
    )
    catchup: bool | None = Field(default=None, description="Run missed intervals; default false.")
    retries: Annotated[int, Field(ge=0, le=100)] | None = Field(
        default=None, description="Airflow retries of a task; at most the retry authority; default 0."
    )
    retry_delay_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = Field(
        default=None, description="Pause before a retry; default 60."
    )
    max_active_runs: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description="DAG runs at once; default 1."
    )
    tags: tuple[Tag, ...] | None = Field(default=None, description="Tags of the DAG.")
    owner: ShortText | None = Field(default=None, description="Owner of the tasks.")
    execution_timeout_seconds: Annotated[int, Field(ge=1, le=2_592_000)] | None = Field(
        default=None, description="How long a task may run before Airflow ends it."
    )
    outlets: tuple[ShortText, ...] | None = Field(
        default=None, description="URIs of the assets that a finished load updates."
    )
    outcome_gate: bool | None = Field(
        default=None,
        description="A task behind the load that judges the campaign; always there before outlets and post hooks.",
    )
    backend: ExecutionBackend | None = Field(
        default=None, description="kubernetes (default) or process: where `dpone run` runs."
    )
    delivery: Delivery | None = Field(
        default=None, description="argument (default): in the task's command line; file: in a pack beside it."
    )


class HookOptions(FrozenModel):
    """The authored `airflow.hooks` block: commands that run once, in sequence, before all items or after them."""

    pre: Annotated[tuple[Hook, ...], Field(max_length=20)] | None = Field(
        default=None, description="Before the load; where one fails, nothing is loaded."
    )
    post: Annotated[tuple[Hook, ...], Field(max_length=20)] | None = Field(
        default=None, description="After the load, once its campaign is complete."
    )


class AirflowOptions(FrozenModel):
    """The authored `airflow` block of a workload or of the defaults."""

    mapping: MappingOptions | None = Field(default=None, description="How many tasks show the campaign.")
    execution: ExecutionOptions | None = Field(default=None, description="The DAG and where its tasks run.")
    hooks: HookOptions | None = Field(default=None, description="Commands before and after the load.")


class SecretKey(FrozenModel):
    """Where a pod finds a connection: a key of a Kubernetes secret, never a value."""

    secret: ShortText = Field(description="Name of the Kubernetes secret.")
    key: ShortText = Field(description="Key within the secret.")


class ResourceOptions(FrozenModel):
    """What a pod asks for and may use, each a Kubernetes quantity in quotes."""

    requests: dict[ShortText, ShortText] | None = Field(default=None, description="What a pod asks for.")
    limits: dict[ShortText, ShortText] | None = Field(default=None, description="What a pod may use.")


class PodOptions(FrozenModel):
    """The authored `pod` block: the pod of a task."""

    image: ShortText | None = Field(default=None, description="Image that holds dpone-runtime.")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = Field(
        default=None, description="When the image is pulled."
    )
    image_pull_secrets: tuple[ShortText, ...] | None = Field(
        default=None, description="Secrets that open the image's registry."
    )
    namespace: ShortText | None = Field(default=None, description="Namespace of the pod.")
    service_account: ShortText | None = Field(default=None, description="Service account of the pod.")
    labels: dict[ShortText, str] | None = Field(default=None, description="Labels of the pod.")
    annotations: dict[ShortText, str] | None = Field(default=None, description="Annotations of the pod.")
    node_selector: dict[ShortText, str] | None = Field(
        default=None, description="Labels that a node must have."
    )
    tolerations: tuple[Options, ...] | None = Field(
        default=None, description="Taints that the pod tolerates, as Kubernetes writes them."
    )
    affinity: Options | None = Field(default=None, description="Affinity, as Kubernetes writes it.")
    priority_class: ShortText | None = Field(default=None, description="Priority class of the pod.")
    resources: ResourceOptions | None = Field(default=None, description="Processor and memory.")
    env_vars: dict[ShortText, str] | None = Field(
        default=None, description="Further variables; no credential, and none that dpone writes."
    )
    kubernetes_conn_id: AirflowName | None = Field(
        default=None, description="Airflow connection of the cluster; default the cluster that Airflow is in."
    )
    pod_template_file: ShortText | None = Field(
        default=None, description="Pod template on the Airflow worker; what stands here goes over it."
    )
    run_as_user: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = Field(
        default=None, description="Numeric user of the run, never 0."
    )
    fs_group: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        default=None, description="Group that owns the pod's volumes."
    )
    on_finish_action: Literal["delete_pod", "delete_succeeded_pod", "keep_pod"] | None = Field(
        default=None, description="What becomes of a pod that has ended."
    )
    startup_timeout_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = Field(
        default=None, description="How long a pod may take to start."
    )
    active_deadline_seconds: Seconds | None = Field(
        default=None, description="How long a pod may live before Kubernetes ends it."
    )
    termination_grace_seconds: Annotated[int, Field(ge=1, le=3600)] | None = Field(
        default=None, description="Seconds between Kubernetes' request to end and its kill."
    )
    deferrable: bool | None = Field(
        default=None, description="Whether the triggerer waits for the pod instead of a worker."
    )
    poll_interval_seconds: Annotated[int, Field(ge=1, le=3600)] | None = Field(
        default=None, description="Seconds between the triggerer's looks at the pod."
    )
    pack_path: ShortText | None = Field(
        default=None,
        description="With delivery: file, where the pod finds the pack: its file, or the folder of the release.",
    )


class WorkloadOptions(FrozenModel):
    """One entry under `workloads`."""

    manifest: Annotated[str, Field(min_length=1)] = Field(
        description="Path of the manifest, relative to the catalog."
    )
    airflow: AirflowOptions | None = Field(default=None, description="Projection on Airflow.")
    pod: PodOptions | None = Field(default=None, description="Pod settings of the kubernetes backend.")
    connections: dict[ConnectionName, SecretKey] | None = Field(
        default=None, description="Secrets that hold the connections of the kubernetes backend."
    )


class CatalogDefaults(FrozenModel):
    """What holds for every workload that does not say otherwise."""

    airflow: AirflowOptions | None = Field(default=None, description="Defaults of mapping and execution.")
    pod: PodOptions | None = Field(default=None, description="Defaults of the pod settings.")
    connections: dict[ConnectionName, SecretKey] | None = Field(
        default=None, description="Secrets of connections that several workloads share."
    )


class WorkloadCatalog(FrozenModel):
    """The whole file."""

    workloads: Annotated[dict[WorkloadName, WorkloadOptions], Field(min_length=1)] = Field(
        description="Workloads by name."
    )
    defaults: CatalogDefaults | None = Field(default=None, description="For all workloads of this file.")


def workload_path(name: str, *keys: str) -> Path:
    """Give the path of a key of a workload within its catalog."""
    return ("workloads", name, *keys)


def default_path(*keys: str) -> Path:
    """Give the path of a key of the defaults within a catalog."""
    return ("defaults", *keys)
