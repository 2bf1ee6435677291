"""`kavka transactions` and Kafka 3.9's tool show the same, line by line, at either broker."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.cli.main import main
from kavka.client import (
    Consumer,
    FatalError,
    GroupMetadata,
    NewTopic,
    TopicPartition,
    TransactionDescription,
)
from kavka.client.blocking import Admin, Producer
from kavka.client.producer.encoding import encode_records
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.wire.records.compression import Compression
from kavka_compat.apache import ApacheKafka, Finished
from kavka_compat.brokers import Broker
from kavka_compat.fixtures import StartBroker
from kavka_compat.ours import run_kavka
from support.produce import produce

pytestmark = pytest.mark.compat

SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.partition.verification.enable": "false",
}
OPEN = {"transactional.id": "open", "transaction.timeout.ms": 900_000}
HANGING_PRODUCER = 4711


def ours(*words: str) -> Finished:
    """Run our tool in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["transactions", *words])
    return Finished(code, out.getvalue(), err.getvalue())


def without_time(finished: Finished) -> list[str]:
    """Return what was written but for how long ago something was, and the order of a set of partitions."""
    lines = []
    for line in finished.lines:
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) == 10 and cells[7].isdigit():
            cells[7] = "some time"
        cells = [",".join(sorted(cell.split(","))) for cell in cells]
        lines.append("\t".join(cells))
    return lines


def both(theirs: Callable[..., Finished], broker: Broker, *words: str) -> Finished:
    """Run both tools, which must write the same, and return what ours wrote."""
    arguments = ("--bootstrap-server", broker.bootstrap, *words)
    expected, got = theirs("kafka-transactions", *arguments), ours(*arguments)
    assert (got.code, without_time(got)) == (expected.code, without_time(expected))
    assert got.err == expected.err
    if expected.out.count("\n") > 1 and "Duration" not in expected.out:
        assert got.out == expected.out, "also the widths of the columns"
    return got


