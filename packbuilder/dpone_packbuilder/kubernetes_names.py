"""What Kubernetes takes as a name, a label, a quantity or an image. Pure: texts in, verdicts out; nothing is looked up."""

from __future__ import annotations

import re
from decimal import Decimal

_DNS_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_SECRET_KEY = re.compile(r"[A-Za-z0-9_.-]{1,253}")
_VARIABLE = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]{0,249}")
_PATH = r"[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    r"([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?/)?"  # registry
    rf"{_PATH}(/{_PATH})*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"  # tag, digest
)
_QUANTITY = re.compile(
    r"(?P<number>[0-9]+(\.[0-9]*)?|\.[0-9]+)(?P<unit>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?"
)
_UNITS = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}
_LONGEST_DNS_NAME = 253


def is_dns_label(text: str) -> bool:
    """Whether a text can name a namespace."""
    return re.fullmatch(_DNS_LABEL, text) is not None


def is_dns_name(text: str) -> bool:
    """Whether a text can name a secret, a service account or a priority class."""
    return len(text) <= _LONGEST_DNS_NAME and _DNS_NAME.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Whether a text can be the key of a label, an annotation or an extended resource: `name` or `prefix/name`."""
    prefix, slash, name = text.rpartition("/")
    return _LABEL.fullmatch(name) is not None and (not slash or is_dns_name(prefix))


def is_label_value(text: str) -> bool:
    """Whether a text can be the value of a label."""
    return text == "" or _LABEL.fullmatch(text) is not None


def is_secret_key(text: str) -> bool:
    """Whether a text can be a key within a secret."""
    return _SECRET_KEY.fullmatch(text) is not None and not text.startswith("..") and text != "."


def is_variable(text: str) -> bool:
    """Whether a text can name an environment variable of a pod."""
    return _VARIABLE.fullmatch(text) is not None


def is_image(text: str) -> bool:
    """Whether a text can name an image: registry, path, tag, digest."""
    return _IMAGE.fullmatch(text) is not None


def is_absolute_path(text: str) -> bool:
    """Whether a text is a path that depends on no current folder."""
    return text.startswith("/") and text.isprintable()


def find_quantity(text: str) -> Decimal | None:
    """Give the number that a quantity stands for, such as 0.5 for `500m`; None for what is none, or is not above zero."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    unit = found["unit"] or ""
    factor = (
        Decimal(f"1{unit}") if unit[:1] in ("e", "E") and len(unit) > 1 and unit != "Ei" else _UNITS[unit]
    )
    number = Decimal(found["number"]) * factor
    return number if number > 0 else None
