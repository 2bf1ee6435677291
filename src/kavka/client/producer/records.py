"""Records before they are batched: size, open batches of their topic, targets of their outcomes. Pure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypedDict

from kavka.client.metadata import TopicMetadata
from kavka.client.producer.batch import (
    RECORD_OVERHEAD,
    Callback,
    HeaderPairs,
    Headers,
    ProducerBatch,
)
from kavka.client.producer.partitioner import RoundRobin, StickyChoice
from kavka.client.producer.record_future import RecordFuture, RecordMetadata, new_future
from kavka.client.serialization import described
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition

LARGE_VALUE = 8192
"""From here on a record has more overhead than `RECORD_OVERHEAD`."""
_LARGE_OVERHEAD = 24
_HEADER_OVERHEAD = 10


class ProducerRecord(NamedTuple):
    """A record as interceptors see and may change it in `on_send`."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: HeaderPairs = ()


class AppendOptions(TypedDict, total=False):
    """Options of `append` beside topic, value and key."""

    partition: int | None
    timestamp_ms: int | None
    headers: Headers
    want_future: bool
    callback: Callback | None


APPEND_OPTIONS = frozenset(AppendOptions.__annotations__)
"""Their names."""


class TopicBatches:
    """Partitions of a topic and the batches that are open for them."""

    __slots__ = (
        "available",
        "count",
        "keyed",
        "name",
        "open",
        "round_robin",
        "sticky",
        "sticky_batch",
        "updates",
    )

    def __init__(
        self, metadata: TopicMetadata, batch_bytes: int, updates: int, *, hashes_keys: bool = True
    ) -> None:
        """Start with the partitions of `metadata`, which is update number `updates`."""
        self.name = metadata.name
        self.open: dict[int, ProducerBatch] = {}
        self.keyed = self.open if hashes_keys else {}
        """Batches for the records whose partition is their key's."""
        self.sticky = StickyChoice(batch_bytes)
        self.sticky_batch = ProducerBatch(TopicPartition(self.name, -1), 0, -1, 0, is_closed=True)
        self.round_robin = RoundRobin()
        self.learn(metadata, updates)

    def learn(self, metadata: TopicMetadata, updates: int) -> None:
        """Take the partitions of newer metadata."""
        self.count = len(metadata.partitions)
        self.available = metadata.available or [p.partition for p in metadata.partitions]
        self.updates = updates

    def choose(self, partitioner: Any, key: bytes | None, value: bytes | None) -> int:
        """Ask a partitioner of `partitioner.class`. Raise ValueError for a partition that does not exist."""
        if partitioner == "roundrobin":
            return self.round_robin.choose(self.available)
        chosen = int(partitioner(self.name, key, value, self.count))
        if not 0 <= chosen < self.count:
            raise ValueError(
                f"the partitioner chose {chosen} of {self.count} partitions of {self.name}"
            )
        return chosen


def call_back(target: Any) -> Callable[[asyncio.Future[RecordMetadata]], None]:
    """Return a callback for a future that calls `target` as a record's callback is called."""

    def on_done(future: asyncio.Future[RecordMetadata]) -> None:
        if not future.cancelled():
            error = future.exception()
            target(None if error else future.result(), error)

    return on_done


def delivery_future(target: Any | None) -> RecordFuture:
    """Return the future of a record, whose outcome is reported to `target` as well."""
    future = new_future(asyncio.get_running_loop())
    if target is not None:
        future.add_done_callback(call_back(target))
    return future


def size_of(key: bytes | None, value: bytes | None, headers: HeaderPairs) -> int:
    """Return an upper bound of a record's size in a batch."""
    size = (0 if key is None else len(key)) + (0 if value is None else len(value))
    size += RECORD_OVERHEAD if size < LARGE_VALUE else _LARGE_OVERHEAD
    for header in headers:
        if not isinstance(header, tuple | list) or len(header) != 2:
            raise TypeError(f"a header is a pair of name and value, not {header!r:.80}")
        name, content = header
        size += 4 * len(name) + _HEADER_OVERHEAD + (0 if content is None else len(content))
    return size


def too_large(size: int, most: int, record: str = "") -> KafkaError:
    """Return the refusal of a record of `size` bytes, which `record` names."""
    detail = (
        f"The message is {size} bytes when serialized which is larger than {most}, "
        f"which is the value of the max.request.size configuration{record and f': {record}'}."
    )
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, detail)


def as_bytes(what: str, given: Any, topic: str = "", key: Any = None) -> bytes | None:
    """Return a copy of other buffers, and bytes and None as they are. Raise TypeError for what is no buffer.

    Topic and key name the record in the error.
    """
    if given is None or type(given) is bytes:
        return given
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    hint = "" if what == "header" else f", or set {what}.serializer"
    record = f" ({described(topic, key)})" if topic else ""
    raise TypeError(f"the {what} is {type(given).__name__}, not bytes: encode it{hint}{record}")


def checked_callback(callback: Callback) -> Callback:
    """Return a callback. Raise TypeError for what cannot be called: the record's outcome would only be logged."""
    if not callable(callback):
        raise TypeError(f"the callback is {type(callback).__name__}, which cannot be called")
    return callback


def checked_timestamp(timestamp_ms: int) -> int:
    """Return a valid timestamp. Raise TypeError, ValueError: later a whole batch would fail with it."""
    if not isinstance(timestamp_ms, int):
        raise TypeError(f"the timestamp is {type(timestamp_ms).__name__}, not int")
    if not 0 <= timestamp_ms < 1 << 63:
        raise ValueError(
            f"Invalid timestamp: {timestamp_ms}. Timestamp should always be non-negative or null."
        )
    return timestamp_ms


def header_pairs(headers: Headers) -> HeaderPairs:
    """Return headers as pairs, also those of a dictionary."""
    return list(headers.items()) if isinstance(headers, Mapping) else headers


def checked_headers(headers: HeaderPairs) -> HeaderPairs:
    """Return headers whose values are bytes or None. Raise TypeError: later a whole batch would fail with them."""
    checked = []
    if not isinstance(headers, Iterable):
        raise TypeError(f"a header is a pair of name and value; headers are not {headers!r:.80}")
    for header in headers:
        if not isinstance(header, tuple | list) or len(header) != 2:
            raise TypeError(f"a header is a pair of name and value, not {header!r:.80}")
        name, content = header
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is {type(name).__name__}, not str")
        is_bytes = type(content) is bytes
        checked.append((name, content if is_bytes else as_bytes("header", content)))
    return checked
