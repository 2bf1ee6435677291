"""A console consumer that ends early commits no record that it has not printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.cli.commands.console_consumer import main
from kavka.client import NewTopic, TopicPartition, blocking
from kavka.testing.local_cluster import LocalCluster
from kavka.wire.records.header import walk_complete

pytestmark = pytest.mark.kavka_cluster(
    brokers=1, settings={"group.initial.rebalance.delay.ms": "0"}
)

GOOD, BAD = b"\0\0\0\7", b"seven"


def fill(cluster: LocalCluster, *partitions: list[bytes]) -> list[str]:
    """Make the topic `t`, each record a batch, and return the options of a consumer that reads it as a group."""
    at = {"bootstrap.servers": cluster.bootstrap_servers}
    with blocking.Admin(at) as admin:
        admin.create_topics([NewTopic("t", len(partitions), 1)])
    with blocking.Producer(at) as producer:
        for partition, values in enumerate(partitions):
            for value in values:
                producer.send("t", value, partition=partition)
    here = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", "t"]
    shown = [f"print.{name}=true" for name in ("partition", "offset")]
    properties = [word for pair in shown for word in ("--property", pair)]
    return [*here, "--group", "g", "--from-beginning", *properties]


def printed(text: str) -> dict[int, int]:
    """Return how many records of each partition were printed."""
    counts = {0: 0, 1: 0}
    for line in text.splitlines():
        partition, offset, _ = line.split("\t")
        number = int(partition.removeprefix("Partition:"))
        assert offset == f"Offset:{counts[number]}"
        counts[number] += 1
    return counts


def committed(cluster: LocalCluster) -> dict[int, int]:
    """Return the offsets of the group, 0 where there is none."""
    with blocking.Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        offsets = admin.list_group_offsets("g")
    return {
        n: offsets[topic_partition].offset
        if (topic_partition := TopicPartition("t", n)) in offsets
        else 0
        for n in (0, 1)
    }


@pytest.mark.timeout(60)
def test_a_record_that_cannot_be_printed_costs_no_other(
    kavka_cluster: LocalCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    options = fill(kavka_cluster, [GOOD, GOOD, BAD, GOOD, GOOD], [GOOD] * 5)
    options += ["--value-deserializer", "org.apache.kafka.common.serialization.IntegerDeserializer"]
    assert main(options) == 1
    shown = capfd.readouterr()
    counts = printed(shown.out)
    assert counts[0] == 2
    assert "Size of data received by IntegerDeserializer is not 4" in shown.err
    # As in Kafka's tool the record itself counts as read.
    assert committed(kavka_cluster) == {0: 3, 1: counts[1]}


@pytest.mark.timeout(60)
def test_a_corrupt_batch_ends_the_tool_after_what_is_before(
    kavka_cluster: LocalCluster, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = fill(kavka_cluster, [b"a", b"b", b"c", b"d"], [b"e", b"f"])
    (log,) = kavka_cluster.path.glob("broker-*/t-0/*.log")
    content = bytearray(log.read_bytes())
    content[walk_complete(content)[2].end - 2] ^= 1
    log.write_bytes(content)
    assert main(options) == 1
    shown = capfd.readouterr()
    counts = printed(shown.out)
    assert counts[0] == 2
    assert "Error processing message, terminating consumer process" in shown.err
    assert "partition t-0 at offset 2 is invalid" in shown.err
    assert committed(kavka_cluster) == {0: 2, 1: counts[1]}
