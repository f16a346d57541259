"""Writes `docs/schemas/*.schema.json` from the models, as `dpone schema` prints them.

Run it with `python docs/generate_schemas.py` in an environment that has `dpone_packbuilder`; a test compares files and models.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dpone_packbuilder.schemas import SchemaKind, render_schema, schema_file_name

FOLDER = Path(__file__).with_name("schemas")


def main() -> None:
    """Write every schema and say where."""
    FOLDER.mkdir(exist_ok=True)
    for kind in SchemaKind:
        path = FOLDER / schema_file_name(kind)
        path.write_text(render_schema(kind), encoding="utf-8")
        sys.stdout.write(f"wrote {path}\n")


if __name__ == "__main__":
    main()
