"""A live cluster of Apache Kafka 3.9 becomes ours by a rolling restart on the same directories, and goes back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kavka.errors import ErrorCode
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponsePartition,
)
from kavka.wire.records.batch import BatchBuilder
from kavka_compat.asking import until
from kavka_compat.dump_log import assert_kafka_accepts
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


class OldProducer:
    """An idempotent producer that sends one record at a time, and may repeat itself."""

    def __init__(self, cluster: MixedCluster, topic: str) -> None:
        """Get a producer id."""
        self._cluster = cluster
        self._topic = topic
        self._sequence = 0
        until(self._has_producer_id, what="a producer id")

    def _has_producer_id(self) -> bool:
        """Ask once; Apache Kafka's brokers fetch their first block of ids meanwhile."""
        answer = self._send(InitProducerIdRequest(transactional_id=None))
        self._producer_id = answer.producer_id
        return answer.error_code == ErrorCode.NONE

    def write(self) -> int:
        """Write the next record, and return its offset."""
        answer = self._produce(self._sequence)
        assert answer.error_code == ErrorCode.NONE
        self._sequence += 1
        return answer.base_offset

    def repeat(self) -> int:
        """Write the last record again, and return the offset that the leader remembers for it."""
        answer = self._produce(self._sequence - 1)
        assert answer.error_code == ErrorCode.NONE
        return answer.base_offset

    def skip(self) -> ErrorCode:
        """Leave a record out, and return how the leader refuses what comes after it."""
        return ErrorCode.of(self._produce(self._sequence + 1).error_code)

    def _produce(self, sequence: int) -> ProduceResponsePartition:
        builder = BatchBuilder()
        builder.append(None, b"%d" % sequence, int(time.time() * 1000))
        batch = builder.build(
            producer_id=self._producer_id, producer_epoch=0, base_sequence=sequence
        )
        data = ProduceRequestPartition(index=0, records=batch)
        topic = ProduceRequestTopic(name=self._topic, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=[topic])
        answer = self._send(request, 9).responses[0].partition_responses[0]
        assert isinstance(answer, ProduceResponsePartition)
        return answer

    def _send(self, request: object, version: int | None = None) -> Any:
        """Ask the leader."""
        state = self._cluster.state(self._topic, 0)
        assert state is not None
        return self._cluster.ask(state.leader, request, version)


Ending = Callable[[MixedCluster, int], None]
STOP, KILL = MixedCluster.stop, MixedCluster.kill
ENDINGS: dict[str, Sequence[Ending]] = {
    "stopped": (STOP, STOP, STOP, STOP, STOP, STOP),
    "killed": (KILL, KILL, KILL, KILL, KILL, KILL),
    "stopped-or-killed": (STOP, KILL, STOP, KILL, STOP, KILL),
}
"""How each broker of Apache Kafka ends, then each of ours."""


@pytest.mark.parametrize(
    "endings", os.environ.get("KAVKA_COMPAT_MIGRATIONS", "stopped-or-killed").split(",")
)
def test_a_live_cluster_is_migrated_and_goes_back(tmp_path: Path, endings: str) -> None:
    end = iter(ENDINGS[endings])
    with run_mixed(tmp_path, dict.fromkeys(range(3), Kind.APACHE), SEGMENTS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        create(cluster, admin, "kept", [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
        create(cluster, admin, "old", [[0, 1, 2]])
        old = OldProducer(cluster, "old")
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
