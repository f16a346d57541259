"""A window is planned as it is written, or refused with what to write instead, before any chunk exists."""

import contextlib
import json
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone_contract.chunk_options import MAX_CHUNKS_LIMIT, ChunkKind, ChunkOptions, infer_kind
from dpone_contract.chunk_spec import chunk_spec_from_options
from dpone_contract.errors import PlanInvalidError

WINDOW = {"column": "flight_date", "from": "2013-01-01", "to": "2013-01-31", "step": "1d"}


def options(**changes):
    """Give the window with keys changed, `first` for `from`; None leaves a key out."""
    named = {"from" if name == "first" else name: value for name, value in changes.items()}
    document = {name: value for name, value in {**WINDOW, **named}.items() if value is not None}
    return ChunkOptions.model_validate_json(json.dumps(document))


def spec(*, max_chunks=10_000, **changes):
    return chunk_spec_from_options(options(**changes), max_chunks=max_chunks)


@pytest.mark.parametrize(
    "changes, kind",
    [
        ({}, "date"),
        ({"first": "2013-01-01T00:00:00"}, "timestamp"),
        ({"first": "2013-01-01 00:00"}, "timestamp"),
        ({"first": 1}, "integer"),
        ({"first": -7}, "integer"),
        ({"first": "-7"}, "integer"),
        ({"first": "20130101"}, "integer"),
        ({"first": None, "boundaries": [1, 5]}, "integer"),
        ({"first": None, "boundaries": ["2013-01-01", "2013-02-01"]}, "date"),
        ({"first": None, "buckets": 4}, "uuid"),
        ({"first": 1, "kind": "date"}, "date"),
        ({"kind": "timestamp"}, "timestamp"),
    ],
)
def test_the_kind_is_the_authored_one_or_that_of_from(changes, kind):
    assert ChunkKind(kind) is infer_kind(options(**changes))


@pytest.mark.parametrize(
    "changes, message, next_step",
    [
        ({"first": None}, "chunk.from is missing", 'add from: "YYYY-MM-DD"'),
        ({"first": None, "kind": "date"}, "chunk.from is missing", 'add from: "YYYY-MM-DD"'),
        ({"to": None}, "chunk.to is missing", 'add to: "YYYY-MM-DD"'),
        ({"step": None}, "chunk.step is missing", "add for example step: 1d"),
        ({"first": "yesterday"}, "is neither a date, a timestamp nor an integer", "write a quoted ISO date"),
        ({"first": "2013-1-1"}, "is neither a date, a timestamp nor an integer", "or set chunk.kind"),
        ({"first": "2013-01-01\n"}, "is neither a date", "write a quoted ISO date"),
        (
            {"first": "yesterday", "kind": "date"},
            "chunk.from 'yesterday' is not a date",
            'write "YYYY-MM-DD"',
        ),
        ({"to": "2013-01-31\n"}, "is not a date", 'write "YYYY-MM-DD"'),
        ({"to": 20130131}, "chunk.to '20130131' is not a date", 'write "YYYY-MM-DD"'),
        ({"to": "2013-02-29"}, "chunk.to '2013-02-29' is no day of the calendar", "name a day that exists"),
        ({"first": "0000-01-01"}, "is no day of the calendar", "name a day that exists"),
        ({"to": "2013-01-31T00:00:00"}, "is an instant, but the window's kind is date", "use {{ ds }}"),
        ({"to": "2012-12-31"}, "the window holds no chunk", "put the earlier day into chunk.from"),
        ({"to": "9999-12-31"}, "chunk.to is the last day there is", "use 9999-12-30 at the latest"),
        ({"step": 7}, "step 7 needs a unit in a date window", "write step: 7d"),
        ({"step": 0}, "step 0 needs a unit in a date window", "write step: 1d"),
        ({"step": -7}, "step -7 needs a unit in a date window", "write step: 1d"),
        ({"step": "6h"}, "step 6h does not fit date chunks", "use Nd, Nw, Nmo or Ny"),
        ({"step": "1x"}, "step '1x' is not a step", "write Nh, Nd, Nw, Nmo or Ny"),
        ({"step": "0d"}, "never ends", "use a step of at least 1"),
        ({"timezone": "Europe/Atlantis"}, "is not an IANA time zone", "for example UTC or Europe/Berlin"),
        ({"timezone": ""}, "is not an IANA time zone", "for example UTC"),
        ({"timezone": "../../etc/passwd"}, "is not an IANA time zone", "for example UTC"),
        ({"timezone": "Europe"}, "is not an IANA time zone", "for example UTC"),
        ({"timezone": "x" * 5_000}, "is not an IANA time zone", "for example UTC"),
    ],
)
def test_a_window_that_cannot_be_planned_is_refused_with_what_to_write(changes, message, next_step):
    with pytest.raises(PlanInvalidError) as caught:
        spec(**changes)
    assert message in caught.value.message
    assert next_step in caught.value.next_step


