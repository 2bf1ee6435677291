"""Raw readers of a cluster: each partition is read from its leader, which the metadata of any broker names.

Every request names the leader epoch that it is meant for, so a deposed broker that is not notified yet can only answer
for its own epoch. A reader with a rack reads from the follower that the leader names (KIP-392), and returns to the
leader when that follower refuses, or at random.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, NamedTuple

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.peer import Peer
from kavka.simulation.brokers.scenario import ClusterScenario, broker_name
from kavka.simulation.checker import Checker
from kavka.simulation.environment import SimEnvironment
from kavka.simulation.events import EndOffsetRead, EndOffsetRequested
from kavka.simulation.load.readers import (
    FETCH_VERSION,
    LATEST,
    AuditorNode,
    Fetched,
    RawReader,
    ReaderNode,
    fetch_request,
    fetched_part,
)
from kavka.simulation.scenario import PORT, Scenario
from kavka.simulation.world import World
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

_TIMEOUT_MS = 3000
_AUDITED_BYTES = 10_000  # a network with small windows brings them before the time is over
_NO_LEADER = Fetched(ErrorCode.LEADER_NOT_AVAILABLE, -1, -1, [])
_BACK_TO_LEADER = 0.05
"""Probability of leaving a follower, as by the age of metadata."""


class Leader(NamedTuple):
    """A partition's leader in the metadata of a broker."""

    number: int
    epoch: int


