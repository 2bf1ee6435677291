"""Adoption of logs that are in no registry: a directory that Apache Kafka wrote, or one that lost its registry.

A new registry must contradict nothing that the logs remember:

    topic ids            are those of `partition.metadata`
    leader epochs        begin above the newest epoch of each log: its batches and `leader-epoch-checkpoint` have older
                         ones, and markers of a transaction are fenced by the epoch of their coordinator's partition
    producer ids         begin above all that an older registry can have allocated, since its producers may live and
                         have written nothing, and where 2^40 ids follow that no log, snapshot or record of
                         `__transaction_state` names
    transactional ids    are in `__transaction_state`, which is adopted like every log

The settings of topics are not in the logs. So that no default deletes what a topic's own settings kept, an adopted
topic has settings under which nothing is deleted or compacted, until others are set; internal topics have their own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kavka.broker.context import BrokerContext
from kavka.broker.metadata.cache import TRANSACTIONS_TOPIC
from kavka.broker.metadata.known_topics import NOT_TOPICS
from kavka.broker.partitions.batch_decoder import BatchDecoder
from kavka.core.controller.records import StateCreated, TopicCreated, operations_of
from kavka.core.controller.state import Assignment
from kavka.core.controller.topics import NewTopic
from kavka.core.znodes import Operation, SetData
from kavka.ids import BrokerId, TopicId, TopicPartition
from kavka.io import Disk, Random
from kavka.storage.log.log import Log
from kavka.storage.store.log_store import LogStore
from kavka.wire.codec import CorruptFrame
from kavka.wire.records.batch import Record
from kavka.wire.records.corrupt import CorruptBatch
from kavka.wire.records.header import BatchHeader, walk_complete
from kavka.wire.stored import znodes
from kavka.wire.stored.transactions import decode_transaction_value
from kavka.wire.stored.znodes import ProducerIdBlock, StateNode

log = logging.getLogger(__name__)

_READ_BYTES = 1 << 20
_MAX_PRODUCER_ID: Final = (1 << 63) - 1
_FREE_PRODUCER_IDS: Final = 1 << 40
"""More ids than a registry allocates: a thousand in each second for 34 years."""

ADOPTED_SETTINGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.bytes": "-1",
    "retention.ms": "-1",
}
"""Explicit settings, with any defaults of the broker: every record stays."""


class FoundLog(NamedTuple):
    """The topic id and latest epoch found in the log of a partition."""

    topic_id: TopicId | None
    latest_epoch: int
    """The log's newest leader epoch, -1 for none."""
    was_compacted: bool = False
    """True if `cleaner-offset-checkpoint` names it."""


async def adoption(
    context: BrokerContext,
    store: LogStore,
    internal_topic: Callable[[str], NewTopic | None],
    now_ms: int,
) -> list[Operation]:
    """Return the operations by which a new registry adopts the logs in `store`. Raise OSError when a disk fails.

    `internal_topic` returns the topic that coordinators want by a name; None for the name of any other topic.
    """
    found = found_logs(store)
    internal = {
        name: topic.config for name in sorted(found) if (topic := internal_topic(name)) is not None
    }
    broker_id, disk = context.broker_id, context.environment.disk
    topics = adopted_topics(found, broker_id, context.random, internal)
    return [*topics, *await adopted_producer_ids(store, disk, broker_id, now_ms)]


def found_logs(store: LogStore) -> dict[str, dict[int, FoundLog]]:
    """Return the logs that a start found, by topic and partition; those that cannot be read say nothing."""
    found: dict[str, dict[int, FoundLog]] = {}
    for topic_partition in store.unreadable:
        found.setdefault(topic_partition.topic, {})[topic_partition.partition] = FoundLog(None, -1)
    for each in store:
        topic_partition = each.topic_partition
        found.setdefault(topic_partition.topic, {})[topic_partition.partition] = FoundLog(
            each.topic_id, each.latest_epoch, each.cleaner_offset is not None
        )
    return found


