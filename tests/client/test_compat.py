"""The clients against real brokers, Apache Kafka's and ours, and against other clients."""

import asyncio
from typing import Any

import pytest

from kavka.client import (
    Admin,
    Consumer,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    Producer,
    TopicPartition,
)
from kavka.client.admin import ConfigOp, ConfigResource, ResourceType
from kavka.errors import ErrorCode
from kavka_compat.brokers import Broker
from support.waiting import eventually

pytestmark = pytest.mark.compat


def at(topic, partition=0):
    return TopicPartition(topic, partition)


def of(broker, **more):
    return {"bootstrap.servers": broker.bootstrap} | {
        k.replace("_", "."): v for k, v in more.items()
    }


async def create(broker, name, partitions=1):
    async with Admin(of(broker)) as admin:
        outcome = (await admin.create_topics([NewTopic(name, partitions, 1)]))[name]
        assert not isinstance(outcome, Exception), outcome


async def read(consumer, count):
    found: list[Any] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            for batches in await consumer.poll(1000):
                found += batches.records()
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed(any_broker: Broker, fresh_name: str, codec: str) -> None:
    async def main():
        await create(any_broker, fresh_name, 3)
        async with Producer(of(any_broker, compression_type=codec)) as producer:
            await producer.send_many(
                fresh_name, [(b"%d" % (i % 50), b"%d" % i) for i in range(5000)]
            )
            await producer.send(fresh_name, None, b"tombstone", headers=[("h", b"1"), ("h", None)])
        async with Consumer(of(any_broker, auto_offset_reset="earliest")) as consumer:
            consumer.assign([at(fresh_name, p) for p in range(3)])
            return await read(consumer, 5001)

    records = asyncio.run(main())
    assert sorted(int(r.value) for r in records if r.value is not None) == list(range(5000))
    (tombstone,) = [r for r in records if r.value is None]
    assert (tombstone.key, tombstone.headers) == (b"tombstone", (("h", b"1"), ("h", None)))
    by_key: dict[Any, Any] = {}
    for record in records:
        by_key.setdefault(record.key, []).append(record)
    for key, group in by_key.items():
        assert len({r.partition for r in group}) == 1, key
        if key != b"tombstone":
            assert [int(r.value) for r in group] == sorted(int(r.value) for r in group)


def test_confluent_kafka_reads_what_we_write_and_we_what_it_writes(
    any_broker: Broker, fresh_name: str
) -> None:
    from confluent_kafka import Consumer as TheirConsumer
    from confluent_kafka import Producer as TheirProducer

    async def ours() -> None:
        await create(any_broker, fresh_name)
        async with Producer(of(any_broker)) as producer:
            await producer.send_many(fresh_name, [(b"k", b"ours-%d" % i) for i in range(500)])

    asyncio.run(ours())
    their_producer = TheirProducer(
        {"bootstrap.servers": any_broker.bootstrap, "compression.type": "lz4"}
    )
    for i in range(500):
        their_producer.produce(fresh_name, b"theirs-%d" % i)
    assert their_producer.flush(30) == 0
    their_consumer = TheirConsumer(
        {
            "bootstrap.servers": any_broker.bootstrap,
            "group.id": fresh_name,
            "auto.offset.reset": "earliest",
        }
    )
    their_consumer.subscribe([fresh_name])
    seen: list[Any] = []
    while len(seen) < 1000:
        message = their_consumer.poll(30)
        assert message is not None
        assert message.error() is None
        seen.append(message.value())
    their_consumer.close()

    async def read_ours():
        async with Consumer(of(any_broker, auto_offset_reset="earliest")) as consumer:
            consumer.assign([at(fresh_name)])
            return [r.value for r in await read(consumer, 1000)]

    assert asyncio.run(read_ours()) == seen


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_two_members_share_and_one_takes_over(
    any_broker: Broker, fresh_name: str, strategy: str
) -> None:
    group = of(
        any_broker,
        group_id=fresh_name,
        auto_offset_reset="earliest",
        session_timeout_ms=6000,
        heartbeat_interval_ms=100,
    ) | {"partition.assignment.strategy": strategy}

    async def settle(consumers, counts):
        async with asyncio.timeout(60):
            while [len(c.assignment()) for c in consumers] != counts:
                await asyncio.gather(*(c.poll(100) for c in consumers))

    async def main() -> None:
        await create(any_broker, fresh_name, 4)
        async with Consumer(group) as first:
            first.subscribe([fresh_name])
            await settle([first], [4])
            async with Consumer(group) as second:
                second.subscribe([fresh_name])
                await settle([first, second], [2, 2])
                assert not set(first.assignment()) & set(second.assignment())
            await settle([first], [4])

    asyncio.run(main())


def test_a_group_shared_with_confluent_kafka_agrees_on_cooperative_sticky(
    any_broker: Broker, fresh_name: str
) -> None:
    from confluent_kafka import Consumer as TheirConsumer

    async def main() -> None:
        await create(any_broker, fresh_name, 4)
        theirs = TheirConsumer(
            {
                "bootstrap.servers": any_broker.bootstrap,
                "group.id": fresh_name,
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 100,
            }
        )
        ours = of(
            any_broker, group_id=fresh_name, session_timeout_ms=6000, heartbeat_interval_ms=100
        )
        ours["partition.assignment.strategy"] = "cooperative-sticky"
        theirs.subscribe([fresh_name])
        try:
            async with Consumer(ours) as consumer, asyncio.timeout(60):
                consumer.subscribe([fresh_name])
                while (len(consumer.assignment()), len(theirs.assignment())) != (2, 2):
                    await asyncio.gather(consumer.poll(100), asyncio.to_thread(theirs.poll, 0.1))
        finally:
            theirs.close()

    asyncio.run(main())


