"""Where a project keeps the schemas that its editors use, and the line that names them. It works without a network."""

from __future__ import annotations

import posixpath

from dpone_packbuilder.schemas import SchemaKind, render_schema, schema_file_name

FOLDER = ".dpone/schemas"
EDITED = (SchemaKind.CATALOG, SchemaKind.MANIFEST)


def editor_schema_files() -> dict[str, str]:
    """Give text by path, relative to the project's folder."""
    return {posixpath.join(FOLDER, schema_file_name(kind)): render_schema(kind) for kind in EDITED}


def modeline(kind: SchemaKind) -> str:
    """Give the first line of a file beside the folder: the YAML language server of any editor reads it."""
    return f"# yaml-language-server: $schema={FOLDER}/{schema_file_name(kind)}\n"
