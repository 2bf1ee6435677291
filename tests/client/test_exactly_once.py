"""The loop of consume, transform, produce on a broker in this process."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kavka.client import (
    Admin,
    Consumer,
    ExactlyOnce,
    FatalError,
    NewTopic,
    Producer,
    ProducerRecord,
    TopicPartition,
)
from kavka.testing.local_cluster import LocalCluster

_PATIENCE_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }
    directory = tmp_path_factory.mktemp("exactly-once")
    with LocalCluster(directory, brokers=1, settings=settings) as running:
        yield running


@pytest.fixture
def name(request):
    return request.node.name.removeprefix("test_")[:40]


def settings_of(cluster, **more):
    return {"bootstrap.servers": cluster.bootstrap_servers} | more


def reading_of(cluster, group, **more):
    return settings_of(cluster) | {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        **more,
    }


def writing_of(cluster, name):
    return settings_of(cluster) | {"transactional.id": name}


async def create(cluster, name, partitions=1, records=10):
    """Make the topics `name`-in, with records, and `name`-out."""
    async with Admin(settings_of(cluster)) as admin:
        topics = [NewTopic(f"{name}-{way}", partitions, 1) for way in ("in", "out")]
        for outcome in (await admin.create_topics(topics)).values():
            assert not isinstance(outcome, Exception), outcome
    async with Producer(settings_of(cluster)) as producer:
        for i in range(records):
            await producer.send(f"{name}-in", b"%d" % i, partition=i % partitions)


async def committed(cluster, topic, partitions=1):
    """Return what readers of committed records see."""
    reading = settings_of(cluster) | {"isolation.level": "read_committed"}
    found = []
    async with Consumer(reading) as consumer:
        parts = [TopicPartition(topic, n) for n in range(partitions)]
        consumer.assign(parts)
        consumer.seek_to_beginning()
        ends = await consumer.end_offsets(parts)
        while any(
            [
                await consumer.position(topic_partition) < end
                for topic_partition, end in ends.items()
            ]
        ):
            for batch in await consumer.poll(1000):
                found += [record.value for record in batch.records()]
    return sorted(found)


def expected(records=10):
    return sorted(b"%d!" % i for i in range(records))


def shout(name):
    def transform(batch):
        for record in batch.records():
            yield ProducerRecord(f"{name}-out", record.value + b"!")

    return transform


async def until_committed(loop, group_consumer, topic_partition, offset):
    """Step until the group has read so far."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            committed = (await group_consumer.committed([topic_partition]))[topic_partition]
            if committed is not None and committed.offset >= offset:
                return
            await loop.step(500)


def test_results_and_offsets_are_committed_together(cluster, name):
    async def main() -> None:
        await create(cluster, name)
        async with (
            Consumer(reading_of(cluster, name)) as consumer,
            Producer(writing_of(cluster, name)) as producer,
        ):
            consumer.subscribe([f"{name}-in"])
            await producer.init_transactions()
            loop = ExactlyOnce(consumer, producer, shout(name))
            await until_committed(loop, consumer, TopicPartition(f"{name}-in", 0), 10)
        assert await committed(cluster, f"{name}-out") == expected()

    asyncio.run(main())


def test_what_was_aborted_is_read_again(cluster, name):
    async def main() -> None:
        await create(cluster, name)
        tries = []

        async def stumble(batch):
            results = list(shout(name)(batch))
            tries.append(len(results))
            if len(tries) == 1:
                raise LookupError("the first time")
            return results

        async with (
            Consumer(reading_of(cluster, name)) as consumer,
            Producer(writing_of(cluster, name)) as producer,
        ):
            consumer.subscribe([f"{name}-in"])
            await producer.init_transactions()
            loop = ExactlyOnce(consumer, producer, stumble)
            with pytest.raises(LookupError):
                await until_committed(loop, consumer, TopicPartition(f"{name}-in", 0), 10)
            await until_committed(loop, consumer, TopicPartition(f"{name}-in", 0), 10)
        assert await committed(cluster, f"{name}-out") == expected()
        assert sum(tries) >= 11, "some were transformed twice"

    asyncio.run(main())


