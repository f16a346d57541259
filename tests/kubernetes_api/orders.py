"""Orders: what a test tells the cluster to do to pods and calls beyond what it would do by itself.

An order holds for the pods that its selector means, for so many uses, in the order in which orders were given. `CallOrder` answers a
call with a failure; `PodOrder` changes how a pod runs; `Action` happens at once to pods that exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from tests.kubernetes_api.label_selectors import matches


class Call(StrEnum):
    """The calls that can be told to fail."""

    CREATE = "create"
    LIST = "list"
    READ = "read"
    PATCH = "patch"
    DELETE = "delete"
    LOG = "log"
    EXEC = "exec"
    EVENTS = "events"
    VERSION = "version"
    ANY = "any"


class PodFault(StrEnum):
    """What can be wrong with a pod from its creation on."""

    HOLD = "hold"  # it stays pending until the order is lifted
    WAIT = "wait"  # its container never starts; `reason` and `text` say why
    COMMAND = "command"  # its container runs `command` instead of its own
    EXIT_CODE = "exit_code"  # its container is said to have ended with `number`
    TRUNCATE_OUTCOME = "truncate_outcome"  # all but `number` bytes of its XCom file are lost
    REPLACE_OUTCOME = "replace_outcome"  # its XCom file holds `text` instead
    REMOVE_OUTCOME = "remove_outcome"  # its XCom file is gone
    SIDECAR_FAILS = "sidecar_fails"  # its sidecar has ended, with 1, when its container has


class Action(StrEnum):
    """What can happen to a pod at any time."""

    LOSE = "lose"  # gone without trace: its object at once, its processes killed
    PART = "part"  # the API forgets the pod, while its processes live on: a node that is cut off
    EVICT = "evict"  # the node ends it for want of memory
    DRAIN = "drain"  # deleted with its grace, as a drain of its node does
    KILL = "kill"  # SIGKILL for its container
    OOM_KILL = "oom_kill"  # the same by the kernel for want of memory
    FAIL_SIDECAR = "fail_sidecar"  # its sidecar ends with 1


@dataclass(frozen=True)
class CallOrder:
    """Answer `times` calls (None: all of them) about such pods with a status; the first `after` ones are spared."""

    call: Call
    status: int
    selector: str = ""
    times: int | None = None
    after: int = 0
    message: str = "ordered by the test"


@dataclass(frozen=True)
class PodOrder:
    """Let `times` such pods (None: all of them) have a fault."""

    fault: PodFault
    selector: str = ""
    times: int | None = None
    reason: str = ""
    text: str = ""
    number: int = 0
    command: tuple[str, ...] = ()


Order = CallOrder | PodOrder


@dataclass
class _Given:
    order: Order
    used: int = 0
    met: int = 0

    def left(self) -> bool:
        return self.order.times is None or self.used < self.order.times


@dataclass
class OrderBook:
    """The orders that are in force, by number."""

    given: dict[int, _Given] = field(default_factory=dict)
    last: int = 0

    def add(self, order: Order) -> int:
        """Take an order; give its number."""
        self.last += 1
        self.given[self.last] = _Given(order)
        return self.last

    def lift(self, number: int | None = None) -> None:
        """End an order, or all of them."""
        if number is None:
            self.given.clear()
        else:
            self.given.pop(number, None)

    def failure(self, call: Call, labels: Mapping[str, str]) -> CallOrder | None:
        """Use up the first order that such a call meets."""
        for entry in self.given.values():
            order = entry.order
            if not isinstance(order, CallOrder) or order.call not in {call, Call.ANY}:
                continue
            if not entry.left() or not matches(labels, order.selector):
                continue
            entry.met += 1
            if entry.met > order.after:
                entry.used += 1
                return order
        return None

    def faults(self, labels: Mapping[str, str]) -> dict[int, PodOrder]:
        """Use up, for a new pod, the orders that it meets; give them by number."""
        found: dict[int, PodOrder] = {}
        for number, entry in self.given.items():
            if isinstance(entry.order, PodOrder) and entry.left() and matches(labels, entry.order.selector):
                entry.used += 1
                found[number] = entry.order
        return found

    def holds(self, number: int) -> bool:
        """Whether an order has not been lifted."""
        return number in self.given


def order_document(order: Order) -> dict[str, Any]:
    """Give an order as JSON."""
    return {"type": type(order).__name__, **asdict(order)}


def parse_order(document: Mapping[str, Any]) -> Order:
    """Read an order.

    Errors: ValueError, TypeError, KeyError for anything else.
    """
    values = {name: value for name, value in document.items() if name != "type"}
    if document["type"] == CallOrder.__name__:
        return CallOrder(**{**values, "call": Call(values["call"])})
    command = tuple(values.get("command", ()))
    return PodOrder(**{**values, "fault": PodFault(values["fault"]), "command": command})
