"""A record that cannot be returned costs none of its neighbours, and is named until the user seeks past it."""

import asyncio
import json

import pytest

from kavka.client import (
    Consumer,
    CorruptRecordError,
    ExactlyOnce,
    Producer,
    ProducerRecord,
    RecordDeserializationError,
    TopicPartition,
    blocking,
)
from kavka.wire.apis import ApiKey
from kavka.wire.records.header import walk_complete

AT = TopicPartition("t", 0)
READING = {"auto.offset.reset": "earliest", "group.id": "g"}
JSON = READING | {"value.deserializer": json.loads}


def fill(broker, settings, *values, **more):
    async def main() -> None:
        async with Producer(settings | more, network=broker) as producer:
            for value in values:
                await producer.send("t", value)

    asyncio.run(main())


def fill_one_batch(broker, settings, *values):
    async def main() -> None:
        async with Producer(settings, network=broker) as producer:
            await producer.send_many("t", [(None, value) for value in values])

    asyncio.run(main())


def damage(broker, number):
    """Flip a bit in the last byte of a batch on its way to consumers."""
    at = walk_complete(broker.batches("t"))[number].base_offset

    def damaged(records):
        spoilt = bytearray(records)
        for header in walk_complete(records):
            if header.base_offset == at:
                spoilt[header.end - 1] ^= 1
        return bytes(spoilt)

    broker.replace_records(damaged)


@pytest.mark.slow
@pytest.mark.parametrize("put", [fill, fill_one_batch])
def test_an_iteration_hands_out_what_is_before_and_names_the_record_until_it_is_passed(
    broker, settings, put
):
    put(broker, settings, b"1", b"no JSON", b"3", b"4")

    async def main() -> None:
        seen = []

        async def read_all() -> None:
            async with Consumer(settings | JSON, network=broker) as consumer:
                consumer.subscribe(["t"])
                async for record in consumer:
                    seen.append(record.value)

        with pytest.raises(RecordDeserializationError, match="value for partition t-0 at offset 1"):
            await read_all()
        assert seen == [1]
        assert broker.committed == {("t", 0): 1}

        async with Consumer(settings | JSON, network=broker) as consumer:
            consumer.subscribe(["t"])
            for _ in range(3):
                with pytest.raises(RecordDeserializationError) as caught:
                    async with asyncio.timeout(30):
                        await anext(consumer)
                assert (caught.value.topic_partition, caught.value.offset) == (AT, 1)
                assert isinstance(caught.value.__cause__, json.JSONDecodeError)
                assert await consumer.position(AT) == 1
            consumer.seek(AT, 2)
            assert [(await anext(consumer)).value for _ in range(2)] == [3, 4]

    asyncio.run(main())
    assert broker.committed == {("t", 0): 4}


@pytest.mark.slow
def test_a_poll_hands_out_what_is_before_and_then_names_the_record(broker, settings):
    fill_one_batch(broker, settings, b"1", b"2", b"no JSON", b"4")

    async def main() -> None:
        async with Consumer(settings | JSON, network=broker) as consumer:
            consumer.subscribe(["t"])
            (batches,) = await consumer.poll(10_000)
            assert [record.value for record in batches.records()] == [1, 2]
            assert batches.next_offset == 2
            assert [record.value for record in batches.records()] == [1, 2]
            for _ in range(2):
                (batches,) = await consumer.poll(10_000)
                for _ in range(2):
                    with pytest.raises(RecordDeserializationError, match="offset 2"):
                        batches.records()
            assert await consumer.position(AT) == 2

    asyncio.run(main())
    assert broker.committed == {("t", 0): 2}


def test_a_key_is_named_as_a_key(broker, settings):
    fill(broker, settings, b"1")

    def refuse(key):
        raise ValueError(key)

    async def main() -> None:
        more = READING | {"key.deserializer": refuse}
        async with Consumer(settings | more, network=broker) as consumer:
            consumer.subscribe(["t"])
            with pytest.raises(RecordDeserializationError, match="key for partition t-0"):
                await anext(consumer)

    asyncio.run(main())
    assert broker.committed in ({}, {("t", 0): 0})


@pytest.mark.slow
@pytest.mark.parametrize("read", ["records", "columns"])
def test_batches_before_a_corrupt_one_are_handed_out(broker, settings, read):
    fill(broker, settings, b"1", b"2", b"3", b"4")
    damage(broker, 2)

    async def main() -> None:
        async with Consumer(settings | READING, network=broker) as consumer:
            consumer.subscribe(["t"])
            count = 0
            while count < 2:
                for batches in await consumer.poll(10_000):
                    made = getattr(batches, read)()
                    count += len(made) if read == "records" else made.count
            assert await consumer.position(AT) == count == 2
            for _ in range(2):
                (batches,) = await consumer.poll(10_000)
                with pytest.raises(CorruptRecordError) as caught:
                    getattr(batches, read)()
                assert (caught.value.topic_partition, caught.value.offset) == (AT, 2)
            consumer.seek(AT, 3)
            (batches,) = await consumer.poll(10_000)
            assert [record.value for record in batches.records()] == [b"4"]

    asyncio.run(main())
    assert broker.committed == {("t", 0): 4}


