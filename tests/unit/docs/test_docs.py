"""What the documentation says exists: keys, commands, options, codes, columns, links; and its examples are accepted."""

import ast
import importlib.util
import re
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from typer.main import get_command

from dpone_contract.environment import EnvVar
from dpone_contract.errors import DponeError, ExitCode
from dpone_contract.manifest import Manifest
from dpone_contract.manifest_text import parse_manifest
from dpone_contract.model_findings import validate_tree
from dpone_contract.pod import (
    ON_FINISH_ACTION,
    POLL_INTERVAL_SECONDS,
    RUN_AS_USER,
    STARTUP_TIMEOUT_SECONDS,
)
from dpone_contract.yaml_tree import parse_yaml
from dpone_packbuilder.catalog import WorkloadCatalog
from dpone_packbuilder.cli import app

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("compat-matrix/*.md")])
SOURCES = sorted(
    path
    for package in ("airflow_provider_dpone", "packbuilder", "runtime", "example_dags")
    for path in (ROOT / package).rglob("*.py")
)
POD_DEFAULTS = {
    "run_as_user": RUN_AS_USER,
    "on_finish_action": ON_FINISH_ACTION,
    "startup_timeout_seconds": STARTUP_TIMEOUT_SECONDS,
    "poll_interval_seconds": POLL_INTERVAL_SECONDS,
}
PICTURE_BYTES = 150_000
VERBS = ("init", "check", "pack", "airflow", "schema", "version", "run", "backfill")

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
_TICKED = re.compile(r"`(?:[\w./]*/)?(dpone [^`]+)`")
_BARE = re.compile(rf"(?<![\w./`-])dpone (?:{'|'.join(VERBS)})\b[^`;,|\n)]*")
_IN_NEXT_STEP = re.compile(r"(?<![\w./`-])dpone [^`;,|\n)]+")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def by_name(path: Path) -> Any:
    return pytest.param(path, id=name_of(path))


def fences(text: str, *languages: str) -> list[str]:
    return [body for language, body in _FENCE.findall(text) if language in languages]


# The error catalogue


def test_error_page_is_what_the_generator_writes():
    spec = importlib.util.spec_from_file_location("generate_errors", DOCS / "generate_errors.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.render_errors() == (DOCS / "errors.md").read_text(encoding="utf-8"), (
        "run: python docs/generate_errors.py"
    )


