"""Lag of groups as samples: librdkafka makes a group and says how far it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka_compat.ours import run_kavka
from support.collectors import collect_once, reader

pytestmark = pytest.mark.compat


def commit(bootstrap: str, group: str, *offsets: int) -> int:
    """Commit offsets of a group in t, partition by partition; return the records behind them, as librdkafka counts."""
    from confluent_kafka import Consumer, TopicPartition

    positions = [TopicPartition("t", number, offset) for number, offset in enumerate(offsets)]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        consumer.commit(offsets=positions, asynchronous=False)
        ends = [
            consumer.get_watermark_offsets(topic_partition, timeout=30)[1]
            for topic_partition in positions
        ]
        return sum(
            end - topic_partition.offset
            for end, topic_partition in zip(ends, positions, strict=True)
        )
    finally:
        consumer.close()


def test_lag_of_groups_is_what_librdkafka_counts(tmp_path: Path) -> None:
    from confluent_kafka import Producer

    from support.spark.topic_filling import make_topic_at

    with run_kavka(tmp_path / "broker") as broker:
        bootstrap = broker.bootstrap
        make_topic_at(bootstrap, "t", 2)
        make_topic_at(bootstrap, "metrics", 1)
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(10):
            producer.produce("t", b"x", partition=number % 2, timestamp=1000 * (number + 1))
        assert producer.flush(30) == 0
        lag = commit(bootstrap, "slow", 1, 5)
        commit(bootstrap, "other", 0)
        given = ("--host", "here", "--group", "slow")
        code, said = collect_once(tmp_path / "out", "groups", bootstrap, "metrics", *given)
        assert code == 0, said
        with reader(bootstrap, "metrics") as read:
            records = read.read_until(5)
    assert {record["source"] for record in records} == {f"groups of {bootstrap}"}
    lags = [record for record in records if record["name"] == "kafka_consumergroup_lag"]
    by_partition = {record["labels"]["partition"]: record["value"] for record in lags}
    assert by_partition == {"0": 4, "1": 0}
    assert sum(by_partition.values()) == lag
    assert {record["labels"]["consumergroup"] for record in lags} == {"slow"}
    seconds = {
        record["labels"]["partition"]: record["value"]
        for record in records
        if record["name"] == "kafka_consumergroup_lag_seconds"
    }
    assert seconds["1"] == 0
    assert seconds["0"] > 1e9  # the record is of 1970
    assert records[-1]["name"] == "up"
    assert records[-1]["value"] == 1


def test_a_cluster_that_is_away_is_a_sample_with_the_reason(tmp_path: Path) -> None:
    from support.spark.topic_filling import make_topic_at

    (tmp_path / "quick").write_text("default.api.timeout.ms=2000\nrequest.timeout.ms=1000\n")
    with run_kavka(tmp_path / "broker") as broker:
        make_topic_at(broker.bootstrap, "metrics", 1)
        given = ("--of", "127.0.0.1:1", "--command-config", tmp_path / "quick")
        code, said = collect_once(tmp_path / "out", "groups", broker.bootstrap, "metrics", *given)
        assert code == 0, said
        with reader(broker.bootstrap, "metrics") as read:
            [record] = read.read_until(1)
    assert (record["name"], record["value"]) == ("up", 0)
    assert record["source"] == "groups of 127.0.0.1:1"
    assert record["error"]
