"""The same questions to the transaction coordinators of Apache Kafka 3.9 and of kavka, at random: the same responses.

One life of several producers, good and bad, is led with both brokers step by step. Producer ids are compared by the
order in which they appeared. After each step both are left to complete what they have decided, so that no response
depends on which is faster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.errors import ErrorCode
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
)
from kavka.wire.messages.describe_transactions import DescribeTransactionsRequest
from kavka.wire.messages.end_txn import EndTxnRequest
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.list_transactions import ListTransactionsRequest
from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import wait_until_known
from kavka_compat.brokers import Broker
from kavka_compat.ours import run_kavka
from support.waiting import eventually

pytestmark = [pytest.mark.compat, pytest.mark.timeout(240)]

_SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
}
_TOPIC = "compared"
_IDS = ["first", "second"]
_PRODUCERS = 5
_RETRIED = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


@dataclass
class Side:
    """One broker, and what its producers know."""

    peer: Peer
    known: list[tuple[int, int]] = field(default_factory=lambda: [(-1, -1)] * _PRODUCERS)
    labels: dict[int, int] = field(default_factory=dict)

    def label(self, producer_id: int) -> int:
        """Return the same number for the n-th producer id of either broker."""
        return (
            producer_id
            if producer_id < 0
            else self.labels.setdefault(producer_id, len(self.labels))
        )

    async def send(self, request: object, version: int | None = None) -> Any:
        """Return the response."""
        return await self.peer.send(request, version)

    async def describe(self, transactional_id: str) -> Any:
        """Return a transactional id's state when nothing is being completed any more."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

        async def state() -> Any:
            (found,) = (await self.send(request)).transaction_states
            return found

        return await eventually(
            state, lambda found: not found.transaction_state.startswith("Prepare")
        )


Question = Callable[[Side], Any]
"""Asks one broker, and returns what is to be the same with both."""


def _init(
    client: int, transactional_id: str, version: int, says_its_id: bool, timeout: int
) -> Question:
    async def ask(side: Side) -> Any:
        mine = side.known[client] if says_its_id else (-1, -1)
        extra = {} if version < 3 else {"producer_id": mine[0], "producer_epoch": mine[1]}
        response = await side.send(
            InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout,
                **extra,  # type: ignore[arg-type]
            ),
            version,
        )
        if response.error_code == 0:
            side.known[client] = (response.producer_id, response.producer_epoch)
        return response.error_code, side.label(response.producer_id), response.producer_epoch

    return ask


def _add(
    client: int, transactional_id: str, version: int, partitions: list[int], topic: str
) -> Question:
    async def ask(side: Side) -> Any:
        topics = [AddPartitionsToTxnRequestTopic(name=topic, partitions=partitions)]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=side.known[client][0],
            v3_and_below_producer_epoch=side.known[client][1],
            v3_and_below_topics=topics,
        )
        response = await side.send(request, version)
        return _codes(response.results_by_topic_v3_and_below)

    return ask


def _verify(client: int, transactional_id: str, version: int, partitions: list[int]) -> Question:
    async def ask(side: Side) -> Any:
        transaction = AddPartitionsToTxnRequestTransaction(
            transactional_id=transactional_id,
            producer_id=side.known[client][0],
            producer_epoch=side.known[client][1],
            verify_only=True,
            topics=[AddPartitionsToTxnRequestTopic(name=_TOPIC, partitions=partitions)],
        )
        response = await side.send(AddPartitionsToTxnRequest(transactions=[transaction]), version)
        return [_codes(one.topic_results) for one in response.results_by_transaction]

    return ask


def _codes(topics: Any) -> list[tuple[str, int, int]]:
    return sorted(
        (topic.name, row.partition_index, row.partition_error_code)
        for topic in topics
        for row in topic.results_by_partition
    )


def _add_offsets(client: int, transactional_id: str, version: int, group: str) -> Question:
    async def ask(side: Side) -> Any:
        producer_id, epoch = side.known[client]
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=group,
        )
        return (await side.send(request, version)).error_code

    return ask


def _end(client: int, transactional_id: str, version: int, committed: bool) -> Question:
    async def ask(side: Side) -> Any:
        producer_id, epoch = side.known[client]
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=committed,
        )
        return (await side.send(request, version)).error_code

    return ask


def _describe(transactional_id: str) -> Question:
    async def ask(side: Side) -> Any:
        state = await side.describe(transactional_id)
        topics = sorted((row.topic, sorted(row.partitions)) for row in state.topics)
        return (
            state.error_code,
            state.transaction_state,
            state.transaction_timeout_ms,
            # Kafka shows the time of the last transaction until it loads the id again, kavka that none has begun.
            state.transaction_state == "Empty" or min(state.transaction_start_time_ms, 1),
            side.label(state.producer_id) if state.error_code == 0 else state.producer_id,
            state.producer_epoch,
            topics,
        )

    return ask


def _list(states: list[str], longer_than_ms: int) -> Question:
    async def ask(side: Side) -> Any:
        response = await side.send(
            ListTransactionsRequest(state_filters=states, duration_filter=longer_than_ms), 1
        )
        rows = sorted(
            (row.transactional_id, side.label(row.producer_id), row.transaction_state)
            for row in response.transaction_states
        )
        return response.error_code, sorted(response.unknown_state_filters), rows

    return ask


