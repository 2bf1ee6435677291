"""Servers that commands are pointed to where no broker runs."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator

import pytest


class _Http(socketserver.BaseRequestHandler):
    """Answers whatever comes as a web server does."""

    def handle(self) -> None:
        """Answer once."""
        self.request.recv(1000)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.fixture
def not_a_broker() -> Iterator[str]:
    """Yield host:port of a server that is no Kafka broker: no client tries it a second time."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Http) as server:
        # It looks for the end of the test after each interval.
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            serving.join()
