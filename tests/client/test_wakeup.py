"""The event that a poll waits for, and the order of a consumer's next fetch and what its program produces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kavka.client import Consumer, Producer, TopicPartition
from kavka.client.consumer.fetch.wakeup import Wakeup
from kavka.wire.apis import ApiKey


async def ticks(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_all_that_wait_go_on_and_later_ones_do_until_it_is_cleared() -> None:
    async def main() -> None:
        wakeup = Wakeup(asyncio.get_running_loop())
        waiting = [asyncio.create_task(wakeup.wait(60)) for _ in range(3)]
        await ticks(1)
        waiting[1].cancel()
        wakeup.set()
        wakeup.set()
        await asyncio.wait(waiting)
        assert [task.cancelled() for task in waiting] == [False, True, False]
        await wakeup.wait(60)
        wakeup.clear()
        last = asyncio.create_task(wakeup.wait(60))
        await ticks(5)
        assert not last.done()
        wakeup.set()
        await last

    asyncio.run(main())


def test_a_wait_ends_with_its_time() -> None:
    async def main() -> None:
        wakeup = Wakeup(asyncio.get_running_loop())
        await wakeup.wait(0)
        assert not wakeup.is_set

    asyncio.run(main())


def test_those_that_wait_go_on_in_the_callback_that_is_scheduled() -> None:
    async def main() -> None:
        wakeup = Wakeup(asyncio.get_running_loop())
        scheduled: list[Callable[[], None]] = []
        waiting = asyncio.create_task(wakeup.wait(60))
        await ticks(1)
        wakeup.schedule = scheduled.append
        wakeup.set()
        await ticks(3)
        assert not waiting.done()
        asyncio.get_running_loop().call_soon(scheduled.pop())
        await waiting

    asyncio.run(main())


def test_a_program_at_the_end_of_the_log_produces_before_its_consumer_fetches_again(
    broker: Any, settings: dict[str, Any]
) -> None:
    async def main() -> None:
        async with (
            Producer(settings, network=broker) as producer,
            Consumer(settings | {"auto.offset.reset": "earliest"}, network=broker) as consumer,
        ):
            consumer.assign([TopicPartition("t", 0)])
            await producer.send("t", b"first")
            for number in range(5):
                assert (await anext(consumer)).offset == number
                producer.append("t", b"next")
            await producer.flush()

    asyncio.run(main())
    asked = [api for api, _ in broker.requests if api in (ApiKey.PRODUCE, ApiKey.FETCH)]
    assert "".join("P" if api == ApiKey.PRODUCE else "f" for api in asked).count("PfPfPfPf") == 1


def test_a_poll_fetches_on_before_it_returns_only_where_there_is_more_to_read(
    broker: Any, settings: dict[str, Any]
) -> None:
    async def main() -> list[bool]:
        async with Producer(settings | {"batch.size": 9000}, network=broker) as producer:
            await producer.send_many("t", [(None, b"x" * 1000)] * 100)
        small = {"auto.offset.reset": "earliest", "max.partition.fetch.bytes": 30_000}
        fetches: list[bool] = []
        async with Consumer(settings | small, network=broker) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            seen = 0
            while seen < 100:
                for batches in await consumer.poll(60_000):
                    seen += len(batches.records())
                fetches.append(bool(consumer._fetcher._in_flight))
        return fetches

    *before, last = asyncio.run(main())
    assert before
    assert all(before)
    assert not last
