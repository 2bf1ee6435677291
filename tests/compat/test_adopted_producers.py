"""A directory of Apache Kafka 3.9, on ZooKeeper, is adopted by a lone broker of ours: producers of before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponseTransactionState,
)
from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import ask, wait_until_all_know_all
from kavka_compat.brokers import Broker
from kavka_compat.ours import launch_kavka
from kavka_compat.processes import Running

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]

_SETTINGS = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}
_BLOCK = 1000
"""Number of producer ids that a broker of Apache Kafka takes at once, in ZooKeeper mode as in KRaft mode."""
Ending = Callable[[Running], Any]


@contextmanager
def _adopting(directory: Path, port: int) -> Iterator[Broker]:
    """Run our broker on Apache's directory and port, with a registry that knows nothing."""
    broker = launch_kavka(directory, {}, port)
    try:
        broker.process.wait_for("ready: ", 60)
        yield broker
    finally:
        broker.process.stop()


def _send(producer: Producer, *values: bytes) -> None:
    """Write values, and insist that all are acknowledged."""
    errors: list[object] = []
    for value in values:
        producer.produce(
            "t", value, on_delivery=lambda error, _: errors.append(error) if error else None
        )
    assert producer.flush(30) == 0
    assert not errors, errors


def _transactional(bootstrap: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    return producer


def _write(producer: Producer, value: bytes, *, aborts: bool = False) -> None:
    """Write a value in a transaction of its own."""
    producer.begin_transaction()
    _send(producer, value)
    producer.abort_transaction(30) if aborts else producer.commit_transaction(30)


def _read(bootstrap: str, isolation: str) -> list[bytes]:
    """Return all values of the topic that the isolation level shows."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    values: list[bytes] = []
    while True:
        message = consumer.poll(20)
        assert message is not None, values
        if message.error() is None:
            values.append(message.value() or b"")
            continue
        assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
        consumer.close()
        return values


def _describe(bootstrap: str, name: str) -> DescribeTransactionsResponseTransactionState:
    request = DescribeTransactionsRequest(transactional_ids=[name])
    (state,) = ask(bootstrap, request).transaction_states
    assert isinstance(state, DescribeTransactionsResponseTransactionState)
    assert state.error_code == 0
    return state


@pytest.mark.parametrize("end", [Running.stop, Running.kill], ids=["stopped", "killed"])
def test_producers_of_an_adopted_directory_lose_nothing(tmp_path: Path, end: Ending) -> None:
    apache = ApacheKafka("3.9")
    with apache.run_broker(tmp_path, mode="zookeeper", settings=_SETTINGS) as theirs:
        at, port = theirs.bootstrap, theirs.port
        wait_until_all_know_all([at])
        admin = AdminClient({"bootstrap.servers": at})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
        old = Producer({"bootstrap.servers": at, "enable.idempotence": True, "log_level": 0})
        _send(old, b"old 1", b"old 2", b"old 3")
        steady = _transactional(at, "steady")
        _write(steady, b"steady 1")
        _write(steady, b"steady aborted", aborts=True)
        open_one = _transactional(at, "open")
        open_one.begin_transaction()
        _send(open_one, b"never committed")
        known = {name: _describe(at, name) for name in ("steady", "open")}
        end(theirs.process)
    visible = [b"old 1", b"old 2", b"old 3", b"steady 1"]

    with _adopting(tmp_path, port) as ours:
        new = Producer({"bootstrap.servers": at, "enable.idempotence": True, "log_level": 0})
        _send(new, b"new 1", b"new 2", b"new 3")
        console = apache.check(
            *("kafka-console-producer", "--bootstrap-server", at, "--topic", "t"),
            stdin="java 1\njava 2\n",
        )
        assert "ERROR" not in console.err, console
        _send(old, b"old 4")  # with the id and the sequence numbers of before

        again = _transactional(at, "steady")
        _write(again, b"steady 2")
        with pytest.raises(KafkaException) as fenced:
            _write(steady, b"of a fenced producer")
        assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError._STATE)
        _transactional(at, "open")  # aborts what was open
        fresh = _transactional(at, "fresh")
        _write(fresh, b"fresh 1")

        for name, before in known.items():
            state = _describe(at, name)
            assert state.producer_id == before.producer_id
            assert state.producer_epoch > before.producer_epoch
        newest = max(before.producer_id for before in known.values())
        assert _describe(at, "fresh").producer_id >= newest - newest % _BLOCK + _BLOCK
        visible += [b"new 1", b"new 2", b"new 3", b"java 1", b"java 2"]
        visible += [b"old 4", b"steady 2", b"fresh 1"]
        assert _read(at, "read_committed") == visible
        hidden = {b"steady aborted", b"never committed", b"of a fenced producer"}
        assert [v for v in _read(at, "read_uncommitted") if v not in hidden] == visible
        assert ours.process.alive(), ours.process.text()
