"""Both sides of replication of one broker: what it fetches, whom it serves, and whom it counts as in sync.

A broker that is alone has replicas of its own only; nothing here is made, or imported, before another is heard of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kavka.broker.replica import Replica, Watcher
from kavka.broker.replication.alter_partition_manager import AlterPartitionManager
from kavka.broker.replication.follower_fetch import FollowerFetchHandler
from kavka.broker.replication.node_to_controller_channel import NodeToControllerChannel
from kavka.broker.replication.replica_fetcher_manager import ReplicaFetcherManager
from kavka.broker.replication.throttle import Throttle, ThrottledReplicas
from kavka.core.partition import IsrChange
from kavka.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from kavka.broker.broker import Broker


class ReplicationManager:
    """The parts that replicate, made together."""

    def __init__(self, broker: Broker) -> None:
        """Replicate nothing yet."""
        self._broker = broker
        self.leader_throttle = Throttle(broker.clock, self._rate("leader"))
        self.follower_throttle = Throttle(broker.clock, self._rate("follower"))
        self._leader_throttled = ThrottledReplicas(broker, "leader.replication.throttled.replicas")
        self.follower_throttled = ThrottledReplicas(
            broker, "follower.replication.throttled.replicas"
        )
        self.controller = NodeToControllerChannel(broker)
        self.fetchers = ReplicaFetcherManager(broker, self)
        self.followers = FollowerFetchHandler(broker, self)
        self.alter_partition_manager = AlterPartitionManager(broker, self.controller)

    def _rate(self, side: str) -> Any:
        names = {
            "leader": "leader.replication.throttled.rate",
            "follower": "follower.replication.throttled.rate",
        }
        return lambda: self._broker.configs.broker_integer(names[side])

    def follow(self, replica: Replica) -> None:
        """Fetch from the partition's leader, if it has one."""
        if replica.partition.leader >= 0:
            self.fetchers.follow(replica)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Fetch no longer."""
        self.fetchers.unfollow(topic_partition)

    def brokers_changed(self) -> None:
        """Learn that other brokers are alive now, or elsewhere."""
        self.fetchers.brokers_changed()

    def propose(self, replica: Replica, change: IsrChange) -> None:
        """Ask the controller for another in-sync set."""
        self.alter_partition_manager.propose(replica, change)

    async def stop(self) -> None:
        """End everything that runs."""
        self.leader_throttle.close()
        self.follower_throttle.close()
        await self.fetchers.stop()
        await self.alter_partition_manager.stop()

    # -- throttling

    def throttles_leader(self, replica: Replica, follower: BrokerId, now_ms: int) -> bool:
        """Return whether a follower must not get records just now; one that the high watermark waits for always
        may.
        """
        if not self.leader_throttle.is_exceeded or replica.partition.waits_for(follower, now_ms):
            return False
        return self._leader_throttled.includes(replica.topic_partition, self._broker.broker_id)

    def record_served(self, replica: Replica, follower: BrokerId, size: int) -> None:
        """Count bytes that a follower got, if they count."""
        if (
            size
            and follower not in replica.partition.in_sync_replicas
            and self.leader_throttle.is_limited
            and self._leader_throttled.includes(replica.topic_partition, self._broker.broker_id)
        ):
            self.leader_throttle.record(size)

    def call_when_unthrottled(self, watched: Watcher) -> None:
        """Touch a watcher when followers may be served again."""
        self.leader_throttle.call_when_free(watched)

    def throttles_follower(self, replica: Replica) -> bool:
        """Return whether a replica must not be fetched just now; one that has all that is committed always may."""
        if not self.follower_throttle.is_exceeded or replica.has_all_committed:
            return False
        return self.follower_throttled.includes(replica.topic_partition, self._broker.broker_id)

    def record_fetched(self, replica: Replica, size: int) -> None:
        """Count bytes that were fetched, if they count."""
        if self.follower_throttle.is_limited and self.follower_throttled.includes(
            replica.topic_partition, self._broker.broker_id
        ):
            self.follower_throttle.record(size)
