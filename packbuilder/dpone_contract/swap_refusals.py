"""What a campaign cannot be that is published by a shadow swap, for reasons that stand in its manifest."""

from __future__ import annotations

from collections.abc import Iterator

from dpone_contract.errors import DponeError, PlanInvalidError, StateUnsupportedError
from dpone_contract.manifest import BackfillOptions, InnerMode


def swap_refusals(backfill: BackfillOptions) -> Iterator[DponeError]:
    """Give an error for each reason why this campaign cannot be published by a swap; none where it is not to be.

    A swap exchanges the whole table for what one campaign has loaded, in one transaction with its ledger. Each error's field `key`
    is the key under `backfill` that does not fit.
    Source: the design, publication by shadow swap.
    """
    if not backfill.publication.swaps:
        return
    if backfill.chunk is not None and backfill.chunk.templated:
        yield PlanInvalidError(
            "publication.mode=shadow_swap needs a window without tokens: every interval would replace the whole table by its own rows",
            next_step="write the window's bounds out, or use publication.mode: direct",
            key="publication.mode",
        )
    if backfill.inner_mode is InnerMode.INCREMENTAL_MERGE:
        yield PlanInvalidError(
            "publication.mode=shadow_swap cannot prove what incremental_merge has loaded: a shadow has to hold exactly as many rows "
            "as its chunks have committed",
            next_step="use incremental_append or partition_replace: the shadow is empty before the first chunk; duplicates of the "
            "unique_key are looked for before the swap",
            key="inner_mode",
        )
    if backfill.state.in_a_file:
        yield StateUnsupportedError(
            "a local_file ledger cannot commit together with the exchange of two tables, as publication.mode=shadow_swap needs it",
            next_step="set state.backend: audit_schema, which keeps the ledger beside the target, or publication.mode: direct",
            key="state.backend",
        )
