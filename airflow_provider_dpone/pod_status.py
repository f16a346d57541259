"""What the status of a pod tells: how its run ended, and why it ended without an outcome."""

from __future__ import annotations

from kubernetes.client import models as k8s

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
_TEXT_LIMIT = 300

# What to do, by the reason that Kubernetes gives.
_ADVICE = {
    "OOMKilled": "it used more memory than container_resources.limits allow",
    "DeadlineExceeded": "it ran longer than active_deadline_seconds allow",
    "Evicted": "its node had to make room",
    "Preempting": "its node had to make room",
    "NodeShutdown": "its node was shut down",
    "Terminated": "its node was shut down",
    "NodeLost": "its node was lost",
}


def state_of(pod: k8s.V1Pod, container: str) -> k8s.V1ContainerState | None:
    """Give the state of a container; None where Kubernetes does not tell one, as for a pod that never started."""
    statuses = (pod.status.container_statuses if pod.status else None) or ()
    return next((status.state for status in statuses if status.name == container), None)


def exit_code_of(pod: k8s.V1Pod, container: str) -> int | None:
    """Give how a container ended, None while it runs or where that is not known."""
    state = state_of(pod, container)
    return None if state is None or state.terminated is None else int(state.terminated.exit_code)


def is_terminal(pod: k8s.V1Pod) -> bool:
    """Say whether nothing of a pod runs any more."""
    return pod.status is not None and pod.status.phase in TERMINAL_PHASES


def has_ended(pod: k8s.V1Pod, container: str) -> bool:
    """Say whether a container has ended, by itself or with its pod."""
    return is_terminal(pod) or exit_code_of(pod, container) is not None


def is_running(pod: k8s.V1Pod, container: str) -> bool:
    """Say whether a container runs."""
    state = state_of(pod, container)
    return state is not None and state.running is not None


def why_not_running(pod: k8s.V1Pod, container: str) -> str | None:
    """Give why a container that should run does not; None for one that runs."""
    state = state_of(pod, container)
    if state is None:
        return f"the container {container} was never started"
    if state.running is not None:
        return None
    if state.terminated is not None:
        ended = f"{state.terminated.reason or 'ended'}, exit code {state.terminated.exit_code}"
        return f"the container {container} had ended before the outcome was read ({ended})"
    reason = state.waiting.reason if state.waiting is not None else None
    return f"the container {container} has not started ({reason or 'no reason is given'})"


def reason_of(pod: k8s.V1Pod, container: str) -> str | None:
    """Give why a pod failed, in Kubernetes' own words where it has some; None for one that ended by itself."""
    status = pod.status
    if status is None:
        return None
    state = state_of(pod, container)
    found: list[tuple[str | None, str | None]] = [(status.reason, status.message)]
    if state is not None and state.waiting is not None:
        found.append((state.waiting.reason, state.waiting.message))
    if state is not None and state.terminated is not None:
        found.append((state.terminated.reason, state.terminated.message))
    found += [
        (condition.reason, condition.message)
        for condition in status.conditions or ()
        if condition.status == ("True" if condition.type == "DisruptionTarget" else "False")
        and condition.type in ("DisruptionTarget", "PodScheduled")
    ]
    for reason, message in found:
        if reason and reason not in ("Completed", "Error", "ContainerCreating", "PodInitializing"):
            advice = _ADVICE.get(reason)
            parts = [f"the pod was ended or held back: {reason}", advice, message]
            return ", ".join(" ".join(part.split()) for part in parts if part)[:_TEXT_LIMIT]
    return None
