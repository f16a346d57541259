"""A pack is what was built, part by part, or is refused with the way to mend it."""

import json
from copy import deepcopy

import pytest

from dpone_contract.canonical import canonical_json, fingerprint
from dpone_contract.errors import MappingPlanMismatchError, PackInvalidError, PackTooLargeError
from dpone_contract.mapping_plan import InternalMapping
from dpone_contract.pack import (
    PACK_SIZE_LIMIT_BYTES,
    dump_pack,
    pack_fingerprint,
    parse_pack,
    seal_pack,
    verify_pack,
)
from dpone_contract.pod import PodArguments
from dpone_contract.process import process_digest
from tests.factories import make_pack, make_process, make_process_plan

OTHER_HASH = "sha256:" + "b" * 64
PACK = make_pack()
DOCUMENT = json.loads(dump_pack(PACK))
PLAN = PACK.processes[0]


def leaves(value, path=()):
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path


def changed(path, change):
    document = deepcopy(DOCUMENT)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = change(holder[path[-1]])
    return document


def flipped(value):
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return value[:-1] + ("x" if value[-1:] != "x" else "y")
        case _:
            return "x"


def resealed(document):
    return json.dumps({**document, "fingerprint": pack_fingerprint(document)}).encode()


def with_plan(**changes):
    return seal_pack(PACK.replaced(processes=(PLAN.replaced(**changes),)))


@pytest.mark.parametrize("mode, items", [("internal", 4), ("visible", 1), ("visible", 200), ("summary", 40)])
def test_a_pack_comes_back_as_it_was(mode, items):
    pack = make_pack(mode=mode, items=items)
    data = dump_pack(pack)
    assert canonical_json(pack.to_document()) == data
    assert pack == parse_pack(data)
    assert data == dump_pack(parse_pack(data))


def test_the_fingerprint_is_that_of_the_canonical_pack_without_itself():
    named = {name: value for name, value in DOCUMENT.items() if name != "fingerprint"}
    assert DOCUMENT["fingerprint"] == fingerprint(named) == pack_fingerprint(DOCUMENT)


@pytest.mark.parametrize("path", list(leaves(DOCUMENT)), ids=lambda path: ".".join(map(str, path)))
def test_one_changed_value_anywhere_is_found(path):
    with pytest.raises(PackInvalidError) as caught:
        parse_pack(json.dumps(changed(path, flipped)).encode())
    assert caught.value.next_step


PLANNED = (
    *(
        ("processes", 0, "mapping", name)
        for name in ("mode", "backfill_plan_hash", "chunks_total", "items_total")
    ),
    ("processes", 0, "mapping", "plan_fingerprint"),
    ("processes", 0, "mapping", "limits", "max_items"),
    ("processes", 0, "mapping", "items", 1, "first_chunk_index"),
    ("processes", 0, "mapping", "items", 1, "last_chunk_index"),
    ("processes", 0, "process_digest"),
    ("processes", 0, "process", "mapping", "limits", "pool"),
    ("processes", 0, "process", "manifest", "source", "connection_ref"),
    ("processes", 0, "process", "manifest", "sink", "strategy", "backfill", "chunk", "to"),
)


@pytest.mark.parametrize("path", PLANNED, ids=lambda path: ".".join(map(str, path[2:])))
def test_a_part_that_was_changed_is_found_though_the_pack_was_sealed_again(path):
    change = (lambda _: OTHER_HASH) if "fingerprint" in path[-1] or "hash" in path[-1] else flipped
    with pytest.raises((PackInvalidError, MappingPlanMismatchError)) as caught:
        parse_pack(resealed(changed(path, change)))
    assert caught.value.next_step


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"kpo_kwargs": PodArguments()}, "its operator arguments do not fit"),
        ({"mapped_kpo_kwargs": None}, "its operator arguments do not fit"),
        ({"kpo_kwargs": PodArguments(), "mapped_kpo_kwargs": None}, "its operator arguments do not fit"),
        ({"mapping": InternalMapping()}, "its operator arguments do not fit"),
        (
            {
                "mapping": InternalMapping(),
                "kpo_kwargs": PodArguments(),
                "mapped_kpo_kwargs": None,
                "labels": (),
            },
            "its mapping is not of its process's policy",
        ),
        ({"process_digest": OTHER_HASH}, "its process is not the one that its digest names"),
        ({"labels": PLAN.labels[:-1]}, "it has 3 labels for 4 items"),
        ({"labels": (*PLAN.labels, "more")}, "it has 5 labels for 4 items"),
        ({"labels": ()}, "it has 0 labels for 4 items"),
    ],
)
def test_parts_that_do_not_agree_are_refused_by_the_name_of_their_task(changes, reason):
    pack = with_plan(**changes)
    for verify in (verify_pack, lambda found: parse_pack(dump_pack(found))):
        with pytest.raises(PackInvalidError, match=f"task flights_history: {reason}") as caught:
            verify(pack)
        assert caught.value.next_step == "build the pack again with `dpone pack build`"