def test_error_page_has_every_error_once():
    codes = [kind.code.value for kind in all_subclasses(DponeError)]
    headings = re.findall(r"^### (\S+)$", (DOCS / "errors.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(codes) == sorted(headings)


def all_subclasses(kind: type[DponeError]) -> list[type[DponeError]]:
    return [found for child in kind.__subclasses__() for found in (child, *all_subclasses(child))]


# Examples


def yaml_examples() -> list[Any]:
    return [
        pytest.param(text, id=f"{name_of(page)}-{number}")
        for page in PAGES
        for number, text in enumerate(fences(page.read_text(encoding="utf-8"), "yaml"), 1)
    ]


@pytest.mark.parametrize("text", yaml_examples())
def test_every_yaml_example_is_accepted(text):
    tree = parse_yaml(text, "example")
    assert isinstance(tree.value, dict), tree.findings
    if "workloads" in tree.value:
        validate_tree(tree, WorkloadCatalog)
        assert [] == tree.findings
    else:
        parse_manifest(text, "example")


def test_there_are_examples_of_both():
    texts = [example.values[0] for example in yaml_examples()]
    assert any("workloads:" in str(text) for text in texts)
    assert any("strategy:" in str(text) for text in texts)


# Commands


@cache
def root_command() -> Any:
    return get_command(app)


def find_problem(command: str) -> str | None:
    """What is wrong with a command as documentation writes it: verbs and options are looked up, values are not."""
    current = root_command()
    context = current.make_context("dpone", [], resilient_parsing=True)
    for token in command.split()[1:]:
        word = token.rstrip(".:!?")
        if word.startswith("-"):
            options = {name for parameter in current.params for name in parameter.opts} | {"--help"}
            if word not in options:
                return f"{current.name} has no option {word}"
        elif hasattr(current, "commands") or hasattr(current, "list_commands"):
            if not re.fullmatch(r"[a-z-]+", word):
                return None
            try:
                found = current.get_command(context, word)
            except DponeError as error:
                return str(error)
            if found is None:
                return f"{current.name} has no command {word}"
            current = found
    return None


@pytest.mark.parametrize(
    "command, problem",
    [
        ("dpone backfill run MANIFEST --execute -q", None),
        ("dpone backfill resume MANIFEST --reason ...", None),
        ("dpone pack build [PATH]", None),
        ("dpone backfill rum", "no command rum"),
        ("dpone backfill plan MANIFEST --execute", "no option --execute"),
        ("dpone nothing", "no verb"),
    ],
)
def test_a_command_that_does_not_exist_is_seen(command, problem):
    found = find_problem(command)
    assert (problem is None and found is None) or (problem is not None and problem in str(found))


def commands_of_page(text: str) -> list[str]:
    shell = "\n".join(fences(text, "bash")).replace("\\\n", " ")
    lines = [part.strip() for line in shell.splitlines() for part in line.split("&&")]
    return [line for line in lines if line.startswith("dpone ")] + _TICKED.findall(text)


@pytest.mark.parametrize("page", [by_name(page) for page in PAGES])
def test_every_command_of_a_page_exists(page):
    commands = commands_of_page(page.read_text(encoding="utf-8"))
    problems = {command: find_problem(command) for command in commands}
    assert {} == {command: problem for command, problem in problems.items() if problem}


def texts_of_source(tree: ast.AST) -> list[tuple[str, bool]]:
    """Every text of a module, what is filled in standing as X, and whether it says what to do next."""
    found: list[tuple[str, bool]] = []
    steps = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "next_step"
        for inner in ast.walk(node.value)
    }
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            found.append(("".join(map(str, pieces)), id(node) in steps))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            found.append((node.value, id(node) in steps))
    return found


@pytest.mark.parametrize("path", [by_name(path) for path in SOURCES])
def test_every_command_that_the_code_names_exists(path):
    problems = {}
    for text, is_step in texts_of_source(ast.parse(path.read_text(encoding="utf-8"))):
        bare = _IN_NEXT_STEP if is_step else _BARE
        for command in [*_TICKED.findall(text), *bare.findall(text)]:
            if problem := find_problem(command):
                problems[command] = problem
    assert {} == problems


def test_every_verb_is_documented():
    page = (DOCS / "running.md").read_text(encoding="utf-8")
    leaves = []
    for verb in VERBS:
        command = root_command().get_command(None, verb)
        leaves += [f"{verb} {name}" for name in getattr(command, "commands", {})] or [verb]
    assert [] == [leaf for leaf in leaves if f"`dpone {leaf}" not in page]


# Links


def slugs(page: Path) -> set[str]:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).strip().replace(" ", "-")
        for heading in headings
    }


@pytest.mark.parametrize("page", [by_name(page) for page in PAGES])
def test_every_link_of_a_page_leads_somewhere(page):
    broken = []
    for link in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in slugs(target)):
            broken.append(link)
    assert [] == broken


def test_every_picture_is_shown_says_what_it_shows_and_is_small():
    pages = {page: _PICTURE.findall(page.read_text(encoding="utf-8")) for page in PAGES}
    shown = {(page.parent / path).resolve(): text for page, found in pages.items() for text, path in found}
    kept = set((DOCS / "images").iterdir())
    assert kept == set(shown)
    assert [] == [path.name for path in kept if path.stat().st_size > PICTURE_BYTES or not shown[path]]


# Keys of manifest and catalog


