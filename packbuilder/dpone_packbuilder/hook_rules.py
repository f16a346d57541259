"""Rules of hooks: their names become tasks, their commands stand in the pack for everybody to read."""

from __future__ import annotations

from collections.abc import Iterator

from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Finding
from dpone_contract.pack import GATE_SUFFIX, Hook
from dpone_packbuilder.authored_texts import find_template_mark, looks_like_credential
from dpone_packbuilder.pod_policy import hook_place, resolve_hooks
from dpone_packbuilder.project import Workload
from dpone_packbuilder.rule import error_at

COMMAND_SIZE_LIMIT_BYTES = 16 * 1024


def check_hooks(workload: Workload) -> Iterator[Finding]:
    """Apply every rule of this module."""
    yield from require_names_of_their_own(workload)
    hooks = resolve_hooks(workload)
    for block, listed in (("pre", hooks.pre), ("post", hooks.post)):
        for index, hook in enumerate(listed):
            yield from check_command(workload, hook, (block, index, "command"))


def require_names_of_their_own(workload: Workload) -> Iterator[Finding]:
    """A hook's name is the id of its task, and no two tasks have one id."""
    taken: dict[str, str] = {}
    if workload.manifest is not None:
        name = workload.manifest.name
        taken = {name: "the task of the load", f"{name}{GATE_SUFFIX}": "the gate behind the load"}
    hooks = resolve_hooks(workload)
    for block, listed in (("pre", hooks.pre), ("post", hooks.post)):
        for index, hook in enumerate(listed):
            if hook.name in taken:
                yield error_at(
                    hook_place(workload, block, index, "name"),
                    ErrorCode.MANIFEST_INVALID,
                    f"hook {hook.name} has the name of {taken[hook.name]}",
                    "give each hook a name of its own",
                )
            taken.setdefault(hook.name, "another hook")


def check_command(workload: Workload, hook: Hook, path: tuple[str | int, ...]) -> Iterator[Finding]:
    """A command is plain text, of a size that a task can carry; one finding an argument."""
    for index, text in enumerate(hook.command):
        problem = _find_problem(hook, text)
        if problem is not None:
            yield error_at(hook_place(workload, *path, index), ErrorCode.MANIFEST_INVALID, *problem)
    size_bytes = sum(len(text.encode()) + 1 for text in hook.command)
    if size_bytes > COMMAND_SIZE_LIMIT_BYTES:
        yield error_at(
            hook_place(workload, *path),
            ErrorCode.MANIFEST_INVALID,
            f"the command of hook {hook.name} has {size_bytes} bytes, more than {COMMAND_SIZE_LIMIT_BYTES}",
            "put it into a script of the image, and name that here",
        )
    if hook.command and not hook.command[0].strip():
        yield error_at(
            hook_place(workload, *path, 0),
            ErrorCode.MANIFEST_INVALID,
            f"the command of hook {hook.name} begins with nothing",
            "name a program first",
        )


def _find_problem(hook: Hook, text: str) -> tuple[str, str] | None:
    mark = find_template_mark(text)
    if mark is not None:
        return (
            f"the command of hook {hook.name} holds {mark}, and nothing in it is a template",
            "let it read DPONE_INTERVAL_START, DPONE_DAG_RUN_ID and their like from its environment",
        )
    if looks_like_credential(text):
        return (
            f"the command of hook {hook.name} seems to hold a credential, and a pack holds none",
            "let it read DPONE_CONN_<NAME>, which comes from the secret named under connections",
        )
    return None
