"""How a rule reports: a finding at the position of a key."""

from __future__ import annotations

from dpone_contract.errors import DponeError, ErrorCode
from dpone_contract.finding import Finding, Severity
from dpone_contract.yaml_tree import Path
from dpone_packbuilder.policy import Place
from dpone_packbuilder.project import Workload

CAMPAIGN: Path = ("sink", "strategy", "backfill")


def error_at(place: Place, code: ErrorCode, message: str, next_step: str) -> Finding:
    """Give a finding that blocks publication."""
    line, column = place.tree.position(place.path)
    return Finding(place.tree.path, line, column, code, message, next_step)


def warning_at(place: Place, code: ErrorCode, message: str, next_step: str) -> Finding:
    """Give a finding that is told and blocks nothing."""
    line, column = place.tree.position(place.path)
    return Finding(place.tree.path, line, column, code, message, next_step, Severity.WARNING)


def raised_at(place: Place, error: DponeError) -> Finding:
    """Give the finding that stands for an error of the contract."""
    return error_at(place, error.code, error.message, error.next_step or "")


def in_manifest(workload: Workload, *path: str) -> Place:
    """Give a place in a workload's manifest."""
    return Place(workload.manifest_tree, path)


def in_campaign(workload: Workload, *path: str) -> Place:
    """Give a place in the backfill block of a workload's manifest."""
    return Place(workload.manifest_tree, (*CAMPAIGN, *path))
