"""The image: two stages, an ordinary user, nothing from the net but pinned packages, and only files that exist."""

import re
import shlex
import tomllib

import pytest

from tests.image.dockerfile import ENVIRONMENT, ROOT, pinned, python_version, read_instructions, read_stages

BUILD, IMAGE = read_stages()
IMAGE_PINS = "runtime/image-requirements.txt"
BUILD_PINS = "runtime/image-build-requirements.txt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RUNTIME = tomllib.loads((ROOT / "runtime/pyproject.toml").read_text(encoding="utf-8"))
MATRIX = tomllib.loads((ROOT / "compat-matrix/matrix.toml").read_text(encoding="utf-8"))["cell"]
NEWEST = max(MATRIX, key=lambda cell: cell["released"])


def sources() -> list[str]:
    """What is copied from the project."""
    return [word for text in BUILD.all("COPY") for word in shlex.split(text)[:-1]]


def test_it_is_built_in_one_stage_and_shipped_in_another():
    assert ("build", None) == (BUILD.name, IMAGE.name)
    assert [f"--from=build {ENVIRONMENT} {ENVIRONMENT}"] == IMAGE.all("COPY")


@pytest.mark.parametrize("stage", [BUILD, IMAGE], ids=["build", "image"])
def test_its_base_is_a_slim_python_of_the_newest_cell(stage):
    assert "python:${PYTHON_VERSION}-slim-bookworm" == stage.base
    assert NEWEST["python"] == python_version()


def test_it_runs_as_an_ordinary_user_by_number_where_a_pod_can_write():
    assert ("10001:10001", "/tmp") == (IMAGE.one("USER"), IMAGE.one("WORKDIR"))
    assert ["WORKDIR", "USER", "ENTRYPOINT", "CMD"] == [each.keyword for each in IMAGE.instructions][-4:]


def test_it_is_a_command_and_not_a_service():
    assert ('["dpone"]', '["--help"]') == (IMAGE.one("ENTRYPOINT"), IMAGE.one("CMD"))
    assert set() == {"HEALTHCHECK", "EXPOSE", "VOLUME"} & {each.keyword for each in read_instructions()}


def test_nothing_is_added_from_the_net():
    assert set() == {"ADD", "ONBUILD"} & {each.keyword for each in read_instructions()}
    commands = " ".join([*BUILD.all("RUN"), *IMAGE.all("RUN")])
    assert [] == re.findall(r"\b(curl|wget|apt-get|apt|git|https?:)\b", commands)


def test_every_package_is_pinned_by_version_and_hash():
    installs = [part for run in BUILD.all("RUN") for part in run.split("&&") if " install " in part]
    assert 3 == len(installs)
    for command in installs:
        hashed = "--require-hashes --only-binary :all:" in command
        assert hashed or "--no-index --no-deps" in command
    for file in (IMAGE_PINS, BUILD_PINS):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert len(pinned(file)) == len(
            re.findall(r"^[\w.\[\]-]+==\S+ \\\n    --hash=sha256:", text, re.MULTILINE)
        )


def test_its_versions_are_those_that_the_tests_run_with():
    tested = {
        **pinned(f"compat-matrix/{NEWEST['constraints']}"),
        **dict(
            re.fullmatch(r"([\w.-]+?)(?:\[\w+\])? == (\S+)", each).groups()
            for group in ("test", "demo")
            for each in PROJECT["dependency-groups"][group]
            if isinstance(each, str) and " == " in each
        ),
    }
    tested = {name.replace(".", "-"): version for name, version in tested.items()}
    # A part of psycopg, of its version.
    tested["psycopg-binary"] = tested["psycopg"]
    image = pinned(IMAGE_PINS)
    assert image == {name: tested[name] for name in image}


def test_no_airflow_is_in_it():
    assert [] == [name for name in pinned(IMAGE_PINS) if "airflow" in name]


def test_every_copied_file_exists_and_is_sent_to_the_builder():
    assert {"packbuilder", "runtime", IMAGE_PINS, BUILD_PINS} == set(sources())
    rules = [
        line
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert ["*", "!packbuilder", "!runtime"] == rules[:3]
    for source in sources():
        assert (ROOT / source).exists()
        assert source.split("/")[0] in {"packbuilder", "runtime"}


def test_its_labels_tell_what_it_is():
    labels = {
        name.removeprefix("org.opencontainers.image."): text for name, text in IMAGE.pairs("LABEL").items()
    }
    project = RUNTIME["project"]
    assert (project["name"], project["version"], project["license"]) == (
        labels["title"],
        labels["version"],
        labels["licenses"],
    )
    assert set(labels) == {"title", "version", "licenses", "description"}
