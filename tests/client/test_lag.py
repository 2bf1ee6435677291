"""Lag of positions in records and in seconds."""

import asyncio

import pytest

from kavka.client import Admin, Producer, TopicPartition
from kavka.client.lag import Lag, lag_of, timestamp_at
from kavka.errors import ErrorCode, KafkaError
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.compression import Compression

AT = TopicPartition("t", 0)


def test_a_position_at_the_end_has_no_lag():
    assert lag_of(7, 7, -1, 1000) == Lag(0, 0.0, 7)
    assert lag_of(9, 7, -1, 1000) == Lag(0, 0.0, 7)


def test_the_lag_in_seconds_is_the_age_of_the_first_unread_record():
    assert lag_of(3, 7, 1_000, 3_500) == Lag(4, 2.5, 7)


def test_a_record_from_the_future_is_not_older_than_now():
    assert lag_of(3, 7, 9_000, 3_500) == Lag(4, 0.0, 7)


def test_a_record_without_timestamp_has_an_unknown_age():
    assert lag_of(3, 7, -1, 3_500) == Lag(4, None, 7)


def records(*timestamps, base_offset=0, compression=Compression.NONE):
    batch = BatchBuilder()
    for timestamp in timestamps:
        batch.append(None, b"value", timestamp)
    return bytes(batch.build(base_offset=base_offset, compression=compression))


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_the_time_is_that_of_the_record_in_the_middle_of_a_batch(compression):
    fetched = records(100, 50, 75, base_offset=10, compression=compression)
    assert [timestamp_at(fetched, offset) for offset in (9, 10, 11, 12)] == [100, 100, 50, 75]


def test_a_batch_before_the_position_does_not_count():
    fetched = records(100, base_offset=10) + records(200, base_offset=11)
    assert timestamp_at(fetched, 11) == 200
    assert timestamp_at(fetched, 12) == -1


def test_a_batch_that_is_cut_does_not_count():
    assert timestamp_at(records(100)[:-1], 0) == -1


def produced_then_lags(broker, settings, timestamps, positions, before=None):
    async def main():
        async with Producer({**settings, "linger.ms": 0}, network=broker) as producer:
            for timestamp in timestamps:
                await producer.send("t", b"v", timestamp_ms=timestamp)
        async with Admin(settings, network=broker) as admin:
            if before is not None:
                await admin.delete_records({AT: before})
            return await asyncio.wait_for(admin.lags(positions), 60)

    return asyncio.run(main())


def test_lag_of_a_live_partition(broker, settings):
    found = produced_then_lags(broker, settings, [1_000, 2_000, 3_000], {AT: 1})
    lag = found[AT]
    assert (lag.records, lag.end_offset) == (2, 3)
    at_the_start = produced_then_lags(broker, settings, [], {AT: 0})[AT]
    assert at_the_start.records == 3
    assert 0.9 < at_the_start.seconds - lag.seconds < 60


def test_a_position_before_the_logs_start_counts_as_the_start(broker, settings):
    found = produced_then_lags(broker, settings, [1_000, 2_000, 900_000_000], {AT: 0}, before=2)
    since_the_first = produced_then_lags(broker, settings, [], {AT: 2})[AT]
    assert found[AT].records == since_the_first.records == 1
    assert abs(found[AT].seconds - since_the_first.seconds) < 60


def test_a_partition_that_does_not_exist_has_an_error(broker, settings):
    found = produced_then_lags(broker, settings, [], {TopicPartition("none", 0): 0})
    [error] = found.values()
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
