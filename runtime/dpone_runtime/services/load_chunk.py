"""One attempt of one chunk inside a lane: wait for the first row, then change and complete in one target transaction."""

from __future__ import annotations

from collections.abc import Callable

from dpone_runtime.ports.connectors import LoadReceipt, LoadRequest, Sink, Source


class SourceToSink:
    """`ChunkLoader` over one source and one sink of a lane."""

    def __init__(self, source: Source, sink: Sink) -> None:
        self._source = source
        self._sink = sink

    def load(self, request: LoadRequest, progress: Callable[[int], None]) -> LoadReceipt:
        """Load a chunk. The sink's transaction begins only once the source has answered.

        Errors: those of `Source.read` and `Sink.load`.
        Source: the design, committing a chunk.
        """
        with self._source.read(request.chunk) as stream:
            return self._sink.load(request, stream, progress)

    def close(self) -> None:
        """End both sessions."""
        self._source.close()
        self._sink.close()
