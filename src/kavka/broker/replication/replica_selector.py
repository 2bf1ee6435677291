"""The replica selector of consumers: the leader, or a replica in the consumer's rack (KIP-392)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kavka.broker.configs.broker_config import REPLICA_SELECTORS
from kavka.broker.metadata.cache import LiveBroker
from kavka.broker.partitions.replica import Replica
from kavka.ids import BrokerId

RACK_AWARE: Final = REPLICA_SELECTORS[0]
NO_PREFERENCE: Final = -1


def preferred_read_replica(
    brokers: Mapping[BrokerId, LiveBroker],
    broker_id: BrokerId,
    replica: Replica,
    rack: str,
    offset: int,
) -> int:
    """Return the follower that a consumer in `rack` should ask for `offset`; -1 for this leader, `broker_id`.

    Of those in its rack that are in sync and have the offset, the one that is furthest, then the one that was last
    caught up. One that has fallen behind would keep its consumers behind too, and may be dead.
    """
    partition = replica.partition
    own = brokers.get(broker_id)
    if own is not None and own.rack == rack:
        return NO_PREFERENCE
    best = (NO_PREFERENCE, NO_PREFERENCE, NO_PREFERENCE)
    for follower_id, follower in partition.followers.items():
        live = brokers.get(follower_id)
        if live is None or live.rack != rack or follower_id not in partition.in_sync_replicas:
            continue
        if follower.log_start_offset <= offset <= follower.log_end_offset:
            best = max(best, (follower.log_end_offset, follower.last_caught_up_ms, follower_id))
    return best[2]
