"""Rules of where a workload's tasks run: which settings fit its backend, and what a pod needs. One small function a rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpone_contract.environment import CONNECTIONS_DIR, connection_variables
from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Finding
from dpone_contract.manifest import Manifest
from dpone_packbuilder.catalog import Delivery, ExecutionOptions, PodOptions
from dpone_packbuilder.hook_rules import check_hooks
from dpone_packbuilder.kubernetes_rules import check_kubernetes_syntax
from dpone_packbuilder.pod import LONGEST_PATH, delivered_connections, delivered_path, manifest_connections
from dpone_packbuilder.pod_policy import (
    connection_place,
    is_authored,
    pod_place,
    resolve_connections,
    resolve_pod,
    runs_in_pods,
)
from dpone_packbuilder.policy import execution_place
from dpone_packbuilder.project import Workload
from dpone_packbuilder.rule import error_at, in_campaign, warning_at
from dpone_packbuilder.variable_rules import check_variables, refuse_template_marks

OF_EVERY_BACKEND = ("env_vars",)
"""Keys of `pod` that a child process has too."""


def check_where_it_runs(workload: Workload, execution: ExecutionOptions) -> list[Finding]:
    """Apply every rule of this module and of those that it leads to; of several findings at one key the first."""
    pod = resolve_pod(workload)
    rules: list[Iterable[Finding]] = [refuse_template_marks(workload, pod)]
    if runs_in_pods(workload):
        rules += [_check_pod(workload, pod, execution), check_kubernetes_syntax(workload, pod)]
    else:
        rules += [refuse_pod_settings(workload), refuse_delivery_by_file(workload, execution)]
    rules += [check_variables(workload, pod), check_hooks(workload)]
    found: dict[tuple[str, int, int], Finding] = {}
    for finding in (finding for rule in rules for finding in rule):
        found.setdefault((finding.path, finding.line, finding.column), finding)
    return list(found.values())


def _check_pod(workload: Workload, pod: PodOptions, execution: ExecutionOptions) -> Iterator[Finding]:
    yield from require_image(workload, pod)
    yield from refuse_root(workload, pod)
    yield from require_times_in_order(workload, pod, execution)
    yield from report_idle_poll(workload, pod)
    yield from require_pack_path(workload, pod, execution)
    yield from require_variables_of_their_own(workload)
    if workload.manifest is not None:
        yield from require_secrets(workload, workload.manifest, pod)
        yield from report_unused_secrets(workload, workload.manifest)
        yield from refuse_ledger_in_a_pod(workload, workload.manifest)


def refuse_pod_settings(workload: Workload) -> Iterator[Finding]:
    """A child process has no image and no secret: what its workload says of them would be ignored."""
    options = workload.options
    pod = options.pod if options else None
    step = "remove it, or set airflow.execution.backend: kubernetes"
    for key in PodOptions.model_fields:
        if pod is not None and getattr(pod, key) is not None and key not in OF_EVERY_BACKEND:
            yield error_at(
                pod_place(workload, key),
                ErrorCode.MANIFEST_INVALID,
                f"pod.{key} belongs to the kubernetes backend, and this workload runs as a child process",
                step,
            )
    if options is not None and options.connections:
        yield error_at(
            connection_place(workload),
            ErrorCode.MANIFEST_INVALID,
            "connections name Kubernetes secrets, and this workload runs as a child process",
            f"{step}; a child process reads DPONE_CONN_<NAME> or AIRFLOW_CONN_<NAME>",
        )


def refuse_delivery_by_file(workload: Workload, execution: ExecutionOptions) -> Iterator[Finding]:
    """A child process gets its process in its command line; a pack that lies there comes with an image or a volume."""
    if execution.delivery is Delivery.FILE:
        yield error_at(
            execution_place(workload, "delivery"),
            ErrorCode.MANIFEST_INVALID,
            "delivery: file belongs to the kubernetes backend, and this workload runs as a child process",
            "remove it: the process travels in the task's command line",
        )


def require_image(workload: Workload, pod: PodOptions) -> Iterator[Finding]:
    """A pod runs an image; a template may name it."""
    if pod.image is None and pod.pod_template_file is None and not is_authored(workload, "pod", "image"):
        yield error_at(
            pod_place(workload),
            ErrorCode.MANIFEST_INVALID,
            "the kubernetes backend (the default) needs pod.image, an image that holds dpone-runtime",
            "add pod.image, or set airflow.execution.backend: process for child processes of the worker",
        )


def refuse_root(workload: Workload, pod: PodOptions) -> Iterator[Finding]:
    """A pod never runs as root."""
    if pod.run_as_user == 0:
        yield error_at(
            pod_place(workload, "run_as_user"),
            ErrorCode.MANIFEST_INVALID,
            "run_as_user: 0 is root, and a pod of dpone never runs as root",
            "remove it for the default, 10001, or name another user by its number",
        )


def require_times_in_order(
    workload: Workload, pod: PodOptions, execution: ExecutionOptions
) -> Iterator[Finding]:
    """Whatever ends a pod must not end it before it may have started."""
    startup, deadline = pod.startup_timeout_seconds, pod.active_deadline_seconds
    if startup is not None and deadline is not None and deadline <= startup:
        yield error_at(
            pod_place(workload, "active_deadline_seconds"),
            ErrorCode.MANIFEST_INVALID,
            f"active_deadline_seconds {deadline} ends a pod that may take {startup} to start",
            "raise it well above startup_timeout_seconds, or remove it",
        )
    timeout = execution.execution_timeout_seconds
    if startup is not None and timeout is not None and timeout <= startup:
        yield error_at(
            execution_place(workload, "execution_timeout_seconds"),
            ErrorCode.MANIFEST_INVALID,
            f"execution_timeout_seconds {timeout} ends a task whose pod may take {startup} to start",
            "raise it well above pod.startup_timeout_seconds, or remove it",
        )


def report_idle_poll(workload: Workload, pod: PodOptions) -> Iterator[Finding]:
    """The triggerer looks at deferred pods only."""
    own = workload.options.pod if workload.options else None
    if own is not None and own.poll_interval_seconds is not None and not pod.deferrable:
        yield warning_at(
            pod_place(workload, "poll_interval_seconds"),
            ErrorCode.MANIFEST_INVALID,
            "poll_interval_seconds has no effect: these pods are not waited for by the triggerer",
            "add pod.deferrable: true, or remove it",
        )


def require_pack_path(workload: Workload, pod: PodOptions, execution: ExecutionOptions) -> Iterator[Finding]:
    """Delivery by file needs a place, and a place needs delivery by file."""
    own = workload.options.pod if workload.options else None
    delivered = delivered_path(workload, pod)
    if delivered is not None and len(delivered) > LONGEST_PATH:
        yield error_at(
            pod_place(workload, "pack_path"),
            ErrorCode.MANIFEST_INVALID,
            f"the path of the pack has {len(delivered)} characters, more than {LONGEST_PATH}",
            "put the packs into a folder of a shorter path",
        )
    if execution.delivery is Delivery.FILE and pod.pack_path is None:
        yield error_at(
            execution_place(workload, "delivery"),
            ErrorCode.MANIFEST_INVALID,
            "delivery: file needs pod.pack_path, where the pod finds the pack",
            "add pod.pack_path: the folder of the release in image or volume, or remove delivery",
        )
    elif own is not None and own.pack_path is not None and execution.delivery is not Delivery.FILE:
        yield error_at(
            pod_place(workload, "pack_path"),
            ErrorCode.MANIFEST_INVALID,
            "pack_path is read with delivery: file alone, and this process travels in the command line",
            "add airflow.execution.delivery: file, or remove it",
        )


def require_variables_of_their_own(workload: Workload) -> Iterator[Finding]:
    """Two connections whose names differ in dashes, dots or case alone would be one variable."""
    names = delivered_connections(workload) & resolve_connections(workload).keys()
    owners: dict[str, str] = {}
    for name in sorted(names):
        variable, *_ = connection_variables(name)
        if variable in owners:
            yield error_at(
                connection_place(workload, name),
                ErrorCode.MANIFEST_INVALID,
                f"connections {owners[variable]} and {name} would both be the variable {variable}",
                "rename one of them, here and in the manifest",
            )
        owners[variable] = name


def require_secrets(workload: Workload, manifest: Manifest, pod: PodOptions) -> Iterator[Finding]:
    """A pod gets its connections from secrets, unless a template or a folder brings them."""
    known = resolve_connections(workload)
    elsewhere = pod.pod_template_file is not None or CONNECTIONS_DIR in (pod.env_vars or {})
    report = warning_at if elsewhere else error_at
    for name in manifest_connections(manifest):
        if name not in known:
            yield report(
                connection_place(workload, name),
                ErrorCode.CONNECTION_MISSING,
                f"the pod of this workload has no secret for its connection {name}",
                f"add under connections: `{name}: {{ secret: SECRET, key: KEY }}`",
            )


def report_unused_secrets(workload: Workload, manifest: Manifest) -> Iterator[Finding]:
    """A secret that nobody uses is not handed to the pod."""
    own = workload.options.connections if workload.options else None
    for name in own or {}:
        if name not in delivered_connections(workload):
            yield warning_at(
                connection_place(workload, name),
                ErrorCode.MANIFEST_INVALID,
                f"no pod gets the secret of {name}: {manifest.name} uses "
                + " and ".join(manifest_connections(manifest)),
                "remove it, or mend the name",
            )


def refuse_ledger_in_a_pod(workload: Workload, manifest: Manifest) -> Iterator[Finding]:
    """A pod's disk goes with the pod, and with it what was committed."""
    if manifest.backfill.state.in_a_file:
        yield error_at(
            in_campaign(workload, "state", "backend"),
            ErrorCode.BACKFILL_STATE_UNSUPPORTED,
            "a local_file ledger would lie on the pod's own disk, and be lost with every pod",
            "set state.backend: audit_schema, which keeps the ledger beside the target, "
            "or airflow.execution.backend: process",
        )
