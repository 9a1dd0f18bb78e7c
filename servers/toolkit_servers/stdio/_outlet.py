"""The descriptor that leads to the client, and the lines that go out before there is an event loop."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

    from toolkit_servers.protocol.wire import RequestId


class Outlet:
    """Bytes to the client, as many as it takes now. The descriptor does not block, or is a socket."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._socket: socket.socket | None = None
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            import socket

            self._socket = socket.socket(fileno=fd)
            self._now = socket.MSG_DONTWAIT

    def put(self, data: bytes | memoryview) -> int:
        """Send what can be sent now and say how much that was.

        Raises:
            OSError: the client is gone.
        """
        try:
            return os.write(self.fd, data) if self._socket is None else self._socket.send(data, self._now)
        except (BlockingIOError, InterruptedError):
            return 0

    def detach(self) -> None:
        """Leave the descriptor to its owner."""
        if self._socket is not None:
            self._socket.detach()


class FirstLines:
    """Lines out, as long as the client takes them at once."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self.unsent = b""
        """What it has not taken: it is slow, or gone."""

    def answer(self, request_id: RequestId, line: bytes) -> None:
        """Send the answer to a request."""
        try:
            sent = 0 if self.unsent else self._outlet.put(line)
        except OSError:
            sent = 0  # whoever writes this again finds out
        self.unsent += line[sent:]
