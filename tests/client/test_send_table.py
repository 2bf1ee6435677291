import asyncio

import pyarrow as pa
import pytest

from kavka.client import Producer
from kavka.errors import KafkaError
from kavka.wire.records.header import walk_complete


def run(broker, settings, work, **more):
    async def main():
        async with Producer(settings | more, network=broker) as producer:
            return await work(producer)

    return asyncio.run(main())


def values(broker, partition):
    return [value for _, _, value in broker.records("four", partition)]


def test_rows_go_where_the_users_partitioner_says(broker, settings):
    broker.create("four", 4)
    asked = []

    def by_value(topic, key, value, count):
        asked.append((topic, key, value, count))
        return int(value) % count

    rows = {"key": [b"k", None, b"k", None], "value": [b"0", b"1", b"2", b"5"]}

    async def work(producer):
        await producer.send_table("four", pa.table(rows))

    run(broker, settings, work, **{"partitioner.class": by_value})
    assert [values(broker, n) for n in range(4)] == [[b"0"], [b"1", b"5"], [b"2"], []]
    assert asked[0] == ("four", b"k", b"0", 4)


def test_a_rows_own_partition_wins_over_the_partitioner(broker, settings):
    broker.create("four", 4)
    rows = {"partition": pa.array([3, None], pa.int32()), "value": [b"a", b"b"]}

    async def work(producer):
        await producer.send_table("four", pa.table(rows))

    run(broker, settings, work, **{"partitioner.class": lambda topic, key, value, count: 1})
    assert (values(broker, 3), values(broker, 1)) == ([b"a"], [b"b"])


def test_a_partitioner_that_leaves_the_topic_is_refused(broker, settings):
    broker.create("four", 4)

    async def work(producer):
        with pytest.raises(ValueError, match="the partitioner chose 9 of 4 partitions of four"):
            await producer.send_table("four", pa.table({"value": [b"a"]}))

    run(broker, settings, work, **{"partitioner.class": lambda topic, key, value, count: 9})


def test_round_robin_takes_the_rows_of_a_table_in_turns(broker, settings):
    broker.create("four", 4)

    async def work(producer):
        await producer.send_table("four", pa.table({"value": [b"%d" % i for i in range(8)]}))

    run(broker, settings, work, **{"partitioner.class": "roundrobin"})
    assert [len(values(broker, n)) for n in range(4)] == [2, 2, 2, 2]


def test_keys_that_are_to_be_ignored_do_not_spread_a_table(broker, settings):
    broker.create("four", 4)
    rows = {"key": [b"k%d" % i for i in range(40)], "value": [b"v"] * 40}

    async def work(producer):
        return await producer.send_table("four", pa.table(rows))

    ranges = run(broker, settings, work, **{"partitioner.ignore.keys": True})
    assert [r.record_count for r in ranges] == [40]


def test_a_row_above_max_request_size_is_refused_before_any_is_sent(broker, settings):
    broker.create("four", 4)
    rows = {"key": [b"k", b"k" * 400], "value": [b"small", b"v" * 700]}

    async def work(producer):
        with pytest.raises(KafkaError, match=r"1114 bytes .* larger than 1000"):
            await producer.send_table("four", pa.table(rows))

    run(broker, settings, work, **{"max.request.size": 1000})
    assert [values(broker, n) for n in range(4)] == [[], [], [], []]


def test_the_batches_of_a_table_fit_into_a_request(broker, settings):
    broker.create("four", 1)

    async def work(producer):
        await producer.send_table("four", pa.table({"value": [b"v" * 90] * 100}))

    run(broker, settings, work, **{"max.request.size": 1000})
    assert all(header.size <= 1000 for header in walk_complete(broker.batches("four")))
    assert len(values(broker, 0)) == 100
