"""A container's log as a call asks for it: followed or not, with times or not, from a point on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from tests.kubernetes_api.pods import Container, LogLine, Pod, log_instant_text, now


@dataclass(frozen=True)
class LogRequest:
    """What of a log is wanted."""

    follow: bool = False
    timestamps: bool = False
    since: timedelta | None = None
    tail_lines: int | None = None

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> LogRequest:
        """Read it from a call."""
        since, tail = query.get("sinceSeconds"), query.get("tailLines")
        return cls(
            follow=query.get("follow", "").lower() == "true",
            timestamps=query.get("timestamps", "").lower() == "true",
            since=timedelta(seconds=int(since)) if since else None,
            tail_lines=int(tail) if tail else None,
        )


async def log_lines(pod: Pod, container: Container, wanted: LogRequest) -> AsyncIterator[bytes]:
    """Give the lines, those to come too where the log is followed, until the container has ended or the pod is gone."""
    lines: list[LogLine] = pod.lines if container is pod.base else []
    since = now() - wanted.since if wanted.since else None
    place = max(0, len(lines) - wanted.tail_lines) if wanted.tail_lines is not None else 0
    while True:
        changed = pod.changed
        while place < len(lines):
            line = lines[place]
            place += 1
            if since is None or line.at >= since:
                stamp = log_instant_text(line.at) + " " if wanted.timestamps else ""
                yield f"{stamp}{line.text}\n".encode()
        if not wanted.follow or container.terminated or pod.gone:
            return
        await changed.wait()