def _question(dice: Random, open_ids: set[str]) -> tuple[str, Question]:
    """Return what to ask, and its name.

    A producer that says its id while a transaction is open is left out: Kafka 3.9 lets a former life abort the
    transaction of its successor before it is answered that it is fenced, kavka answers that at once.
    """
    client = dice.choice([0] * 6 + [1] * 6 + [2, 3, 4])
    transactional_id = _IDS[client % 2]
    partitions = dice.sample([0, 1, 2], dice.randint(1, 3))
    match dice.randint(0, 17):
        case 0:
            mine = transactional_id not in open_ids and dice.random() < 0.7
            version, timeout = dice.randint(3, 5), dice.choice([30_000, 60_000, 60_000, 0, 10**8])
            name = f"init {client} {transactional_id} v{version} mine={mine} timeout={timeout}"
            return name, _init(client, transactional_id, version, mine, timeout)
        case 1:
            version = dice.randint(0, 2)
            name = f"init {client} {transactional_id} v{version}"
            return name, _init(client, transactional_id, version, False, 60_000)
        case 2 | 3 | 4 | 5:
            version, topic = dice.randint(0, 3), dice.choice([_TOPIC] * 9 + ["unknown"])
            name = f"add {client} {transactional_id} v{version} {topic} {partitions}"
            return name, _add(client, transactional_id, version, partitions, topic)
        case 6 | 7:
            # Not version 4: it does not know TRANSACTION_ABORTABLE, which 3.9 answers all the same.
            name = f"verify {client} {transactional_id}"
            return name, _verify(client, transactional_id, 5, partitions[: dice.randint(1, 3)])
        case 8:
            version, group = dice.randint(0, 4), dice.choice(["g", "h", ""])
            name = f"add-offsets {client} {transactional_id} v{version} {group!r}"
            return name, _add_offsets(client, transactional_id, version, group)
        case 9:
            states = dice.choice([[], ["Ongoing"], ["Empty", "CompleteCommit"], ["Nonsense"]])
            longer = dice.choice([-1, 10**9]) if states == ["Ongoing"] else -1
            return f"list {states} {longer}", _list(states, longer)
        case 10:
            stranger = dice.choice(["", "nonexistent", *_IDS])
            return f"describe {stranger!r}", _describe(stranger)
        case 11:
            stranger = dice.choice(["", "nonexistent"])
            return f"end of {stranger!r}", _end(client, stranger, dice.randint(0, 4), True)
        case _:
            version, committed = dice.randint(0, 4), dice.random() < 0.5
            name = f"end {client} {transactional_id} v{version} committed={committed}"
            return name, _end(client, transactional_id, version, committed)


async def _prepare(side: Side) -> None:
    """Have the internal topics made, and wait until the coordinators serve."""
    for key_type, key in ((0, "g"), (0, "h"), (1, "warm"), *((1, one) for one in _IDS)):
        find = FindCoordinatorRequest(key=key, key_type=key_type)
        await _insist(partial(side.send, find, 2))
    for one in _IDS:
        request = DescribeTransactionsRequest(transactional_ids=[one])

        async def first_state(request: DescribeTransactionsRequest = request) -> Any:
            return (await side.send(request)).transaction_states[0]

        await _insist(first_state)
    # Apache Kafka gets its first block of producer ids when the first one is asked for.
    first = InitProducerIdRequest(transactional_id="warm", transaction_timeout_ms=60_000)
    await _insist(partial(side.send, first))


async def _insist(ask: Callable[[], Any]) -> None:
    await eventually(ask, lambda response: response.error_code not in _RETRIED)


async def _live(brokers: tuple[Broker, Broker], dice: Random, steps: int) -> dict[str, int]:
    """Lead the life; return how often each kind of question was answered with success."""
    sides = [Side(await Peer.connect(TcpNetwork(), "127.0.0.1", broker.port)) for broker in brokers]
    successes: dict[str, int] = {}
    story: list[str] = []
    try:
        for side in sides:
            await _prepare(side)
        open_ids: set[str] = set()
        for _ in range(steps):
            name, ask = _question(dice, open_ids)
            theirs, ours = [await ask(side) for side in sides]
            story.append(f"{name}: {theirs}")
            assert theirs == ours, "\n".join([*story[-12:], f"kavka says: {ours}"])
            kind = name.split()[0]
            successes[kind] = successes.get(kind, 0) + _is_success(theirs)
            for transactional_id in _IDS:
                theirs, ours = [await _describe(transactional_id)(side) for side in sides]
                assert theirs == ours, "\n".join([*story[-12:], f"{theirs} is not {ours}"])
                open_ids.discard(transactional_id)
                if theirs[1] == "Ongoing":
                    open_ids.add(transactional_id)
    finally:
        for side in sides:
            side.peer.close()
    return successes


def _is_success(response: Any) -> bool:
    code = response[0] if isinstance(response, tuple) else response
    if isinstance(response, list):
        rows = response[0] if response and isinstance(response[0], list) else response
        return bool(rows) and all(row[2] == 0 for row in rows)
    return bool(code == 0)


def _create_topic(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(_TOPIC, 3, 1)])[_TOPIC].result(60)
    for partition in range(3):
        wait_until_known([broker.bootstrap], _TOPIC, partition)


@pytest.mark.parametrize(
    ("seed", "steps"), [(1, 150), pytest.param(2, 500, marks=pytest.mark.long)]
)
def test_coordinators_of_apache_kafka_3_9_and_kavka_give_the_same_responses(
    seed: int, steps: int, tmp_path: Path
) -> None:
    directories = [tmp_path / "apache", tmp_path / "kavka"]
    for directory in directories:
        directory.mkdir()
    with (
        ApacheKafka("3.9").run_broker(directories[0], settings=_SETTINGS) as theirs,
        run_kavka(directories[1], _SETTINGS) as ours,
    ):
        for broker in (theirs, ours):
            _create_topic(broker)
        successes = asyncio.run(_live((theirs, ours), Random(seed), steps))
    kinds = {"init", "add", "verify", "add-offsets", "list", "describe", "end"}
    assert {kind for kind, count in successes.items() if count} == kinds, successes
