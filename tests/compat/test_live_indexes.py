"""The indexes of the active segment on disk: Kafka's dump tool reads a live directory, Kafka's broker a killed one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import until
from kavka_compat.dump_log import assert_kafka_accepts
from kavka_compat.mixed import Kind, run_mixed
from kavka_compat.traffic import consume, create, deliver, produce

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]

_SETTINGS = {
    "log.segment.bytes": "32768",
    "log.index.interval.bytes": "512",
    "offsets.topic.replication.factor": "1",
}
_BATCH = re.compile(r"^baseOffset: \d+ lastOffset: (\d+) .* position: (\d+) ", re.MULTILINE)
_ENTRY = re.compile(r"^offset: (\d+) position: (\d+)", re.MULTILINE)
_TIME = re.compile(r"^timestamp: \d+ offset: (\d+)", re.MULTILINE)


def test_kafka_reads_the_indexes_of_a_live_and_of_a_killed_directory(tmp_path: Path) -> None:
    with run_mixed(tmp_path, {0: Kind.KAVKA}, _SETTINGS) as cluster:
        create(cluster, AdminClient({"bootstrap.servers": cluster.bootstrap}), "t", [[0]])
        partition = cluster.partition_directory(0, "t", 0)
        values = [b"%d" % number * 40 for number in range(300)]
        with Producer(
            {"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 1}
        ) as producer:
            deliver(producer, "t", [0], values)
        active = max(partition.glob("*.log"))
        until(lambda: _is_up_to_date(active), what="the last index entry is on disk")

        assert len(list(partition.glob("*.log"))) > 1
        assert assert_kafka_accepts(partition) == len(values)
        for log in partition.glob("*.log"):
            _assert_entries_are_batches(log)

        cluster.kill(0)
        cluster.revive(0, Kind.APACHE)
        assert consume(cluster, "t", "apache", len(values)) == {0: values}
        more = values[:100]
        produce(cluster, "t", 0, more)
        cluster.kill(0)
        cluster.revive(0, Kind.KAVKA)  # on the zeros that Apache Kafka's indexes end with
        produce(cluster, "t", 0, more)
        assert consume(cluster, "t", "kavka", 500) == {0: [*values, *more, *more]}
        cluster.stop(0)
        assert assert_kafka_accepts(partition) == 500


def _is_up_to_date(log: Path) -> bool:
    """Return whether no more than the bytes between two entries follow the last entry's batch."""
    index = log.with_suffix(".index").read_bytes()
    return bool(index) and log.stat().st_size - int.from_bytes(index[-4:], "big") < 2048


def _assert_entries_are_batches(log: Path) -> None:
    """Insist that each entry of both indexes leads to a batch of the log file."""
    kafka = ApacheKafka("3.9")
    files = ",".join(str(log.with_suffix(suffix)) for suffix in (".log", ".index", ".timeindex"))
    dumped = kafka.check("kafka-dump-log", "--files", files).out
    batches, entries = set(_BATCH.findall(dumped)), _ENTRY.findall(dumped)
    assert len(entries) > 10
    assert set(entries) <= batches
    assert set(_TIME.findall(dumped)) <= {offset for offset, _ in batches}
