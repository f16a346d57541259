"""A run identity is read as it was written, or refused before anything is connected to."""

import json

import pytest

from dpone_contract.canonical import canonical_json
from dpone_contract.errors import RunContextInvalidError
from dpone_contract.run_identity import RunIdentity, dump_run_identity, parse_run_identity

IDENTITY = RunIdentity(
    release="2013.1",
    deployment="production",
    workload="flights_history",
    process="flights_history",
    pack_fingerprint="sha256:" + "a" * 64,
    process_digest="sha256:" + "b" * 64,
)
DOCUMENT = IDENTITY.to_document()


def text_of(**changes):
    return json.dumps({**DOCUMENT, **changes})


def test_an_identity_comes_back_as_it_was():
    text = dump_run_identity(IDENTITY)
    assert canonical_json(DOCUMENT).decode() == text
    assert IDENTITY == parse_run_identity(text)


@pytest.mark.parametrize("text", ["x" * 250, "\U0001f600" * 250, "\x00" * 250])
def test_the_longest_names_come_back(text):
    identity = IDENTITY.replaced(release=text, deployment=text, workload=text, process=text)
    assert identity == parse_run_identity(dump_run_identity(identity))


@pytest.mark.parametrize("name", ["release", "deployment", "workload", "process"])
@pytest.mark.parametrize("bad", ["", "x" * 251, None, 5, True, ["a"], {"a": 1}])
def test_a_name_beyond_its_bounds_is_refused(name, bad):
    with pytest.raises(RunContextInvalidError, match="the run identity is malformed") as caught:
        parse_run_identity(text_of(**{name: bad}))
    assert caught.value.next_step == "let the provider write it"


@pytest.mark.parametrize("name", ["pack_fingerprint", "process_digest"])
@pytest.mark.parametrize("bad", ["", "a" * 64, "sha256:" + "A" * 64, "sha256:" + "a" * 63, None])
def test_what_is_no_fingerprint_is_refused(name, bad):
    with pytest.raises(RunContextInvalidError, match="the run identity is malformed"):
        parse_run_identity(text_of(**{name: bad}))


@pytest.mark.parametrize("name", [name for name in DOCUMENT if name != "schema"])
def test_a_missing_field_is_refused(name):
    document = {key: value for key, value in DOCUMENT.items() if key != name}
    with pytest.raises(RunContextInvalidError, match="Field required"):
        parse_run_identity(json.dumps(document))


@pytest.mark.parametrize(
    "text",
    [
        text_of(schema="dpone.airflow-run-identity.v2"),
        text_of(owner="me"),
        "[]",
        "null",
        '"\\ud800"',
        dump_run_identity(IDENTITY).replace("production", "\ud800"),
    ],
)
def test_another_shape_is_refused(text):
    with pytest.raises(RunContextInvalidError, match="the run identity is malformed"):
        parse_run_identity(text)


@pytest.mark.parametrize(
    "text",
    ["", "{", "NaN", "[" * 8_000, dump_run_identity(IDENTITY)[:-1], '{"release": "a", "release": "b"}'],
)
def test_what_is_no_json_is_refused(text):
    with pytest.raises(RunContextInvalidError, match="the run identity is not JSON") as caught:
        parse_run_identity(text)
    assert caught.value.next_step == "let the provider write it"


def test_an_identity_of_8_kib_is_read_and_one_more_is_not():
    padded = dump_run_identity(IDENTITY).ljust(8 * 1024)
    assert IDENTITY == parse_run_identity(padded)
    with pytest.raises(RunContextInvalidError, match="too large"):
        parse_run_identity(padded + " ")
    with pytest.raises(RunContextInvalidError, match="too large"):
        parse_run_identity(text_of() + "\u2003" * 4_000)
