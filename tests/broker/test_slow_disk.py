"""A disk that is slow: what waits for it counts as in work, answered or not."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from kavka.ids import TopicPartition
from support.one_broker import Run, Served
from support.waiting import until

WHERE = TopicPartition("t", 0)


async def send_silently(served: Served, value: bytes) -> None:
    """Send a batch that is not answered; this ends with the connection."""
    await served.produce("t", value, acks=0)


class Gate:
    """A write that takes as long as the test wants, and all that queue behind it."""

    def __init__(self, served: Served) -> None:
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        writes = served.broker.replica_manager.find(WHERE).log.directory.writes
        self.written = writes.submit(self._wait)

    async def _wait(self) -> None:
        await self._done

    def open(self) -> None:
        self._done.set_result(None)

    def fail(self) -> None:
        self._done.set_exception(OSError(errno.EIO, "Input/output error"))


async def behind(served: Served, count: int) -> tuple[Gate, list[asyncio.Future[None]], Any]:
    """Send batches with acks=0 while the disk stands; return also the broker's end of their connection."""
    await served.topic("t")
    other = await served.another()
    known = set(served.broker.dispatcher.connections)
    gate = Gate(served)
    log = served.broker.replica_manager.find(WHERE).log
    sent = [asyncio.ensure_future(send_silently(other, b"a")) for _ in range(count)]
    await until(lambda: log.log_end_offset == count)
    (connection,) = [one for one in known if one.requests_in_flight]
    return gate, sent, connection  # type: ignore[return-value]


def test_acks_0_counts_as_in_work_until_a_slow_disk_has_it(run: Run) -> None:
    async def story(served: Served) -> None:
        gate, sent, connection = await behind(served, 3)
        assert connection.requests_in_flight == 3
        gate.open()
        await until(lambda: connection.requests_in_flight == 0)
        assert [record.value for record in await served.read("t")] == [b"a"] * 3
        assert connection.is_open
        assert not any(one.done() for one in sent)
        for one in sent:
            one.cancel()

    run(story)


def test_acks_0_that_a_slow_disk_refuses_closes_the_connection(run: Run) -> None:
    async def story(served: Served) -> None:
        gate, sent, connection = await behind(served, 3)
        gate.fail()
        with pytest.raises(OSError, match="Input/output"):
            await gate.written
        ends = await asyncio.wait_for(asyncio.gather(*sent, return_exceptions=True), 60)
        assert all(isinstance(end, ConnectionError) for end in ends)
        assert not connection.is_open

    run(story)
