"""The keys that models know: of one block, of a whole file, and which known key an unknown one was meant to be."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from dpone_contract.yaml_tree import Path


def known_keys(model: type[BaseModel]) -> dict[str, Any]:
    """Give the keys of one block with their annotations, in the model's order."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def model_at(model: type[BaseModel], path: Path) -> type[BaseModel] | None:
    """Give the model of the block at a path; names of dictionary entries and indexes of lists are passed over."""
    current: type[BaseModel] | None = model
    for part in path:
        if current is None:
            return None
        keys = known_keys(current)
        if part in keys:
            current = next(_models_in(keys[str(part)]), None)
    return current


def all_keys(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Give each key of a file and the block that it belongs to, told as `a.b` or `the top of the file`.

    Keys of a list's entries are left out: their names are too common to tell where a misplaced key belongs.
    """
    for key, annotation in known_keys(model).items():
        yield ".".join(path) or "the top of the file", key
        if _is_list(annotation):
            continue
        named = (key, "<name>") if _is_dictionary(annotation) else (key,)
        for child in _models_in(annotation):
            yield from all_keys(child, (*path, *named))


def meant_key(model: type[BaseModel], path: Path) -> str | None:
    """Give the key of the same block that an unknown one comes close to."""
    holder = model_at(model, path[:-1])
    close = get_close_matches(str(path[-1]), known_keys(holder) if holder else {}, n=1, cutoff=0.6)
    return close[0] if close else None


def suggest_key(model: type[BaseModel], path: Path, elsewhere: Mapping[str, str]) -> str:
    """Say what to do about an unknown key; `elsewhere` tells where keys of another file belong."""
    name = str(path[-1])
    homes = [home for home, key in all_keys(model) if key == name]
    if homes:
        return f"it belongs under {' or '.join(homes[:3])}"
    if name in elsewhere:
        return f"it belongs under {elsewhere[name]}"
    if meant := meant_key(model, path):
        return f"did you mean {meant!r}?"
    close = get_close_matches(name, {key for _, key in all_keys(model)}, n=1, cutoff=0.8)
    if close:
        home = next(home for home, key in all_keys(model) if key == close[0])
        return f"did you mean {close[0]!r}, under {home}?"
    holder = model_at(model, path[:-1])
    return "known here: " + ", ".join(known_keys(holder) if holder else {})


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Union, types.UnionType, tuple, dict, list) or hasattr(
        annotation, "__metadata__"
    ):
        for argument in get_args(annotation):
            yield from _models_in(argument)


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is tuple or any(_is_list(part) for part in get_args(annotation))


def _is_dictionary(annotation: Any) -> bool:
    return get_origin(annotation) is dict or any(_is_dictionary(part) for part in get_args(annotation))
