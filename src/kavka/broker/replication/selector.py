"""The replica selector of consumers: the leader, or a replica in the consumer's rack (KIP-392)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.broker.config import REPLICA_SELECTORS
from kavka.broker.replica import Replica

if TYPE_CHECKING:
    from kavka.broker.broker import Broker

RACK_AWARE: Final = REPLICA_SELECTORS[0]
NO_PREFERENCE: Final = -1


def preferred_read_replica(broker: Broker, replica: Replica, rack: str, offset: int) -> int:
    """Return the follower that a consumer in `rack` should ask for `offset`; -1 for this leader.

    Of those in its rack that are in sync and have the offset, the one that is furthest, then the one that was last
    caught up. One that has fallen behind would keep its consumers behind too, and may be dead.
    """
    partition, brokers = replica.partition, broker.metadata.brokers
    own = brokers.get(broker.broker_id)
    if own is not None and own.rack == rack:
        return NO_PREFERENCE
    best = (NO_PREFERENCE, NO_PREFERENCE, NO_PREFERENCE)
    for broker_id, follower in partition.followers.items():
        live = brokers.get(broker_id)
        if live is None or live.rack != rack or broker_id not in partition.in_sync_replicas:
            continue
        if follower.log_start_offset <= offset <= follower.log_end_offset:
            best = max(best, (follower.log_end_offset, follower.last_caught_up_ms, broker_id))
    return best[2]
