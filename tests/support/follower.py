"""Fetches of a follower that the test itself plays, over the wire."""

from __future__ import annotations

from typing import Any

from kavka.wire.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestReplicaState,
    FetchRequestTopic,
    FetchResponse,
)
from support.replication import TOPIC_ID, ReplicaCluster


def fetch(version: int = 17, **asked: Any) -> FetchRequest:
    """Ask as broker 2 for `t-0`; `session`, `epoch` and `wait` are of the request, the rest of the partition."""
    session, epoch = asked.pop("session", 0), asked.pop("epoch", 0 if version >= 7 else -1)
    replica, registration = asked.pop("replica", 2), asked.pop("registration", -1)
    request = FetchRequest(
        max_wait_ms=asked.pop("wait", 0),
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session,
        session_epoch=epoch,
    )
    if version >= 15:
        request.replica_state = FetchRequestReplicaState(
            replica_id=replica, replica_epoch=registration
        )
    else:
        request.replica_id = replica
    if not asked.pop("is_quiet", False):
        if version >= 9:
            asked.setdefault("current_leader_epoch", 0)
        part = FetchRequestPartition(
            fetch_offset=asked.pop("offset", 0), partition_max_bytes=1 << 20, **asked
        )
        name = {"topic": "t"} if version < 13 else {"topic_id": TOPIC_ID}
        request.topics = [FetchRequestTopic(partitions=[part], **name)]
    return request


def only(response: FetchResponse) -> Any:
    ((result,),) = [topic.partitions for topic in response.responses]
    return result


async def led(cluster: ReplicaCluster, count: int) -> Any:
    """Let broker 1 lead with `count` records, and return a connection to it."""
    await cluster.start(1)
    cluster.ports[2] = cluster.ports[1]
    await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2])
    for number in range(count):
        await cluster.produce(1, b"%d" % number, acks=1)
    return await cluster.peer(1)
