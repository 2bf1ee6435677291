"""Clients that get an epoch with each end (KIP-890, part 2) get the same responses from kavka and Apache Kafka 4.1.

The machine is asked in this process, brokers over their sockets.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.core.machine import SendReply
from kavka.core.transaction.events import (
    AddPartitions,
    End,
    Event,
    InitProducer,
    MarkersWritten,
    NeedProducerId,
    ProducerIdGiven,
    SendMarkers,
    TransactionDecision,
)
from kavka.core.transaction.settings import TransactionSettings
from kavka.core.transaction.shard import TransactionShard
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.codec import decode, encode
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
)
from kavka.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kavka.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kavka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kavka.wire.messages.produce import (
    ProduceResponse,
)
from kavka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import until, wait_until_known
from kavka_compat.brokers import Broker
from kavka_compat.ours import run_kavka
from kavka_compat.raw import RawConnection, frame
from support.produce import batch, partition_response, produce_request

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]

_SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
}
_TOPIC, _ID = "compared", "tx"
_TIMEOUT_MS = 600_000
_RETRIED = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


Outcome = tuple[int, int, int]
"""Error, producer id and epoch; -1 where a response has none."""


class Asked:
    """The coordinator of a broker."""

    def __init__(self, connection: RawConnection) -> None:
        self._connection = connection

    def ask(self, request: Any, key: int, version: int, response: type[Any]) -> Any:
        """Send a request of a flexible version, and return its response."""
        head = struct.pack(">hhih", key, version, 1, -1) + b"\0"
        body = b"".join(bytes(part) for part in encode(request, version))  # type: ignore[arg-type]
        self._connection.send(frame(head + body))
        answered = self._connection.read_response()
        assert answered is not None, "the broker closed the connection"
        return decode(response, version, answered[1], 1)

    def init(self, producer_id: int, epoch: int) -> Outcome:
        request = InitProducerIdRequest(
            transactional_id=_ID,
            transaction_timeout_ms=_TIMEOUT_MS,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        response = self.ask(request, 22, 5, InitProducerIdResponse)
        return response.error_code, response.producer_id, response.producer_epoch

    def add(self, producer_id: int, epoch: int, partitions: list[int]) -> Outcome:
        transaction = AddPartitionsToTxnRequestTransaction(
            transactional_id=_ID,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[AddPartitionsToTxnRequestTopic(name=_TOPIC, partitions=partitions)],
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        response = self.ask(request, 24, 5, AddPartitionsToTxnResponse)
        (result,) = response.results_by_transaction
        (code,) = {row.partition_error_code for row in result.topic_results[0].results_by_partition}
        return code, -1, -1

    def end(self, producer_id: int, epoch: int, committed: bool) -> Outcome:
        request = EndTxnRequest(
            transactional_id=_ID,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=committed,
        )
        response = self.ask(request, 26, 5, EndTxnResponse)
        return response.error_code, response.producer_id, response.producer_epoch

    def produce(self, producer_id: int, epoch: int, sequence: int, partition: int) -> int:
        """Write one record by Produce 12, so that its leader adds the partition; return the error."""
        records = batch(
            b"v",
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        request = produce_request(_TOPIC, [(partition, records)], transactional_id=_ID)
        return partition_response(self.ask(request, 0, 12, ProduceResponse)).error_code

    def commit_offset(self, producer_id: int, epoch: int) -> int:
        """Commit an offset by TxnOffsetCommit 5, so that the group is added by it; return the error."""
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        request = TxnOffsetCommitRequest(
            transactional_id=_ID,
            group_id="g",
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=_TOPIC, partitions=[part])],
        )
        response = self.ask(request, 28, 5, TxnOffsetCommitResponse)
        code: int = response.topics[0].partitions[0].error_code
        return code

    def state(self) -> tuple[str, int, int, list[int]]:
        """Return state, id, epoch and partitions when nothing is being completed any more."""
        found: list[Any] = []

        def is_settled() -> bool:
            request = DescribeTransactionsRequest(transactional_ids=[_ID])
            response = self.ask(request, 65, 0, DescribeTransactionsResponse)
            found[:] = response.transaction_states
            return not found[0].transaction_state.startswith("Prepare")

        until(is_settled, 60)
        (one,) = found
        partitions = sorted(p for topic in one.topics for p in topic.partitions)
        return one.transaction_state, one.producer_id, one.producer_epoch, partitions

    def prepare(self) -> None:
        """Have the coordinator ready, with producer ids."""

        def serves() -> bool:
            group = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
            (found,) = self.ask(group, 10, 4, FindCoordinatorResponse).coordinators
            if found.error_code:
                return False
            find = FindCoordinatorRequest(key_type=1, coordinator_keys=[_ID])
            (found,) = self.ask(find, 10, 4, FindCoordinatorResponse).coordinators
            if found.error_code:
                return False
            request = InitProducerIdRequest(transactional_id="warm", transaction_timeout_ms=60_000)
            response = self.ask(request, 22, 5, InitProducerIdResponse)
            described = self.ask(
                DescribeTransactionsRequest(transactional_ids=[_ID]),
                65,
                0,
                DescribeTransactionsResponse,
            )
            return {response.error_code, described.transaction_states[0].error_code}.isdisjoint(
                _RETRIED
            )

        until(serves, 60)


class Ours:
    """Our machine, with a log and leaders that never let it wait."""

    def __init__(self) -> None:
        self._shard = TransactionShard(TransactionSettings())
        self._shard.loaded(0)
        self._next_producer_id = 100
        self._reply: Any = None

    def submit(self, event: Event) -> Any:
        self._run(self._shard.handle(event, 0))
        self._run(self._shard.tick(0))
        return self._reply

    def _run(self, decision: TransactionDecision) -> None:
        for record in decision.records:
            self._shard.apply(record)
        for effect in decision.effects:
            match effect:
                case SendReply():
                    self._reply = effect.reply
                case NeedProducerId():
                    self._next_producer_id += 1
                    self.submit(ProducerIdGiven(_ID, self._next_producer_id))
                case SendMarkers():
                    identity = (_ID, effect.producer_id, effect.producer_epoch)
                    self._run(self._shard.handle(MarkersWritten(*identity, effect.partitions), 0))

    def init(self, producer_id: int, epoch: int) -> Outcome:
        reply = self.submit(InitProducer(1, _ID, _TIMEOUT_MS, producer_id, epoch))
        return reply.error_code, reply.producer_id, reply.producer_epoch

    def add(self, producer_id: int, epoch: int, partitions: list[int]) -> Outcome:
        some = tuple(TopicPartition(_TOPIC, one) for one in partitions)
        reply = self.submit(AddPartitions(1, _ID, producer_id, epoch, some, 2))
        return reply.error_code, -1, -1

    def end(self, producer_id: int, epoch: int, committed: bool) -> Outcome:
        reply = self.submit(End(1, _ID, producer_id, epoch, committed, 2))
        return reply.error_code, reply.producer_id, reply.producer_epoch

    def state(self) -> tuple[str, int, int, list[int]]:
        shown = self._shard.describe(_ID)
        partitions = [one.partition for one in shown.partitions]
        return shown.state, shown.producer_id, shown.producer_epoch, partitions


def _live(theirs: Asked, ours: Asked | Ours, dice: Random, steps: int) -> set[str]:
    """Lead one life with both; return which states it came through."""
    labels: list[dict[int, int]] = [{}, {}]
    known: list[list[tuple[int, int]]] = [[(-1, -1)], [(-1, -1)]]
    story: list[str] = []
    states: set[str] = set()
    sides: tuple[Asked | Ours, ...] = (theirs, ours)
    before: tuple[str, int, int, list[int]] = ("Empty", -1, -1, [])

    def label(side: int, producer_id: int) -> int:
        return (
            producer_id
            if producer_id < 1
            else labels[side].setdefault(producer_id, len(labels[side]))
        )

    for _ in range(steps):
        count = len(known[0])
        place = count - 1 - min(dice.choice([0, 0, 0, 0, 0, 1, 1, 2, 3]), count - 1)
        action = dice.randint(0, 9)
        partitions, committed = dice.sample([0, 1, 2], dice.randint(1, 3)), dice.random() < 0.5
        says_its_id = before[0] != "Ongoing" and dice.random() < 0.7
        outcomes = []
        for side, asked in enumerate(sides):
            identity = known[side][place]
            if action == 0 or count == 1:
                outcome = asked.init(*(identity if says_its_id else (-1, -1)))
            elif action <= 4:
                outcome = asked.add(*identity, partitions)
            else:
                outcome = asked.end(*identity, committed)
                if asked is theirs and committed and before[0] == "CompleteAbort":
                    outcome = _as_of_kafka_20785(outcome, is_late=identity != before[1:3])
            if outcome[0] == 0 and outcome[1] != -1 and outcome[1:] not in known[side]:
                known[side].append(outcome[1:])
            outcomes.append((outcome[0], label(side, outcome[1]), outcome[2]))
        name = f"{action} with {label(1, known[1][place][0])}/{known[1][place][1]} {committed} {says_its_id}"
        story.append(f"{name}: {outcomes[0]}")
        assert outcomes[0] == outcomes[1], "\n".join([*story[-12:], f"kavka says {outcomes[1]}"])
        shown = [asked.state() for asked in sides]
        seen = [
            (state, label(side, *[pid]), *rest) for side, (state, pid, *rest) in enumerate(shown)
        ]
        assert seen[0] == seen[1], "\n".join([*story[-12:], f"{seen[0]} is not {seen[1]}"])
        before = shown[0]
        states.add(before[0])
    return states


def _as_of_kafka_20785(outcome: Outcome, *, is_late: bool) -> Outcome:
    """Return what later versions than 4.1 answer when a commit comes after an abort that was another one's."""
    if is_late and outcome[0] == ErrorCode.INVALID_TXN_STATE:
        return ErrorCode.PRODUCER_FENCED, *outcome[1:]
    return outcome


