"""Lag of positions in records and in seconds."""

import asyncio

import pytest

from kavka.client import Admin, OffsetSpec, Producer, TopicPartition
from kavka.client.lag import Lag, Looked, lag_of, look
from kavka.errors import ErrorCode, KafkaError
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.compression import Compression
from support.moving_leaders import MovingLeaders, host_of

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
    times = [look(fetched, offset).timestamp_ms for offset in (9, 10, 11, 12)]
    assert times == [100, 100, 50, 75]


def test_a_batch_before_the_position_does_not_count():
    fetched = records(100, base_offset=10) + records(200, base_offset=11)
    assert look(fetched, 11) == Looked(200, 200, 11)
    assert look(fetched, 12) == Looked(None, -1, 12)


def test_a_batch_that_is_cut_does_not_count():
    assert look(records(100)[:-1], 0) == Looked(None, -1, 0)


def test_a_batch_whose_records_the_cleaner_removed_is_passed_over():
    emptied = bytearray(records(100, 200, base_offset=10))
    # The cleaner keeps the last offset of a batch whose last records it removes.
    emptied[23:27] = (5).to_bytes(4, "big")
    assert look(bytes(emptied), 12) == Looked(None, 200, 16)
    assert look(bytes(emptied) + records(300, base_offset=16), 12) == Looked(300, 300, 16)


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


def committed_transactions(broker, settings, count):
    """Write transactions of a record each: offsets 0, 2, 4 ... are records, those between them markers."""

    async def main():
        id_ = {"transactional.id": "x", "linger.ms": 0}
        async with Producer({**settings, **id_}, network=broker) as producer:
            await producer.init_transactions()
            for number in range(count):
                async with producer.transaction():
                    await producer.send("t", b"v", timestamp_ms=1_000 + number * 1_000_000)

    asyncio.run(main())


def test_a_marker_is_no_record_that_was_not_read(broker, settings):
    committed_transactions(broker, settings, 2)
    assert produced_then_lags(broker, settings, [], {AT: 3})[AT] == Lag(1, 0.0, 4)
    before_the_marker, at_the_record = (
        produced_then_lags(broker, settings, [], {AT: offset})[AT] for offset in (1, 2)
    )
    assert (before_the_marker.records, at_the_record.records) == (3, 2)
    assert abs(before_the_marker.seconds - at_the_record.seconds) < 60


def test_a_leader_that_cannot_be_reached_costs_no_other_partition(tmp_path, settings):
    broker = MovingLeaders(tmp_path / "data", 2)
    for topic in "tu":
        broker.create(topic)
    broker.leaders["u", 0] = (1, 1)
    broker.down.add(host_of(1))
    gone = TopicPartition("u", 0)

    async def main():
        async with Admin(settings, network=broker) as admin:
            wanted = {AT: OffsetSpec.LATEST, gone: OffsetSpec.LATEST}
            return (
                await admin.lags({AT: 0, gone: 0}, timeout_ms=100),
                await admin.list_offsets(wanted, timeout_ms=100),
            )

    try:
        found, offsets = asyncio.run(main())
    finally:
        broker.close()
    assert found[AT] == Lag(0, 0.0, 0)
    assert offsets[AT].offset == 0
    for error in (found[gone], offsets[gone]):
        assert isinstance(error, KafkaError)
        assert error.code is ErrorCode.REQUEST_TIMED_OUT
        assert error.detail == "no offset of u-0 in 100 ms"
