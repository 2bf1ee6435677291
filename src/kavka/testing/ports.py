"""A port that stays a broker's own while the broker does not run."""

from __future__ import annotations

import socket


class ReservedPort:
    """A loopback port, held by a socket that does not listen.

    Connections to it are refused. A socket with SO_REUSEADDR may listen on it, again and again; no other process
    gets it by asking for any free port, as would happen between the end of a broker and its next start.
    """

    def __init__(self) -> None:
        """Take a free port."""
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number = int(self._socket.getsockname()[1])

    def release(self) -> None:
        """Give it back."""
        self._socket.close()
