"""Outlets: Assets on Airflow 3, Datasets on Airflow 2, updated once a load is whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_provider_dpone.version_compat import Asset, BaseOperator


def build_outlets(uris: Iterable[str]) -> list[Asset]:
    """Give one asset a URI, in order."""
    return [Asset(uri) for uri in uris]


class DponeOutletsOperator(BaseOperator):
    """Stands after mapped tasks and updates their outlets once.

    Were the outlets on the mapped tasks themselves, each item would update them, the first while most of the window is
    still missing.
    """

    def execute(self, context: Any) -> None:  # noqa: ARG002  Airflow's signature
        """Nothing is left to do: all items have passed; Airflow updates the outlets of a task that succeeds."""
        self.log.info("all items have passed; outlets are updated")
