"""Our transactional producer against real brokers: ours, and two releases of Apache Kafka."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kavka.client import (
    AbortableError,
    Admin,
    Consumer,
    FatalError,
    GroupMetadata,
    NewTopic,
    Producer,
    TopicPartition,
)
from kavka_compat.apache import ApacheKafka
from kavka_compat.brokers import Broker

pytestmark = pytest.mark.compat
_PATIENCE_S = 60


@pytest.fixture(
    scope="module",
    params=["kavka", "apache-4.1", pytest.param("apache-3.9", marks=pytest.mark.long)],
)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    if request.param == "kavka":
        yield request.getfixturevalue("kavka_broker")
    elif request.param == "apache-4.1":
        yield request.getfixturevalue("apache_kafka")
    else:
        with ApacheKafka("3.9").run_broker(tmp_path_factory.mktemp("apache-3.9")) as running:
            yield running


def of(broker: Broker, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap} | {
        name.replace("_", "."): value for name, value in more.items()
    }


async def create(broker: Broker, name: str, partitions: int = 1, **configs: str) -> None:
    async with Admin(of(broker)) as admin:
        new = NewTopic(name, partitions, 1, {k.replace("_", "."): v for k, v in configs.items()})
        outcome = (await admin.create_topics([new]))[name]
        assert not isinstance(outcome, Exception), outcome


async def seen(
    broker: Broker, topic: str, partitions: int = 1, isolation: str = "read_committed"
) -> list[bytes]:
    """Return the values up to the end that the isolation level has."""
    found = []
    async with Consumer(of(broker, isolation_level=isolation)) as consumer:
        parts = [TopicPartition(topic, n) for n in range(partitions)]
        consumer.assign(parts)
        consumer.seek_to_beginning()
        ends = await consumer.end_offsets(parts)
        async with asyncio.timeout(_PATIENCE_S):
            while any(
                [
                    await consumer.position(topic_partition) < end
                    for topic_partition, end in ends.items()
                ]
            ):
                for batch in await consumer.poll(1000):
                    found += [record.value for record in batch.records()]
    return sorted(found)


def test_what_is_committed_is_seen_and_what_is_aborted_is_not(
    broker: Broker, fresh_name: str
) -> None:
    async def main() -> None:
        await create(broker, fresh_name, 3)
        async with Producer(of(broker, transactional_id=fresh_name)) as producer:
            await producer.init_transactions()
            for n in range(20):
                producer.begin_transaction()
                for i in range(3):
                    producer.append(fresh_name, b"%d-%d" % (n, i), b"%d" % i)
                if n % 4 == 3:
                    await producer.flush()
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
        committed = sorted(b"%d-%d" % (n, i) for n in range(20) if n % 4 != 3 for i in range(3))
        assert await seen(broker, fresh_name, 3) == committed
        assert len(await seen(broker, fresh_name, 3, "read_uncommitted")) == 60

    asyncio.run(main())


def test_an_open_transaction_holds_readers_of_committed_records(
    broker: Broker, fresh_name: str
) -> None:
    topic_partition = TopicPartition(fresh_name, 0)

    async def main() -> None:
        await create(broker, fresh_name)
        async with (
            Producer(of(broker)) as plain,
            Producer(of(broker, transactional_id=fresh_name)) as producer,
            Consumer(of(broker, isolation_level="read_committed")) as consumer,
        ):
            await producer.init_transactions()
            await plain.send(fresh_name, b"before")
            producer.begin_transaction()
            await producer.send(fresh_name, b"within")
            await plain.send(fresh_name, b"after")
            consumer.assign([topic_partition])
            consumer.seek_to_beginning()
            async with asyncio.timeout(_PATIENCE_S):
                while await consumer.position(topic_partition) < 1:
                    await consumer.poll(1000)
                assert await consumer.end_offsets([topic_partition]) == {topic_partition: 1}
                assert (
                    await consumer.position(topic_partition),
                    consumer.lag(topic_partition),
                ) == (1, 0)
                await producer.commit_transaction()
                while await consumer.position(topic_partition) < 4:  # the marker has an offset, too
                    await consumer.poll(1000)
                assert await consumer.end_offsets([topic_partition]) == {topic_partition: 4}

    asyncio.run(main())


def test_offsets_are_committed_with_the_records_or_not_at_all(
    broker: Broker, fresh_name: str
) -> None:
    topic_partition = TopicPartition(fresh_name, 0)

    async def main() -> None:
        await create(broker, fresh_name)
        reading = of(broker, group_id=fresh_name, auto_offset_reset="earliest") | {
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        async with Producer(of(broker)) as plain:
            await plain.send_many(fresh_name, [(None, b"%d" % i) for i in range(5)])
        async with (
            Producer(of(broker, transactional_id=fresh_name)) as producer,
            Consumer(reading) as consumer,
        ):
            await producer.init_transactions()
            consumer.subscribe([fresh_name])
            async with asyncio.timeout(_PATIENCE_S):
                while not await consumer.poll(1000):
                    pass
            group = consumer.group_metadata()
            assert (group.group_id, group.generation_id > 0) == (fresh_name, True)
            with pytest.raises(LookupError):
                await send_and_fail(producer, topic_partition, group)
            assert await consumer.committed([topic_partition]) == {topic_partition: None}
            async with producer.transaction():
                await producer.send_offsets_to_transaction({topic_partition: 5}, group)
            assert (await consumer.committed([topic_partition]))[topic_partition].offset == 5  # type: ignore[union-attr]
            stale = group._replace(generation_id=group.generation_id + 7)
            producer.begin_transaction()
            with pytest.raises(AbortableError, match="ILLEGAL_GENERATION"):
                await producer.send_offsets_to_transaction({topic_partition: 1}, stale)
            await producer.abort_transaction()
            assert (await consumer.committed([topic_partition]))[topic_partition].offset == 5  # type: ignore[union-attr]

    asyncio.run(main())


async def send_and_fail(
    producer: Producer, topic_partition: TopicPartition, group: GroupMetadata
) -> None:
    async with producer.transaction():
        await producer.send_offsets_to_transaction({topic_partition: 3}, group)
        raise LookupError


def test_after_a_refused_record_the_next_transaction_has_another_epoch(
    broker: Broker, fresh_name: str
) -> None:
    async def main() -> None:
        await create(broker, fresh_name, max_message_bytes="1000")
        async with Producer(of(broker, transactional_id=fresh_name)) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                producer.append(fresh_name, b"first")
            producer.begin_transaction()
            producer.append(fresh_name, b"x" * 2000)
            with pytest.raises(AbortableError, match="MESSAGE_TOO_LARGE"):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                producer.append(fresh_name, b"second")
        assert await seen(broker, fresh_name) == [b"first", b"second"]
        async with Admin(of(broker)) as admin:
            described = (await admin.describe_transactions([fresh_name]))[fresh_name]
            assert described.producer_epoch > 0  # type: ignore[union-attr]

    asyncio.run(main())


def test_a_new_producer_fences_the_old_one_and_aborts_what_it_left(
    broker: Broker, fresh_name: str
) -> None:
    async def main() -> None:
        await create(broker, fresh_name)
        settings = of(broker, transactional_id=fresh_name)
        async with Producer(settings) as zombie, Producer(settings) as producer:
            await zombie.init_transactions()
            zombie.begin_transaction()
            await zombie.send(fresh_name, b"zombie's")
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send(fresh_name, b"mine")
            with pytest.raises(FatalError, match="PRODUCER_FENCED"):
                await zombie.commit_transaction()
        assert await seen(broker, fresh_name) == [b"mine"]

    asyncio.run(main())


def test_many_partitions_and_several_groups_take_part_in_one_transaction(
    broker: Broker, fresh_name: str
) -> None:
    async def main() -> None:
        await create(broker, fresh_name, 20)
        async with Producer(of(broker, transactional_id=fresh_name)) as producer:
            await producer.init_transactions()
            for n in range(5):
                async with producer.transaction():
                    for partition in range(20):
                        producer.append(fresh_name, b"%d" % n, partition=partition)
                    for group in ("one", "other"):
                        offsets = {TopicPartition(fresh_name, p): n for p in range(20)}
                        name = GroupMetadata(f"{fresh_name}-{group}")
                        await producer.send_offsets_to_transaction(offsets, name)
        assert await seen(broker, fresh_name, 20) == sorted(
            b"%d" % n for n in range(5) for _ in range(20)
        )
        async with Admin(of(broker)) as admin:
            found = await admin.list_group_offsets(f"{fresh_name}-other", require_stable=True)
        assert {committed.offset for committed in found.values()} == {4}

    asyncio.run(main())
