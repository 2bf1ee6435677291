"""Lag in records and in seconds, of kavka's brokers and of Apache Kafka's, with records that librdkafka wrote."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position

from kavka.cli.main import main
from kavka.client import Admin, TopicPartition
from kavka.client.lag import Lag
from support.spark.topic_filling import make_topic

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = pytest.mark.compat

AGES_S = (3600, 1800, 60)


def fill(broker: Broker, topic: str, **settings: str) -> int:
    """Send three records to partition 0 in one batch, and return the time to which their ages are, in milliseconds."""
    now_ms = time.time_ns() // 1_000_000
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 100, **settings})
    for age_s in AGES_S:
        producer.produce(topic, b"value", partition=0, timestamp=now_ms - age_s * 1000)
    assert producer.flush(30) == 0
    return now_ms


def lags(broker: Broker, positions: dict[TopicPartition, int]) -> dict[TopicPartition, Lag]:
    async def ask() -> dict[TopicPartition, Lag]:
        async with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
            found = await admin.lags(positions)
        return {
            topic_partition: lag for topic_partition, lag in found.items() if isinstance(lag, Lag)
        }

    return asyncio.run(ask())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_lag_is_the_age_of_the_record_at_the_position(
    any_broker: Broker, fresh_name: str, codec: str
) -> None:
    make_topic(any_broker, fresh_name, 2)
    sent_ms = fill(any_broker, fresh_name, **{"compression.type": codec})
    full, empty = TopicPartition(fresh_name, 0), TopicPartition(fresh_name, 1)
    for position, age_s in enumerate(AGES_S):
        found = lags(any_broker, {full: position, empty: 0})
        since_s = time.time() - sent_ms / 1000
        assert found[full].records == len(AGES_S) - position
        seconds = found[full].seconds
        assert seconds is not None
        assert 0 <= seconds - age_s <= since_s + 0.001
        assert found[empty] == Lag(0, 0.0, 0)
    assert lags(any_broker, {full: 3})[full] == Lag(0, 0.0, 3)


def test_the_tool_shows_it_beside_the_records_when_it_is_asked_to(
    any_broker: Broker, fresh_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic(any_broker, fresh_name, 1)
    fill(any_broker, fresh_name)
    consumer = Consumer({"bootstrap.servers": any_broker.bootstrap, "group.id": fresh_name})
    consumer.commit(offsets=[Position(fresh_name, 0, 1)], asynchronous=False)
    consumer.close()
    command = ["consumer-groups", "--bootstrap-server", any_broker.bootstrap, "--describe"]
    plain, with_seconds = (
        _table(capsys, [*command, "--group", fresh_name, *more]) for more in ([], ["--lag-seconds"])
    )
    assert "LAG-SECONDS" not in plain
    assert with_seconds["LAG"] == plain["LAG"] == "2"
    assert 1800 <= float(with_seconds.pop("LAG-SECONDS")) < 1900
    assert with_seconds == plain


def _table(capsys: pytest.CaptureFixture[str], command: list[str]) -> dict[str, str]:
    """Return the one row of the tool's table by its titles."""
    capsys.readouterr()
    assert main(command) == 0
    [titles, row] = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    return dict(zip(titles, row, strict=True))
