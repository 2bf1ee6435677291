"""Messages of a topic: a bounded search, one record, its value as a file, and the live tail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from kavka.client.admin.records import OffsetSpec
from kavka.client.admin.topics import TopicDescription
from kavka.client.consumer.batches import ConsumerRecord
from kavka.client.consumer.consumer import Consumer
from kavka.client.list_offsets import OffsetAndTimestamp
from kavka.console.failures import bad_request, not_found
from kavka.console.leaders import offsets_by_leader
from kavka.console.pages.topics import TOPIC_PATH, describe
from kavka.console.parameters import Arguments, Parameter
from kavka.console.search import (
    Bounds,
    Found,
    Window,
    forward_windows,
    newest_windows,
    search,
)
from kavka.console.sentences import say
from kavka.console.subject import Page, Services
from kavka.console.tail import TailBatch, follow
from kavka.console.views.messages import (
    BODY_BYTES,
    RECORD_BYTES,
    Filter,
    Matcher,
    MessageList,
    RecordView,
    hexadecimal,
    positions_of,
    record_view,
    steps_of,
)
from kavka.errors import ErrorCode, KafkaError

_IDLE_INTERVALS = 4
"""So many intervals of a tail without a record, and the topic is looked up: it may be deleted."""
_STARTS = ("newest", "oldest", "offset", "time", "before", "at")
_FETCH_BYTES = "262144"
"""Bytes of a partition in one fetch: a page shows few records."""
_SCAN_WITHOUT_FILTER = 2_000
_PAGE_BYTES = 64_000_000

FILTERS = (
    Parameter("partition", "integer", "Only this partition; empty: all.", minimum=0),
    Parameter("key", "text", "Text that the key has; the case of A to Z is ignored."),
    Parameter(
        "text", "text", "Text that value, key or a header has; the case of A to Z is ignored."
    ),
    Parameter("header", "text", "A header that there is: name, or name=text that its value has."),
    Parameter(
        "path",
        "text",
        "A condition on values that are JSON or have a schema, such as $.user.id = 42: a path alone, or with "
        "=, !=, <, <=, >, >= or ~ (has the text).",
    ),
    Parameter("committed", "flag", "Hide records of open and aborted transactions.", "true"),
)


def _filter(arguments: Arguments) -> Filter:
    return Filter(
        arguments.text("key"),
        arguments.text("text"),
        arguments.text("header"),
        arguments.text("path").strip(),
    )


def _matcher(services: Services, wanted: Filter) -> Matcher:
    """Return what keeps records. Raise Refused for a path that is none."""
    registry = services.registry
    try:
        return Matcher(wanted, None if registry is None else registry.decode_learned)
    except ValueError as error:
        raise bad_request(
            say("path: {error}.", error=error), say("Write it like $.user.id = 42.")
        ) from error


async def record_views(
    services: Services, records: Sequence[ConsumerRecord], limit: int = BODY_BYTES
) -> list[RecordView]:
    """Return records as pages show them, decoded in a thread where there is a registry."""
    registry = services.registry
    if registry is None:
        return [record_view(record, limit) for record in records]
    return await registry.in_thread(
        lambda: [record_view(record, limit, registry.decode) for record in records]
    )


async def _partitions(
    services: Services, arguments: Arguments
) -> tuple[TopicDescription, list[int]]:
    """Return the topic, and the partitions to read. Raise Refused, KafkaError."""
    topic = await describe(services, arguments.path["topic"])
    count, wanted = len(topic.partitions), arguments.integer("partition")
    if wanted is None:
        return topic, [part.partition for part in topic.partitions]
    if wanted not in topic.available:
        if wanted >= count:
            raise not_found(
                say("Topic {name} has no partition {wanted}.", name=topic.name, wanted=wanted),
                say("Its partitions are 0 to {count}.", count=count - 1),
            )
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic.name}-{wanted} has no leader")
    return topic, [wanted]


class _TopicOffsets:
    """Offsets of a topic's partitions, and why those are missing that did not say them."""

    def __init__(self, services: Services, topic: TopicDescription, partitions: list[int]) -> None:
        self._services = services
        self._topic = topic
        wanted = set(partitions)
        self._parts = [part for part in topic.partitions if part.partition in wanted]
        self.leaders = {p.partition: int(p.leader) for p in self._parts if p.leader >= 0}
        self.silent = dict.fromkeys(wanted - self.leaders.keys(), "no leader")
        self._errors: list[Exception] = []

    async def offsets(self, spec: int) -> dict[int, int]:
        """Return the offsets that leaders say. Raise Refused where that is for good, KafkaError."""
        found = await offsets_by_leader(
            self._services.cluster, {self._topic.name: self._parts}, spec
        )
        offsets = {}
        for key, answer in found.items():
            if isinstance(answer, OffsetAndTimestamp):
                offsets[key.partition] = answer.offset
            elif isinstance(answer, KafkaError) and not answer.retriable:
                raise answer
            else:
                self.silent[key.partition] = str(answer)
                self._errors.append(answer)
        return offsets

    async def bounds(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the first offset of each log that answers, and the next one. Raise where none does."""
        starts, ends = await asyncio.gather(
            self.offsets(OffsetSpec.EARLIEST), self.offsets(OffsetSpec.LATEST)
        )
        both = starts.keys() & ends.keys()
        if not both and self._errors:
            raise self._errors[0]
        return {p: starts[p] for p in sorted(both)}, {p: ends[p] for p in both}

    async def search(
        self,
        consumer: Consumer,
        windows: list[Window],
        keep: Callable[[ConsumerRecord], bool],
        bounds: Bounds,
        *,
        newest: bool,
    ) -> Found:
        """Search windows of the topic, and name the partitions that said no offsets. Raise as `search`."""
        name, silent, leaders = self._topic.name, self.silent, self.leaders
        return await search(
            consumer, name, windows, keep, bounds, newest=newest, silent=silent, leaders=leaders
        )


async def _windows(
    asked: _TopicOffsets, arguments: Arguments, bounds: Bounds
) -> tuple[list[Window], bool]:
    """Return where to look, and whether the newest are wanted."""
    start = arguments.text("start")
    starts, ends = await asked.bounds()
    if start in ("newest", "before"):
        each = max(bounds.records // max(len(starts), 1), 1)
        if _filter(arguments).is_empty:
            each = min(each, bounds.found)
        stops = _positions(arguments) if start == "before" else {}
        return newest_windows(starts, ends, stops, each), True
    firsts: dict[int, int] = {}
    if start == "offset":
        offset = arguments.integer("offset")
        if offset is None:
            raise bad_request(say("offset is missing: the offset to begin at."))
        firsts = dict.fromkeys(starts, offset)
    elif start == "time":
        at_ms = arguments.time_ms("time")
        if at_ms is None:
            raise bad_request(say("time is missing: the time to begin at."))
        found = await asked.offsets(at_ms)
        starts = {p: offset for p, offset in starts.items() if p in found}
        firsts = {p: found[p] if found[p] >= 0 else ends[p] for p in starts}
    elif start == "at":
        firsts = _positions(arguments)
    return forward_windows(starts, ends, firsts), False


def _positions(arguments: Arguments) -> dict[int, int]:
    try:
        return positions_of(arguments.text("at"))
    except ValueError as error:
        raise bad_request(say("at: {error}.", error=error)) from error


@dataclass(frozen=True, slots=True)
class Searched:
    """The result of a search, and where it has looked."""

    partitions: int
    windows: list[Window]
    found: Found
    newest: bool


async def find(services: Services, arguments: Arguments, size_bytes: int) -> Searched:
    """Search as the page of messages does. Raise Refused, KafkaError, OSError."""
    wanted = _filter(arguments)
    keep = _matcher(services, wanted)
    description, partitions = await _partitions(services, arguments)
    asked = _TopicOffsets(services, description, partitions)
    found_bound = arguments.number("limit")
    scan = arguments.number("scan") if not wanted.is_empty else _SCAN_WITHOUT_FILTER
    bounds = Bounds(found_bound, max(scan, found_bound), size_bytes)
    windows, newest = await _windows(asked, arguments, bounds)
    async with _reader(services, arguments) as consumer:
        found = await asked.search(consumer, windows, keep, bounds, newest=newest)
        if keep.not_learned and services.registry is not None:
            registry, missing = services.registry, set(keep.not_learned)
            await registry.in_thread(lambda: registry.learn(missing))
            found = await asked.search(consumer, windows, keep, bounds, newest=newest)
    return Searched(len(description.partitions), windows, found, newest)


async def _load_messages(services: Services, arguments: Arguments) -> MessageList:
    searched = await find(services, arguments, _PAGE_BYTES)
    records = await record_views(services, searched.found.records)
    if searched.newest:
        records.reverse()
    return _message_list(arguments.path["topic"], searched, records)


def _message_list(topic: str, searched: Searched, records: list[RecordView]) -> MessageList:
    windows, found = searched.windows, searched.found
    has_older = any(found.firsts[w.partition] > w.start_offset for w in windows)
    has_newer = any(found.next[w.partition] < w.end_offset for w in windows)
    older, newer, note = steps_of(
        found.firsts if has_older else {}, found.next if has_newer else {}
    )
    return MessageList(
        topic=topic,
        partitions=searched.partitions,
        records=records,
        newest_first=searched.newest,
        reach=found.reach,
        older=older,
        newer=newer,
        note=note,
    )


@asynccontextmanager
async def _reader(services: Services, arguments: Arguments) -> AsyncIterator[Consumer]:
    isolation = "read_committed" if arguments.flag("committed") else "read_uncommitted"
    async with services.cluster.consumer(
        isolation_level=isolation, max_partition_fetch_bytes=_FETCH_BYTES, auto_offset_reset="none"
    ) as consumer:
        yield consumer


async def newest_of(
    services: Services, topic: str, keep: Callable[[ConsumerRecord], bool], bounds: Bounds
) -> Found:
    """Return the newest records of a topic that are kept. Raise Refused, KafkaError, OSError."""
    known = await describe(services, topic)
    asked = _TopicOffsets(services, known, [part.partition for part in known.partitions])
    starts, ends = await asked.bounds()
    windows = newest_windows(starts, ends, {}, max(bounds.records // max(len(starts), 1), 1))
    async with services.cluster.consumer(auto_offset_reset="none") as consumer:
        return await asked.search(consumer, windows, keep, bounds, newest=True)


# One record


async def record_at(services: Services, arguments: Arguments) -> ConsumerRecord:
    """Return the record of the path. Raise Refused where there is none, KafkaError."""
    topic = arguments.path["topic"]
    partition, offset = _number(arguments, "partition"), _number(arguments, "offset")
    known = await describe(services, topic)
    if partition >= len(known.partitions):
        raise not_found(
            say("Topic {topic} has no partition {partition}.", topic=topic, partition=partition),
            say("Look at the topic."),
        )
    starts, ends = await _TopicOffsets(services, known, [partition]).bounds()
    if partition not in starts:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader")
    gone = not_found(
        say(
            "{topic}-{partition} has no record at offset {offset}: its offsets are {starts} "
            "to {ends}, and some may be removed by compaction, or markers of transactions.",
            topic=topic,
            partition=partition,
            offset=offset,
            starts=starts[partition],
            ends=ends[partition] - 1,
        ),
        say("Retention removes records, so older links end here."),
    )
    if not starts[partition] <= offset < ends[partition]:
        raise gone
    window = Window(partition, offset, offset + 1, starts[partition], ends[partition])
    async with services.cluster.consumer(auto_offset_reset="none") as consumer:
        found = await search(
            consumer, topic, [window], lambda record: True, Bounds(1, 1), newest=False
        )
    if not found.records:
        raise gone
    return found.records[0]


def _number(arguments: Arguments, name: str) -> int:
    text = arguments.path[name]
    if not text.isdecimal() or len(text) > 19:
        raise bad_request(say("{text!r} is no {name}.", text=text[:100], name=name))
    return int(text)


async def _load_record(services: Services, arguments: Arguments) -> RecordView:
    record = await record_at(services, arguments)
    [view] = await record_views(services, [record], RECORD_BYTES)
    return hexadecimal(record, view) if arguments.flag("hex") else view


# The live tail


async def tail(services: Services, arguments: Arguments) -> AsyncGenerator[TailBatch]:
    """Yield what comes into a topic. Raise as `follow`, Refused; KafkaError when the topic was deleted."""
    idle = 0
    topic, wanted = arguments.path["topic"], _filter(arguments)
    known, partitions = await _partitions(services, arguments)
    partitions = [p for p in partitions if p in known.available]
    keep = None if wanted.is_empty else _matcher(services, wanted)
    registry = services.registry
    async with _reader(services, arguments) as consumer:
        async for batch in follow(consumer, topic, partitions, keep):
            if registry is not None and keep is not None and keep.not_learned:
                missing, keep.not_learned = keep.not_learned, set()
                await registry.in_thread(lambda missing=missing: registry.learn(missing))  # type: ignore[misc]
            yield batch
            idle = 0 if batch.seen else idle + 1
            if idle and idle % _IDLE_INTERVALS == 0:
                await _require_topic(services, topic)


async def _require_topic(services: Services, topic: str) -> None:
    """Raise KafkaError when the topic was deleted; a cluster that does not answer is waited for by the consumer."""
    try:
        await describe(services, topic)
    except OSError:
        return
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise


RECORD = Page(
    path="/topics/{topic}/records/{partition}/{offset}",
    summary="One record.",
    template="record.html",
    view=RecordView,
    load=_load_record,
    parameters=(Parameter("hex", "flag", "Show key and value in hexadecimal.", "false"),),
    path_parameters={
        **TOPIC_PATH,
        "partition": "The number of the partition.",
        "offset": "The offset of the record.",
    },
)
MESSAGES = Page(
    path="/topics/{topic}/messages",
    summary="Records that a bounded search finds, and how far it has looked.",
    template="messages.html",
    view=MessageList,
    load=_load_messages,
    parameters=(
        Parameter(
            "start",
            "choice",
            "Where the search begins: the newest, the oldest, an offset, a time; before and at take `at`.",
            "newest",
            _STARTS,
        ),
        Parameter("offset", "integer", "For offset: the first offset.", minimum=0),
        Parameter(
            "time",
            "time",
            "For time: ISO 8601 (UTC without an offset), or milliseconds since 1970.",
        ),
        Parameter("at", "text", "Positions by partition, such as 0:123,1:456."),
        *FILTERS,
        Parameter("limit", "integer", "Records that are wanted.", "50", minimum=1, maximum=500),
        Parameter(
            "scan",
            "integer",
            "Records that a search with a filter looks at, at most.",
            "20000",
            minimum=1,
            maximum=1_000_000,
        ),
    ),
    path_parameters=TOPIC_PATH,
)
PAGES = (MESSAGES, RECORD)
ACTIONS = ()
