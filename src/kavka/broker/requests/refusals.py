"""Counters of the requests that close their connection, and of the connections that are refused.

refused   the client's doing: what it sent is not understood, or more than a bound allows
failed    the broker's: a disk, the registry or a fault of its own kept it from answering
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Final

from kavka.wire.apis import ApiKey


class RefusalReason(StrEnum):
    """The reason for which a request was refused, as the metrics name it."""

    FRAME_SIZE = "frame_size"
    """The size is negative, above `socket.request.max.bytes`, or not that of a frame of Kafka's protocol."""
    CORRUPT = "corrupt"
    """The request does not decode."""
    UNSUPPORTED = "unsupported_version"
    """The API or version is not served."""
    UNAUTHENTICATED = "unauthenticated"
    """The client has not authenticated."""
    EXPIRED = "session_expired"
    """The client has not authenticated again in time (`connections.max.reauth.ms`)."""
    DECODED_SIZE = "decoded_size"
    """Decoded, it takes too much memory (`kavka.request.decoded.max.bytes`)."""
    COUNT = "count"
    """The request names too many items."""
    RESPONSE_SIZE = "response_size"
    """The response is too large (`kavka.response.max.bytes`)."""


class FailureReason(StrEnum):
    """The reason for which a request was given up, as the metrics name it."""

    IO_ERROR = "io_error"
    """A disk, the registry or another broker failed."""
    INTERNAL_ERROR = "internal_error"
    """A fault of the broker."""


UNKNOWN_API: Final = "Unknown"
"""In place of an API's name, where a frame was refused before its API was read."""


class Refusals:
    """The counters of one broker since its start."""

    __slots__ = ("connections", "failed", "refused")

    def __init__(self) -> None:
        """Begin with none."""
        self.refused: Counter[tuple[ApiKey | None, RefusalReason]] = Counter()
        self.failed: Counter[tuple[ApiKey, FailureReason]] = Counter()
        self.connections: Counter[str] = Counter()
        """Connections refused, by the setting that limits them."""


def api_of(frame: memoryview) -> ApiKey | None:
    """Return the API that a frame names; None where it names none that there is."""
    try:
        return ApiKey(int.from_bytes(frame[:2], "big", signed=True))
    except ValueError:
        return None
