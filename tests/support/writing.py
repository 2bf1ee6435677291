"""A producer at a broker behind injected faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kavka.client import Producer
from kavka.wire.apis import ApiKey
from support.faulty_broker import FaultyBroker

OF_A_TRANSACTION = (
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.PRODUCE,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)
"""The APIs of a transaction after its producer has an id."""


def transactional_broker(path: Path, transaction_version: int) -> FaultyBroker:
    """Return a broker with the topics `t` and `in`, and with a level of transaction.version: from 2 on KIP-890."""
    made = FaultyBroker(path / "data", kavka__transaction__version=str(transaction_version))
    made.create("t")
    made.create("in")
    return made


def asked(broker: FaultyBroker, *apis: ApiKey) -> list[ApiKey]:
    """Return the APIs of the requests that the broker got, of those of a transaction or of `apis`."""
    return [api for api, _ in broker.requests if api in (apis or OF_A_TRANSACTION)]


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