def fields_of(model: type[BaseModel], path: str, root: str) -> dict[str, dict[str, Any]]:
    """Give the keys of a model and of the models in it: path of the block to its keys and their defaults."""
    block: dict[str, Any] = {}
    found = {path or root: block}
    for name, field in model.model_fields.items():
        key = field.alias or name
        block[key] = None if field.is_required() else field.default
        inner, is_mapping = inner_model(field.annotation)
        if inner is not None:
            holder = {"workloads": ".NAME", "connections": ".CONNECTION"}[key] if is_mapping else ""
            found.update(fields_of(inner, f"{path}.{key}{holder}".lstrip("."), root))
    return found


def inner_model(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind, False
        if getattr(kind, "__origin__", None) is dict:
            for value in get_args(kind):
                if isinstance(value, type) and issubclass(value, BaseModel):
                    return value, True
    values = get_args(annotation)
    if getattr(annotation, "__origin__", None) is dict and isinstance(values[1], type):
        return (values[1], True) if issubclass(values[1], BaseModel) else (None, False)
    return None, False


def documented_keys() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    block: dict[str, str] = {}
    for line in (DOCS / "manifest.md").read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"### `(\S+)`", line):
            block = found.setdefault(heading[1], {})
        elif line.startswith("#"):
            block = {}
        elif row := re.match(r"\| `(\w+)` \|[^|]*\|([^|]*)\|", line):
            block[row[1]] = row[2].strip(" `")
    return found


def known_keys() -> dict[str, dict[str, Any]]:
    known = {**fields_of(Manifest, "", "manifest"), **fields_of(WorkloadCatalog, "", "catalog")}
    # Below `defaults` stands what stands below a workload; it is not documented twice.
    return {path: keys for path, keys in known.items() if not path.startswith("defaults.")}


def test_every_key_is_documented_and_no_other():
    documented = {path: set(keys) for path, keys in documented_keys().items()}
    assert {path: set(keys) for path, keys in known_keys().items()} == documented


def test_documented_defaults_are_those_of_the_models():
    documented = documented_keys()
    wrong = {}
    for path, keys in known_keys().items():
        for key, default in keys.items():
            value = default.value if isinstance(default, Enum) else default
            if isinstance(value, str | int):  # bool is one
                expected = str(value).lower() if isinstance(value, bool) else str(value)
                if documented[path][key] != expected:
                    wrong[f"{path}.{key}"] = (expected, documented[path][key])
    assert {} == wrong


def test_documented_defaults_of_a_pod_are_those_that_it_has():
    documented = documented_keys()["workloads.NAME.pod"]
    assert {key: documented[key] for key in POD_DEFAULTS} == {
        key: str(value) for key, value in POD_DEFAULTS.items()
    }


# Facts of the other pages


@pytest.mark.parametrize("page", ["README.md", "docs/running.md"])
def test_exit_codes_are_all_there(page):
    text = (ROOT / page).read_text(encoding="utf-8").partition("## Exit codes")[2].partition("\n## ")[0]
    assert [int(code) for code in ExitCode] == [
        int(code) for code in re.findall(r"^\| (\d) \|", text, re.MULTILINE)
    ]


def test_every_variable_of_the_provider_is_documented():
    text = (DOCS / "running.md").read_text(encoding="utf-8")
    assert [] == [name.value for name in EnvVar if f"`{name.value}`" not in text]


def test_every_column_of_the_ledger_is_documented():
    schema = ROOT / "runtime/dpone_runtime/adapters/postgres/schema.sql"
    columns = re.findall(r"^  ([a-z_]+) [a-z]+", schema.read_text(encoding="utf-8"), re.MULTILINE)
    text = (DOCS / "ledger.md").read_text(encoding="utf-8")
    assert len(columns) > 40
    # `target_server` and so on stand as "the same for target_".
    names = {re.sub("^target_", "source_", column) for column in columns}
    assert set() == {name for name in names if f"`{name}`" not in text}


def test_decisions_are_numbered_and_listed():
    folder = DOCS / "adr"
    files = sorted(path.name for path in folder.glob("0*.md"))
    assert [f"{number:04}" for number in range(1, len(files) + 1)] == [name[:4] for name in files]
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert files == re.findall(r"\((0\d+[^)]+\.md)\)", index)
