"""Finds transactions that partitions hold open and no coordinator will end.

A transaction hangs in a partition when its producer has no transactional id that a coordinator knows, or that id's
transaction does not include the partition. Only what has been open for longer than any transaction may be is checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kavka.client.admin.admin import Admin
from kavka.client.admin.transactions import ProducerState, TransactionDescription
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition

_BATCH = 500
"""Partitions in one request."""


class Open(NamedTuple):
    """A transaction that a partition holds open."""

    topic_partition: TopicPartition
    producer: ProducerState


async def find_hanging(
    admin: Admin,
    topic: str | None,
    partition: int | None,
    broker_id: int | None,
    before_ms: int,
) -> list[Open]:
    """Return the hanging transactions that have written nothing since then.

    Raise KafkaError, TimeoutError, OSError.
    """
    partitions = await _to_search(admin, topic, partition, broker_id)
    found = await _open_for(admin, partitions, broker_id, before_ms)
    return await _hanging(admin, found) if found else []


async def _to_search(
    admin: Admin, topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    names = [topic] if topic is not None else await admin.list_topics(include_internal=True)
    searched = []
    for name, description in (await admin.describe_topics(names)).items():
        if isinstance(description, KafkaError):
            raise description
        for part in description.partitions:
            if broker_id is None or broker_id in part.replicas:
                searched.append(TopicPartition(name, part.partition))
    return searched


async def _open_for(
    admin: Admin, partitions: list[TopicPartition], broker_id: int | None, before_ms: int
) -> list[Open]:
    """Return the open transactions with producers that have written nothing since `before_ms`."""
    found = []
    replica_of = None if broker_id is None else BrokerId(broker_id)
    for start in range(0, len(partitions), _BATCH):
        some = partitions[start : start + _BATCH]
        for topic_partition, producers in (
            await admin.describe_producers(some, broker_id=replica_of)
        ).items():
            if isinstance(producers, KafkaError):
                raise producers
            found += [
                Open(topic_partition, producer)
                for producer in producers
                if producer.current_transaction_start_offset is not None
                and producer.last_timestamp_ms < before_ms
            ]
    return found


async def _hanging(admin: Admin, found: list[Open]) -> list[Open]:
    ids = list(dict.fromkeys(each.producer.producer_id for each in found))
    listed = await admin.list_transactions(producer_ids=ids)
    names = {t.producer_id: t.transactional_id for each in listed.values() for t in each}
    known = await _descriptions(admin, names.values())
    hanging = []
    for each in found:
        description = known.get(names.get(each.producer.producer_id, ""))
        if description is None or each.topic_partition not in description.partitions:
            hanging.append(each)
    return hanging


async def _descriptions(admin: Admin, names: Iterable[str]) -> dict[str, TransactionDescription]:
    described = {}
    for name, found in (await admin.describe_transactions(names)).items():
        if isinstance(found, TransactionDescription):
            described[name] = found
        elif (
            not isinstance(found, KafkaError)
            or found.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        ):
            raise found
    return described
