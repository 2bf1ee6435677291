"""Our dump-log beside Apache Kafka's on the same files, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.apache import ApacheKafka
from kavka_compat.brokers import Broker
from kavka_compat.fixtures import StartBroker
from kavka_compat.our_tools import our_tool

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]

_CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def _fill(broker: Broker, *, has_transactions: bool) -> None:
    at: dict[str, Any] = {"bootstrap.servers": broker.bootstrap}
    config = {"segment.bytes": "16384", "index.interval.bytes": "256"}
    admin = AdminClient(at)
    admin.create_topics([NewTopic("t", 1, 1, config=config)])["t"].result(30)
    for codec in _CODECS:
        settings: dict[str, Any] = {
            "compression.type": codec,
            "enable.idempotence": True,
            "batch.num.messages": 5,
        }
        producer = Producer({**at, **settings})
        for number in range(60):
            value = None if number % 10 == 9 else b"caf\xc3\xa9 \xff %d " % number * (number % 37)
            key = None if number % 3 == 0 else b"key%d" % number
            headers: Any = [("n", b"1"), ("m", None)] if number % 4 == 0 else None
            producer.produce("t", value, key, headers=headers)
        assert producer.flush(30) == 0
    for end in ("abort", "commit") if has_transactions else ():
        producer = Producer({**at, "transactional.id": end})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("t", b"in a transaction")
        producer.flush(30)
        producer.abort_transaction() if end == "abort" else producer.commit_transaction()
    consumer = Consumer({**at, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("t", 0, 7, metadata='w"y')], asynchronous=False)
    consumer.close()


def _joined(directory: Path, pattern: str) -> str:
    files = sorted(path for path in directory.glob(pattern) if path.stat().st_size)
    assert files, pattern
    return ",".join(map(str, files))


def _assert_same(*arguments: str) -> None:
    theirs = ApacheKafka("3.9").check("kafka-dump-log", *arguments)
    ours = our_tool("dump-log", *arguments)
    assert ours.out == theirs.out
    assert ours.err == theirs.err


def test_all_files_are_dumped_as_kafka_does(start_broker: StartBroker, tmp_path: Path) -> None:
    with start_broker() as broker:
        _fill(broker, has_transactions=not broker.is_kavka)
    partition = broker.log_directory / "t-0"
    kinds = ["*.log", "*.index", "*.timeindex", "*.snapshot"]
    if not broker.is_kavka:
        kinds.append("*.txnindex")
    every = ",".join(_joined(partition, kind) for kind in kinds)
    _assert_same("--print-data-log", "--files", every)
    _assert_same(
        *("--index-sanity-check", "--max-bytes", "3000", "--deep-iteration", "--files", every)
    )
    stored = _joined(broker.log_directory, "__consumer_offsets-*/*.log")
    _assert_same("--offsets-decoder", "--files", stored)
    if not broker.is_kavka:
        stored = _joined(broker.log_directory, "__transaction_state-*/*.log")
        _assert_same("--transaction-log-decoder", "--files", stored)

    first = next(iter(sorted(partition.glob("*.log"))))
    damaged = tmp_path / first.name
    content = bytearray(first.read_bytes())
    content[400] ^= 1
    damaged.write_bytes(content[:-7])
    for suffix in (".index", ".timeindex"):
        (tmp_path / first.name).with_suffix(suffix).write_bytes(
            first.with_suffix(suffix).read_bytes()
        )
    beside = [str(damaged.with_suffix(suffix)) for suffix in (".log", ".index", ".timeindex")]
    _assert_same("--files", ",".join(beside))
