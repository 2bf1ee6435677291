"""Offsets asked of each leader apart, so that a broker which does not answer takes no others with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from kavka.client.list_offsets import OffsetAndTimestamp, failure_of
from kavka.client.metadata import PartitionMetadata
from kavka.console.connection import ClusterConnection
from kavka.errors import KafkaError
from kavka.ids import BrokerId, TopicPartition

Answers = dict[TopicPartition, OffsetAndTimestamp | Exception]


async def offsets_by_leader(
    cluster: ClusterConnection, topics: Mapping[str, Iterable[PartitionMetadata]], spec: int
) -> Answers:
    """Return an offset of each partition with a leader, by `OffsetSpec` or a time in ms.

    Partitions of a leader that does not answer within `ConsoleOptions.part_ms` have its error in place of it.
    """
    of_leaders: dict[BrokerId, list[TopicPartition]] = {}
    for topic, parts in topics.items():
        for part in parts:
            if part.leader >= 0:
                key = TopicPartition(topic, part.partition)
                of_leaders.setdefault(part.leader, []).append(key)
    part_ms = cluster.options.part_ms

    async def ask(
        keys: list[TopicPartition],
    ) -> Mapping[TopicPartition, OffsetAndTimestamp | Exception]:
        wanted = dict.fromkeys(keys, spec)
        try:
            results = await cluster.ask(
                lambda admin: admin.list_offsets(wanted, timeout_ms=part_ms)
            )
        except OSError as error:
            return dict.fromkeys(keys, error)
        return {
            key: failure_of(result) if isinstance(result, KafkaError) else result
            for key, result in results.items()
        }

    found: Answers = {}
    for answers in await asyncio.gather(*map(ask, of_leaders.values())):
        found.update(answers)
    return found
