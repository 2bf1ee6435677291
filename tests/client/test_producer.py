import asyncio
from contextlib import suppress
from typing import Any

import pytest

import kavka.client.consumer
from kavka.client import BufferFull, Producer, TopicPartition
from kavka.errors import ErrorCode, KafkaError
from kavka.wire.apis import ApiKey
from support.faults import LOSE_REQUEST, LOSE_RESPONSE
from support.writing import run, values


def test_a_record_is_written_and_its_place_returned(broker, settings):
    async def work(producer):
        first = await producer.send("t", b"a", b"k")
        second = await producer.send("t", b"b", headers=[("h", b"1")], timestamp_ms=5)
        return first, second

    first, second = run(broker, settings, work)
    assert (first.topic, first.partition, first.offset) == ("t", 0, 0)
    assert (second.offset, second.timestamp_ms) == (1, 5)
    assert broker.records("t") == [(0, b"k", b"a"), (1, None, b"b")]


def test_appended_records_share_batches_and_flush_waits_for_them(broker, settings):
    async def work(producer):
        for i in range(1000):
            assert producer.append("t", b"%d" % i) is None
        await producer.flush()

    run(broker, settings, work)
    assert values(broker) == [b"%d" % i for i in range(1000)]
    assert len(broker.seen(ApiKey.PRODUCE)) < 10


