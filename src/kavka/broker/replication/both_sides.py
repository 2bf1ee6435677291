"""Both sides of replication of one broker: what it fetches, whom it serves, and whom it counts as in sync.

A broker that is alone has replicas of its own only; nothing here is made, or imported, before another is heard of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kavka.broker.replica import Replica, Watcher
from kavka.broker.replication.controller_peer import ControllerPeer
from kavka.broker.replication.fetchers import Fetchers
from kavka.broker.replication.isr import InSyncSets
from kavka.broker.replication.serving import FollowerFetches
from kavka.broker.replication.throttle import Throttle, Throttled
from kavka.core.partition import IsrChange
from kavka.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from kavka.broker.broker import Broker


class Replication:
    """The parts that replicate, made together."""

    def __init__(self, broker: Broker) -> None:
        """Replicate nothing yet."""
        self._broker = broker
        self.leader_throttle = Throttle(broker.clock, self._rate("leader"))
        self.follower_throttle = Throttle(broker.clock, self._rate("follower"))
        self._leader_throttled = Throttled(broker, "leader.replication.throttled.replicas")
        self.follower_throttled = Throttled(broker, "follower.replication.throttled.replicas")
        self.controller = ControllerPeer(broker)
        self.fetchers = Fetchers(broker, self)
        self.followers = FollowerFetches(broker, self)
        self.in_sync_sets = InSyncSets(broker, self.controller)

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

    def unfollow(self, where: TopicPartition) -> None:
        """Fetch no longer."""
        self.fetchers.unfollow(where)

    def brokers_changed(self) -> None:
        """Learn that other brokers are alive now, or elsewhere."""
        self.fetchers.brokers_changed()

    def propose(self, replica: Replica, change: IsrChange) -> None:
        """Ask the controller for another in-sync set."""
        self.in_sync_sets.propose(replica, change)

    async def stop(self) -> None:
        """End everything that runs."""
        self.leader_throttle.close()
        self.follower_throttle.close()
        await self.fetchers.stop()
        await self.in_sync_sets.stop()

    # -- throttling

    def throttles_leader(self, replica: Replica, follower: BrokerId, now_ms: int) -> bool:
        """Tell whether a follower must not get records just now; one that the high watermark waits for always may."""
        if not self.leader_throttle.is_exceeded or replica.partition.waits_for(follower, now_ms):
            return False
        return self._leader_throttled.holds(replica.where, self._broker.broker_id)

    def note_served(self, replica: Replica, follower: BrokerId, size: int) -> None:
        """Count bytes that a follower got, if they count."""
        if (
            size
            and follower not in replica.partition.in_sync_replicas
            and self.leader_throttle.is_limited
            and self._leader_throttled.holds(replica.where, self._broker.broker_id)
        ):
            self.leader_throttle.note(size)

    def when_unthrottled(self, watched: Watcher) -> None:
        """Touch a watcher when followers may be served again."""
        self.leader_throttle.when_free(watched)

    def throttles_follower(self, replica: Replica) -> bool:
        """Tell whether a replica must not be fetched just now; one that has all that is committed always may."""
        if not self.follower_throttle.is_exceeded or replica.has_all_committed:
            return False
        return self.follower_throttled.holds(replica.where, self._broker.broker_id)

    def note_fetched(self, replica: Replica, size: int) -> None:
        """Count bytes that were fetched, if they count."""
        if self.follower_throttle.is_limited and self.follower_throttled.holds(
            replica.where, self._broker.broker_id
        ):
            self.follower_throttle.note(size)
