"""The crash matrix: every step of the protocol, who may die there, what has to be left, and which of the cases are run.

Nothing here opens a database: the documentation's table is rendered from it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, product


class Victim(StrEnum):
    """Who is killed, by SIGKILL."""

    LANE = "lane"
    COORDINATOR = "coordinator"
    BOTH = "both"


class Entry(StrEnum):
    """How a run is asked for: all of a campaign, or a mapped item."""

    INTERNAL = "internal"
    MAPPED = "mapped"


class Mode(StrEnum):
    """What becomes of a chunk's slice; `partition_replace` is a synonym of `replace`."""

    REPLACE = "replace"
    APPEND = "incremental_append"
    MERGE = "incremental_merge"
    REFRESH = "full_refresh"


class Publication(StrEnum):
    """Where the lanes write: into the target itself, or into a shadow that is put in its place at the end."""

    DIRECT = "direct"
    SHADOW = "shadow_swap"


@dataclass(frozen=True)
class Fate:
    """What a death leaves.

    `exit_code` is that of the broken run, `left` the chunk's status after it, None where it has no row; `events` are the
    chunk's in the end, whose last attempt is the committed one.
    """

    name: str
    meaning: str
    exit_code: int
    left: str | None
    events: tuple[str, ...]


KILLED = -9
FREE = Fate(
    "free",
    "nothing was claimed; the next run begins with the first attempt",
    KILLED,
    None,
    ("claimed", "committed"),
)
REPLACED = Fate(
    "replaced",
    "another lane is started; the run passes",
    0,
    "committed",
    ("claimed", "committed"),
)
RESENT = Fate(
    "given to another lane",
    "the claim is given back, another lane is started and loads the chunk; the run passes",
    0,
    "committed",
    ("claimed", "released", "claimed", "committed"),
)
FAILED = Fate(
    "failed",
    "the server rolls back; once the chunk's lock is free and its row says so, the run ends with 5; the next one loads it",
    5,
    "failed",
    ("claimed", "failed", "claimed", "committed"),
)
LAPSES = Fate(
    "lapses",
    "the server rolls back; the next run loads the chunk once its lease has lapsed, after 90 s at the most",
    KILLED,
    "running",
    ("claimed", "claimed", "committed"),
)
RECORDED = Fate(
    "recorded",
    "the failure is in the ledger; the next run loads the chunk at once",
    KILLED,
    "failed",
    ("claimed", "failed", "claimed", "committed"),
)
COUNTED = Fate(
    "counted",
    "the rows are in the target; the run counts the chunk by its row or by what it was told, and passes",
    0,
    "committed",
    ("claimed", "committed"),
)
KEPT = Fate(
    "kept",
    "the rows are in the target; the next run skips the chunk, and completes the campaign",
    KILLED,
    "committed",
    ("claimed", "committed"),
)
UNPUBLISHED = Fate(
    "unpublished",
    "the live table is what it was, and everything is loaded; the next run moves no row, and publishes the campaign",
    KILLED,
    "committed",
    ("claimed", "committed"),
)
PUBLISHED = Fate(
    "published",
    "what was loaded is live, and the ledger says so; the next run does nothing",
    KILLED,
    "committed",
    ("claimed", "committed"),
)
FATES = (FREE, REPLACED, RESENT, FAILED, LAPSES, RECORDED, COUNTED, KEPT, UNPUBLISHED, PUBLISHED)


@dataclass(frozen=True, eq=False)
class Step:
    """A moment of the protocol. `fates` says who may die there and what it leaves; `modes` and `publications` where it comes about.

    `first_chunk`: it is about the run's first chunk, else about the last but one. `after` is a lane's death before it, `during`
    the step at which its lane is held meanwhile.
    """

    name: str
    written: str
    fates: dict[Victim, Fate]
    modes: tuple[Mode, ...] = tuple(Mode)
    first_chunk: bool = False
    after: str | None = None
    during: str | None = None
    publications: tuple[Publication, ...] = tuple(Publication)


def _step(
    name: str,
    written: str,
    lane: Fate,
    killed: Fate,
    modes: tuple[Mode, ...] = tuple(Mode),
    during: str | None = None,
) -> Step:
    return Step(
        name,
        written,
        {Victim.LANE: lane, Victim.COORDINATOR: killed, Victim.BOTH: killed},
        modes,
        first_chunk=name == "lanes open",
        during=during,
    )


def _coordinator(name: str, written: str, fate: Fate, **more: object) -> Step:
    return Step(name, written, {Victim.COORDINATOR: fate}, **more)  # type: ignore[arg-type]


def _publishing(name: str, written: str, fate: Fate) -> Step:
    return _coordinator(name, written, fate, modes=PUBLISHABLE, publications=(Publication.SHADOW,))