def test_a_member_that_lost_its_partitions_commits_nothing(cluster, name):
    """KIP-447: the group, not the transactional id, keeps a zombie out."""

    async def main() -> None:
        await create(cluster, name)
        reached, resumed = asyncio.Event(), asyncio.Event()

        async def slow(batch):
            reached.set()
            await resumed.wait()
            return list(shout(name)(batch))

        # Its heartbeats continue; it leaves the group because it does not poll.
        zombies = reading_of(cluster, name) | {
            "max.poll.interval.ms": 500,
            "heartbeat.interval.ms": 50,
            "session.timeout.ms": 6000,
        }
        async with (
            Consumer(zombies) as zombie,
            Producer(writing_of(cluster, f"{name}-zombie")) as zombies_producer,
            Consumer(reading_of(cluster, name)) as heir,
            Producer(writing_of(cluster, f"{name}-heir")) as heirs_producer,
        ):
            zombie.subscribe([f"{name}-in"])
            await zombies_producer.init_transactions()
            stuck = asyncio.create_task(
                step_until(ExactlyOnce(zombie, zombies_producer, slow), reached)
            )
            await asyncio.wait_for(reached.wait(), _PATIENCE_S)
            heir.subscribe([f"{name}-in"])
            await heirs_producer.init_transactions()
            loop = ExactlyOnce(heir, heirs_producer, shout(name))
            await until_committed(loop, heir, TopicPartition(f"{name}-in", 0), 10)
            resumed.set()
            assert await asyncio.wait_for(stuck, _PATIENCE_S) == 0, "the transaction was aborted"
        assert await committed(cluster, f"{name}-out") == expected()

    asyncio.run(main())


async def step_until(loop, reached):
    """Step until something was polled; return what that step committed."""
    while True:
        done = await loop.step(500)
        if reached.is_set():
            return done


def test_a_fenced_producer_ends_the_loop(cluster, name):
    async def main() -> None:
        await create(cluster, name)
        async with (
            Consumer(reading_of(cluster, name)) as consumer,
            Producer(writing_of(cluster, name)) as producer,
            Producer(writing_of(cluster, name)) as successor,
        ):
            consumer.subscribe([f"{name}-in"])
            loop = ExactlyOnce(consumer, producer, shout(name))
            await producer.init_transactions()
            await successor.init_transactions()
            with pytest.raises(FatalError, match="PRODUCER_FENCED"):
                await until_committed(loop, consumer, TopicPartition(f"{name}-in", 0), 10)
        assert await committed(cluster, f"{name}-out") == []

    asyncio.run(main())


def test_it_runs_until_it_is_stopped(cluster, name):
    async def main() -> None:
        await create(cluster, name)
        async with (
            Consumer(reading_of(cluster, name)) as consumer,
            Producer(writing_of(cluster, name)) as producer,
        ):
            consumer.subscribe([f"{name}-in"])

            def last_time(batch):
                loop.stop()
                return shout(name)(batch)

            loop = ExactlyOnce(consumer, producer, last_time)
            await asyncio.wait_for(loop.run(), _PATIENCE_S)
        assert len(await committed(cluster, f"{name}-out")) > 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("setting", "value"),
    [("enable.auto.commit", True), ("isolation.level", "read_uncommitted")],
)
def test_a_consumer_that_would_break_the_promise_is_refused(
    cluster: Any, setting: str, value: bool | str
) -> None:
    consumer = Consumer(reading_of(cluster, "g") | {setting: value})
    producer = Producer(writing_of(cluster, "g"))
    with pytest.raises(ValueError, match=setting.replace(".", r"\.")):
        ExactlyOnce(consumer, producer, lambda batch: [])
