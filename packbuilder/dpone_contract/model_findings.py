"""What a model refuses, told in the words of the file: place, nearest known key, where a misplaced key belongs."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from dpone_contract.errors import ErrorCode
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
    tree: YamlTree, model: type[Model], code: ErrorCode = ErrorCode.MANIFEST_INVALID
) -> Model | None:
    """Validate a tree's value; on failure add one finding an error to the tree and give None."""
    if not isinstance(tree.value, dict):
        if not tree.findings:
            tree.report(code, (), "the file is not a block of keys", "start with `dpone init`")
        return None
    try:
        return model.model_validate_json(json.dumps(tree.value))
    except ValidationError as error:
        told: set[Path] = set()
        for found in error.errors(include_url=False):
            path = _path_in_file(tree, found)
            if path not in told or found["type"] in ("missing", "extra_forbidden"):
                _report(tree, model, code, path, found)
            told.add(path)
        return None


def _path_in_file(tree: YamlTree, found: Any) -> Path:
    """Give the path of what is wrong as the file has it: without the names of union members and of dictionary keys."""
    path: Path = tuple(found["loc"])
    if found["type"] == "missing":
        return path
    while path and path not in tree.positions:
        path = path[:-1]
    return path


def _report(tree: YamlTree, model: type[BaseModel], code: ErrorCode, path: Path, found: Any) -> None:
    name, kind = str(path[-1]) if path else "file", str(found["type"])
    if kind == "extra_forbidden":
        tree.report(code, path, f"unknown key {name!r}", _suggest(model, path))
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


def _suggest(model: type[BaseModel], path: Path) -> str:
    name = str(path[-1])
    holder = _model_at(model, path[:-1])
    known = _keys(holder) if holder else {}
    homes = [home for home, key in _all_keys(model, ()) if key == name]
    if homes:
        return f"it belongs under {' or '.join(homes[:3])}"
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    elsewhere = get_close_matches(name, {key for _, key in _all_keys(model, ())}, n=1, cutoff=0.8)
    if elsewhere:
        homes = [home for home, key in _all_keys(model, ()) if key == elsewhere[0]]
        return f"did you mean {elsewhere[0]!r}, under {homes[0]}?"
    return "known here: " + ", ".join(known)


def _keys(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Union, types.UnionType, tuple, dict, list) or hasattr(
        annotation, "__metadata__"
    ):
        for argument in get_args(annotation):
            yield from _models_in(argument)


def _model_at(model: type[BaseModel], path: Path) -> type[BaseModel] | None:
    current: type[BaseModel] | None = model
    for part in path:
        if current is None:
            return None
        keys = _keys(current)
        if part in keys:
            current = next(_models_in(keys[str(part)]), None)
    return current


def _all_keys(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for key, annotation in _keys(model).items():
        yield ".".join(path) or "the top of the file", key
        named = (key, "<name>") if get_origin(annotation) is dict else (key,)
        for child in _models_in(annotation):
            yield from _all_keys(child, (*path, *named))
