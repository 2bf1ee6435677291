"""Readers at the level of the protocol: one connection, Fetch after Fetch, every byte checked.

They are written against the wire and not against our consumer, so that a fault of the consumer cannot hide one of
the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.peer import Peer
from kavka.simulation.checker import Checker
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.events import Audited, PositionReset, Read, WatermarkSeen
from kavka.simulation.invariants import Violation
from kavka.simulation.load.client import ClientNode
from kavka.simulation.scenario import BROKER, PORT, Scenario
from kavka.simulation.world import World
from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from kavka.wire.records.batch import decode_records
from kavka.wire.records.control import ControlType, control_type_of
from kavka.wire.records.header import batch_crc, walk_complete

FETCH_VERSION = 12  # the last one with topic names
EARLIEST, LATEST = -2, -1


@dataclass(slots=True)
class Fetched:
    """A partition's part of a response."""

    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    records: list[tuple[int, bytes]]
    leader_epoch: int = -1
    """The epoch in which the leader answered, where there can be several."""
    last_stable_offset: int = -1
    next_offset: int = -1
    """The offset after all batches of the response, also those without visible records."""
    preferred: int = -1
    """The follower that is to be asked, -1 for none."""
    follower: int = -1
    """The follower that answered, -1 for the leader."""


class RawReader:
    """Reads partitions over one connection. Methods raise OSError when it is lost."""

    def __init__(self, peer: Peer) -> None:
        """Use an open peer."""
        self.peer = peer

    @classmethod
    async def connect(cls, environment: SimEnvironment, client_id: str) -> RawReader:
        """Connect to the broker, trying again until it answers."""
        while True:
            try:
                return cls(
                    await Peer.connect(
                        environment.network, BROKER, PORT, client_id=client_id, timeout_ms=3000
                    )
                )
            except OSError:
                await asyncio.sleep(0.3)

    def close(self) -> None:
        """Close the connection."""
        self.peer.close()

    async def offset(self, partition: TopicPartition, timestamp: int) -> int | None:
        """Return the earliest or the latest offset; None while the broker does not know it."""
        asked = ListOffsetsRequestPartition(
            partition_index=partition.partition, timestamp=timestamp
        )
        topic = ListOffsetsRequestTopic(name=partition.topic, partitions=[asked])
        response = await self.peer.send(
            ListOffsetsRequest(replica_id=-1, topics=[topic]), timeout_ms=3000
        )
        assert isinstance(response, ListOffsetsResponse)
        found = response.topics[0].partitions[0]
        return found.offset if found.error_code == 0 else None

    async def fetch(
        self,
        positions: dict[TopicPartition, int],
        *,
        max_bytes: int = 1 << 20,
        max_wait_ms: int = 300,
    ) -> dict[TopicPartition, Fetched]:
        """Fetch what follows the positions. Raise Violation for bytes that are no sound batches."""
        request = fetch_request(positions, max_bytes, max_wait_ms)
        response = await self.peer.send(
            request, version=FETCH_VERSION, timeout_ms=max_wait_ms + 3000
        )
        assert isinstance(response, FetchResponse)
        return {
            TopicPartition(topic.topic, part.partition_index): fetched_part(
                part, positions[TopicPartition(topic.topic, part.partition_index)]
            )
            for topic in response.responses
            for part in topic.partitions
        }


def fetch_request(
    positions: Mapping[TopicPartition, int],
    max_bytes: int,
    max_wait_ms: int,
    *,
    leader_epochs: Mapping[TopicPartition, int] | None = None,
    isolation_level: int = 0,
    rack: str = "",
) -> FetchRequest:
    """Return a Fetch from the positions, `max_bytes` of each; without `leader_epochs` any leader may answer.

    A reader with a `rack` may be sent to a follower.
    """
    epochs = leader_epochs or {}
    topics = [
        FetchRequestTopic(
            topic=partition.topic,
            partitions=[
                FetchRequestPartition(
                    partition=partition.partition,
                    fetch_offset=offset,
                    partition_max_bytes=max_bytes,
                    current_leader_epoch=epochs.get(partition, -1),
                )
            ],
        )
        for partition, offset in positions.items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 24,
        isolation_level=isolation_level,
        topics=topics,
        rack_id=rack,
    )


