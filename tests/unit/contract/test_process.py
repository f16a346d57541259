"""A process comes back from its argument as it was, a damaged one is refused, and its plan follows from it alone."""

import base64
import json
import zlib
from contextlib import suppress

import pytest

from dpone_contract.canonical import canonical_json, fingerprint
from dpone_contract.chunk_plan import plan_hash
from dpone_contract.errors import (
    MappingTaskLimitExceededError,
    PackTooLargeError,
    PlanInvalidError,
    RunContextInvalidError,
)
from dpone_contract.manifest import Manifest
from dpone_contract.mapping_policy import MappingPolicy
from dpone_contract.process import (
    ARGUMENT_SIZE_LIMIT_BYTES,
    build_process,
    decode_process,
    encode_process,
    plan_campaign,
    process_digest,
)
from dpone_contract.window_tokens import WindowToken
from tests.factories import make_process
from tests.unit.packbuilder.project_files import manifest as manifest_document

MIB = 1024 * 1024


def process_of(**changes):
    """Give the process of a valid manifest with keys changed by their path."""
    manifest = Manifest.model_validate_json(json.dumps(manifest_document(**changes)))
    return build_process(manifest, MappingPolicy())


def argument_of(data):
    return base64.urlsafe_b64encode(zlib.compress(data, 9)).decode()


PROCESS = make_process()
ARGUMENT = encode_process(PROCESS)


@pytest.mark.parametrize(
    "process", [PROCESS, make_process(mode="internal"), make_process(mode="visible", items=200)]
)
def test_a_process_comes_back_from_its_argument_as_it_was(process):
    argument = encode_process(process)
    assert process == decode_process(argument)
    assert process_digest(process) == process_digest(decode_process(argument))
    assert set(argument) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=")


def test_the_digest_is_the_fingerprint_of_the_document():
    assert fingerprint(PROCESS.to_document()) == process_digest(PROCESS)


def test_every_shortened_argument_is_refused():
    for length in range(len(ARGUMENT)):
        with pytest.raises(RunContextInvalidError, match="the process argument is damaged"):
            decode_process(ARGUMENT[:length])


def test_an_argument_with_a_changed_bit_is_refused_or_means_the_same():
    data = bytearray(base64.urlsafe_b64decode(ARGUMENT))
    for place in range(len(data)):
        for bit in (1, 16, 128):
            data[place] ^= bit
            with suppress(RunContextInvalidError):
                assert decode_process(base64.urlsafe_b64encode(data).decode()) == PROCESS
            data[place] ^= bit


@pytest.mark.parametrize(
    "argument",
    [
        "",
        "=",
        "====",
        "not base64!",
        ARGUMENT + "\n",
        ARGUMENT + "=",
        ARGUMENT + "AAAA",
        ARGUMENT[:8] + "=" + ARGUMENT[8:],
        ARGUMENT + ARGUMENT,
        "+" + ARGUMENT[1:],
        "\u00e9" + ARGUMENT[1:],
        argument_of(b""),
        argument_of(b"{}"),
        argument_of(b"\xff"),
        argument_of(b"[" * 100_000),
        argument_of(canonical_json({**PROCESS.to_document(), "schema": "dpone.process.v2"})),
        argument_of(canonical_json({**PROCESS.to_document(), "password": "x"})),
        argument_of(canonical_json(PROCESS.to_document()) + b"{}"),
        base64.urlsafe_b64encode(zlib.compress(canonical_json(PROCESS.to_document())) + b"x").decode(),
        base64.urlsafe_b64encode(canonical_json(PROCESS.to_document())).decode(),
    ],
)
def test_what_is_no_process_is_refused(argument):
    with pytest.raises(RunContextInvalidError, match="the process argument is damaged") as caught:
        decode_process(argument)
    assert caught.value.next_step


def test_a_bomb_is_not_unfolded():
    padded = canonical_json(PROCESS.to_document())
    assert PROCESS == decode_process(argument_of(padded + b" " * (4 * MIB - len(padded) - 1)))
    with pytest.raises(RunContextInvalidError):
        decode_process(argument_of(padded + b" " * (4 * MIB - len(padded) + 1)))
    with pytest.raises(RunContextInvalidError):
        decode_process(argument_of(b" " * (64 * MIB)))


def test_an_argument_of_96_kib_is_looked_at_and_one_byte_more_is_not(monkeypatch):
    looked_at = []
    genuine = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", lambda: looked_at.append(1) or genuine())
    for length, times in ((ARGUMENT_SIZE_LIMIT_BYTES, 1), (ARGUMENT_SIZE_LIMIT_BYTES + 1, 1)):
        with pytest.raises(RunContextInvalidError):
            decode_process("A" * length)
        assert times == len(looked_at)
    assert ARGUMENT_SIZE_LIMIT_BYTES == 96 * 1024


