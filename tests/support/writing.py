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
