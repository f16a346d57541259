"""Whatever happens to the text of a project, checking it gives findings with a way out, and raises nothing."""

import random

import pytest

from dpone_packbuilder.checks import review_project
from dpone_packbuilder.init import FirstProject, render_project
from dpone_packbuilder.project import project_of_texts
from tests.unit.packbuilder.pod_files import HOOKS, WHOLE_POD, pod_workload
from tests.unit.packbuilder.project_files import as_yaml, manifest, workload

PIECES = (
    *(
        "",
        " ",
        "\n",
        "\t",
        ":",
        "- ",
        "{",
        "}",
        "[",
        "]",
        "&a ",
        "*a",
        "<<: *a",
        '"',
        "'",
        "|",
        ">",
        "#",
        "!x ",
    ),
    *(
        "? ",
        ",",
        "2024-01-01",
        "\0",
        "\u00e9",
        "%",
        "...\n",
        "---\n",
        "{{ ds }}",
        "null",
        "-1",
        "1.5",
        '"\\ud800"',
    ),
)


def mangled(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 3)):
        begin = rng.randrange(len(text))
        end = min(len(text), begin + rng.choice((0, 0, 1, 5, 30)))
        text = text[:begin] + rng.choice((*PIECES, text[end : end + 25])) + text[end:]
    return text


@pytest.mark.parametrize("seed", range(20))
def test_a_mangled_project_gives_findings_with_a_way_out(seed):
    look_at_mangled(render_project(FirstProject(mode="summary")), random.Random(seed))


@pytest.mark.parametrize("seed", range(20))
def test_a_mangled_project_of_pods_gives_findings_with_a_way_out(seed):
    entry = pod_workload(pod=WHOLE_POD, hooks=HOOKS, delivery="file")
    defaults = {"pod": WHOLE_POD, "connections": entry["connections"]}
    catalog = {"workloads": {"orders": entry, "child": workload()}, "defaults": defaults}
    files = {"workloads.yaml": as_yaml(catalog), "orders.yaml": as_yaml(manifest())}
    look_at_mangled(files, random.Random(seed))


def look_at_mangled(files, rng):
    for _ in range(15):
        texts = {name: mangled(text, rng) if rng.random() < 0.6 else text for name, text in files.items()}
        review = review_project(project_of_texts(_Texts(texts), "workloads.yaml"))
        assert [] == [found for found in review.findings if not found.next_step]
        assert not review.errors or len(review.planned) <= 2


class _Texts(dict[str, str]):
    """A file that nobody has written is empty."""

    def __missing__(self, name: str) -> str:
        return ""