def _wear_out(theirs: Asked, ours: Asked | Ours, epochs: int) -> None:
    """Take epochs of the first producer id, until few are left."""
    for _ in range(epochs):
        assert theirs.init(-1, -1)[0] == ours.init(-1, -1)[0] == 0


@pytest.mark.parametrize(
    ("seed", "steps", "worn"),
    [
        (1, 200, 0),
        pytest.param(2, 1000, 0, marks=pytest.mark.long),
        pytest.param(8, 400, 32_760, marks=pytest.mark.long),
    ],
)
def test_the_machine_gives_the_responses_of_apache_kafka_4_1(
    seed: int, steps: int, worn: int, tmp_path: Path
) -> None:
    with _apache(tmp_path) as theirs:
        ours = Ours()
        _wear_out(theirs, ours, worn)
        states = _live(theirs, ours, Random(seed), steps)
    assert states == {"Empty", "Ongoing", "CompleteCommit", "CompleteAbort"}


@pytest.mark.parametrize(
    ("seed", "steps"), [(3, 150), pytest.param(4, 1000, marks=pytest.mark.long)]
)
def test_our_broker_gives_the_responses_of_apache_kafka_4_1(
    seed: int, steps: int, tmp_path: Path
) -> None:
    with _apache(tmp_path / "theirs") as theirs, _kavka(tmp_path / "ours") as ours:
        states = _live(theirs, ours, Random(seed), steps)
    assert states == {"Empty", "Ongoing", "CompleteCommit", "CompleteAbort"}


