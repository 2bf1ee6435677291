"""Traffic counters of topics and requests: plain integers where the work is done.

`broker.metrics` shows them; without it they cost an addition each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from kavka.errors import ErrorCode
from kavka.metrics.timings import Timings
from kavka.wire.schema import Field, ListOf, fields_of
from kavka.wire.source import Source, compile_function


class TopicTraffic:
    """The counters of one topic on this broker, shared by its replicas; Kafka's BrokerTopicMetrics."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_requests",
        "messages_in",
        "produce_requests",
        "reassignment_bytes_in",
        "reassignment_bytes_out",
        "replicas",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        """Begin at zero."""
        self.replicas = 0
        """Number of replicas counted here."""
        self.messages_in = self.bytes_in = self.bytes_out = self.bytes_rejected = 0
        self.produce_requests = self.failed_produce_requests = 0
        """Partitions of requests, as in Kafka: a request for ten partitions counts ten times."""
        self.fetch_requests = self.failed_fetch_requests = 0
        self.replication_bytes_in = self.replication_bytes_out = 0
        self.reassignment_bytes_in = self.reassignment_bytes_out = 0

    def add(self, other: TopicTraffic) -> None:
        """Take over what another topic counted."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_REFUSED_FOR_SIZE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_EXPECTED_OF_PRODUCE = (
    *_REFUSED_FOR_SIZE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""Kafka does not count these as failed: clients get over them, or other counters show them."""


class Traffic:
    """The counters of all topics."""

    def __init__(self) -> None:
        """Begin with no topic."""
        self.topics: dict[str, TopicTraffic] = {}
        self._removed = TopicTraffic()

    def join(self, topic: str) -> TopicTraffic:
        """Return the counters of a topic, for another replica of it."""
        traffic = self.topics.get(topic)
        if traffic is None:
            traffic = self.topics[topic] = TopicTraffic()
        traffic.replicas += 1
        return traffic

    def leave(self, topic: str) -> None:
        """Forget a topic with its last replica; the sum over all topics keeps what it counted."""
        traffic = self.topics[topic]
        traffic.replicas -= 1
        if not traffic.replicas:
            self._removed.add(self.topics.pop(topic))

    def total(self) -> TopicTraffic:
        """Return the sum over all topics that ever were."""
        total = TopicTraffic()
        for traffic in (self._removed, *self.topics.values()):
            total.add(traffic)
        return total


def count_refused_produce(traffic: TopicTraffic, code: ErrorCode, size: int) -> None:
    """Count a produced batch that was refused."""
    traffic.produce_requests += 1
    if code in _REFUSED_FOR_SIZE:
        traffic.bytes_rejected += size
    if code not in _EXPECTED_OF_PRODUCE:
        traffic.failed_produce_requests += 1


class RequestTraffic:
    """The counters of one API; Kafka's RequestMetrics."""

    __slots__ = ("errors", "immediate", "local", "remote", "total", "versions")

    def __init__(self, versions: int) -> None:
        """Begin at zero, for versions below `versions`."""
        self.versions = [0] * versions
        """Number of requests of each version."""
        self.immediate = Timings()
        """Of requests that were answered in their first stage: all of their time is local."""
        self.total: Timings | None = None
        """Of the others; with `local`, the first stage, and `remote`, the rest."""
        self.local: Timings | None = None
        self.remote: Timings | None = None
        self.errors: dict[int, int] = {}

    def record_delayed(self, total_ms: int, local_ms: int) -> None:
        """Count a request whose answer waited for something."""
        if self.total is None or self.local is None or self.remote is None:
            self.total, self.local, self.remote = Timings(), Timings(), Timings()
        self.total.record(total_ms)
        self.local.record(local_ms)
        self.remote.record(max(0, total_ms - local_ms))

    def count_error(self, code: int, count: int = 1) -> None:
        """Count an error that an answer tells, perhaps of several partitions."""
        self.errors[code] = self.errors.get(code, 0) + count

    def timings(self) -> Iterable[Timings]:
        """Return those that there are."""
        others = (self.total, self.local, self.remote)
        return [self.immediate, *(each for each in others if each is not None)]


@cache
def error_finder(response: type) -> Callable[[Any, Callable[[int], None]], None] | None:
    """Return a function that tells of every error code in a response of this class; None when it has no such field."""
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
    with source.block("def find(answer, note):"):
        if not _write_finder(source, response, "answer", yields=yields):
            return None
        if yields:
            source.line("yield")  # a generator, though there may be no array
    return compile_function("find", source.text(), f"errors of {response.__name__}", source.names)


def _write_finder(source: Source, cls: type, variable: str, *, yields: bool) -> bool:
    """Write what looks through one structure; tell whether there was anything to look at."""
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
