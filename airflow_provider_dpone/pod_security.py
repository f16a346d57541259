"""What makes a pod safe: no root, no writable image, no capability, no token that nobody asked for.

Source: decision 4 of pods; what a pod template or Airflow's pod mutation hook says of other containers stands.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubernetes.client import models as k8s

from dpone_contract.environment import POD_OUTCOME_PATH, EnvVar
from dpone_contract.pod import RUN_AS_USER, PodArguments

SCRATCH_PATH = "/tmp"
_SCRATCH_VOLUME = "dpone-scratch"
_OWNED = frozenset(name.value for name in EnvVar)


def pod_security(pod: PodArguments) -> k8s.V1PodSecurityContext:
    """Give the security context of a pod."""
    return k8s.V1PodSecurityContext(
        run_as_non_root=True,
        run_as_user=pod.run_as_user or RUN_AS_USER,
        fs_group=pod.fs_group,
        seccomp_profile=k8s.V1SeccompProfile(type="RuntimeDefault"),
    )


def container_security(pod: PodArguments) -> k8s.V1SecurityContext:
    """Give the security context of each of its containers."""
    return k8s.V1SecurityContext(
        run_as_non_root=True,
        run_as_user=pod.run_as_user or RUN_AS_USER,
        read_only_root_filesystem=True,
        allow_privilege_escalation=False,
        capabilities=k8s.V1Capabilities(drop=["ALL"]),
        seccomp_profile=k8s.V1SeccompProfile(type="RuntimeDefault"),
    )


def complete_pod(
    built: k8s.V1Pod, pod: PodArguments, env_vars: Mapping[str, str], base_name: str
) -> k8s.V1Pod:
    """Give a pod, as Airflow's operator has built it, what that has no argument for in all of its releases; in place.

    Containers that have a security context keep it, the token mount and the grace of a template too.
    """
    spec = built.spec
    for container in (*spec.containers, *(spec.init_containers or ())):
        container.security_context = container.security_context or container_security(pod)
    if spec.automount_service_account_token is None and not spec.service_account_name:
        spec.automount_service_account_token = False
    if pod.termination_grace_period is not None:
        spec.termination_grace_period_seconds = pod.termination_grace_period
    # A pod mutation hook may have put another container before it.
    base = next(container for container in spec.containers if container.name == base_name)
    if not any(mount.mount_path.rstrip("/") == SCRATCH_PATH for mount in base.volume_mounts or ()):
        spec.volumes = [
            *(spec.volumes or ()),
            k8s.V1Volume(name=_SCRATCH_VOLUME, empty_dir=k8s.V1EmptyDirVolumeSource()),
        ]
        base.volume_mounts = [
            *(base.volume_mounts or ()),
            k8s.V1VolumeMount(name=_SCRATCH_VOLUME, mount_path=SCRATCH_PATH),
        ]
    base.env = _environment(base.env or [], pod, env_vars)
    return built


def literal(text: str) -> str:
    """Give what a variable, a command or an argument of a pod has to be for its process to see `text`.

    Kubernetes replaces `$(NAME)` by the variable of that name, and two dollar signs by one.
    """
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def _environment(
    built: list[k8s.V1EnvVar], pod: PodArguments, env_vars: Mapping[str, str]
) -> list[k8s.V1EnvVar]:
    # Of two variables of one name Kubernetes takes the last. A template's come first; none of the provider's own is its.
    ours = {**env_vars, EnvVar.OUTCOME_PATH.value: POD_OUTCOME_PATH}
    secrets = {secret.variable: secret for secret in pod.secrets or ()}
    return [
        *(entry for entry in built if entry.name not in {*_OWNED, *ours, *secrets}),
        *(k8s.V1EnvVar(name=name, value=literal(text)) for name, text in ours.items() if name not in secrets),
        *(
            k8s.V1EnvVar(
                name=name,
                value_from=k8s.V1EnvVarSource(
                    secret_key_ref=k8s.V1SecretKeySelector(name=secret.secret, key=secret.key)
                ),
            )
            for name, secret in secrets.items()
        ),
    ]
