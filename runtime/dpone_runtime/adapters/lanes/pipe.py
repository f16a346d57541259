"""The coordinator's end of a lane's pipe: whatever a lane does or leaves half done, the coordinator never waits for it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from dpone_runtime.adapters.lanes.frames import FRAME_LIMIT_BYTES, Frame, FrameError, parse_frame

LOOK_BYTES = 1024 * 1024
"""How much of one lane is read at one look, so that a talkative one does not keep the others waiting."""

# As multiprocessing's Connection, the lane's end, counts a message's bytes before it.
_LENGTH = struct.Struct("!i")
_READ_BYTES = 64 * 1024


class LanePipe:
    """Whole frames in both directions over a socket that never blocks. What a lane has not taken yet is kept for later."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._received = bytearray()
        self._unsent = bytearray()
        self.ended = False
        """Whether the other end is closed."""

    def fileno(self) -> int:
        """Give the descriptor that becomes readable when there is something to look at."""
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        """Send one encoded frame, or as much of it as the lane takes now."""
        self._unsent += _LENGTH.pack(len(data)) + data
        self.flush()

    def flush(self) -> None:
        """Send what is kept. A broken pipe proves nothing about what has crossed; the lane's end will be seen."""
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()

    def frames(self) -> Iterator[Frame]:
        """Give every whole frame that has arrived; those before a bad one come first.

        Errors: FrameError for a frame that is too large or no JSON object with a kind.
        """
        self._receive()
        while len(self._received) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._received)
            if not 0 <= size <= FRAME_LIMIT_BYTES:
                raise FrameError(f"a frame of more than {FRAME_LIMIT_BYTES} bytes was announced")
            end = _LENGTH.size + size
            if len(self._received) < end:
                return
            data = bytes(self._received[_LENGTH.size : end])
            del self._received[:end]
            yield parse_frame(data)

    def _receive(self) -> None:
        looked = 0
        try:
            while looked < LOOK_BYTES:
                data = self._socket.recv(_READ_BYTES)
                if not data:
                    self.ended = True
                    return
                self._received += data
                looked += len(data)
        except BlockingIOError:
            return
        except OSError:
            self.ended = True

    def close(self) -> None:
        """Close this end."""
        self._socket.close()
