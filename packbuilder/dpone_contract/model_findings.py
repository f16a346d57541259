"""What a model refuses, told in the words of the file: place, nearest known key, where a misplaced key belongs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dpone_contract.errors import ErrorCode
from dpone_contract.model_keys import meant_key, suggest_key
from dpone_contract.yaml_tree import Path, YamlTree

Model = TypeVar("Model", bound=BaseModel)

_NAMES = "use letters, digits and underscores, a letter first (dots and dashes too where a name is Airflow's)"
_EXPECTED = {
    "string_type": "text; put quotes around it",
    "int_type": "a whole number without quotes",
    "bool_type": "true or false without quotes",
    "tuple_type": "a list",
    "model_type": "a block of keys",
    "model_attributes_type": "a block of keys",
    "dict_type": "a block of keys",
}


def validate_tree(
    tree: YamlTree, model: type[Model], elsewhere: Mapping[str, str] = MappingProxyType({})
) -> Model | None:
    """Validate a tree's value; on failure add one finding an error to the tree and give None.

    `elsewhere` tells where keys belong that the model does not have, but another kind of file.
    """
    code = ErrorCode.MANIFEST_INVALID
    if not isinstance(tree.value, dict):
        if not tree.findings:
            tree.report(code, (), "the file is not a block of keys", "start with `dpone init`")
        return None
    try:
        return model.model_validate_json(json.dumps(tree.value))
    except ValidationError as error:
        told: set[Path] = set()
        errors = error.errors(include_url=False)
        misspelt = {_meant_path(model, found) for found in errors}
        for found in errors:
            path = _path_in_file(tree, found)
            if found["type"] == "missing" and path in misspelt:
                continue  # it is there, under a wrong name, which is told
            if path not in told or found["type"] in ("missing", "extra_forbidden"):
                _report(tree, model, elsewhere, path, found)
            told.add(path)
        return None


def _meant_path(model: type[BaseModel], found: Any) -> Path | None:
    path: Path = tuple(found["loc"])
    meant = meant_key(model, path) if found["type"] == "extra_forbidden" else None
    return (*path[:-1], meant) if meant else None


def _shown(path: Path) -> str:
    """Give the name of a key as it is told; an entry of a list is told with the list's."""
    if not path:
        return "file"
    return f"{path[-2]}[{path[-1]}]" if isinstance(path[-1], int) and len(path) > 1 else str(path[-1])


def _path_in_file(tree: YamlTree, found: Any) -> Path:
    """Give the path of what is wrong as the file has it: without the names of union members and of dictionary keys."""
    path: Path = tuple(found["loc"])
    if found["type"] == "missing":
        return path
    while path and path not in tree.positions:
        path = path[:-1]
    return path


def _report(
    tree: YamlTree, model: type[BaseModel], elsewhere: Mapping[str, str], path: Path, found: Any
) -> None:
    code, name, kind = ErrorCode.MANIFEST_INVALID, _shown(path), str(found["type"])
    if kind == "extra_forbidden":
        tree.report(code, path, f"unknown key {name!r}", suggest_key(model, path, elsewhere))
    elif kind == "missing":
        parent = ".".join(map(str, path[:-1]))
        tree.report(
            code, path[:-1], f"key {name!r} is missing" + (f" in {parent}" if parent else ""), "add it"
        )
    elif path != found["loc"] and isinstance(found["input"], dict | list):
        tree.report(code, path, f"{name} must be a single value", "write one value, without [] or {}")
    elif kind in _EXPECTED:
        tree.report(code, path, f"{name} must be {_EXPECTED[kind].split(';')[0]}", "write " + _EXPECTED[kind])
    elif kind in ("literal_error", "enum"):
        expected = str(found["ctx"]["expected"])
        known = expected.replace("'", "").replace(" or ", ", ").split(", ")
        close = get_close_matches(str(found["input"]), known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        tree.report(code, path, f"{name} {found['input']!r} is not known", f"{hint}use {expected}")
    elif kind == "string_pattern_mismatch":
        what = "the name" if found["loc"][-1] == "[key]" else name
        tree.report(code, path, f"{what} {found['input']!r} is not allowed", _NAMES)
    else:
        message, _, next_step = str(found["msg"]).removeprefix("Value error, ").partition("; ")
        for opening in (
            "Input should ",
            "String should ",
            "Tuple should ",
            "Dictionary should ",
            "List should ",
        ):
            if message.startswith(opening):
                message = f"{name} must {message.removeprefix(opening)}"
                break
        else:
            message = f"{name}: {message[0].lower()}{message[1:]}"
        tree.report(code, path, message, next_step or "write a value that fits")
