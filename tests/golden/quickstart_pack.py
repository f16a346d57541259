"""The quickstart, compiled under a fixed release and deployment."""

from pathlib import Path

from dpone_contract.pack import Pack
from dpone_packbuilder.checks import review_project
from dpone_packbuilder.compiler import compile_pack
from dpone_packbuilder.project import load_project

PROJECT = Path(__file__).parents[2] / "example_dags" / "quickstart" / "project"


def compile_quickstart() -> Pack:
    """Check and compile the quickstart's only workload."""
    review = review_project(load_project(PROJECT))
    assert review.findings == ()
    (planned,) = review.planned
    return compile_pack(planned, release="golden", deployment="golden")
