"""What a run is told from outside is checked before anything else; whatever is odd fails closed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpone_contract.environment import EnvVar
from dpone_contract.errors import DponeError, MappingItemInvalidError, RunContextInvalidError
from dpone_contract.mapping_item import dump_item, mapping_item
from dpone_contract.outcome import AttemptIdentity
from dpone_contract.process import plan_campaign, process_digest
from dpone_contract.run_identity import RunIdentity, dump_run_identity
from dpone_contract.window_tokens import WindowToken
from dpone_runtime.command_options import IntervalFlags
from dpone_runtime.run_context import RunContext, outcome_path, read_run_context, require_process_of_context
from tests.factories import DIGEST, make_process


def make_identity(process=None) -> RunIdentity:
    return RunIdentity(
        release="2013.1",
        deployment="test",
        workload="flights_history",
        process="flights_history",
        pack_fingerprint=DIGEST,
        process_digest=process_digest(process or make_process()),
    )


def make_item(process=None):
    process = process or make_process()
    mapping = plan_campaign(process).mapping_plan(process.mapping)
    return mapping_item(mapping, mapping.items[0])


def item_text(**changes) -> str:
    return json.dumps({**json.loads(dump_item(make_item())), **changes})


def without(text: str, name: str) -> str:
    return json.dumps({key: value for key, value in json.loads(text).items() if key != name})


def test_by_hand_there_is_nothing():
    assert RunContext() == read_run_context({})


def test_everything_that_the_provider_writes_is_read():
    context = read_run_context(
        {
            EnvVar.DAG_ID: "flights",
            EnvVar.DAG_RUN_ID: "manual__1",
            EnvVar.TRY_NUMBER: "3",
            EnvVar.LOGICAL_DATE: "2013-01-05T00:00:00+00:00",
            EnvVar.INTERVAL_START: "2013-01-04T00:00:00+00:00",
            EnvVar.INTERVAL_END: "2013-01-05T00:00:00+00:00",
            EnvVar.RUN_IDENTITY: dump_run_identity(make_identity()),
            EnvVar.MAPPING_ITEM: dump_item(make_item()),
        }
    )
    assert AttemptIdentity(dag_id="flights", dag_run_id="manual__1", try_number=3) == context.attempt
    assert {
        WindowToken.DATA_INTERVAL_START: "2013-01-04T00:00:00+00:00",
        WindowToken.DATA_INTERVAL_END: "2013-01-05T00:00:00+00:00",
        WindowToken.LOGICAL_DATE: "2013-01-05T00:00:00+00:00",
        WindowToken.DS: "2013-01-05",
        WindowToken.DAG_RUN_ID: "manual__1",
    } == context.interval
    assert (make_identity(), make_item()) == (context.identity, context.item)


def test_a_run_without_a_logical_date_has_no_value_for_it():
    context = read_run_context(
        {EnvVar.LOGICAL_DATE: "", EnvVar.INTERVAL_START: "None", EnvVar.TRY_NUMBER: "", EnvVar.DAG_ID: ""}
    )
    assert ({}, AttemptIdentity()) == (context.interval, context.attempt)


def test_the_command_line_goes_before_the_environment():
    environ = {EnvVar.INTERVAL_START: "a", EnvVar.INTERVAL_END: "b", EnvVar.LOGICAL_DATE: "2013-01-01"}
    interval = read_run_context(environ, IntervalFlags("c", None, "2013-02-02T05:00:00Z")).interval
    assert ("c", "b", "2013-02-02") == (
        interval[WindowToken.DATA_INTERVAL_START],
        interval[WindowToken.DATA_INTERVAL_END],
        interval[WindowToken.DS],
    )


@pytest.mark.parametrize(
    "logical, day",
    [
        ("2013-01-05", "2013-01-05"),
        ("2013-01-05T23:30:00+00:00", "2013-01-05"),
        ("2013-01-05T23:30:00.123456+02:00", "2013-01-05"),
        ("2013-01-05T23:30:00Z", "2013-01-05"),
    ],
)
def test_ds_is_the_day_of_the_logical_date(logical, day):
    assert day == read_run_context({EnvVar.LOGICAL_DATE: logical}).interval[WindowToken.DS]


@pytest.mark.parametrize("text", ["abc", "-1", "1.5", " 3", "٣", "0x1", "1e3"])
def test_a_try_number_that_is_none_is_refused(text):
    with pytest.raises(RunContextInvalidError, match=EnvVar.TRY_NUMBER.value):
        read_run_context({EnvVar.TRY_NUMBER: text})


@pytest.mark.parametrize("text", ["yesterday", "2013-13-01", "05.01.2013"])
def test_a_logical_date_that_is_none_is_refused(text):
    with pytest.raises(RunContextInvalidError, match="ISO"):
        read_run_context({EnvVar.LOGICAL_DATE: text})


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        "{}",
        "x" * 9000,
        without(dump_run_identity(make_identity()), "release"),
        json.dumps({**make_identity().to_document(), "further": 1}),
        json.dumps({**make_identity().to_document(), "release": ""}),
        json.dumps({**make_identity().to_document(), "process_digest": "sha256:x"}),
        json.dumps({**make_identity().to_document(), "schema": "dpone.airflow-run-identity.v2"}),
    ],
)
def test_a_malformed_identity_is_refused(text):
    with pytest.raises(RunContextInvalidError):
        read_run_context({EnvVar.RUN_IDENTITY: text})


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        "{}",
        '"x"',
        "[" * 6000,
        item_text(padding="x" * 9000),
        item_text(further=1),
        item_text(password="hunter2"),
        item_text(item_index=-1),
        item_text(item_index="0"),
        item_text(item_index=True),
        item_text(first_chunk_index=0),
        item_text(last_chunk_index=9),
        item_text(chunks_count=2),
        item_text(mode="internal"),
        item_text(schema="dpone.airflow-mapping-item.v2"),
        item_text(mapping_plan_fingerprint="sha256:x"),
        without(item_text(), "backfill_plan_hash"),
        item_text()[:-1] + ', "item_index": 1}',
        item_text().replace('"item_index": 0', '"item_index": NaN'),
        "\udcff" + item_text(),
    ],
)
def test_a_malformed_item_is_refused(text):
    with pytest.raises(MappingItemInvalidError) as refusal:
        read_run_context({EnvVar.MAPPING_ITEM: text})
    assert "hunter2" not in str(refusal.value)


def test_a_process_and_its_context_agree():
    process = make_process()
    require_process_of_context(process, RunContext())
    require_process_of_context(process, RunContext(identity=make_identity(process), item=make_item(process)))
    internal = make_process(mode="internal")
    require_process_of_context(internal, RunContext(identity=make_identity(internal)))


@pytest.mark.parametrize(
    "process, context, expected",
    [
        (make_process(), RunContext(identity=make_identity(make_process(items=3))), RunContextInvalidError),
        (make_process(mode="internal"), RunContext(item=make_item()), MappingItemInvalidError),
        (make_process(), RunContext(identity=make_identity()), MappingItemInvalidError),
    ],
)
def test_a_process_that_is_not_of_its_context_is_refused(process, context, expected):
    with pytest.raises(expected) as refusal:
        require_process_of_context(process, context)
    assert isinstance(refusal.value, DponeError)
    assert refusal.value.next_step


def test_the_outcome_goes_where_the_environment_says():
    assert Path("some/where.json") == outcome_path({EnvVar.OUTCOME_PATH: "some/where.json"})