def _story(asked: Asked) -> list[object]:
    """Do what a producer does, and what comes late from it; return what is said."""
    _, identity, epoch = asked.init(-1, -1)
    assert epoch == 0
    return [
        asked.end(identity, 0, committed=True)[0],  # nothing was begun
        asked.produce(identity, 0, 0, 0),
        asked.produce(identity, 0, 1, 0),
        asked.produce(identity, 0, 0, 1),
        until_served(lambda: asked.commit_offset(identity, 0)),
        asked.state()[0],
        asked.end(identity, 0, committed=True)[::2],
        asked.state()[::2],
        # Late: of the transaction that is over.
        asked.produce(identity, 0, 2, 0),
        asked.produce(identity, 0, 0, 2),
        asked.commit_offset(identity, 0),
        asked.add(identity, 0, [2])[0],
        asked.end(identity, 0, committed=True)[::2],
        asked.end(identity, 0, committed=False)[0],
        asked.state()[::2],
        # In the next epoch sequences begin again.
        asked.produce(identity, 1, 5, 0),
        asked.state()[0],
        asked.produce(identity, 1, 0, 0),
        asked.produce(identity, 1, 1, 0),
        asked.produce(identity, 1, 0, 0),  # again: in the log already
        asked.end(identity, 0, committed=True)[0],
        asked.end(identity, 1, committed=False)[::2],
        asked.state()[::2],
        asked.end(identity, 1, committed=False)[::2],
        asked.end(identity, 2, committed=False)[::2],  # aborts what was never begun
        asked.state()[::2],
        # Others.
        asked.produce(identity, 9, 0, 1),
        asked.produce(identity + 1_000_000, 0, 0, 1),
        asked.commit_offset(identity, 9),
        asked.commit_offset(identity + 1_000_000, 0),
    ]


def until_served(ask: Callable[[], int]) -> int:
    """Ask until the group's coordinator is ready."""
    codes = [int(ErrorCode.NONE)]

    def is_served() -> bool:
        codes[0] = ask()
        return codes[0] not in {*_RETRIED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    until(is_served, 60)
    return codes[0]


def test_what_comes_late_is_answered_as_by_apache_kafka_4_1(tmp_path: Path) -> None:
    with _apache(tmp_path / "theirs") as theirs, _kavka(tmp_path / "ours") as ours:
        assert _story(ours) == _story(theirs)


@contextmanager
def _apache(path: Path) -> Iterator[Asked]:
    with ApacheKafka("4.1").run_broker(path, settings=_SETTINGS) as broker, _asked(broker) as asked:
        yield asked


@contextmanager
def _kavka(path: Path) -> Iterator[Asked]:
    with run_kavka(path, settings=_SETTINGS) as broker, _asked(broker) as asked:
        yield asked


@contextmanager
def _asked(broker: Broker) -> Iterator[Asked]:
    """Have the topic, and the coordinator ready."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(_TOPIC, 3, 1)])[_TOPIC].result(60)
    del admin
    for partition in range(3):
        wait_until_known([broker.bootstrap], _TOPIC, partition)
    with RawConnection.to(broker) as connection:
        asked = Asked(connection)
        asked.prepare()
        yield asked
