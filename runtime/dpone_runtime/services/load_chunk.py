"""One attempt of one chunk inside a lane: wait for the first row, then change and complete in one target transaction."""

from __future__ import annotations

from collections.abc import Callable

from dpone_runtime.ports.connectors import LoadReceipt, LoadRequest, Sink, Source


def load_chunk(
    request: LoadRequest, source: Source, sink: Sink, progress: Callable[[int], None]
) -> LoadReceipt:
    """Load a chunk. The sink's transaction begins only once the source has answered.

    Errors: those of `Source.read` and `Sink.load`.
    Source: the design, committing a chunk.
    """
    with source.read(request.chunk) as stream:
        return sink.load(request, stream, progress)