def test_a_batch_whose_header_is_damaged_is_named_after_those_before_it(broker, settings):
    fill(broker, settings, b"1", b"2", b"3")

    def damage_second(records):
        spoilt = bytearray(records)
        for header in walk_complete(records):
            if header.base_offset == 1:
                spoilt[header.position + 16] = 99  # the magic
        return bytes(spoilt)

    broker.replace_records(damage_second)

    async def main() -> None:
        async with Consumer(settings | READING, network=broker) as consumer:
            consumer.subscribe(["t"])
            assert (await anext(consumer)).value == b"1"
            for _ in range(2):
                with pytest.raises(CorruptRecordError, match="t-0 at offset 1 is invalid"):
                    async with asyncio.timeout(30):
                        await anext(consumer)
            consumer.seek(AT, 2)
            assert (await anext(consumer)).value == b"3"

    asyncio.run(main())
    assert broker.committed == {("t", 0): 3}


def test_exactly_once_commits_nothing_beyond_a_record_that_it_cannot_read(broker, settings):
    fill_one_batch(broker, settings, b"1", b"no JSON", b"3")

    async def main() -> None:
        consuming = (
            settings | JSON | {"enable.auto.commit": False, "isolation.level": "read_committed"}
        )
        async with (
            Consumer(consuming, network=broker) as consumer,
            Producer(settings | {"transactional.id": "x"}, network=broker) as producer,
        ):
            consumer.subscribe(["t"])
            copied = []

            def transform(batches):
                for record in batches.records():
                    copied.append(record.value)
                    yield ProducerRecord("t", b"%d" % record.value)

            loop = ExactlyOnce(consumer, producer, transform)
            with pytest.raises(RecordDeserializationError, match="offset 1"):
                async with asyncio.timeout(30):
                    await loop.run()
            assert copied == [1]

    asyncio.run(main())
    (sent,) = broker.seen(ApiKey.TXN_OFFSET_COMMIT)
    assert [p.committed_offset for t in sent.topics for p in t.partitions] == [1]


def test_an_exception_in_the_body_leaves_the_record_that_was_worked_on(broker, settings):
    fill_one_batch(broker, settings, *[b"%d" % n for n in range(100)])

    async def main() -> None:
        async with Consumer(settings | READING, network=broker) as consumer:
            consumer.subscribe(["t"])
            async for record in consumer:
                if record.offset == 4:
                    raise RuntimeError("the fifth")

    with pytest.raises(RuntimeError, match="the fifth"):
        asyncio.run(main())
    assert broker.committed == {("t", 0): 4}


def test_an_exception_in_the_body_of_a_kept_iterator_leaves_the_record_too(broker, settings):
    fill_one_batch(broker, settings, *[b"%d" % n for n in range(100)])

    def read_all() -> None:
        with blocking.Consumer(settings | READING, network=broker) as consumer:
            consumer.subscribe(["t"])
            kept = iter(consumer)
            for record in kept:
                if record.offset == 4:
                    raise RuntimeError("the fifth")

    with pytest.raises(RuntimeError, match="the fifth"):
        read_all()
    assert broker.committed == {("t", 0): 4}


def test_closing_after_the_exception_commits_no_record_that_was_not_reached(broker, settings):
    fill_one_batch(broker, settings, *[b"%d" % n for n in range(100)])
    consumer = blocking.Consumer(settings | READING, network=broker)
    consumer.subscribe(["t"])
    kept = iter(consumer)
    try:
        for record in kept:
            if record.offset == 4:
                raise RuntimeError("the fifth")
    except RuntimeError:
        pass
    consumer.close()
    assert broker.committed == {("t", 0): 5}


@pytest.mark.slow
def test_the_blocking_consumer_names_the_record_until_it_is_passed(broker, settings):
    fill_one_batch(broker, settings, b"1", b"no JSON", b"3")
    with blocking.Consumer(settings | JSON, network=broker) as consumer:
        consumer.subscribe(["t"])
        assert next(iter(consumer)).value == 1
        for _ in range(2):
            with pytest.raises(RecordDeserializationError, match="offset 1"):
                next(iter(consumer))
        (batches,) = consumer.poll(10_000)
        with pytest.raises(RecordDeserializationError, match="offset 1"):
            batches.records()
        assert consumer.position(AT) == 1
        consumer.seek(AT, 2)
        (batches,) = consumer.poll(10_000)
        assert [record.value for record in batches.records()] == [3]
    assert broker.committed == {("t", 0): 3}