def test_a_process_beyond_96_kib_is_not_encoded():
    # Names that do not compress: 6,000 of 64 hexadecimal digits.
    key = tuple(fingerprint(index).removeprefix("sha256:") for index in range(6_000))
    strategy = PROCESS.manifest.sink.strategy.replaced(unique_key=key)
    manifest = PROCESS.manifest.replaced(sink=PROCESS.manifest.sink.replaced(strategy=strategy))
    with pytest.raises(PackTooLargeError, match=r"needs an argument of \d+ bytes, more than 98304") as caught:
        encode_process(PROCESS.replaced(manifest=manifest))
    assert caught.value.next_step == "shorten the manifest"


def test_a_campaign_is_planned_from_its_process_alone():
    campaign = plan_campaign(process_of())
    assert (10, "2024-01-01", "2024-01-11") == (
        campaign.plan.chunks_total,
        campaign.plan.lower,
        campaign.plan.upper,
    )
    assert plan_hash(campaign.plan) == campaign.plan_hash
    assert campaign.templated is False


def test_tokens_of_a_window_are_replaced_by_the_interval():
    process = process_of(chunk__from="{{ ds }}", chunk__to="{{ds}}")
    campaign = plan_campaign(process, {WindowToken.DS: "2024-02-29"})
    assert campaign.templated is True
    assert ("2024-02-29", "2024-03-01") == (campaign.plan.lower, campaign.plan.upper)


def test_an_authored_window_and_a_rendered_one_differ_only_in_being_templated():
    rendered = plan_campaign(
        process_of(chunk__from="{{ ds }}", chunk__to="2024-01-10"), {WindowToken.DS: "2024-01-01"}
    )
    authored = plan_campaign(process_of())
    assert (authored.plan, authored.plan_hash) == (rendered.plan, rendered.plan_hash)
    assert authored.config_hash == rendered.config_hash


@pytest.mark.parametrize(
    "interval", [None, {}, {WindowToken.DS: ""}, {WindowToken.LOGICAL_DATE: "2024-01-01"}]
)
def test_a_window_without_its_interval_is_refused(interval):
    with pytest.raises(RunContextInvalidError, match="has no value for it"):
        plan_campaign(process_of(chunk__from="{{ ds }}", chunk__to="{{ ds }}"), interval)


def test_a_backfill_without_chunks_is_refused():
    with pytest.raises(PlanInvalidError, match="no chunk block") as caught:
        plan_campaign(process_of(backfill__chunk=None))
    assert "declare column, from, to and step" in caught.value.next_step


@pytest.mark.parametrize("max_chunks, fits", [(10, True), (9, False)])
def test_max_chunks_bounds_the_plan(max_chunks, fits):
    process = process_of(backfill__max_chunks=max_chunks)
    if fits:
        assert plan_campaign(process).plan.chunks_total == 10
    else:
        with pytest.raises(PlanInvalidError, match="above max_chunks 9"):
            plan_campaign(process)


def test_full_refresh_is_for_one_chunk():
    whole = process_of(backfill__inner_mode="full_refresh", chunk__step="1mo")
    assert plan_campaign(whole).plan.chunks_total == 1
    with pytest.raises(PlanInvalidError, match="only valid for a single-chunk plan") as caught:
        plan_campaign(process_of(backfill__inner_mode="full_refresh"))
    assert caught.value.next_step == "use partition_replace"


@pytest.mark.parametrize("key", [None, []])
def test_a_merge_needs_a_key(key):
    with pytest.raises(PlanInvalidError, match="needs a unique_key"):
        plan_campaign(process_of(backfill__inner_mode="incremental_merge", sink__strategy__unique_key=key))


def test_a_key_cannot_be_ordered_by_its_own_column():
    changes = {"sink__strategy__unique_key": ["a", "b"], "sink__strategy__version_column": "b"}
    with pytest.raises(PlanInvalidError, match="b is part of unique_key"):
        plan_campaign(process_of(backfill__inner_mode="incremental_merge", **changes))


def test_a_mapping_plan_is_that_of_the_campaigns_own_chunks():
    campaign = plan_campaign(PROCESS)
    mapping = campaign.mapping_plan(PROCESS.mapping)
    assert (campaign.plan_hash, campaign.plan.chunks_total) == (
        mapping.backfill_plan_hash,
        mapping.chunks_total,
    )
    with pytest.raises(MappingTaskLimitExceededError):
        plan_campaign(make_process(chunks=5)).mapping_plan(make_process(mode="visible", items=4).mapping)


def test_a_process_with_a_name_twice_is_refused():
    data = canonical_json(PROCESS.to_document())
    doubled = b'{"schema":"dpone.process.v1",' + data[1:]
    argument = base64.urlsafe_b64encode(zlib.compress(doubled)).decode()
    with pytest.raises(RunContextInvalidError, match="damaged"):
        decode_process(argument)
