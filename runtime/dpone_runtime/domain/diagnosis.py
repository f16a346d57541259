"""What a doctor finds: symptoms, each with what to do, in the order in which one would act."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dpone_contract.errors import ExitCode

NOTHING = "nothing"


class Urgency(StrEnum):
    """Whether a symptom asks for something."""

    INFO = "info"
    ACTION = "action"
    INFRASTRUCTURE = "infrastructure"


class Verdict(StrEnum):
    """How a campaign is as a whole."""

    HEALTHY = "healthy"
    COMPLETE = "complete"
    ACTION = "action"
    INFRASTRUCTURE = "infrastructure"


@dataclass(frozen=True)
class Symptom:
    """One thing that was found. `next_step` is a command, or words where no command helps."""

    name: str
    urgency: Urgency
    text: str
    next_step: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    """All symptoms of a campaign, the most pressing first."""

    symptoms: tuple[Symptom, ...]
    complete: bool = False

    @property
    def verdict(self) -> Verdict:
        """How the campaign is."""
        found = {symptom.urgency for symptom in self.symptoms}
        if Urgency.INFRASTRUCTURE in found:
            return Verdict.INFRASTRUCTURE
        if Urgency.ACTION in found:
            return Verdict.ACTION
        return Verdict.COMPLETE if self.complete else Verdict.HEALTHY

    @property
    def next_step(self) -> str:
        """What an operator would do now."""
        return next((symptom.next_step for symptom in self.symptoms if symptom.next_step), NOTHING)

    @property
    def exit_code(self) -> ExitCode:
        """How the command ends."""
        match self.verdict:
            case Verdict.INFRASTRUCTURE:
                return ExitCode.OWNERSHIP_OR_INFRASTRUCTURE
            case Verdict.ACTION:
                return ExitCode.INCOMPLETE
            case _:
                return ExitCode.DONE