DELETES = (Mode.REPLACE, Mode.REFRESH)
PUBLISHABLE = (Mode.REPLACE, Mode.APPEND, Mode.REFRESH)
STEPS = (
    _coordinator("campaign opened", "the campaign's row", FREE, first_chunk=True),
    _step("lanes open", "no more; every lane is connected", REPLACED, FREE),
    _step("claimed", "the chunk's row: running; no lane knows", RESENT, LAPSES),
    _step("sent", "no more; a lane has the chunk", FAILED, LAPSES),
    _step("guarded", "nothing that is committed, here and below: the chunk's lock is held", FAILED, LAPSES),
    _step("deleted", "the slice is deleted", FAILED, LAPSES, DELETES),
    _step("staged", "the staging table is there", FAILED, LAPSES, (Mode.MERGE,)),
    _step("copying", "the first rows are in", FAILED, LAPSES),
    _step("renewal due", "as before; a lease has lasted 30 s", FAILED, LAPSES, during="copying"),
    _step("renewing", "a renewal is sent and waits for a lock", FAILED, LAPSES, during="copying"),
    _step("renewed", "the lease's later end", FAILED, LAPSES, during="copying"),
    _step("copied", "every row is in", FAILED, LAPSES),
    _step("merged", "every row is merged", FAILED, LAPSES, (Mode.MERGE,)),
    _step("before commit", "completion and COMMIT are about to be sent", FAILED, LAPSES),
    _coordinator("end heard", "as before; a lane's end is known, its chunk's row not read", LAPSES, after="copied"),
    _coordinator("failure recorded", "the chunk's row: failed", RECORDED, after="copied"),
    _step("committed", "rows and the chunk's row: committed; nobody was told", COUNTED, KEPT),
    _step("told", "no more; the coordinator knows", COUNTED, KEPT),
    _coordinator("every chunk told", "no more; every chunk is committed", KEPT),
    _coordinator("completed", "the campaign's row: complete; no outcome", KEPT),
    _publishing("publishing", "as before; a session begins to publish", UNPUBLISHED),
    _publishing("shadow held", "nothing that is committed, here and below: the shadow is held, and counted", UNPUBLISHED),
    _publishing("decided", "the ledger's locks are held, everything was compared", UNPUBLISHED),
    _publishing("swapped", "the names are exchanged; readers wait", UNPUBLISHED),
    _publishing("published", "names, receipt and the campaign's row: published; nobody was told", PUBLISHED),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One cell: a step, who dies there, in which inner mode, how the run was asked for, and where its rows go."""

    step: Step
    victim: Victim
    mode: Mode
    entry: Entry
    publication: Publication

    @property
    def fate(self) -> Fate:
        """What it has to leave."""
        return self.step.fates[self.victim]

    def __str__(self) -> str:
        return f"{self.step.name}-{self.victim}-{self.mode}-{self.entry}-{self.publication}"

    @property
    def exists(self) -> bool:
        """Whether there is such a step: a merge is not published by a swap."""
        if self.publication is Publication.SHADOW and self.mode not in PUBLISHABLE:
            return False
        return self.mode in self.step.modes and self.publication in self.step.publications

    def _pairs(self) -> set[tuple[str, ...]]:
        values = (f"step {self.step.name}", f"victim {self.victim}", self.mode, self.entry, self.publication)
        return set(combinations(values, 2))


def every_case() -> Iterator[Case]:
    """Give the whole product, in the steps' order."""
    for step in STEPS:
        for victim, mode, entry, publication in product(step.fates, Mode, Entry, Publication):
            case = Case(step, victim, mode, entry, publication)
            if case.exists:
                yield case


def pairwise_cases() -> tuple[Case, ...]:
    """Give cases in which any two values that can meet do meet: the one that brings most new pairs, again and again."""
    cases = tuple(every_case())
    missing = set().union(*(case._pairs() for case in cases))
    chosen = set()
    while missing:
        best = max(cases, key=lambda case: len(case._pairs() & missing))
        missing -= best._pairs()
        chosen.add(best)
    return tuple(case for case in cases if case in chosen)


def render_fates() -> str:
    """Give the table of the documentation: steps down, victims across, and what each word means."""
    lines = [
        "| step | what has just been written | the lane dies | the coordinator dies | both die |",
        "|---|---|---|---|---|",
    ]
    for step in STEPS:
        named = step.name
        if len(step.publications) < len(Publication):
            named += f" (`{Publication.SHADOW}`)"
        elif len(step.modes) < len(Mode):
            named += f" ({', '.join(f'`{mode}`' for mode in step.modes)})"
        cells = [step.fates[victim].name if victim in step.fates else "" for victim in Victim]
        lines.append(f"| {named} | {step.written} | {' | '.join(cells)} |")
    lines += ["", "| word | what it means |", "|---|---|"]
    lines += [f"| {fate.name} | {fate.meaning} |" for fate in FATES]
    return "\n".join(lines) + "\n"


def render_results(results: dict[Case, bool]) -> str:
    """Give the matrix of one test run: steps and victims down; publications, modes and entries across."""
    columns = [
        (mode, entry, publication)
        for publication, mode, entry in product(Publication, Mode, Entry)
        if publication is Publication.DIRECT or mode in PUBLISHABLE
    ]
    lines = ["crash matrix: ok, FAILED, - not run, blank: there is no such step"]
    lines.append(f"{'':32}" + "".join(f"{publication[:6]:>9}" for *_, publication in columns))
    lines.append(f"{'':32}" + "".join(f"{mode.removeprefix('incremental_')[:8]:>9}" for mode, *_ in columns))
    lines.append(f"{'step, victim':32}" + "".join(f"{entry:>9}" for _, entry, _ in columns))
    for step in STEPS:
        for victim in step.fates:
            cells = [_mark(results, Case(step, victim, *column)) for column in columns]
            lines.append(f"{f'{step.name}, {victim}':32}" + "".join(f"{cell:>9}" for cell in cells))
    return "\n".join(lines)


def _mark(results: dict[Case, bool], case: Case) -> str:
    if not case.exists:
        return ""
    passed = results.get(case)
    return "-" if passed is None else ("ok" if passed else "FAILED")
