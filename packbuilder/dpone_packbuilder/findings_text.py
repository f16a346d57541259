"""Findings as a person, a program, or the annotations of a pull request read them."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Literal, assert_never

from pydantic import Field

from dpone_contract.errors import ErrorCode
from dpone_contract.finding import Finding, Severity
from dpone_contract.frozen import FrozenModel


class ReportedFinding(FrozenModel):
    """One finding of a report."""

    path: str = Field(description="File, relative to the current folder.")
    line: Annotated[int, Field(ge=0, description="Line, from one; 0 for the whole file.")]
    column: Annotated[int, Field(ge=0, description="Column, from one; 0 for the whole file.")]
    severity: Severity = Field(description="An error blocks publication, a warning does not.")
    code: ErrorCode = Field(description="Stable code.")
    message: str = Field(description="What is wrong.")
    next_step: str = Field(description="What to do.")


class CheckReport(FrozenModel):
    """`dpone.check.v1`: what `dpone check --format json` prints."""

    schema_: Literal["dpone.check.v1"] = Field(
        default="dpone.check.v1", alias="schema", description="Name and version of this format."
    )
    workloads: Annotated[int, Field(ge=0, description="Number of workloads that were read.")]
    errors: Annotated[int, Field(ge=0, description="Number of errors.")]
    warnings: Annotated[int, Field(ge=0, description="Number of warnings.")]
    findings: tuple[ReportedFinding, ...] = Field(description="Findings, ordered by file and line.")


class FindingsFormat(StrEnum):
    """Forms of a check's result."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def render_findings(findings: tuple[Finding, ...], workloads: int, form: FindingsFormat) -> str:
    """Give the result of a check in one of its forms, without a final newline."""
    match form:
        case FindingsFormat.TEXT:
            return "\n".join([*map(finding_text, findings), summary(findings, workloads)])
        case FindingsFormat.JSON:
            return json.dumps(findings_document(findings, workloads), indent=2, ensure_ascii=False)
        case FindingsFormat.GITHUB:
            return "\n".join([*map(_annotation, findings), summary(findings, workloads)])
        case _:
            assert_never(form)


def finding_text(finding: Finding) -> str:
    """Give a finding as one line with its place first, and the way out on a second."""
    line = f"{finding.where}  {finding.severity.value}  {finding.code.value}  {finding.message}"
    return f"{line}\n    fix: {finding.next_step}" if finding.next_step else line


def summary(findings: tuple[Finding, ...], workloads: int) -> str:
    """Give the line that ends a check."""
    errors, warnings = _counts(findings)
    found = "no findings"
    if findings:
        found = ", ".join(_counted(n, word) for n, word in ((errors, "error"), (warnings, "warning")) if n)
    return f"checked {_counted(workloads, 'workload')}: {found}"


def findings_document(findings: tuple[Finding, ...], workloads: int) -> dict[str, object]:
    """Give the `dpone.check.v1` document."""
    errors, warnings = _counts(findings)
    report = CheckReport(
        workloads=workloads,
        errors=errors,
        warnings=warnings,
        findings=tuple(ReportedFinding(**asdict(finding)) for finding in findings),
    )
    return report.to_document()


def _annotation(finding: Finding) -> str:
    place = f"file={_property(finding.path)}"
    if finding.line:
        place += f",line={finding.line},col={finding.column}"
    text = f"{finding.message}\nfix: {finding.next_step}" if finding.next_step else finding.message
    return f"::{finding.severity.value} {place},title={_property(finding.code.value)}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _counts(findings: tuple[Finding, ...]) -> tuple[int, int]:
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    return errors, len(findings) - errors


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
