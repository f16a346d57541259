"""What can still be read of a file that its model refuses, so that one look shows every finding, not layer after layer.

A draft is only looked at. Nothing is ever compiled from it.
"""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from dpone_contract.model_keys import meant_key
from dpone_contract.yaml_tree import Path, YamlTree

Model = TypeVar("Model", bound=BaseModel)

_ROUNDS = 4
"""A renamed key may hold further wrong keys; deeper than this nobody misspells."""


def find_draft(tree: YamlTree, model: type[Model]) -> Model | None:
    """Give the model of a tree without what is wrong in it: a misspelt key under its right name, another one left out.

    None where something that the model needs is missing.
    """
    value = deepcopy(tree.value)
    for _ in range(_ROUNDS):
        try:
            return model.model_validate_json(json.dumps(value))
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False)
        # What is missing may be there under a wrong name, so it is looked at last.
        for problem in sorted(found, key=lambda problem: problem["type"] == "missing"):
            if not _mend(value, model, problem):
                return None
    return None


def _mend(value: JsonValue, model: type[BaseModel], problem: Any) -> bool:
    """Take one wrong key out of a value; False where it stands in no block, or is one that is missing still."""
    path: Path = tuple(problem["loc"])
    holder, depth = value, 0
    for part in path[:-1]:
        if not isinstance(holder, dict) or part not in holder or not isinstance(holder[str(part)], dict):
            break
        holder, depth = holder[str(part)], depth + 1
    if depth >= len(path) or not isinstance(holder, dict):
        return False
    key = str(path[depth])
    if problem["type"] == "missing":
        return key in holder
    wrong = holder.pop(key, None)
    if problem["type"] == "extra_forbidden":
        meant = meant_key(model, path[: depth + 1])
        if meant is not None and meant not in holder:
            holder[meant] = wrong
    return True
