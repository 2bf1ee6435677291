"""Frames made by hand, for saying to a broker what no client would say."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from kavka_compat.brokers import Broker

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
UNSUPPORTED_VERSION = 35


def string(text: str) -> bytes:
    """Encode a string with its two-byte length."""
    return struct.pack(">h", len(text)) + text.encode()


def frame(body: bytes) -> bytes:
    """Put the four-byte size before `body`."""
    return struct.pack(">i", len(body)) + body


def request(key: int, version: int, body: bytes = b"", correlation_id: int = 1) -> bytes:
    """Make a frame with a header of version 1 (no tagged fields)."""
    return frame(struct.pack(">hhi", key, version, correlation_id) + string("raw") + body)


API_VERSIONS_REQUEST = request(API_VERSIONS, 0)


def produce_request(topic: str, batch: bytes, acks: int = 1, correlation_id: int = 1) -> bytes:
    """Make a Produce request of version 7 with one record set for partition 0."""
    partition = struct.pack(">ii", 0, len(batch)) + batch
    topics = struct.pack(">i", 1) + string(topic) + struct.pack(">i", 1) + partition
    head = struct.pack(">hhi", -1, acks, 10_000)
    return request(PRODUCE, 7, head + topics, correlation_id)


@dataclass
class RawConnection:
    """A socket to a broker; reads answer frames."""

    socket: socket.socket

    @classmethod
    def to(cls, broker: Broker) -> RawConnection:
        """Connect; reads time out after 20 seconds."""
        return cls(socket.create_connection(("127.0.0.1", broker.port), timeout=20))

    def __enter__(self) -> RawConnection:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the socket."""
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send all of `data`; a connection that the broker closed meanwhile is no error here."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def read_response(self) -> tuple[int, bytes] | None:
        """Return (correlation id, the rest) of the next response, or None when the broker closed."""
        size = self._exactly(4)
        if size is None:
            return None
        body = self._exactly(struct.unpack(">i", size)[0])
        assert body is not None, "the broker closed within an answer"
        return struct.unpack(">i", body[:4])[0], body[4:]

    def _exactly(self, length: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < length:
            try:
                part = self.socket.recv(length - len(parts))
            except ConnectionResetError:
                part = b""
            if not part:
                return None
            parts += part
        return bytes(parts)
