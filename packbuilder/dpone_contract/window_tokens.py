"""The five tokens that a chunk window may take from an Airflow interval: found, checked and replaced, never evaluated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum

from dpone_contract.errors import PlanInvalidError, RunContextInvalidError


class WindowToken(StrEnum):
    """Names that may stand between double braces in `chunk.from` and `chunk.to`."""

    DATA_INTERVAL_START = "data_interval_start"
    DATA_INTERVAL_END = "data_interval_end"
    LOGICAL_DATE = "logical_date"
    DS = "ds"
    DAG_RUN_ID = "dag_run_id"


_FLAGS = {
    WindowToken.DATA_INTERVAL_START: "--interval-start",
    WindowToken.DATA_INTERVAL_END: "--interval-end",
    WindowToken.LOGICAL_DATE: "--execution-date",
    WindowToken.DS: "--execution-date",
    WindowToken.DAG_RUN_ID: "DPONE_DAG_RUN_ID in the environment",
}
_BRACES = re.compile(r"\{\{(.*?)\}\}")
_KNOWN = tuple(token.value for token in WindowToken)


def find_tokens(text: str) -> tuple[WindowToken, ...]:
    """Give the tokens of a text in order.

    Errors: PlanInvalidError for a name that is none of the five, or braces that do not close.
    """
    names = [found.strip() for found in _BRACES.findall(text)]
    for name in names:
        if name not in _KNOWN:
            close = get_close_matches(name, _KNOWN, n=1)
            hint = f"did you mean {{{{ {close[0]} }}}}?" if close else "use one of: " + ", ".join(_KNOWN)
            raise PlanInvalidError(f"unknown token {{{{ {name} }}}}", next_step=hint)
    if "{{" in _BRACES.sub("", text) or "}}" in _BRACES.sub("", text):
        raise PlanInvalidError(f"token braces do not close in {text!r}", next_step="write {{ token }}")
    return tuple(WindowToken(name) for name in names)


def render_tokens(text: str, values: Mapping[WindowToken, str]) -> str:
    """Replace each token by its value.

    Errors: RunContextInvalidError where a value is missing, empty or the word None.
    """

    def value_of(found: re.Match[str]) -> str:
        token = WindowToken(found.group(1).strip())
        value = values.get(token, "").strip()
        if value in ("", "None"):
            raise RunContextInvalidError(
                f"the window needs {{{{ {token.value} }}}}, but this run has no value for it",
                next_step=f"run it from a DAG run that has one, or pass {_FLAGS[token]}",
            )
        return value

    find_tokens(text)
    return _BRACES.sub(value_of, text)