class LeaderReader(RawReader):
    """Reads partitions from their leaders, or followers. Methods raise OSError when no broker answers."""

    def __init__(
        self,
        environment: SimEnvironment,
        client_id: str,
        scenario: ClusterScenario,
        topics: Collection[str] = (),
        *,
        read_committed: bool = False,
        rack: str = "",
    ) -> None:
        """Connect at the first request. `topics` are those that are read, else those of the scenario's partitions.

        With a `rack`, followers in it are read where leaders say so.
        """
        self._environment = environment
        self._client_id = client_id
        self._scenario = scenario
        self._topics = topics or scenario.topics
        self._isolation_level = int(read_committed)
        self._peers: dict[int, Peer] = {}
        self._leaders: dict[TopicPartition, Leader] = {}
        self._rack = rack
        self._followers: dict[TopicPartition, int] = {}
        self._asked = 0

    def close(self) -> None:
        """Close all connections."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    async def offset(self, partition: TopicPartition, timestamp: int) -> int | None:
        """Return the earliest or the latest offset; None while no leader answers."""
        found = await self.offset_in_epoch(partition, timestamp)
        return None if found is None else found[0]

    async def offset_in_epoch(
        self, partition: TopicPartition, timestamp: int
    ) -> tuple[int, int] | None:
        """Return an offset and the leader epoch of the response; None while no leader answers."""
        leader = await self._leader(partition)
        if leader is None:
            return None
        asked = ListOffsetsRequestPartition(
            partition_index=partition.partition,
            timestamp=timestamp,
            current_leader_epoch=leader.epoch,
        )
        topic = ListOffsetsRequestTopic(name=partition.topic, partitions=[asked])
        response = await self._send(leader, ListOffsetsRequest(replica_id=-1, topics=[topic]))
        if response is None:
            return None
        found = response.topics[0].partitions[0]
        if found.error_code != 0:
            self._leaders.pop(partition, None)
            return None
        return found.offset, leader.epoch

    async def fetch(
        self,
        positions: dict[TopicPartition, int],
        *,
        max_bytes: int = _AUDITED_BYTES,
        max_wait_ms: int = 300,
    ) -> dict[TopicPartition, Fetched]:
        """Fetch what follows the positions, from one broker after the other."""
        by_broker: dict[int, dict[TopicPartition, Leader]] = {}
        fetched = dict.fromkeys(positions, _NO_LEADER)
        for partition in positions:
            leader = await self._leader(partition)
            if leader is not None:
                number = self._followers.get(partition, leader.number)
                by_broker.setdefault(number, {})[partition] = leader
        for number, leaders in by_broker.items():
            asked = {partition: positions[partition] for partition in leaders}
            wait_ms = max_wait_ms // len(by_broker)
            fetched |= await self._fetch_from(number, leaders, asked, max_bytes, wait_ms)
        return fetched

    async def _fetch_from(
        self,
        number: int,
        leaders: dict[TopicPartition, Leader],
        positions: dict[TopicPartition, int],
        max_bytes: int,
        max_wait_ms: int,
    ) -> dict[TopicPartition, Fetched]:
        request = fetch_request(
            positions,
            max_bytes,
            max_wait_ms,
            leader_epochs={partition: leader.epoch for partition, leader in leaders.items()},
            isolation_level=self._isolation_level,
            rack=self._rack,
        )
        response = await self._send(Leader(number, -1), request, FETCH_VERSION)
        if response is None:
            return dict.fromkeys(positions, _NO_LEADER)
        found: dict[TopicPartition, Fetched] = {}
        for topic in response.responses:
            for part in topic.partitions:
                partition = TopicPartition(topic.topic, part.partition_index)
                fetched = fetched_part(part, positions[partition])
                fetched.leader_epoch = leaders[partition].epoch
                found[partition] = fetched
                if number != leaders[partition].number:
                    self._read_from_follower(partition, number, fetched)
                elif fetched.preferred >= 0:
                    self._followers[partition] = fetched.preferred
                if fetched.error not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                    self._leaders.pop(partition, None)
        return found

    def _read_from_follower(self, partition: TopicPartition, number: int, fetched: Fetched) -> None:
        """Note what a follower has answered. Where it has nothing, only the leader can say whether there is nothing."""
        fetched.follower = number
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            fetched.error = ErrorCode.OFFSET_NOT_AVAILABLE
        if (
            fetched.error is not ErrorCode.NONE
            or self._environment.random.random() < _BACK_TO_LEADER
        ):
            self._followers.pop(partition, None)

    # -- leaders

    async def _leader(self, partition: TopicPartition) -> Leader | None:
        if partition not in self._leaders:
            await self._refresh()
        return self._leaders.get(partition)

    async def _refresh(self) -> None:
        """Ask one broker after the other for the leader. Raise ConnectionError when none of them answers."""
        names = [MetadataRequestTopic(name=name) for name in self._topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        for _ in self._scenario.numbers:
            self._asked += 1
            number = 1 + self._asked % self._scenario.brokers
            response = await self._send(Leader(number, -1), request)
            if response is not None:
                self._learn(response)
                return
        raise ConnectionError("no broker answers")

    def _learn(self, response: Any) -> None:
        for topic in response.topics:
            for part in topic.partitions:
                if part.leader_id >= 0:
                    topic_partition = TopicPartition(str(topic.name), part.partition_index)
                    self._leaders.setdefault(
                        topic_partition, Leader(part.leader_id, part.leader_epoch)
                    )

    async def _send(self, leader: Leader, request: Any, version: int | None = None) -> Any:
        """Ask one broker; None when it does not answer."""
        try:
            peer = self._peers.get(leader.number)
            if peer is None or peer.is_closed:
                peer = await Peer.connect(
                    self._environment.network,
                    broker_name(leader.number),
                    PORT,
                    client_id=self._client_id,
                    timeout_ms=_TIMEOUT_MS,
                )
                self._peers[leader.number] = peer
            return await peer.send(request, version, timeout_ms=_TIMEOUT_MS)
        except OSError:
            lost = self._peers.pop(leader.number, None)
            if lost is not None:
                lost.close()
            for partition in [
                p for p, node in self._leaders.items() if node.number == leader.number
            ]:
                del self._leaders[partition]
            for partition in [p for p, node in self._followers.items() if node == leader.number]:
                del self._followers[partition]
            return None


def _reader(node: ReaderNode | AuditorNode, environment: SimEnvironment) -> LeaderReader:
    assert isinstance(node.scenario, ClusterScenario)
    return LeaderReader(environment, node.client_id, node.scenario)


class ClusterReaderNode(ReaderNode):
    """Reads all partitions from the start on, and asks for their ends now and then."""

    def __init__(self, world: World, name: str, scenario: Scenario, checker: Checker) -> None:
        """Read nothing yet."""
        super().__init__(world, name, scenario, checker)
        self._from_followers: set[TopicPartition] = set()

    async def connect(self, environment: SimEnvironment) -> RawReader:
        """Find the leaders."""
        assert isinstance(self.scenario, ClusterScenario)
        return LeaderReader(environment, self.client_id, self.scenario, rack=self.scenario.rack)

    async def fetch(
        self, reader: RawReader, positions: dict[TopicPartition, int]
    ) -> dict[TopicPartition, Fetched]:
        """Fetch, and report the first records from followers."""
        fetched = await super().fetch(reader, positions)
        for partition, part in fetched.items():
            if part.follower >= 0 and part.records and partition not in self._from_followers:
                self._from_followers.add(partition)
                self.world.trace.add(self.name, f"reads {partition} from {part.follower}")
        return fetched

    async def _step(self, reader: RawReader, positions: dict[TopicPartition, int]) -> None:
        assert isinstance(reader, LeaderReader)
        if self.source.random() < 0.2:
            partition = self.source.choice(list(positions))
            self.checker.observe(EndOffsetRequested(self.client_id, partition))
            found = await reader.offset_in_epoch(partition, LATEST)
            if found is not None:
                self.checker.observe(EndOffsetRead(self.client_id, partition, *found))
        await super()._step(reader, positions)


class ClusterAuditorNode(AuditorNode):
    """Reads every partition from its start to its end, once, from its leader."""

    async def connect(self, environment: SimEnvironment) -> RawReader:
        """Find the leaders."""
        await asyncio.sleep(0)
        return _reader(self, environment)
