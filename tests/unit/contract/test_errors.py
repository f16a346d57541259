"""Every code has one class, every class says what happened, whether a retry helps and what to do."""

import re

import pytest

from dpone_contract import errors
from dpone_contract.errors import DponeError, ErrorCode, ExitCode, InternalError, UsageError, error_class

CLASSES = [
    found
    for name in errors.__all__
    if isinstance(found := getattr(errors, name), type) and issubclass(found, DponeError)
]
CONCRETE = [kind for kind in CLASSES if kind is not DponeError]

# The names that the two reference documents publish.
PUBLISHED = (
    "DPONE_AIRFLOW_MAPPING_POLICY_INVALID",
    "DPONE_AIRFLOW_MAPPING_REQUIRES_CHUNKED_BACKFILL",
    "DPONE_AIRFLOW_MAPPING_TASK_LIMIT_EXCEEDED",
    "DPONE_AIRFLOW_MAPPING_POOL_REQUIRED",
    "DPONE_AIRFLOW_MAPPING_PARALLELISM_MULTIPLIER",
    "DPONE_AIRFLOW_MAPPING_STATE_UNSUPPORTED",
    "DPONE_AIRFLOW_MAPPING_PLAN_MISMATCH",
    "DPONE_AIRFLOW_MAPPING_ITEM_INVALID",
    "DPONE_AIRFLOW_MAPPING_CAMPAIGN_BUSY",
    "DPONE_AIRFLOW_MAPPING_UNSUPPORTED",
    "DPONE_BACKFILL_CAMPAIGN_LEASE_LOST",
    "DPONE_BACKFILL_CHUNK_LEASE_LOST",
)


def test_every_code_has_exactly_one_class():
    assert sorted(ErrorCode) == sorted(kind.code for kind in CONCRETE)


def test_every_class_of_the_hierarchy_is_exported():
    def below(kind):
        return [found for child in kind.__subclasses__() for found in (child, *below(child))]

    ours = [kind for kind in below(DponeError) if kind.__module__.startswith("dpone_contract.")]
    assert sorted(kind.__name__ for kind in CONCRETE) == sorted(kind.__name__ for kind in ours)


@pytest.mark.parametrize("code", PUBLISHED)
def test_every_published_code_exists(code):
    assert code in tuple(ErrorCode)


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.__name__)
def test_a_class_is_its_own_catalogue_entry(kind):
    happened, _, advice = (kind.__doc__ or "").partition("\n\n")
    assert re.fullmatch(r"[A-Z`d].*[.]", happened, re.DOTALL)
    assert re.fullmatch(r"Raised: .+[.] Retry: .+[.] Do: .+[.].*", " ".join(advice.split()))


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.__name__)
def test_an_error_never_ends_a_command_as_done(kind):
    assert kind.exit_code in set(ExitCode) - {ExitCode.DONE}


@pytest.mark.parametrize("kind", CONCRETE, ids=lambda kind: kind.__name__)
def test_a_code_gives_its_class(kind):
    assert error_class(kind.code.value) is kind


def test_an_unknown_code_gives_the_internal_error():
    assert error_class("DPONE_FROM_THE_FUTURE") is InternalError


def test_the_payload_holds_code_message_place_way_out_and_fields():
    error = UsageError("no", where="m.yaml:1:2", next_step="yes", chunks=7)
    assert error.to_payload() == {
        "schema": "dpone.error.v1",
        "code": "DPONE_USAGE",
        "message": "no",
        "where": "m.yaml:1:2",
        "next_step": "yes",
        "fields": {"chunks": 7},
    }


def test_the_text_tells_code_message_place_and_way_out():
    error = UsageError("no", where="m.yaml:1:2", next_step="yes", chunks=7)
    assert str(error) == "DPONE_USAGE: no | at m.yaml:1:2 | next: yes"
    assert str(UsageError("no")) == "DPONE_USAGE: no"
