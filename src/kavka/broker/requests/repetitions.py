"""Repeated names of a request, and their part of its response.

Apache Kafka answers each. Here each name is looked up once, and its row is in the response as often as it was asked
for, up to a bound: two bytes that ask for thirty thousand are an attack.
"""

from __future__ import annotations

from typing import Any, Final

from kavka.broker.requests.memory import RequestTooLarge
from kavka.broker.requests.refusals import RefusalReason

_MAX_BYTES: Final = 16 << 20


class Repetitions:
    """Counts the bytes that rows take which are answered more than once."""

    def __init__(self, api: str) -> None:
        """Begin with none; `api` is what the log calls the request."""
        self._api = api
        self._sizes: dict[int, tuple[object, int]] = {}
        self._total = 0

    def add(self, row: object) -> None:
        """Count a row once more. Raise RequestTooLarge when there are too many bytes."""
        known = self._sizes.get(id(row))
        if known is None:
            known = self._sizes[id(row)] = row, size_of(row)
        self._total += known[1]
        if self._total > _MAX_BYTES:
            raise RequestTooLarge(
                f"what a {self._api} names repeatedly would be answered in more than {_MAX_BYTES} bytes",
                RefusalReason.RESPONSE_SIZE,
            )


def size_of(value: Any) -> int:
    """Return about how many bytes a value takes in a response."""
    if isinstance(value, str | bytes | bytearray | memoryview):
        return 2 + len(value)
    if isinstance(value, list):
        return 4 + sum(map(size_of, value))
    if value is None or isinstance(value, int | float):
        return 4
    names: tuple[str, ...] = value.__slots__
    return sum(size_of(getattr(value, name)) for name in names)
