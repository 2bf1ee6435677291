"""A live cluster of Apache Kafka 3.9 becomes ours by a rolling restart on the same directories, and goes back."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kavka.errors import ErrorCode
from kavka_compat.dump_log import assert_kafka_accepts
from kavka_compat.idempotent import IdempotentProducer
from kavka_compat.mixed import Kind, MixedCluster, run_mixed
from kavka_compat.traffic import (
    assert_nothing_is_wrong,
    committed,
    consume,
    create,
    load_on,
    produce,
)

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(300)]

SEGMENTS = {"log.segment.bytes": "16384", "log.index.interval.bytes": "512"}
"""Small ones, so that there are snapshots and indexes of both kinds."""


Ending = Callable[[MixedCluster, int], None]
STOP, KILL = MixedCluster.stop, MixedCluster.kill
ENDINGS: dict[str, Sequence[Ending]] = {
    "stopped": (STOP, STOP, STOP, STOP, STOP, STOP),
    "killed": (KILL, KILL, KILL, KILL, KILL, KILL),
    "stopped-or-killed": (STOP, KILL, STOP, KILL, STOP, KILL),
}
"""The way in which each broker of Apache Kafka ends, then each of ours."""


@pytest.mark.parametrize(
    "endings", os.environ.get("KAVKA_COMPAT_MIGRATIONS", "stopped-or-killed").split(",")
)
def test_a_live_cluster_is_migrated_and_goes_back(tmp_path: Path, endings: str) -> None:
    end = iter(ENDINGS[endings])
    with run_mixed(tmp_path, dict.fromkeys(range(3), Kind.APACHE), SEGMENTS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        create(cluster, admin, "kept", [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
        create(cluster, admin, "old", [[0, 1, 2]])
        old = IdempotentProducer(cluster, "old")
        last = old.write()
        values = [b"%d" % number for number in range(100)]
        written = 0
        with load_on(cluster, "load", members=1, readers=1) as load:
            for kind in (Kind.KAVKA, Kind.APACHE):
                for partition in range(3):
                    produce(cluster, "kept", partition, values)
                written += 100
                found = consume(cluster, "kept", "group", 300)
                assert found == {0: values, 1: values, 2: values}
                for number in range(3):
                    cluster.wait_in_sync("load", "kept", "old", "__consumer_offsets")
                    load.wait_for(50)
                    next(end)(cluster, number)
                    load.wait_for(50)
                    cluster.revive(number, kind)
                assert cluster.of(kind) == [0, 1, 2]
                assert committed(cluster, "group") == dict.fromkeys(range(3), written)
                assert old.repeat() == last
                assert old.skip() == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                assert old.write() == last + 1
                last += 1
            cluster.wait_in_sync("load", "kept", "old", "__consumer_offsets")
            load.wait_for(50)
            assert_nothing_is_wrong(load.finish())
        cluster.assert_equal_logs("load", "kept", "old", "__consumer_offsets")
        for number in range(3):
            cluster.stop(number)
        for topic in ("load", "kept", "old"):
            for partition, replicas in cluster.assignment(topic).items():
                for number in replicas:
                    directory = cluster.partition_directory(number, topic, partition)
                    assert assert_kafka_accepts(directory) > 0
