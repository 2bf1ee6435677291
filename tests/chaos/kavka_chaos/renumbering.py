"""Duplicates that are librdkafka's own: what it sends again under a new producer epoch no broker can recognise.

When a connection is refused while it authenticates again, librdkafka (2.16) gives up the requests in flight there with
`_AUTHENTICATION` and has its epoch raised (`rd_kafka_idemp_drain_epoch_bump`). Requests to *other* brokers whose
responses are missing go back to its queues meanwhile, and are sent under the new epoch, with sequences from 0: a broker
that has them in its log must take them again. Apache Kafka's brokers must, too: the protocol (KIP-98) knows a record by
producer id, epoch and sequence alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from kavka.ids import TopicPartition
from kavka.testing.history.anomalies import Duplicate
from kavka.testing.history.facts import Facts
from kavka.testing.history.operations import Event, Send, pair
from kavka.testing.history.reads import duplicates
from kavka.wire.records.header import BatchHeader

Batches = Callable[[TopicPartition], Sequence[BatchHeader]]
"""The batches of a partition's log, in the order of their offsets."""

GIVEN_UP = "_AUTHENTICATION"
"""librdkafka's error of such a send."""


def renumbered_duplicates(events: Sequence[Event], batches: Batches) -> list[Duplicate]:
    """Return the duplicates of a history whose copies are of different epochs, of producers that gave sends up so."""
    given_up = {
        event.process
        for event in events
        if isinstance(event.action, Send) and GIVEN_UP in (event.error or "")
    }
    if not given_up:
        return []
    read_once = cache(batches)  # a log is read for all duplicates of its partition
    return [
        found
        for found in duplicates(Facts(pair(list(events))))
        if found.write is not None
        and found.write.operation.process in given_up
        and _are_of_different_epochs(found, read_once)
    ]


def _are_of_different_epochs(found: Duplicate, batches: Batches) -> bool:
    copies = list(_epochs(found, batches))
    return len(set(copies)) == len(copies)


def _epochs(found: Duplicate, batches: Batches) -> Iterator[tuple[int, int]]:
    """Yield producer id and epoch of the batch of each copy."""
    partition = found.reads[0].record.partition
    headers = batches(partition)
    starts = [header.base_offset for header in headers]
    for read in found.reads:
        header = headers[bisect_right(starts, read.record.offset) - 1]
        yield header.producer_id, header.producer_epoch