def test_both_days_of_a_window_are_included():
    window = spec(first="2013-01-31", to="2013-01-31")
    assert (1, "2013-01-31", "2013-02-01") == (window.count(), window.bound(0), window.bound(1))


def test_the_last_possible_day_is_included():
    window = spec(first="9999-12-01", to="9999-12-30", step="1mo")
    assert (1, date(9999, 12, 31), "9999-12-31") == (window.count(), window.end, window.bound(1))


@pytest.mark.parametrize("step", ["40d", "999999999d", "999999999w", "999999999mo", "999999999y"])
def test_a_step_beyond_the_window_gives_one_chunk_that_ends_with_it(step):
    window = spec(step=step)
    assert (1, "2013-02-01") == (window.count(), window.bound(1))


def test_exactly_max_chunks_are_planned_and_one_more_is_refused():
    assert spec(max_chunks=31).count() == 31
    with pytest.raises(PlanInvalidError) as caught:
        spec(max_chunks=30)
    assert caught.value.message == "backfill would produce 31 chunks, above max_chunks 30"
    assert caught.value.next_step == "increase chunk.step, or increase backfill.max_chunks (at most 1000000)"
    assert caught.value.fields == {"chunks": 31, "max_chunks": 30}


def test_a_window_of_millions_of_days_is_refused_before_a_bound_is_made(monkeypatch):
    made = []
    monkeypatch.setattr("dpone_contract.chunk_kinds.dates.date_bound", lambda *found: made.append(found))
    with pytest.raises(PlanInvalidError, match="would produce 3652058 chunks, above max_chunks 1000000"):
        spec(first="0001-01-01", to="9999-12-30", max_chunks=MAX_CHUNKS_LIMIT)
    assert [] == made


def test_months_are_counted_by_arithmetic(monkeypatch):
    from dpone_contract import step

    made, genuine = [], step.date_bound
    monkeypatch.setattr(step, "date_bound", lambda *found: made.append(found) or genuine(*found))
    assert (
        spec(first="0001-01-31", to="9999-12-30", step="1mo", max_chunks=MAX_CHUNKS_LIMIT).count() == 119_987
    )
    assert len(made) <= 16


@pytest.mark.parametrize(
    "changes, templated",
    [
        ({}, False),
        ({"first": "{{ ds }}"}, True),
        ({"to": "{{ds}}"}, True),
        ({"first": None, "to": None}, False),
    ],
)
def test_a_window_is_templated_where_a_bound_has_a_token(changes, templated):
    assert templated is options(**changes).templated


@pytest.mark.parametrize("name", ["first", "to"])
def test_an_unknown_token_in_either_bound_is_refused(name):
    other = "to" if name == "first" else "first"
    with pytest.raises(PlanInvalidError, match="unknown token"):
        _ = options(**{name: "{{ tomorrow }}", other: "{{ ds }}"}).templated


@given(st.data())
def test_no_text_in_a_window_escapes_as_another_error(data):
    texts = st.text(max_size=12) | st.integers() | st.dates().map(str) | st.none()
    changes = {name: data.draw(texts) for name in ("first", "to", "step")}
    with contextlib.suppress(PlanInvalidError):
        assert spec(**changes).count() >= 1
