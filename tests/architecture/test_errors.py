"""All error classes live in the contract; every error is raised with a message and with a way out."""

import ast
from pathlib import Path

import pytest

from dpone_contract import errors

ROOT = Path(__file__).parents[2]
CONTRACT = "packbuilder/dpone_contract"
PACKAGES = (CONTRACT, "packbuilder/dpone_packbuilder", "airflow_provider_dpone", "runtime/dpone_runtime")
ERRORS = {name for name in errors.__all__ if name.endswith("Error")}


def nodes_of(package):
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield path, node


def errors_made_in(package):
    """Give place and call of each error that a package makes by the name of its class."""
    for path, node in nodes_of(package):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ERRORS:
            yield f"{path.relative_to(ROOT)}:{node.lineno}", node


@pytest.mark.parametrize("package", PACKAGES)
def test_every_error_has_a_message(package):
    made = dict(errors_made_in(package))
    silent = [place for place, call in made.items() if not call.args or is_empty(call.args[0])]
    assert made, "the package raises nothing"
    assert [] == silent


@pytest.mark.parametrize("package", PACKAGES)
def test_every_error_names_a_way_out(package):
    made = dict(errors_made_in(package))
    assert [] == [place for place, call in made.items() if "next_step" not in names_of(call)]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_error_class_is_declared_outside_the_contract(package):
    declared = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, node in nodes_of(package)
        if isinstance(node, ast.ClassDef) and any(getattr(base, "id", None) in ERRORS for base in node.bases)
    ]
    within = f"{CONTRACT}/errors/"
    assert [] == [place for place in declared if not place.startswith(within)]


def is_empty(message):
    return isinstance(message, ast.Constant) and not message.value


def names_of(call):
    return {keyword.arg for keyword in call.keywords}
