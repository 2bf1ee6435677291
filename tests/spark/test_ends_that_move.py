"""Beginnings that must be remembered, and ends that are behind for a moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kavka.client import CorruptRecordError, blocking
from kavka.ids import TopicPartition
from kavka.spark.errors import ConnectorError
from kavka.spark.offsets import OffsetRange, from_json
from kavka.spark.options import parse_source
from kavka.spark.range_reader import read_range
from kavka.spark.source import StreamReader
from kavka.wire.records.header import walk_complete
from kavka_compat.ours import run_kavka
from support.spark.topic_filling import make_topic

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.compat, pytest.mark.timeout(100)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all tests of this file."""
    with run_kavka(tmp_path_factory.mktemp("moving"), {}) as made:
        yield made


def reader(broker: Broker, topic: str, **more: str) -> StreamReader:
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}
    return StreamReader(parse_source(options | more, streaming=True))


def write(broker: Broker, topic: str, count: int) -> None:
    with blocking.Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        producer.send_many(topic, [(None, b"%d" % i) for i in range(count)])


def ranges(tasks: list[object]) -> list[tuple[int, int]]:
    return [(task.value.start, task.value.end) for task in tasks]  # type: ignore[attr-defined]


def test_latest_is_remembered_before_the_first_batch_has_run(broker: Broker) -> None:
    make_topic(broker, "remembered", 1)
    write(broker, "remembered", 4)
    first = reader(broker, "remembered", startingOffsets="latest")
    start = first.initialOffset()
    write(broker, "remembered", 3)
    logged = first.latestOffset(start, ReadAllAvailable())
    assert logged == start
    assert from_json(logged) == {TopicPartition("remembered", 0): 4}
    first.stop()  # Spark has logged the end of batch 0, and dies before it runs

    write(broker, "remembered", 5)
    second = reader(broker, "remembered", startingOffsets="latest")
    assert ranges(second.partitions(second.initialOffset(), logged)) == []
    end = second.latestOffset(logged, ReadAllAvailable())
    assert ranges(second.partitions(logged, end)) == [(4, 12)]
    second.stop()


def test_a_query_from_the_earliest_offset_takes_all_in_its_first_batch(broker: Broker) -> None:
    make_topic(broker, "whole", 1)
    write(broker, "whole", 4)
    made = reader(broker, "whole", startingOffsets="earliest")
    start = made.initialOffset()
    end = made.latestOffset(start, ReadAllAvailable())
    assert ranges(made.partitions(start, end)) == [(0, 4)]
    made.stop()


def test_only_partitions_that_begin_at_their_end_wait_for_the_second_batch(broker: Broker) -> None:
    make_topic(broker, "mixed", 2)
    with blocking.Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        for partition in (0, 1):
            producer.send_many("mixed", [(None, b"v")] * 3, partition=partition)
    made = reader(broker, "mixed", startingOffsets='{"mixed": {"0": 1, "1": -1}}')
    start = made.initialOffset()
    end = from_json(made.latestOffset(start, ReadAllAvailable()))
    assert end == {TopicPartition("mixed", 0): 3, TopicPartition("mixed", 1): 3}
    made.stop()


def test_a_log_that_reaches_the_end_of_a_range_late_has_lost_nothing(broker: Broker) -> None:
    make_topic(broker, "late", 1)
    write(broker, "late", 3)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "late"}
    later = threading.Timer(0.7, write, (broker, "late", 5))
    later.start()
    try:
        wanted = OffsetRange("late", 0, 0, 8)
        batches = list(read_range(parse_source(options, streaming=False), wanted))
    finally:
        later.join()
    assert sum(batch.num_rows for batch in batches) == 8


def test_a_log_that_stays_too_short_has_lost_records(broker: Broker) -> None:
    make_topic(broker, "short", 1)
    write(broker, "short", 3)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "short"}
    wanted = OffsetRange("short", 0, 0, 8)
    with pytest.raises(ConnectorError, match="short-0 ends at offset 3, before 8"):
        list(read_range(parse_source(options, streaming=False), wanted))
    options["failOnDataLoss"] = "false"
    batches = list(read_range(parse_source(options, streaming=False), wanted))
    assert sum(batch.num_rows for batch in batches) == 3


def test_a_corrupt_batch_is_named_by_its_place_and_those_before_are_read(broker: Broker) -> None:
    make_topic(broker, "damaged", 1)
    for _ in range(4):
        write(broker, "damaged", 3)
    log = broker.log_directory / "damaged-0" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[walk_complete(content)[2].end - 2] ^= 1
    log.write_bytes(content)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "damaged"}
    chosen = parse_source(options, streaming=False)
    before = list(read_range(chosen, OffsetRange("damaged", 0, 0, 6)))
    assert sum(batch.num_rows for batch in before) == 6
    with pytest.raises(CorruptRecordError, match="partition damaged-0 at offset 6 is invalid"):
        list(read_range(chosen, OffsetRange("damaged", 0, 0, 12)))
    with pytest.raises(CorruptRecordError, match="partition damaged-0 at offset 7 is invalid"):
        list(read_range(chosen, OffsetRange("damaged", 0, 7, 12)))


def test_an_end_that_goes_back_for_a_moment_is_asked_for_again(broker: Broker) -> None:
    make_topic(broker, "back", 1)
    write(broker, "back", 3)
    made = reader(broker, "back", startingOffsets="earliest")
    made.initialOffset()
    later = threading.Timer(0.5, write, (broker, "back", 5))
    later.start()
    try:
        end = made.latestOffset({"back": {"0": 6}}, ReadAllAvailable())
    finally:
        later.join()
        made.stop()
    assert from_json(end) == {TopicPartition("back", 0): 8}
