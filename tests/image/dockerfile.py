"""runtime/Dockerfile, read: stages, and the instructions of each."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = ROOT / "runtime/Dockerfile"
ENVIRONMENT = "/opt/dpone"
"""Where the image has its environment."""


@dataclass(frozen=True)
class Instruction:
    """One instruction, its lines joined."""

    keyword: str
    text: str


@dataclass(frozen=True)
class Stage:
    """What is between one FROM and the next."""

    base: str
    name: str | None
    instructions: tuple[Instruction, ...]

    def all(self, keyword: str) -> list[str]:
        """Give the texts of every instruction of a kind, in order."""
        return [each.text for each in self.instructions if each.keyword == keyword]

    def one(self, keyword: str) -> str:
        """Give the text of the only instruction of a kind."""
        (found,) = self.all(keyword)
        return found

    def pairs(self, keyword: str) -> dict[str, str]:
        """Give what LABEL or ENV set."""
        words = [word for text in self.all(keyword) for word in shlex.split(text)]
        return dict(word.split("=", 1) for word in words)


def read_instructions() -> list[Instruction]:
    """Give every instruction of the file."""
    lines = [line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(" ", 1)) for line in joined.splitlines() if line.strip()]


def read_stages() -> tuple[Stage, Stage]:
    """Give the stage that builds and the stage that is the image."""
    found: list[list[Instruction]] = []
    for each in read_instructions():
        if each.keyword == "FROM":
            found.append([])
        if found:
            found[-1].append(each)
    build, image = (_stage(instructions) for instructions in found)
    return build, image


def python_version() -> str:
    """Give the image's Python, such as 3.12."""
    (argument,) = (each.text for each in read_instructions() if each.keyword == "ARG")
    name, version = argument.split("=")
    assert name == "PYTHON_VERSION"
    return version


def pinned(file: str) -> dict[str, str]:
    """Give the versions that a requirements or constraints file pins, extras left out."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)(?:\[\w+\])?==([^\s\\;]+)", text, re.MULTILINE))


def _stage(instructions: list[Instruction]) -> Stage:
    base, _, name = instructions[0].text.partition(" AS ")
    return Stage(base, name or None, tuple(instructions[1:]))