def test_offsets_are_committed_listed_and_deleted(any_broker: Broker, fresh_name: str) -> None:
    async def main() -> None:
        await create(any_broker, fresh_name)
        group = of(any_broker, group_id=fresh_name, auto_offset_reset="earliest")
        async with Producer(of(any_broker)) as producer:
            await producer.send_many(fresh_name, [(None, b"%d" % i) for i in range(10)])
        async with Consumer(group | {"max.poll.records": 4}) as consumer:
            consumer.subscribe([fresh_name])
            assert len(await read(consumer, 4)) == 4
            await consumer.commit()
            assert (await consumer.committed([at(fresh_name)]))[at(fresh_name)].offset == 4
            assert consumer.lag(at(fresh_name)) == 6
        async with Admin(of(any_broker)) as admin:
            found = (await admin.describe_groups([fresh_name]))[fresh_name]
            assert (found.state, found.members) == ("Empty", [])
            assert fresh_name in [g.group_id for g in await admin.list_groups()]
            assert (await admin.alter_group_offsets(fresh_name, {at(fresh_name): 7})) == {
                at(fresh_name): None
            }
            offsets = await admin.list_group_offsets(fresh_name)
            assert offsets[at(fresh_name)].offset == 7
            await admin.delete_group_offsets(fresh_name, [at(fresh_name)])
            assert await admin.list_group_offsets(fresh_name) == {}
            # A group without members and offsets is gone: with Apache Kafka 3.9 at once, with 4.1 later.
            deleted = (await admin.delete_groups([fresh_name]))[fresh_name]
            assert getattr(deleted, "code", None) in (None, ErrorCode.GROUP_ID_NOT_FOUND)

    asyncio.run(main())


def test_the_admin_client_does_what_the_tools_need(any_broker: Broker, fresh_name: str) -> None:
    async def main() -> None:
        async with Admin(of(any_broker)) as admin:
            await create(any_broker, fresh_name, 2)
            again = await admin.create_topics([NewTopic(fresh_name, 1, 1)])
            assert again[fresh_name].code is ErrorCode.TOPIC_ALREADY_EXISTS
            assert await admin.create_partitions({fresh_name: NewPartitions(3)}) == {
                fresh_name: None
            }
            await eventually(admin.list_topics, lambda names: fresh_name in names)
            described = await eventually(
                lambda: admin.describe_topics([fresh_name, fresh_name + "-not"]),
                lambda found: len(found[fresh_name].partitions) == 3,
            )
            refused = described[fresh_name + "-not"]
            assert refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert len((await admin.describe_cluster()).brokers) == 1
            (features,) = (await admin.api_versions()).values()
            assert len(features.api_keys) > 20

            topic = ConfigResource(ResourceType.TOPIC, fresh_name)
            changed = await admin.incremental_alter_configs(
                {topic: [ConfigOp("retention.ms", "77")]}
            )
            assert changed == {topic: None}
            await eventually(
                lambda: admin.describe_configs({topic: ["retention.ms"]}),
                lambda found: [(e.value, e.is_default) for e in found[topic]] == [("77", False)],
            )

            async with Producer(of(any_broker)) as producer:
                for i in range(10):
                    await producer.send(fresh_name, b"x", partition=0, timestamp_ms=1000 + i)
            wanted = {at(fresh_name): OffsetSpec.LATEST, at(fresh_name, 1): OffsetSpec.EARLIEST}
            offsets = await admin.list_offsets(wanted)
            assert [offset.offset for offset in offsets.values()] == [10, 0]
            by_time = await admin.list_offsets({at(fresh_name): 1004})
            assert by_time[at(fresh_name)].offset == 4
            youngest = await admin.list_offsets({at(fresh_name): OffsetSpec.MAX_TIMESTAMP})
            assert youngest[at(fresh_name)].offset == 9
            assert await admin.delete_records({at(fresh_name): 3}) == {at(fresh_name): 3}
            (directories,) = (await admin.describe_log_dirs()).values()
            sizes = {r: size for d in directories.values() for r, size in d.replicas.items()}
            assert sizes[at(fresh_name)].size > 0
            assert await admin.delete_topics([fresh_name]) == {fresh_name: None}

    asyncio.run(main())


def test_a_topic_is_created_by_producing_to_it(any_broker: Broker, fresh_name: str) -> None:
    async def main():
        async with Producer(of(any_broker)) as producer:
            producer.append(fresh_name, b"first")
            await producer.flush()
            return await producer.send(fresh_name, b"second", partition=0)

    assert asyncio.run(main()).topic == fresh_name


def test_seeking_by_time_finds_the_record(any_broker: Broker, fresh_name: str) -> None:
    async def main():
        await create(any_broker, fresh_name)
        async with Producer(of(any_broker)) as producer:
            for i in range(10):
                await producer.send(
                    fresh_name, b"%d" % i, timestamp_ms=1_700_000_000_000 + i * 1000
                )
        async with Consumer(of(any_broker)) as consumer:
            consumer.assign([at(fresh_name)])
            await consumer.seek_to_time({at(fresh_name): 1_700_000_004_500})
            (record, *_) = await read(consumer, 5)
            return record.value

    assert asyncio.run(main()) == b"5"
