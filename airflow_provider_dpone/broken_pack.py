"""What stands in a DAG file for a pack that is bad: an import error under the pack's own name.

Airflow files an error that a DAG file raises under that file and then takes every DAG of the file out of service. A DAG
that cannot be serialized is filed under its own `fileloc` instead. So this one has the pack's path there, whatever Airflow
writes into it, and refuses to be serialized with the pack's error.

Source: decision 4, a bad pack breaks its own DAG.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NoReturn

from airflow_provider_dpone.version_compat import DAG
from dpone_contract.errors import DponeError

BROKEN_PREFIX = "dpone_broken_pack__"


class BrokenPackDag(DAG):
    """Never reaches a scheduler: serializing it raises `error`, which Airflow shows as the pack's import error."""

    def __init__(self, path: Path, error: DponeError) -> None:
        self.pack_path = path
        self.error = error
        super().__init__(
            dag_id=BROKEN_PREFIX + re.sub(r"[^A-Za-z0-9_.\-]", "_", str(path.parent))[-200:],
            schedule=None,
            description=str(error),
        )

    def get_serialized_fields(self) -> NoReturn:  # type: ignore[override]  # a refusal in place of a class method
        """Refuse, as the pack was refused."""
        raise self.error.with_traceback(None) from None

    @property
    def fileloc(self) -> str:  # a property in place of a field, to keep Airflow from setting it
        """The pack's path."""
        return str(self.pack_path)

    @fileloc.setter
    def fileloc(self, value: str) -> None:
        """Airflow's own idea of it, the DAG file, is not kept; the name relative to a bundle follows from the getter."""

    def __deepcopy__(self, memo: dict[int, Any]) -> BrokenPackDag:
        return self
