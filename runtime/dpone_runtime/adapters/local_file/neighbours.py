"""The other campaigns of a folder, of which only those are read that an opening may meet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dpone_contract.chunk_plan import RunKey
from dpone_contract.errors import LedgerFileInvalidError
from dpone_runtime.adapters.local_file.lines import LineInvalidError, decode_header
from dpone_runtime.adapters.local_file.summary import Summary, SummaryInvalidError, parse_summary
from dpone_runtime.domain.campaign import TableIdentity
from dpone_runtime.state_directory import JOURNAL_SUFFIX, LEDGER_SUFFIX, file_stem

_LONGEST_HEADER = 4096


def neighbours(folder: Path, own: RunKey, target: TableIdentity, *, over: bool) -> Iterator[RunKey]:
    """Give the keys of the folder's other campaigns that may be on a target; with `over` also those that can no longer write.

    What a summary says of a journal of the same length is believed; of a longer one only its target, which never changes.

    Errors: LedgerFileInvalidError for a journal that is not one: what it may have loaded cannot be known. OSError.
    """
    for path in sorted(folder.glob(f"*{JOURNAL_SUFFIX}")):
        stem = path.name.removesuffix(JOURNAL_SUFFIX)
        if stem == file_stem(own):
            continue
        summary = _summary_of(path.with_name(f"{stem}{LEDGER_SUFFIX}"))
        if summary is not None:
            campaign, whole = summary.campaign, summary.journal.bytes == path.stat().st_size
            if not campaign.target.same_object(target) or (whole and campaign.over and not over):
                continue
        yield _run_key_of(path)


def _summary_of(path: Path) -> Summary | None:
    """Read a summary; one that cannot be read is looked at again with its journal, and refused there."""
    with suppress(SummaryInvalidError, FileNotFoundError):
        return parse_summary(path.read_bytes())
    return None


def _run_key_of(path: Path) -> RunKey:
    try:
        with path.open("rb") as file:
            return RunKey(decode_header(file.readline(_LONGEST_HEADER)).run_key)
    except LineInvalidError as error:
        raise LedgerFileInvalidError(
            f"another campaign of the folder cannot be believed: {path.name}: its first line is damaged: {error}",
            where=str(path),
            next_step="restore it from a copy, or move it away where it is known that it loads nothing of this target",
        ) from error
