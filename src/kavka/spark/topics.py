"""The driver's queries of the brokers: partitions, their start and end offsets, and offsets by time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from kavka.client.list_offsets import failure_of, list_offsets
from kavka.core.java_patterns import java_pattern
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import NO_TOPIC_ID, TopicPartition, uuid_text
from kavka.spark.connection import Connection, require_ok
from kavka.spark.errors import ConnectorError
from kavka.spark.offsets import Offsets, recreated_topics
from kavka.spark.options import EARLIEST, LATEST, Assign, Selection, Subscribe, SubscribePattern
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

_SHORT_RESPONSES = 6
"""Number of times that an end below one seen before is requested, over two seconds with Kafka's back-off."""


class BrokerTopics:
    """`offset_plan.Topics` over a connection. Every call queries the brokers, so that growth is seen."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Connect. Raise as `Connection`."""
        self._connection = Connection(settings)
        self._cluster = self._connection.cluster

    def __enter__(self) -> Self:
        """Do nothing: it is connected."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def partitions(self, selection: Selection) -> list[TopicPartition]:
        """Return the partitions that exist now, sorted. Raise ConnectorError for a topic or partition that does not."""
        match selection:
            case SubscribePattern(pattern):
                self._connection.run(self._learn(None))
                wanted_names = java_pattern(pattern)
                topics = [
                    topic.name
                    for topic in self._cluster.metadata.topics.values()
                    if not topic.is_internal and wanted_names.search(topic.name)
                ]
                return sorted(self._partitions_of(topics))
            case Subscribe(names):
                self._connection.run(self._learn(names))
                return sorted(self._partitions_of(names))
            case Assign(wanted):
                names = tuple({partition.topic for partition in wanted})
                self._connection.run(self._learn(names))
                missing = sorted(set(wanted) - set(self._partitions_of(names)))
                if missing:
                    raise ConnectorError(f"The partition {missing[0]} does not exist.")
                return sorted(wanted)

    def _partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        topics_metadata = self._cluster.metadata.topics
        return [
            TopicPartition(topic, partition.partition)
            for topic in topics
            for partition in topics_metadata[topic].partitions
        ]

    def ids(self, topics: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
        """Return the ids of those of the topics that exist and have one, as a broker knows them now.

        While one differs from the `known` one, brokers are asked again a few times: one may be behind.
        """
        names = tuple(topics)
        for attempt in range(_SHORT_RESPONSES):
            self._cluster.set_topics(names)
            self._connection.run(
                self._connection.retrying(self._cluster.refresh, "reading metadata")
            )
            known_ids = self.known_ids(names)
            if not recreated_topics(known, known_ids):
                break
            self._connection.run(self._cluster.back_off(attempt))
        return known_ids

    def known_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of topics by the metadata that was asked for last."""
        metadata = self._cluster.metadata.topics
        return {
            name: uuid_text(metadata[name].topic_id)
            for name in topics
            if name in metadata and metadata[name].topic_id != NO_TOPIC_ID
        }

    async def _learn(self, topics: Iterable[str] | None) -> None:
        """Bring metadata up to date: of these topics, or of all."""
        if topics is None:
            self._cluster.want_all_topics()
        else:
            self._cluster.set_topics(topics)

        async def attempt() -> None:
            await self._cluster.refresh()
            for topic in topics or ():
                self._require_topic(topic)

        await self._connection.retrying(attempt, "reading metadata")

    def _require_topic(self, topic: str) -> None:
        metadata = self._cluster.metadata.topics.get(topic)
        error = ErrorCode.LEADER_NOT_AVAILABLE if metadata is None else metadata.error
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise ConnectorError(f"The topic {topic} does not exist.")
        require_ok(error, f"topic {topic}")

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the first offset of each."""
        return self._list_offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition], known: Offsets | None = None) -> Offsets:
        """Return the offset after the last record that may be read: of a committed one for `read_committed`.

        Ends below the `known` ones are asked for again a few times: a new leader learns by and by what is committed.
        """
        specs = dict.fromkeys(partitions, LATEST)
        for attempt in range(_SHORT_RESPONSES):
            offsets = self._list_offsets(specs)
            if all(offsets[one] >= (known or {}).get(one, 0) for one in offsets):
                break
            self._connection.run(self._cluster.back_off(attempt))
        return offsets

    def at_time(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        """Return the first offset with at least the given timestamp; None when there is none."""
        offsets = self._list_offsets(timestamps_ms)
        return {partition: None if offset < 0 else offset for partition, offset in offsets.items()}

    def _list_offsets(self, timestamps: Mapping[TopicPartition, int]) -> Offsets:
        return self._connection.run(offsets_at(self._connection, timestamps)) if timestamps else {}

    def commit(self, group_id: str, offsets: Offsets, timeout_s: float) -> None:
        """Commit to a group that has no members, as tools that reset offsets do.

        Raise KafkaError when it has, TimeoutError when its coordinator has not taken them in time.
        """
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            entry = OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )
            topics.setdefault(topic, []).append(entry)
        request = OffsetCommitRequest(
            group_id=group_id,
            topics=[
                OffsetCommitRequestTopic(name=name, partitions=parts)
                for name, parts in topics.items()
            ],
        )

        async def attempt() -> None:
            coordinator = await self._cluster.find_coordinator(group_id)
            peer = await self._cluster.peer(coordinator)
            response: OffsetCommitResponse = await peer.send(
                request, timeout_ms=self._cluster.request_timeout_ms
            )
            for topic in response.topics:
                for entry in topic.partitions:
                    require_ok(
                        entry.error_code,
                        f"commit of {topic.name}-{entry.partition_index} to group {group_id}",
                    )

        async def bounded() -> None:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._connection.retrying(attempt, "committing offsets")
            except TimeoutError:
                raise TimeoutError(
                    f"the coordinator of group {group_id} did not take offsets within {timeout_s:g} s"
                ) from None

        self._connection.run(bounded())


async def offsets_at(connection: Connection, timestamps: Mapping[TopicPartition, int]) -> Offsets:
    """Return an offset of each partition for its timestamp, EARLIEST or LATEST; -1 when no record is so late."""
    listed = await list_offsets(
        connection.cluster,
        timestamps,
        read_committed=connection.reads_committed,
        timeout_ms=connection.timeout_ms,
    )
    offsets: Offsets = {}
    for partition, result in listed.items():
        if isinstance(result, KafkaError):
            failure = failure_of(result)
            if isinstance(failure, TimeoutError):
                raise failure
            raise ConnectorError(f"The offsets of {partition} cannot be read: {result}")
        offsets[partition] = result.offset
    return offsets