@pytest.mark.parametrize("fault", [LOSE_REQUEST, LOSE_RESPONSE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_records_arrive_once_and_in_order_whatever_is_lost(broker, settings, fault):
    broker.faults[ApiKey.PRODUCE].extend([None, fault, None, fault, fault])

    async def work(producer):
        for i in range(300):
            producer.append("t", b"%d" % i)
            if i % 10 == 0:
                await asyncio.sleep(0)
        await producer.flush()

    run(broker, settings, work, **{"batch.size": 200})
    assert values(broker) == [b"%d" % i for i in range(300)]


def test_a_broker_that_becomes_leader_between_two_batches_does_not_reorder_them(broker, settings):
    broker.faults[ApiKey.PRODUCE].append(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async def work(producer):
        await producer.send_many("t", [(None, b"%d" % i) for i in range(100)])

    run(broker, settings, work, **{"batch.size": 200})
    assert values(broker) == [b"%d" % i for i in range(100)]


def test_without_idempotence_a_lost_response_doubles_records(broker, settings):
    broker.faults[ApiKey.PRODUCE].append(LOSE_RESPONSE)

    async def work(producer):
        await producer.send("t", b"a")

    run(broker, settings, work, **{"enable.idempotence": False})
    assert values(broker) == [b"a", b"a"]


def test_a_refusal_for_good_fails_its_records_and_the_next_ones_go_on(broker, settings):
    broker.faults[ApiKey.PRODUCE].extend([None, ErrorCode.INVALID_RECORD])

    async def work(producer):
        await producer.send("t", b"a")
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            await producer.send("t", b"bad")
        await producer.send("t", b"c")

    run(broker, settings, work)
    assert values(broker) == [b"a", b"c"]


def test_a_batch_that_is_too_large_is_split_until_it_fits(broker, settings):
    broker.alter("t", max__message__bytes="2000")

    async def work(producer):
        futures = [producer.append("t", b"%050d" % i, want_future=True) for i in range(200)]
        return [m.offset for m in await asyncio.gather(*futures)]

    offsets = run(broker, settings, work)
    assert offsets == list(range(200))
    assert values(broker) == [b"%050d" % i for i in range(200)]


def test_a_single_record_that_is_too_large_fails(broker, settings):
    broker.alter("t", max__message__bytes="100")

    async def work(producer):
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await producer.send("t", b"x" * 200)

    run(broker, settings, work)


def test_unwatched_failures_are_raised_by_flush_once(broker, settings):
    broker.faults[ApiKey.PRODUCE].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async def work(producer):
        producer.append("t", b"a")
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            await producer.flush()
        await producer.flush()

    run(broker, settings, work)


def test_delivery_timeout_ends_the_retries(broker, settings):
    broker.faults[ApiKey.PRODUCE].extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 10_000)

    async def work(producer):
        with pytest.raises(
            (TimeoutError, KafkaError), match=r"Expiring 1 record|NOT_ENOUGH_REPLICAS"
        ):
            await producer.send("t", b"a")

    run(broker, settings, work, **{"delivery.timeout.ms": 60, "request.timeout.ms": 50})


def test_records_wait_for_a_topic_that_is_not_known_yet_and_keep_their_order(broker, settings):
    async def work(producer):
        for i in range(50):
            producer.append("late", b"%d" % i)
        broker.create("late")
        await producer.flush()

    run(broker, settings, work)
    assert values(broker, "late") == [b"%d" % i for i in range(50)]


def test_a_topic_that_never_appears_fails_its_records(broker, settings):
    async def work(producer):
        with pytest.raises(TimeoutError, match="Topic nowhere not present in metadata after 30 ms"):
            await producer.append("nowhere", b"a", want_future=True)
        with pytest.raises(TimeoutError, match="Topic nowhere not present"):
            await producer.send("nowhere", b"a")

    run(broker, settings, work, **{"max.block.ms": 30})


def test_records_wait_for_a_topic_that_too_few_brokers_could_create(broker, settings, caplog):
    """As Java's producer: the brokers that are missing may come back in `max.block.ms`."""
    broker.refuse_topics({"late": ErrorCode.INVALID_REPLICATION_FACTOR})

    async def work(producer):
        refused = producer.append("late", b"a", want_future=True)
        expected = "topic not usable yet topic=late reason=INVALID_REPLICATION_FACTOR"
        await asyncio.to_thread(broker.until, lambda: expected in caplog.text)
        broker.replacements.clear()
        broker.create("late")
        await refused

    run(broker, settings, work)
    assert values(broker, "late") == [b"a"]


def test_the_reason_of_a_topic_that_is_never_usable_is_named(broker, settings):
    broker.refuse_topics({"nowhere": ErrorCode.INVALID_REPLICATION_FACTOR})

    async def work(producer):
        expected = "Topic nowhere not present in metadata after 30 ms. INVALID_REPLICATION_FACTOR"
        with pytest.raises(TimeoutError, match=expected):
            await producer.send("nowhere", b"a")

    run(broker, settings, work, **{"max.block.ms": 30})


def test_append_says_when_the_buffer_is_full_and_room_comes_back(broker, settings):
    async def work(producer):
        await producer.send("t", b"")
        count = 0
        with suppress(BufferFull):
            for _ in range(1000):
                producer.append("t", b"x" * 100)
                count += 1
        assert 10 < count < 1000
        await producer.wait_for_memory()
        producer.append("t", b"last")
        await producer.flush()
        return count

    count = run(broker, settings, work, **{"buffer.memory": 8000, "batch.size": 1000})
    assert len(values(broker)) == count + 2


def test_a_large_record_waits_until_there_is_room_for_it(broker, settings):
    async def work(producer):
        await producer.send("t", b"")
        for _ in range(6):
            producer.append("t", b"x" * 900)
        return await producer.send("t", b"y" * 5000)

    run(broker, settings, work, **{"buffer.memory": 8000, "batch.size": 1000})
    assert values(broker)[1:] == [b"x" * 900] * 6 + [b"y" * 5000]


def test_records_of_unknown_topics_are_bounded_by_the_buffer(broker, settings):
    async def work(producer):
        def append_much() -> None:
            for _ in range(1000):
                producer.append("nowhere", b"x" * 100)

        with pytest.raises(BufferFull):
            append_much()
        with pytest.raises(TimeoutError, match="Failed to allocate memory"):
            await producer.wait_for_memory()
        with pytest.raises(TimeoutError, match="Topic nowhere not present"):
            await producer.flush()
        await producer.wait_for_memory()
        return await producer.send("t", b"a")

    more = {"max.block.ms": 300, "buffer.memory": 8000, "batch.size": 1000}
    assert run(broker, settings, work, **more).offset == 0


def test_what_waits_for_room_is_refused_when_the_producer_closes(broker, settings):
    import pyarrow as pa

    async def main():
        producer = Producer(settings | {"buffer.memory": 2000, "batch.size": 1000}, network=broker)
        await producer.start()
        await producer.send("t", b"")
        many = asyncio.create_task(producer.send_many("t", [(None, b"x" * 900)] * 50))
        table = asyncio.create_task(
            producer.send_table("t", pa.table({"value": [b"y" * 900] * 50}))
        )
        await asyncio.sleep(0)
        await producer.close()
        return await asyncio.gather(many, table, return_exceptions=True)

    outcomes = asyncio.run(asyncio.wait_for(main(), 60))
    assert [str(outcome) for outcome in outcomes] == ["the producer is not open"] * 2


def test_records_with_keys_have_the_headers_that_they_had_when_they_were_appended(broker, settings):
    headers = [("kind", b"order"), ("none", None)]

    async def work(producer):
        await producer.partitions_for("t")
        for number in range(3):
            producer.append("t", b"%d" % number, b"k", headers=headers)
        headers.clear()
        producer.append("t", b"3", b"k", headers={"kind": b"as a dictionary"})
        producer.append("t", b"4", b"k", headers=headers)
        await producer.flush()

    async def read():
        given = settings | {"auto.offset.reset": "earliest"}
        async with kavka.client.consumer.Consumer(given, network=broker) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            (batches,) = await consumer.poll(10_000)
            return [record.headers for record in batches.records()]

    run(broker, settings, work)
    packed = [("kind", b"order"), ("none", None)]
    assert [list(one) for one in asyncio.run(read())] == [
        packed,
        packed,
        packed,
        [("kind", b"as a dictionary")],
        [],
    ]


def test_a_record_with_a_key_is_refused_by_a_closed_producer(broker, settings):
    async def main():
        producer = Producer(settings, network=broker)
        async with producer:
            producer.append("t", b"1", b"k")
            await producer.flush()
            producer.append("t", b"2", b"k")
        with pytest.raises(RuntimeError, match="not open"):
            producer.append("t", b"3", b"k")

    asyncio.run(main())
    assert values(broker) == [b"1", b"2"]


def test_headers_and_timestamps_that_no_batch_can_hold_are_refused_at_once(broker, settings):
    async def work(producer):
        with pytest.raises(TypeError, match="the header is str, not bytes: encode it"):
            producer.append("t", b"a", headers=[("h", "text")])
        with pytest.raises(TypeError, match="the name of a header is bytes"):
            producer.append("t", b"a", headers=[(b"h", b"")])
        with pytest.raises(ValueError, match="Invalid timestamp: -1"):
            producer.append("t", b"a", timestamp_ms=-1)
        with pytest.raises(TypeError, match="the timestamp is float, not int"):
            await producer.send_many("t", [(None, b"a")], timestamp_ms=1.5)
        return await producer.send("t", b"b")

    assert run(broker, settings, work).offset == 0


def test_send_many_returns_the_ranges_of_its_records_only(broker, settings):
    broker.create("four", 4)

    async def work(producer):
        producer.append("four", b"other", b"k")
        pairs = [(b"key-%d" % (i % 7), b"%d" % i) for i in range(500)] + [(None, b"n")] * 100
        return await producer.send_many("four", pairs)

    ranges = run(broker, settings, work, **{"batch.size": 500})
    assert sum(r.record_count for r in ranges) == 600
    written = [value for r in ranges for value in _in_range(broker, r)]
    assert sorted(written) == sorted([b"%d" % i for i in range(500)] + [b"n"] * 100)


def _in_range(broker, written):
    log = broker.records(written.topic, written.partition)
    return [v for o, _, v in log if 0 <= o - written.base_offset < written.record_count]


def test_send_many_waits_for_room(broker, settings):
    async def work(producer):
        return await producer.send_many("t", [(None, b"%d" % i) for i in range(5000)])

    run(broker, settings, work, **{"buffer.memory": 4000, "batch.size": 500})
    assert values(broker) == [b"%d" % i for i in range(5000)]


def test_a_table_goes_to_the_partitions_of_its_keys(broker, settings):
    import pyarrow as pa

    broker.create("four", 4)
    keys = [b"k%d" % (i % 20) for i in range(400)]
    table = pa.table({"key": keys, "value": [b"%d" % i for i in range(400)]})

    async def work(producer):
        ranges = await producer.send_table("four", table)
        places = {key: (await producer.send("four", b"", key)).partition for key in set(keys)}
        return ranges, places

    ranges, places = run(broker, settings, work, **{"batch.size": 1000})
    assert sum(r.record_count for r in ranges) == 400
    for partition in range(4):
        log = [r for r in broker.records("four", partition) if r[2]]
        assert all(places[key] == partition for _, key, _ in log)
        assert [int(v) for _, _, v in log] == sorted(int(v) for _, _, v in log)


def test_rows_without_a_partition_of_their_own_go_to_that_of_their_key(broker, settings):
    import pyarrow as pa

    broker.create("four", 4)
    rows = {
        "partition": pa.array([3, None, None, 2], pa.int32()),
        "key": pa.array([b"k", b"k", None, None]),
        "value": [b"a", b"b", b"c", b"d"],
    }

    async def work(producer):
        await producer.send_table("four", pa.table(rows))
        return (await producer.send("four", b"", b"k")).partition

    partition = run(broker, settings, work)
    assert (3, b"k", b"a") in [(3, key, value) for _, key, value in broker.records("four", 3)]
    assert b"b" in values(broker, "four", partition)
    assert b"d" in values(broker, "four", 2)
    assert sum(len(values(broker, "four", partition)) for partition in range(4)) == 5


def test_tables_of_a_topic_keep_their_order_also_while_they_wait(broker, settings):
    import pyarrow as pa

    async def work(producer):
        asyncio.get_running_loop().call_later(0.05, broker.create, "late")
        tables = [pa.table({"value": [b"%d-%d" % (n, i) for i in range(50)]}) for n in range(6)]
        await asyncio.gather(*(producer.send_table("late", table) for table in tables))

    run(broker, settings, work, **{"buffer.memory": 2000, "batch.size": 300})
    assert values(broker, "late") == [b"%d-%d" % (n, i) for n in range(6) for i in range(50)]


def test_tables_are_split_and_repeated_like_any_batch(broker, settings):
    import pyarrow as pa

    broker.alter("t", max__message__bytes="1500")
    broker.faults[ApiKey.PRODUCE].append(LOSE_RESPONSE)
    table = pa.table({"value": [b"%040d" % i for i in range(300)]})
    ranges = run(broker, settings, lambda producer: producer.send_table("t", table))
    assert sum(r.record_count for r in ranges) == 300
    assert [int(value) for value in values(broker)] == list(range(300))


def test_with_acks_0_no_call_waits_for_a_response(broker, settings):
    async def work(producer):
        return await producer.send("t", b"a")

    metadata = run(broker, settings, work, acks="0")
    assert metadata.offset == -1
    assert values(broker) == [b"a"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_can_be_read_again(broker, settings, codec):
    async def work(producer):
        await producer.send_many("t", [(b"k", b"v" * 50)] * 500)

    run(broker, settings, work, **{"compression.type": codec})
    assert values(broker) == [b"v" * 50] * 500


def test_idempotence_that_contradicts_other_settings_is_refused_if_asked_for(
    settings: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match="acks"):
        Producer(settings | {"enable.idempotence": True, "acks": "1"})
    with pytest.raises(ValueError, match=r"max\.in\.flight"):
        Producer(
            settings | {"enable.idempotence": True, "max.in.flight.requests.per.connection": 6}
        )
    Producer(settings | {"acks": "1"})
    with pytest.raises(ValueError, match=r"delivery\.timeout\.ms"):
        Producer(settings | {"delivery.timeout.ms": 10})


def test_wrong_records_are_refused_at_once(broker, settings):
    async def work(producer):
        await producer.send("t", b"")
        with pytest.raises(TypeError, match="the value is str"):
            producer.append("t", "text")
        with pytest.raises(ValueError, match="partitions 0 to 0, not 5"):
            producer.append("t", b"", partition=5)
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            producer.append("t", b"x" * 2_000_000)

    run(broker, settings, work)


def test_closing_sends_what_waits(broker, settings):
    async def work(producer):
        producer.append("t", b"first")
        producer.append("t", b"last")

    run(broker, settings, work, **{"linger.ms": 20_000})
    assert values(broker) == [b"first", b"last"]


def test_send_many_does_not_wait_out_linger_ms(broker, settings):
    async def work(producer):
        await producer.partitions_for("t")
        producer.append("t", b"waits")
        await asyncio.sleep(0)  # the sender looks, and sets its timer
        async with asyncio.timeout(60):
            await producer.send_many("t", [(None, b"a"), (b"key", b"b")])
            await producer.send_many("t", iter([(None, b"c")]))

    run(broker, settings, work, **{"linger.ms": 3_600_000})
    assert values(broker) == [b"waits", b"a", b"b", b"c"]


def test_a_closed_producer_takes_nothing(broker, settings):
    async def main() -> None:
        async with Producer(settings, network=broker) as producer:
            await producer.send("t", b"a")
        with pytest.raises(RuntimeError, match="not open"):
            producer.append("t", b"b")

    asyncio.run(main())


def test_with_acks_0_a_slow_broker_fills_the_buffer_and_no_more(broker, settings):
    async def work(producer):
        await producer.send("t", b"first")
        link = broker.links[-1]
        link.pause_writing()
        with suppress(BufferFull):
            for _ in range(1000):
                producer.append("t", b"x" * 100)
        with pytest.raises(TimeoutError, match="Failed to allocate memory"):
            await producer.wait_for_memory()
        assert len(broker.seen(ApiKey.PRODUCE)) == 1
        link.resume_writing()
        await producer.wait_for_memory()
        await producer.flush()

    more = {"acks": "0", "max.block.ms": 50, "buffer.memory": 8000, "batch.size": 1000}
    run(broker, settings, work, **more)
    broker.until(lambda: len(values(broker)) > 10)


def test_with_acks_0_records_go_on_when_a_slow_broker_is_lost(broker, settings):
    async def work(producer):
        await producer.send("t", b"first")
        link = broker.links[-1]
        link.pause_writing()
        producer.append("t", b"second")
        flushing = asyncio.create_task(producer.flush(10_000))
        sender = producer._sender
        while not sender._flush_count or sender.is_scheduled:  # noqa: ASYNC110 - until it has looked
            await asyncio.sleep(0)
        assert len(broker.seen(ApiKey.PRODUCE)) == 1
        link.close()
        await flushing

    run(broker, settings, work, acks="0")
    broker.until(lambda: values(broker) == [b"first", b"second"])


def test_the_first_connection_is_closed_when_the_brokers_are_connected(broker, settings):
    async def work(producer):
        first = broker.links[0]
        assert not first.is_closed
        await producer.send("t", b"a")
        assert first.is_closed
        assert [link.is_closed for link in broker.links[1:]] == [False]
        await producer.partitions_for("t")
        await producer.send("t", b"b")
        assert len(broker.links) == 2

    run(broker, settings, work)
    assert values(broker) == [b"a", b"b"]


def test_a_producer_that_was_not_started_says_so(settings: dict[str, Any]) -> None:
    async def main() -> None:
        producer = Producer(settings)
        for call in (
            lambda: producer.send("t", b"a"),
            lambda: producer.send_many("t", [(None, b"a")]),
            lambda: producer.send_table("t", None),
            producer.flush,
            lambda: producer.partitions_for("t"),
        ):
            with pytest.raises(RuntimeError, match="not open"):
                await call()
        with pytest.raises(RuntimeError, match="not open"):
            producer.append("t", b"a")
        await producer.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("topic", "error"), [(None, TypeError), (b"t", TypeError), ("", ValueError)]
)
def test_what_is_no_name_of_a_topic_is_refused_at_once(broker, settings, topic, error):
    async def main() -> None:
        async with Producer(settings, network=broker) as producer:
            with pytest.raises(error, match="topic"):
                await producer.send(topic, b"v")
            with pytest.raises(error, match="topic"):
                producer.append(topic, b"v")
            with pytest.raises(error, match="topic"):
                await producer.send_many(topic, [(None, b"v")])

    asyncio.run(main())


def test_a_flush_says_what_was_not_acknowledged_in_time(broker, settings):
    async def work(producer):
        await producer.send("t", b"")
        broker.faults[ApiKey.PRODUCE].extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 10_000)
        producer.append("t", b"a")
        producer.append("t", b"b")
        with pytest.raises(TimeoutError, match=r"^2 records were not acknowledged within 50 ms$"):
            await producer.flush(50)
        broker.faults[ApiKey.PRODUCE].clear()

    run(broker, settings, work)


def test_a_misspelt_keyword_of_append_is_refused(broker, settings):
    async def work(producer):
        with pytest.raises(TypeError, match=r"^append\(\) got an unexpected keyword .*'timestamp'"):
            producer.append("t", b"", timestamp=5)

    run(broker, settings, work)


def test_the_names_of_the_package_are_listed() -> None:
    listed = dir(kavka.client)
    assert set(kavka.client.__all__) <= set(listed)
    assert listed == sorted(set(listed))
    assert set(kavka.client.consumer.__all__) <= set(dir(kavka.client.consumer))


def test_the_partitions_of_a_topic_are_those_that_a_consumer_names(broker, settings):
    async def work(producer):
        return await producer.partitions_for("t")

    found = run(broker, settings, work)
    assert found == [TopicPartition("t", number) for number in range(len(found))]
    assert found
