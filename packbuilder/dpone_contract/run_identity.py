"""The identity of what runs: release, deployment, pack and process, the same for every mapped item."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError

from dpone_contract.canonical import canonical_json_of_plain
from dpone_contract.environment import EnvVar
from dpone_contract.errors import RunContextInvalidError
from dpone_contract.frozen import FrozenModel
from dpone_contract.mapping_plan import FingerprintText
from dpone_contract.strict_json import parse_plain_json

_SIZE_LIMIT_BYTES = 8 * 1024
ShortText = Annotated[str, Field(min_length=1, max_length=250)]


class RunIdentity(FrozenModel):
    """`dpone.airflow-run-identity.v1`."""

    schema_: Literal["dpone.airflow-run-identity.v1"] = Field(
        default="dpone.airflow-run-identity.v1",
        alias="schema",
        description="Name and version of this format.",
    )
    release: ShortText = Field(description="Name of the release.")
    deployment: ShortText = Field(description="Name of the deployment.")
    workload: ShortText = Field(description="Name of the workload.")
    process: ShortText = Field(description="Name of the process.")
    pack_fingerprint: FingerprintText = Field(description="Fingerprint of the pack.")
    process_digest: FingerprintText = Field(description="Digest of the compiled process.")


def dump_run_identity(identity: RunIdentity) -> str:
    """Give the canonical JSON text of an identity."""
    return canonical_json_of_plain(identity.to_document()).decode()


def parse_run_identity(text: str) -> RunIdentity:
    """Read an identity.

    Errors: RunContextInvalidError.
    """
    if len(text.encode("utf-8", "surrogatepass")) > _SIZE_LIMIT_BYTES:
        raise _invalid("the run identity is too large")
    try:
        parse_plain_json(text)
    except ValueError as error:
        raise _invalid("the run identity is not JSON") from error
    try:
        return RunIdentity.model_validate_json(text)
    except ValidationError as error:
        raise _invalid(f"the run identity is malformed: {error.errors()[0]['msg']}") from error


def _invalid(message: str) -> RunContextInvalidError:
    return RunContextInvalidError(
        message, where=EnvVar.RUN_IDENTITY.value, next_step="let the provider write it"
    )
