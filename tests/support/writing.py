"""A producer at a broker behind injected faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kavka.client import Producer
from support.faulty_broker import FaultyBroker


def values(broker: FaultyBroker, topic: str = "t", partition: int = 0) -> list[Any]:
    """Return the values of a partition, in their order."""
    return [value for _, _, value in broker.records(topic, partition)]


def run(
    broker: FaultyBroker,
    settings: dict[str, Any],
    work: Callable[[Producer], Awaitable[Any]],
    **more: Any,
) -> Any:
    """Return what `work(producer)` returns with a producer at the broker."""

    async def main() -> Any:
        async with Producer(settings | more, network=broker) as producer:
            return await work(producer)

    return asyncio.run(main())


def run_transactional(
    broker: FaultyBroker,
    settings: dict[str, Any],
    work: Callable[[Producer], Awaitable[Any]],
    **more: Any,
) -> Any:
    """Return what `work(producer)` returns with a transactional producer, which has its id."""

    async def begun(producer: Producer) -> Any:
        await producer.init_transactions()
        return await work(producer)

    return run(broker, settings, begun, **{"transactional.id": "x"} | more)


async def transact(producer: Producer, *contents: bytes) -> None:
    """Write records to the topic `t` in a transaction of their own."""
    producer.begin_transaction()
    for content in contents:
        producer.append("t", content)
    await producer.commit_transaction()