def adopted_topics(
    found: Mapping[str, Mapping[int, FoundLog]],
    broker_id: BrokerId,
    random: Random,
    internal: Mapping[str, Mapping[str, str | None]],
) -> list[Operation]:
    """Return what makes topics of the logs that a start found, led by this broker alone.

    Only the first controller of a registry does this, in the multi that elects it. No later start adopts anything:
    an unknown log is then one of a deleted topic.
    """
    operations: list[Operation] = []
    own = int(broker_id)
    for name, logs in sorted(found.items()):
        if name in NOT_TOPICS:
            continue
        given = [each.topic_id for each in logs.values() if each.topic_id is not None]
        topic_id = given[0] if given else TopicId(random.random_bytes(16))
        count = max(logs) + 1
        texts = internal.get(name, ADOPTED_SETTINGS)
        config = {key: text for key, text in texts.items() if text is not None}
        assignments = {partition: Assignment((own,)) for partition in range(count)}
        operations += operations_of(TopicCreated(name, topic_id, assignments, config))
        for partition in range(count):
            epoch = logs[partition].latest_epoch + 1 if partition in logs else 0
            node = StateNode(own, epoch, 1, [own])
            topic_partition = TopicPartition(name, partition)
            operations += operations_of(StateCreated(topic_partition, node, False, True))
        log.warning("topic adopted from its logs topic=%s partitions=%d", name, count)
        if name not in internal:
            _warn_of_retention(name, any(each.was_compacted for each in logs.values()))
    return operations


def _warn_of_retention(name: str, was_compacted: bool) -> None:
    """Log that nothing of an adopted topic is deleted, and how that is changed."""
    change = (
        "--add-config cleanup.policy=compact" if was_compacted else "--add-config retention.ms=MS"
    )
    log.warning(
        "retention is off for an adopted topic until its settings are set topic=%s was_compacted=%s "
        "command='kavka configs --bootstrap-server HOST:PORT --alter --topic %s %s', "
        "or with '--delete-config %s' for the broker's defaults",
        name,
        "yes" if was_compacted else "no",
        name,
        change,
        ",".join(ADOPTED_SETTINGS),
    )


async def adopted_producer_ids(
    store: LogStore, disk: Disk, broker_id: BrokerId, now_ms: int
) -> list[Operation]:
    """Return what lets producer ids begin above all that an older registry can have allocated.

    The present time in milliseconds is such a bound: ids begin at 0 and at this number in each further registry, and
    no cluster allocates a thousand of them in each second of its life. Logs are asked as well, because clocks can be
    wrong. Raise OSError when a disk fails.
    """
    known: set[int] = set()
    for each in store:
        known.update(entry.producer_id for entry in each.producers.entries())
        if each.topic_partition.topic == TRANSACTIONS_TOPIC:
            known |= await _transactional_ids(each, disk)
    first = first_producer_id(known, now_ms)
    log.warning(
        "producer ids of an older registry are left out first=%d highest_below=%d ignored=%d",
        first,
        max((one for one in known if one < first), default=-1),
        sum(one >= first for one in known),
    )
    block = ProducerIdBlock(int(broker_id), first - 1, first - 1)
    return [SetData(znodes.PRODUCER_ID_BLOCK, block.encode())]


def first_producer_id(known: Iterable[int], at_least: int) -> int:
    """Return the lowest id from `at_least` on that is followed by 2^40 ids of which none is `known`.

    A client writes any id that it likes into a batch: one above all these was allocated by no registry, or by one
    with ids that are too far away to be reached.
    """
    first = at_least
    for one in sorted(known):
        if first <= one < first + _FREE_PRODUCER_IDS:
            first = one + 1
    return min(first, _MAX_PRODUCER_ID)


async def _transactional_ids(partition_log: Log, disk: Disk) -> set[int]:
    """Return the producer ids that the records of a partition of `__transaction_state` name."""
    found: set[int] = set()
    decoder = BatchDecoder(disk)
    offset, end = partition_log.log_start_offset, partition_log.log_end_offset
    while offset < end:
        read = partition_log.read(offset, _READ_BYTES, end, True)
        if not read.is_cached:
            read = await read.load(disk)
        if read.range is None:
            break
        try:
            data = await disk.run(read.range.file.read_at, read.range.length, read.range.position)
        finally:
            read.range.release()
        reached = offset
        for header in walk_complete(data):
            reached = header.last_offset + 1
            if not header.is_control:
                found |= await _ids_of_batch(data, header, decoder)
        if reached == offset:
            break
        offset = reached
    return found


async def _ids_of_batch(data: bytes, header: BatchHeader, decoder: BatchDecoder) -> set[int]:
    """Return the producer ids that the records of a batch name.

    A record that cannot be read names none, nor do those behind damage to the batch.
    """
    found: set[int] = set()
    try:
        async for records in decoder.decode(data, header):
            found.update(_named_ids(records))
    except CorruptBatch as error:
        log.warning("producer ids of a damaged batch are not known reason=%s", error)
    return found


def _named_ids(records: list[Record]) -> Iterator[int]:
    """Yield the producer ids of records; one that cannot be read names none."""
    for record in records:
        if record.value is None:
            continue
        try:
            value = decode_transaction_value(record.value)
        except CorruptFrame:
            continue
        yield from (value.producer_id, value.previous_producer_id, value.next_producer_id)
