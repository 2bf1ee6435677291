"""Counters of entities: bounded in number, and forgotten after an hour of silence, as in Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

EXPIRY_MS: Final = 3_600_000
MAX_SENSORS: Final = 10_000

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Entry(Generic[T]):
    __slots__ = ("sensor", "used_ms")

    def __init__(self, sensor: T, used_ms: int) -> None:
        self.sensor = sensor
        self.used_ms = used_ms


class Sensors(Generic[K, T]):
    """Sensors by key. The one that was not used for longest makes room for a new one."""

    def __init__(
        self, make: Callable[[], T], *, max_sensors: int = MAX_SENSORS, expiry_ms: int = EXPIRY_MS
    ) -> None:
        """Make each at its first use."""
        self._make = make
        self._max_sensors = max_sensors
        self._expiry_ms = expiry_ms
        # Invariant: in the order of last use, the stalest first.
        self._entries: dict[K, _Entry[T]] = {}

    def get(self, key: K, now_ms: int) -> T:
        """Return the sensor of a key."""
        entry = self._entries.pop(key, None)
        self._forget_silent(now_ms)
        if entry is None or now_ms - entry.used_ms >= self._expiry_ms:
            if len(self._entries) >= self._max_sensors:
                del self._entries[next(iter(self._entries))]
            entry = _Entry(self._make(), now_ms)
        entry.used_ms = now_ms
        self._entries[key] = entry
        return entry.sensor

    def find(self, key: K) -> T | None:
        """Return the sensor of a key if there is one; this is no use of it."""
        entry = self._entries.get(key)
        return None if entry is None else entry.sensor

    def items(self, now_ms: int) -> Iterator[tuple[K, T]]:
        """Yield what is not forgotten."""
        self._forget_silent(now_ms)
        return ((key, entry.sensor) for key, entry in list(self._entries.items()))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._entries)

    def _forget_silent(self, now_ms: int) -> None:
        entries = self._entries
        while entries:
            key = next(iter(entries))
            if now_ms - entries[key].used_ms < self._expiry_ms:
                return
            del entries[key]