async def leave_hanging(broker: Broker, topic: str) -> None:
    """Write a batch of a transaction that no coordinator knows."""
    batch = encode_records(
        [b"lost"],
        [1_000_000],
        None,
        {},
        compression=Compression.NONE,
        level=None,
        producer_id=HANGING_PRODUCER,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    peer = await Peer.connect(TcpNetwork(), "127.0.0.1", broker.port)
    response = await produce(
        peer,
        TopicPartition(topic, 0),
        batch,
        version=11,  # from 12 on a leader adds the partition itself
        transactional_id="nonexistent",
        timeout_ms=10_000,
    )
    peer.close()
    await peer.wait_closed()
    assert response.error_code == 0


async def committed(broker: Broker, topic_partition: TopicPartition) -> list[bytes]:
    reading = {
        "bootstrap.servers": broker.bootstrap,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    found = []
    async with Consumer(reading) as consumer:
        consumer.assign([topic_partition])
        end = (await consumer.end_offsets([topic_partition]))[topic_partition]
        while await consumer.position(topic_partition) < end:
            for batch in await consumer.poll(1000):
                found += [record.value for record in batch.records()]
    return found


@pytest.mark.long
def test_transactions_are_seen_and_ended_as_with_kafkas_tool(start_broker: StartBroker) -> None:
    theirs = ApacheKafka("3.9").tool
    with start_broker(SETTINGS) as broker:
        settings = {"bootstrap.servers": broker.bootstrap}
        with Admin(settings) as admin:
            created = admin.create_topics([NewTopic("t", 2, 1), NewTopic("hung", 1, 1)])
            assert not any(isinstance(outcome, Exception) for outcome in created.values())
        with (
            Producer(settings | {"transactional.id": "idle"}) as idle,
            Producer(settings | OPEN) as opened,
        ):
            idle.init_transactions()
            opened.init_transactions()
            opened.begin_transaction()
            for partition in (0, 1):
                opened.send("t", b"v", partition=partition)
            group = GroupMetadata("g")
            opened.send_offsets_to_transaction({TopicPartition("t", 0): 1}, group)
            see_what_is_open(theirs, broker)
            end_what_hangs(theirs, broker)
            opened.commit_transaction()
        see_what_is_refused(theirs, broker)


def see_what_is_open(theirs: Callable[..., Finished], broker: Broker) -> None:
    listed = both(theirs, broker, "list")
    assert re.search(r"^open *\t\d+ *\t\d+ *\tOngoing", listed.out, re.M)
    assert re.search(r"^idle *\t\d+ *\t\d+ *\tEmpty", listed.out, re.M)
    assert "open" not in both(theirs, broker, "list", "--duration-filter", "3600000").out
    described = both(theirs, broker, "describe", "--transactional-id", "open")
    assert "Ongoing" in described.out
    assert "None" in both(theirs, broker, "describe", "--transactional-id", "idle").out
    producers = ("describe-producers", "--topic", "t", "--partition", "1")
    assert both(theirs, broker, *producers).out.count("\n") == 2
    both(theirs, broker, *producers, "--broker-id", "0")


def end_what_hangs(theirs: Callable[..., Finished], broker: Broker) -> None:
    asyncio.run(leave_hanging(broker, "hung"))
    search = ("find-hanging", "--max-transaction-timeout", "-1")
    found = both(theirs, broker, *search, "--broker-id", "0")
    assert re.search(rf"^hung *\t0 *\t{HANGING_PRODUCER} *\t0 ", found.out, re.M)
    assert found.out.count("\n") == 2, "what is open with its coordinator's knowledge does not hang"
    assert both(theirs, broker, *search, "--topic", "hung", "--partition", "0").out == found.out
    abort = ("abort", "--topic", "hung", "--partition", "0", "--start-offset", "0")
    assert str(ours("--bootstrap-server", broker.bootstrap, *abort)) == str(Finished(0, "", ""))
    assert both(theirs, broker, *search, "--topic", "hung").out.count("\n") == 1
    assert asyncio.run(committed(broker, TopicPartition("hung", 0))) == []


def see_what_is_refused(theirs: Callable[..., Finished], broker: Broker) -> None:
    at = ("--topic", "t", "--partition", "0")
    assert both(theirs, broker, "describe", "--transactional-id", "nonexistent").code == 1
    assert both(theirs, broker, "find-hanging").code == 1
    assert both(theirs, broker, "abort", *at).code == 1
    assert both(theirs, broker, "abort", *at, "--producer-id", "1").code == 1
    assert both(theirs, broker, "abort", *at, "--start-offset", "7").code == 1


def test_a_transaction_is_terminated_by_force(any_broker: Broker, fresh_name: str) -> None:
    settings = {"bootstrap.servers": any_broker.bootstrap}
    words = ("--bootstrap-server", any_broker.bootstrap)
    with Admin(settings) as admin:
        admin.create_topics([NewTopic(fresh_name, 1, 1)])
        with Producer(settings | {"transactional.id": fresh_name}) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(fresh_name, b"v")
            done = ours(*words, "forceTerminateTransaction", "--transactionalId", fresh_name)
            assert str(done) == str(Finished(0, "", ""))
            described = admin.describe_transactions([fresh_name])[fresh_name]
            assert isinstance(described, TransactionDescription)
            assert described.state in ("Empty", "CompleteAbort")
            assert described.producer_epoch > 0
    assert asyncio.run(committed(any_broker, TopicPartition(fresh_name, 0))) == []


def test_kafkas_newer_tool_ends_what_hangs_and_what_is_open(tmp_path: Path) -> None:
    tool = ApacheKafka("4.1").check
    with run_kavka(tmp_path, SETTINGS) as broker:
        settings = {"bootstrap.servers": broker.bootstrap}
        words = ("kafka-transactions", "--bootstrap-server", broker.bootstrap)
        with Admin(settings) as admin, Producer(settings | OPEN) as opened:
            admin.create_topics([NewTopic("t", 1, 1), NewTopic("hung", 1, 1)])
            asyncio.run(leave_hanging(broker, "hung"))
            opened.init_transactions()
            opened.begin_transaction()
            opened.send("t", b"v")
            search = ("find-hanging", "--max-transaction-timeout", "-1", "--broker-id", "0")
            (row,) = tool(*words, *search).lines[1:]  # and not what is open by its coordinator
            assert row.split()[:4] == ["hung", "0", str(HANGING_PRODUCER), "0"]
            tool(*words, "abort", "--topic", "hung", "--partition", "0", "--start-offset", "0")
            assert tool(*words, *search).lines[1:] == []
            tool(*words, "forceTerminateTransaction", "--transactionalId", "open")
            described = admin.describe_transactions(["open"])["open"]
            assert isinstance(described, TransactionDescription)
            assert described.state in ("Empty", "CompleteAbort")
            with pytest.raises(FatalError, match="PRODUCER_FENCED"):
                opened.commit_transaction()
        for topic in ("t", "hung"):
            assert asyncio.run(committed(broker, TopicPartition(topic, 0))) == []
