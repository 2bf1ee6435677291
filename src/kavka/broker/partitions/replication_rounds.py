"""The rounds in which followers fetch what is appended: at once, or together with what comes behind it.

A follower's fetch that waits at the leader can be answered with each batch. A producer that keeps several large
requests in flight gains little by that: each round costs both brokers nearly as much as one with all of them. So a
large request with acks=all may wait for the next ones of its producer, a moment:

    in flight  1  2  3  4  5     the producer has five in flight at most
    waits      yes ......  no    then it sends nothing before a response, and waiting would slow it down,
                                 unless its responses take long anyway

A producer that waits for each response, or sends small requests, is never waited for: its latency is what counts.
"""

from __future__ import annotations

from typing import Final, Protocol

ROUND_S: Final = 0.001
"""Seconds for which an appended batch may wait for those behind it."""
_LARGE_BYTES: Final = 8 << 10
_LATELY: Final = 64
_SLOW_MS: Final = 4
"""Responses that take so long are hardly slower by a moment."""


class Pipeline:
    """The requests that one producer had in flight at the same time, at most, among its last 64 to 128."""

    __slots__ = ("_began_ms", "_count", "_recent", "depth", "is_slow")

    def __init__(self, now_ms: int) -> None:
        """Begin as a producer that waits for each response."""
        self.depth = 1
        self.is_slow = False
        """True if its responses take four milliseconds or more."""
        self._recent = 0
        self._count = 0
        self._began_ms = now_ms

    def note(self, in_flight: int, now_ms: int) -> bool:
        """Note a request, one of `in_flight`; return whether it may wait for more of the same producer."""
        if self._count == _LATELY:
            self.depth = self._recent
            # By Little's law, which takes the producer for one that always has as many in flight.
            self.is_slow = self.depth * (now_ms - self._began_ms) >= _LATELY * _SLOW_MS
            self._recent, self._count, self._began_ms = 0, 0, now_ms
        self._count += 1
        self._recent = max(self._recent, in_flight)
        if in_flight < self.depth:
            return True
        self.depth = in_flight
        return self.is_slow and in_flight > 1


class PipelinedConnection(Protocol):
    """The state of a producer's connection."""

    pipeline: Pipeline | None


class ReplicationRounds:
    """Says whether what is appended now may wait for more; one object for all partitions of a broker."""

    __slots__ = ("may_wait",)

    def __init__(self) -> None:
        """Judge nothing until `begin`."""
        self.may_wait = False
        """True while a request is appended whose producer is expected to send more."""

    def begin(
        self, connection: PipelinedConnection, in_flight: int, size: int, now_ms: int
    ) -> None:
        """Judge a Produce request with acks=all of so many bytes, which is appended until `end`."""
        if size >= _LARGE_BYTES:
            pipeline = connection.pipeline
            if pipeline is None:
                pipeline = connection.pipeline = Pipeline(now_ms)
            self.may_wait = pipeline.note(in_flight, now_ms)

    def end(self) -> None:
        """Judge nothing until the next `begin`."""
        self.may_wait = False