@pytest.mark.parametrize(
    "other",
    [
        {"mode": "visible"},
        {"items": 5, "chunks": 4},
        {"max_active": 1},
        {"pool": "other"},
        {"mode": "internal"},
    ],
)
def test_a_plan_of_another_policy_is_refused(other):
    process = make_process(**other)
    pack = with_plan(process=process, process_digest=process_digest(process))
    with pytest.raises(PackInvalidError, match="its mapping is not of its process's policy"):
        verify_pack(pack)


def test_a_damaged_mapping_plan_is_refused():
    mapping = PLAN.mapping.replaced(backfill_plan_hash=OTHER_HASH)
    with pytest.raises(MappingPlanMismatchError, match="the mapping plan is damaged"):
        verify_pack(with_plan(mapping=mapping))


def test_two_tasks_of_one_name_are_refused():
    plans = (make_process_plan(make_process("one")), make_process_plan(make_process("two"), task_id="one"))
    with pytest.raises(PackInvalidError, match="task one: another task has this name"):
        verify_pack(make_pack(processes=plans))


def test_a_newer_schema_is_refused_before_anything_else_of_it_is_read():
    document = {"schema": "dpone.airflow-pack.v2", "fingerprint": "md5:1", "colour": "blue"}
    with pytest.raises(
        PackInvalidError, match=r"schema is 'dpone.airflow-pack.v2', this reader knows"
    ) as caught:
        parse_pack(json.dumps(document).encode())
    assert "upgrade airflow-provider-dpone" in caught.value.next_step


@pytest.mark.parametrize("data", [b"[]", b"1", b"null", b'"pack"', b"{}", b'{"schema": null}'])
def test_what_is_no_pack_at_all_is_refused(data):
    with pytest.raises(PackInvalidError, match="the pack's schema is None") as caught:
        parse_pack(data)
    assert caught.value.next_step


RAW = dump_pack(PACK)
KWARGS = b'"mapped_kpo_kwargs":{}'


def test_every_shortened_pack_is_refused():
    for length in range(0, len(RAW), 7):
        with pytest.raises(PackInvalidError, match="the pack is not JSON") as caught:
            parse_pack(RAW[:length])
        assert caught.value.next_step == "build it again"


@pytest.mark.parametrize(
    "inner",
    [
        b'{"a":1,"a":1}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":1e999}',
        b'{"a":1.5}',
        b'{"a":9007199254740992}',
        b'{"a":"\\ud800"}',
        b'{"a":"\xff"}',
        b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    ],
)
def test_values_without_one_canonical_form_are_refused(inner):
    assert KWARGS in RAW
    with pytest.raises(PackInvalidError, match="the pack is not JSON") as caught:
        parse_pack(RAW.replace(KWARGS, b'"mapped_kpo_kwargs":' + inner))
    assert caught.value.next_step == "build it again"


@pytest.mark.parametrize(
    "path, value",
    [
        (("dag", "retries"), -1),
        (("dag", "retries"), True),
        (("dag", "dag_id"), "a b"),
        (("dag", "max_active_runs"), 0),
        (("processes",), []),
        (("processes", 0, "retry_authority", "max_retries"), 4),
        (("processes", 0, "backend"), "celery"),
        (("processes", 0, "task_id"), ""),
        (("release",), ""),
        (("release",), "x" * 251),
        (("processes", 0, "mapping", "items", 0, "predicate"), "1 = 1"),
        (("owner",), "x"),
    ],
)
def test_another_shape_is_refused_by_its_place(path, value):
    document = deepcopy(DOCUMENT)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    with pytest.raises(PackInvalidError, match="the pack is malformed at") as caught:
        parse_pack(resealed(document))
    assert caught.value.next_step


def test_a_pack_of_2_mib_is_read_and_one_byte_more_is_not():
    padded = RAW.ljust(PACK_SIZE_LIMIT_BYTES)
    assert len(padded) == 2 * 1024 * 1024
    assert PACK == parse_pack(padded)
    with pytest.raises(PackInvalidError, match="the pack has 2097153 bytes, more than 2097152") as caught:
        parse_pack(padded + b" ")
    assert caught.value.next_step


def test_a_pack_beyond_its_limit_is_not_written():
    dag = PACK.dag.replaced(description="x" * PACK_SIZE_LIMIT_BYTES)
    with pytest.raises(PackTooLargeError, match=r"pack flights_history has \d+ bytes") as caught:
        dump_pack(PACK.replaced(dag=dag))
    assert caught.value.next_step == "split the workload"
