"""All fetchers of a broker: `num.replica.fetchers` for each leader that it follows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from zlib import crc32

from kavka.broker.replica import Replica
from kavka.broker.replication.replica_fetcher import ReplicaFetcher
from kavka.ids import BrokerId, TopicPartition
from kavka.net.peer import Peer

if TYPE_CHECKING:
    from kavka.broker.broker import Broker
    from kavka.broker.replication.replication_manager import ReplicationManager

_CONNECT_MS = 10_000


class ReplicaFetcherManager:
    """Gives each followed partition to the fetcher of its leader."""

    def __init__(self, broker: Broker, replication_manager: ReplicationManager) -> None:
        """Follow nothing yet."""
        self._broker = broker
        self._replication_manager = replication_manager
        config = broker.config
        self.clock = broker.clock
        self.broker_id = broker.broker_id
        self.backoff_ms = max(1, config.integer("replica.fetch.backoff.ms"))
        self.timeout_ms = config.integer("replica.socket.timeout.ms")
        self.max_bytes = config.integer("replica.fetch.max.bytes")
        self.max_response_bytes = config.integer("replica.fetch.response.max.bytes")
        self.wait_ms = config.integer("replica.fetch.wait.max.ms")
        self.min_bytes = config.integer("replica.fetch.min.bytes")
        self.throttle_pause_ms = 100
        self._fetchers: dict[tuple[BrokerId, int], ReplicaFetcher] = {}
        self._fetcher_of: dict[TopicPartition, ReplicaFetcher] = {}

    def follow(self, replica: Replica) -> None:
        """Fetch a partition from its leader from now on, in its present leader epoch."""
        self.unfollow(replica.topic_partition)
        leader = replica.partition.leader
        per_leader = self._broker.configs.broker_integer("num.replica.fetchers")
        number = crc32(str(replica.topic_partition).encode()) % per_leader
        fetcher = self._fetchers.get((leader, number))
        if fetcher is None:
            fetcher = self._fetchers[leader, number] = ReplicaFetcher(self, leader, number)
        self._fetcher_of[replica.topic_partition] = fetcher
        fetcher.follow(replica)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Fetch a partition no longer."""
        fetcher = self._fetcher_of.pop(topic_partition, None)
        if fetcher is not None:
            fetcher.unfollow(topic_partition)

    def brokers_changed(self) -> None:
        """Try at once to reach the leaders that could not be reached: they may be alive now, or elsewhere."""
        for fetcher in self._fetchers.values():
            fetcher.wake()

    async def stop(self) -> None:
        """End all fetchers."""
        await asyncio.gather(*(fetcher.stop() for fetcher in self._fetchers.values()))
        self._fetchers.clear()
        self._fetcher_of.clear()

    def items(self) -> list[tuple[BrokerId, int, ReplicaFetcher]]:
        """Return all fetchers with their leaders and numbers."""
        return [(leader, number, each) for (leader, number), each in self._fetchers.items()]

    # -- what fetchers need

    async def connect(self, leader: BrokerId, client_id: str) -> Peer:
        """Connect to a broker. Raise OSError, also when its address is unknown."""
        broker = self._broker
        live = broker.metadata.brokers.get(leader)
        endpoint = None if live is None else live.endpoint(broker.config.inter_broker_listener)
        if endpoint is None:
            raise ConnectionError(f"broker {leader} is not known to be alive")
        return await Peer.connect(
            broker.environment.network,
            endpoint.host,
            endpoint.port,
            client_id=client_id,
            timeout_ms=min(_CONNECT_MS, self.timeout_ms),
        )

    def leader_unreachable(self, leader: BrokerId) -> None:
        """Learn that the connection to a leader broke."""
        self._broker.metadata.suspect(leader, self.clock.tick_ms())

    def leader_reached(self, leader: BrokerId) -> None:
        """Learn that a leader answers."""
        self._broker.metadata.clear_suspicion(leader)

    def broker_epoch(self) -> int:
        """Return the epoch of this broker's registration."""
        return self._broker.control_requests.broker_epoch

    def throttles(self, replica: Replica) -> bool:
        """Return whether this replica must not be fetched just now (`follower.replication.throttled.rate`)."""
        return self._replication_manager.throttles_follower(replica)

    def record_fetched(self, replica: Replica, size: int) -> None:
        """Count bytes that came."""
        self._replication_manager.record_fetched(replica, size)