def fetched_part(part: FetchResponsePartition, position: int) -> Fetched:
    """Return a response's part, from `position` on. Raise Violation for bytes that are no sound batches.

    Markers are left out, and so are records of the transactions that the response names as aborted: each from its first
    offset to its marker.
    """
    records: list[tuple[int, bytes]] = []
    buffer = part.records if isinstance(part.records, memoryview) else memoryview(b"")
    waiting = sorted(
        (each.first_offset, each.producer_id) for each in part.aborted_transactions or ()
    )
    aborted: set[int] = set()
    next_offset = position
    for header in walk_complete(buffer):
        if batch_crc(buffer, header) != header.crc:
            raise Violation(f"a batch at offset {header.base_offset} fails its checksum")
        next_offset = header.base_offset + header.last_offset_delta + 1
        while waiting and waiting[0][0] < next_offset:
            aborted.add(waiting.pop(0)[1])
        if header.is_control:
            if control_type_of(buffer, header) is ControlType.ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            records += [
                (record.offset, record.value or b"")
                for record in decode_records(buffer, header)
                if record.offset >= position
            ]
    return Fetched(
        ErrorCode.of(part.error_code),
        part.high_watermark,
        part.log_start_offset,
        records,
        last_stable_offset=part.last_stable_offset,
        next_offset=next_offset,
        preferred=part.preferred_read_replica,
    )


class ReaderNode(ClientNode):
    """Reads all partitions from the start on, for as long as the run lasts."""

    def __init__(self, world: World, name: str, scenario: Scenario, checker: Checker) -> None:
        """Read nothing yet."""
        super().__init__(world, name, scenario, checker)
        self._max_bytes = self.source.choice([1, 500, 1 << 20])

    async def work(self, environment: SimEnvironment) -> None:
        """Read, reconnecting after each lost connection, until it is stopped."""
        positions = dict.fromkeys(self.scenario.partitions, 0)
        for partition in positions:
            self.checker.observe(PositionReset(self.client_id, partition))
        while not self.quits.is_set():
            reader = await self.connect(environment)
            try:
                while not self.quits.is_set():
                    await self._step(reader, positions)
            except OSError:
                await asyncio.sleep(0.1)
            finally:
                reader.close()

    async def connect(self, environment: SimEnvironment) -> RawReader:
        """Reach the broker."""
        return await RawReader.connect(environment, self.client_id)

    async def fetch(
        self, reader: RawReader, positions: dict[TopicPartition, int]
    ) -> dict[TopicPartition, Fetched]:
        """Fetch what follows the positions."""
        return await reader.fetch(positions, max_bytes=self._max_bytes)

    async def _step(self, reader: RawReader, positions: dict[TopicPartition, int]) -> None:
        fetched = await self.fetch(reader, positions)
        for partition, part in fetched.items():
            if part.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                start = await reader.offset(partition, EARLIEST)
                if start is not None:
                    self.checker.observe(PositionReset(self.client_id, partition))
                    positions[partition] = start
            elif part.error is ErrorCode.NONE:
                self.checker.observe(
                    WatermarkSeen(
                        self.client_id,
                        partition,
                        part.high_watermark,
                        part.leader_epoch,
                        part.follower,
                    )
                )
                for offset, value in part.records:
                    self.checker.observe(Read(self.client_id, partition, offset, value))
                    positions[partition] = offset + 1
        if any(part.error is not ErrorCode.NONE for part in fetched.values()):
            await asyncio.sleep(0.1)


class AuditorNode(ClientNode):
    """Reads every partition from its start to its end, once."""

    def __init__(self, world: World, name: str, scenario: Scenario, checker: Checker) -> None:
        """Begin without leaders and positions."""
        super().__init__(world, name, scenario, checker)
        self.ends: dict[TopicPartition, int] = {}
        """End offset of each partition; those without records are left out."""

    async def work(self, environment: SimEnvironment) -> None:
        """Audit all partitions; start over when the connection is lost."""
        left = list(self.scenario.partitions)
        while left:
            reader = await self.connect(environment)
            try:
                while left:
                    audited = await self._audit(reader, left[0])
                    self.checker.observe(audited)
                    if audited.records:
                        self.ends[left[0]] = audited.high_watermark
                    del left[0]
            except OSError:
                await asyncio.sleep(0.1)
            finally:
                reader.close()

    async def connect(self, environment: SimEnvironment) -> RawReader:
        """Reach the broker."""
        return await RawReader.connect(environment, self.client_id)

    async def _audit(self, reader: RawReader, partition: TopicPartition) -> Audited:
        start = await self._offset(reader, partition, EARLIEST)
        end = await self._offset(reader, partition, LATEST)
        records: list[tuple[int, bytes]] = []
        position = start
        while position < end:
            fetched = (await reader.fetch({partition: position}))[partition]
            if fetched.error is not ErrorCode.NONE or not fetched.records:
                await asyncio.sleep(0.1)
                continue
            records += fetched.records
            position = records[-1][0] + 1
        return Audited(partition, start, end, tuple(records))

    async def _offset(self, reader: RawReader, partition: TopicPartition, timestamp: int) -> int:
        while True:
            found = await reader.offset(partition, timestamp)
            if found is not None:
                return found
            await asyncio.sleep(0.1)
