"""The one base of every model that crosses a process or a release."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """A value that is validated once and never changes: strict types, unknown fields refused.

    Read it with `model_validate_json`: in strict mode JSON arrays become tuples, Python lists would not.
    """

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", populate_by_name=True, ser_json_inf_nan="constants"
    )

    def to_document(self) -> dict[str, object]:
        """Give plain JSON values under the published names; absent optional values are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def replaced(self, **changes: object) -> Self:
        """Give a copy with some fields changed, by their Python names, without validating again."""
        return self.model_copy(update=changes)
