"""A topic that is deleted and created again while a query is down, or between its triggers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kavka.client import blocking
from kavka.spark.errors import ConnectorError
from kavka.spark.offsets import from_json, ids_from_json
from kavka.spark.options import parse_source
from kavka.spark.source import StreamReader
from kavka_compat.ours import run_kavka
from support.spark.topic_filling import make_topic

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.compat, pytest.mark.timeout(100)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all tests of this file."""
    with run_kavka(tmp_path_factory.mktemp("remade"), {}) as made:
        yield made


def reader(broker: Broker, topic: str, strict: str) -> StreamReader:
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}
    options |= {"startingOffsets": "earliest", "failOnDataLoss": strict}
    return StreamReader(parse_source(options, streaming=True))


def write(broker: Broker, topic: str, count: int) -> None:
    with blocking.Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        producer.send_many(topic, [(None, b"%d" % i) for i in range(count)])


def make_again(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_topics([topic]).values():
        future.result(30)
    make_topic(broker, topic, 1)


def ranges(tasks: list[Any]) -> list[tuple[int, int]]:
    return [(task.value.start, task.value.end) for task in tasks]


def read_once(broker: Broker, topic: str) -> dict[str, Any]:
    """Return the offsets that a first run has in its checkpoint."""
    first = reader(broker, topic, "true")
    offsets = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    first.stop()
    return offsets


@pytest.mark.parametrize("count", [3, 5, 9], ids=["shorter", "as-long", "longer"])
def test_a_query_stops_at_a_topic_that_was_made_again_while_it_was_down(
    broker: Broker, fresh_name: str, count: int
) -> None:
    make_topic(broker, fresh_name, 1)
    write(broker, fresh_name, 5)
    stored = read_once(broker, fresh_name)
    make_again(broker, fresh_name)
    write(broker, fresh_name, count)
    second = reader(broker, fresh_name, "true")
    end = second.latestOffset(stored, ReadAllAvailable())
    assert end != stored, "Spark runs a batch only when offsets differ"
    with pytest.raises(ConnectorError, match=f"topic {fresh_name} was deleted and created again"):
        second.partitions(stored, end)
    second.stop()


def test_without_fail_on_data_loss_all_of_the_new_topic_is_read(
    broker: Broker, fresh_name: str
) -> None:
    make_topic(broker, fresh_name, 1)
    write(broker, fresh_name, 5)
    stored = read_once(broker, fresh_name)
    make_again(broker, fresh_name)
    write(broker, fresh_name, 9)
    second = reader(broker, fresh_name, "false")
    end = second.latestOffset(stored, ReadMaxRows(6))
    assert ranges(second.partitions(stored, end)) == [(0, 6)]
    last = second.latestOffset(end, ReadMaxRows(6))
    assert ranges(second.partitions(end, last)) == [(6, 9)]
    second.stop()


def test_a_batch_that_was_planned_before_is_not_read_from_the_new_topic(
    broker: Broker, fresh_name: str
) -> None:
    make_topic(broker, fresh_name, 1)
    write(broker, fresh_name, 5)
    first = reader(broker, fresh_name, "true")
    start = first.initialOffset()
    end = first.latestOffset(start, ReadAllAvailable())
    first.stop()
    make_again(broker, fresh_name)
    write(broker, fresh_name, 9)
    strict = reader(broker, fresh_name, "true")
    with pytest.raises(ConnectorError, match="was deleted and created again"):
        strict.partitions(start, end)
    strict.stop()
    second = reader(broker, fresh_name, "false")
    assert ranges(second.partitions(start, end)) == []
    last = second.latestOffset(end, ReadAllAvailable())
    assert ranges(second.partitions(end, last)) == [(0, 9)]
    second.stop()


def test_a_checkpoint_without_ids_goes_on_and_has_them_from_then_on(
    broker: Broker, fresh_name: str
) -> None:
    make_topic(broker, fresh_name, 1)
    write(broker, fresh_name, 5)
    old = {fresh_name: {"0": 2}}
    made = reader(broker, fresh_name, "true")
    end = made.latestOffset(old, ReadAllAvailable())
    assert ranges(made.partitions(old, end)) == [(2, 5)]
    assert ids_from_json(end).keys() == {fresh_name}
    assert from_json(end) == from_json({fresh_name: {"0": 5}})
    made.stop()
