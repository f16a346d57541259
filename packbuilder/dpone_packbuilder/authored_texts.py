"""What no authored text of a pod or hook may hold: template marks and credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dpone_contract.yaml_tree import Path

TEMPLATE_MARKS = ("{{", "{%", "{#")
SECRET_WORDS = (
    "PASSWORD",
    "PASSWD",
    "SECRET",
    "TOKEN",
    "CREDENTIAL",
    "API_KEY",
    "APIKEY",
    "PRIVATE_KEY",
    "ACCESS_KEY",
)

# What begins with a dollar sign is a shell's variable, and no value. Every repetition has a bound or one way to match: a text
# may be long.
_CREDENTIAL = re.compile(
    r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://[^\s/@:]{0,255}:(?!\$)[^\s/@]{1,1023}@"
    r"|(?:password|passwd|pwd|secret|token|api_?key|access_?key)[\"']?\s*[=:]\s*[\"']?(?![\s\"'$])\S"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|\bbearer\s+[a-z0-9._~+/-]{16,}",
    re.IGNORECASE,
)


def texts_in(value: object, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Give every text within plain values, names of keys too, with the path of its value."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key), key
            yield from texts_in(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from texts_in(inner, (*path, index))


def find_template_mark(text: str) -> str | None:
    """Give the first template mark of a text."""
    return next((mark for mark in TEMPLATE_MARKS if mark in text), None)


def looks_like_credential(text: str) -> bool:
    """Whether a text seems to hold a password, a token or a private key."""
    return _CREDENTIAL.search(text) is not None


def names_a_secret(name: str) -> bool:
    """Whether the name of a variable says that its value is a secret."""
    return any(word in name.upper() for word in SECRET_WORDS)
