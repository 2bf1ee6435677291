"""Plain requests to one broker of a cluster, kavka's or Apache Kafka's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.net.peer_security import PLAINTEXT, PeerSecurity
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def until(holds: Callable[[], bool], seconds: float = 90, what: str = "") -> None:
    """Wait until something holds, looking often. Raise AssertionError."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def ask(
    address: str, request: object, version: int | None = None, security: PeerSecurity = PLAINTEXT
) -> Any:
    """Send a request to the broker at `host:port`, and return its response."""

    async def exchange() -> Any:
        host, _colon, port = address.rpartition(":")
        peer = await Peer.connect(TcpNetwork(), host, int(port), security=security)
        try:
            return await peer.send(request, version)
        finally:
            peer.close()
            await peer.wait_closed()

    return asyncio.run(exchange())


def wait_until_all_know_all(addresses: Collection[str], security: PeerSecurity = PLAINTEXT) -> None:
    """Wait until each broker knows that all of them are there, and a controller.

    Apache Kafka's broker says that it has started before the controller sent it anything. librdkafka, given such an
    empty response, does not ask again.
    """

    def knows_all(address: str) -> bool:
        known = ask(address, MetadataRequest(topics=[]), None, security)
        return known.controller_id >= 0 and len(known.brokers) >= len(addresses)

    for address in addresses:
        until(partial(knows_all, address), what=f"{address} knows all brokers")


def wait_until_known(
    addresses: Collection[str], topic: str, partition: int, security: PeerSecurity = PLAINTEXT
) -> None:
    """Wait until the metadata of each broker has the leader of a partition.

    The response to a creation comes from the controller: the others learn of it a moment later.
    """

    def returns_leader(address: str) -> bool:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        (known,) = ask(address, asked, None, security).topics
        return any(p.partition_index == partition and p.leader_id >= 0 for p in known.partitions)

    for address in addresses:
        until(partial(returns_leader, address), what=f"{address} knows {topic}-{partition}")
