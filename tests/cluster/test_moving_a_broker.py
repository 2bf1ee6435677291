"""A broker that comes back under another address, on its own directories."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from kavka.client import Producer
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.elect_leaders import ElectLeadersRequest

Run = Callable[..., None]
Cluster = Any

MOVED = 3
WHERE = TopicPartition("t", 0)


@contextmanager
def kept_from_all(port: int) -> Iterator[None]:
    """Keep a port without a listener: connections to it are refused."""
    with closing(socket.socket()) as place:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(("127.0.0.1", port))
        yield


def knows_the_way(cluster: Cluster, number: int) -> bool:
    """Return whether a broker's metadata has the present address of the moved one."""
    known = cluster.brokers[number].metadata.brokers.get(MOVED)
    return known is not None and cluster.ports[MOVED] in [each.port for each in known.endpoints]


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_a_broker_at_another_port_follows_leads_and_is_found(run: Run, is_killed: bool) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [MOVED, 1, 2])
        others = ",".join(f"127.0.0.1:{cluster.ports[number]}" for number in (1, 2))
        async with Producer({"bootstrap.servers": others}) as producer:
            await producer.send("t", value=b"at the old address")
            before = cluster.ports[MOVED]
            await (cluster.kill if is_killed else cluster.stop)(MOVED)
            with kept_from_all(before):
                del cluster.ports[MOVED]
                await producer.send("t", value=b"while it is away")
                await cluster.start(MOVED)
                await cluster.until(lambda: cluster.in_sync(WHERE) == {1, 2, 3}, "it is in sync")
                await cluster.until(
                    lambda: all(knows_the_way(cluster, number) for number in cluster.brokers),
                    "all show the new address",
                )
                epoch = cluster.partition(MOVED, WHERE).leader_epoch
                elect = ElectLeadersRequest(topic_partitions=None)
                response = await cluster.send(cluster.controller, elect)
                assert response.error_code == ErrorCode.NONE
                await cluster.until(lambda: cluster.leader(WHERE) == MOVED, "it leads")
                assert cluster.partition(MOVED, WHERE).leader_epoch == epoch + 1
                # acks=all: the others follow it where it is now
                await producer.send("t", value=b"of one that knew the old address")
                async with Producer({"bootstrap.servers": others}) as another:
                    await another.send("t", value=b"of one that never did")
                assert cluster.in_sync(WHERE) == {1, 2, 3}
        assert await cluster.committed("t") == [
            b"at the old address",
            b"while it is away",
            b"of one that knew the old address",
            b"of one that never did",
        ]

    run(story, min__insync__replicas="2")
