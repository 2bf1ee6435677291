"""Counters of requests, by API: how many of each version, how long they took, what errors were answered.

`broker.metrics` shows them; without it they cost an addition each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from kavka.metrics.timings import Timings
from kavka.wire.schema import Field, ListOf, fields_of
from kavka.wire.source import Source, compile_function


class RequestTraffic:
    """The counters of one API; Kafka's RequestMetrics."""

    __slots__ = ("errors", "immediate", "local", "remote", "throttled", "total", "versions")

    def __init__(self, versions: int) -> None:
        """Begin at zero, for versions below `versions`."""
        self.versions = [0] * versions
        """Number of requests of each version."""
        self.immediate = Timings()
        """Of requests that were answered in the first stage, or the same millisecond: all of their time is local."""
        self.total: Timings | None = None
        """Of the others; with `local`, the first stage, and `remote`, the rest."""
        self.local: Timings | None = None
        self.remote: Timings | None = None
        self.throttled: Timings | None = None
        """Of the requests that quotas throttle: for how long."""
        self.errors: dict[int, int] = {}

    def record_delayed(self, total_ms: int, local_ms: int) -> None:
        """Count a request with a response that had to wait."""
        if self.total is None or self.local is None or self.remote is None:
            self.total, self.local, self.remote = Timings(), Timings(), Timings()
        self.total.record(total_ms)
        self.local.record(local_ms)
        self.remote.record(max(0, total_ms - local_ms))

    def record_throttled(self, throttle_ms: int) -> None:
        """Count a request whose client is throttled."""
        if self.throttled is None:
            self.throttled = Timings()
        self.throttled.record(throttle_ms)

    def count_error(self, code: int, count: int = 1) -> None:
        """Count an error of a response, perhaps of several partitions."""
        self.errors[code] = self.errors.get(code, 0) + count

    def timings(self) -> Iterable[Timings]:
        """Return those that there are."""
        others = (self.total, self.local, self.remote, self.throttled)
        return [self.immediate, *(each for each in others if each is not None)]


@cache
def error_finder(response: type) -> Callable[[Any, Callable[[int], None]], None] | None:
    """Return a function that yields every error code of a response of this class; None without such a field."""
    find: Callable[[Any, Callable[[int], None]], None] | None = _finder(response, yields=False)
    return find


@cache
def error_steps(response: type) -> Callable[[Any, Callable[[int], None]], Iterator[None]] | None:
    """Return a generator that does as `error_finder` and yields after each item of an array, for large responses."""
    find: Callable[[Any, Callable[[int], None]], Iterator[None]] | None
    find = _finder(response, yields=True)
    return find


def _finder(response: type, *, yields: bool) -> Any:
    source = Source()
    with source.block("def find(response, note):"):
        if not _write_finder(source, response, "response", yields=yields):
            return None
        if yields:
            source.line("yield")  # a generator, though there may be no array
    return compile_function("find", source.text(), f"errors of {response.__name__}", source.names)


def _write_finder(source: Source, cls: type, variable: str, *, yields: bool) -> bool:
    """Write the code that visits one structure; return whether it has error codes."""
    found = False
    for each in fields_of(cls):
        if each.name == "error_code":
            found = True
            source.line(f"if {variable}.error_code: note({variable}.error_code)")
        item_type = _item_with_errors(each)
        if item_type is not None:
            found = True
            item = source.variable("item")
            with source.block(f"for {item} in {variable}.{each.name} or ():"):
                _write_finder(source, item_type, item, yields=yields)
                if yields:
                    source.line("yield")
    return found


def _item_with_errors(field: Field) -> type | None:
    """Return the class of an array's items when they have error codes, or their items do."""
    if not isinstance(field.type, ListOf) or not isinstance(field.type.item, type):
        return None
    item = field.type.item
    for each in fields_of(item):
        if each.name == "error_code" or _item_with_errors(each) is not None:
            return item
    return None
