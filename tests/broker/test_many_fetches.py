"""Fetches of many partitions leave the loop to others: hundreds that arrive together, and one of a large session."""

from __future__ import annotations

import select
import socket
from typing import Any

from kavka.wire.frame import encode_request
from kavka.wire.messages.api_versions import ApiVersionsRequest
from kavka.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from support.one_broker import Run, Served

CONNECTIONS = 40


def fetch_of(
    partitions: int, *, session: int = 0, epoch: int = -1, max_wait_ms: int = 0
) -> FetchRequest:
    rows = [FetchRequestPartition(partition=n, partition_max_bytes=1000) for n in range(partitions)]
    return FetchRequest(
        session_id=session,
        session_epoch=epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchRequestTopic(topic="t", partitions=rows)] if rows else [],
    )


def sent(port: int, request: Any, version: int) -> socket.socket:
    """Send a request on a connection of its own; the loop of broker and test does not run meanwhile."""
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(b"".join(map(bytes, encode_request(request, version, 1, "c"))))  # type: ignore[arg-type]
    return client


def answered(clients: list[socket.socket]) -> int:
    poll = select.poll()
    for client in clients:
        poll.register(client, select.POLLIN)
    return len(poll.poll(0))


def test_fetches_of_many_partitions_that_arrive_together_let_others_in(run: Run) -> None:
    """800 of 200 partitions kept the loop for a second."""

    async def story(served: Served) -> None:
        await served.create("t", 200)
        other = await served.another()
        fetching = [sent(served.port, fetch_of(200), 11) for _ in range(CONNECTIONS)]
        await other.send(ApiVersionsRequest(), 0)
        assert answered(fetching) < CONNECTIONS // 2
        while answered(fetching) < CONNECTIONS:
            await other.send(ApiVersionsRequest(), 0)
        for client in fetching:
            client.close()

    run(story)


def test_a_small_fetch_of_a_large_session_lets_others_in(run: Run) -> None:
    """One of 2,000 partitions took 30 ms."""

    async def story(served: Served) -> None:
        await served.create("t", 2_000)
        other = await served.another()
        begun = await served.send(fetch_of(2_000, epoch=0), 11)
        assert begun.session_id
        fetching = sent(served.port, fetch_of(0, session=begun.session_id, epoch=1), 11)
        await other.send(ApiVersionsRequest(), 0)
        assert not answered([fetching])
        fetching.close()
        # It reads and waits as a fetch of few partitions.
        waits = fetch_of(0, session=begun.session_id, epoch=2, max_wait_ms=60_000)
        waiting = sent(served.port, waits, 11)
        await served.until_a_fetch_waits()
        assert not answered([waiting])
        await served.produce("t", b"new", partition=1_999)
        while not answered([waiting]):
            await other.send(ApiVersionsRequest(), 0)
        assert b"new" in waiting.recv(1 << 16)
        waiting.close()

    run(story)
