"""Transactions over three brokers: markers find their leaders, and outlive coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
)
from kavka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from kavka.wire.messages.describe_transactions import DescribeTransactionsRequest
from kavka.wire.messages.end_txn import EndTxnRequest
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.records.control import decode_end_marker
from kavka.wire.records.header import walk_complete
from support.waiting import eventually

Run = Callable[..., None]
Cluster = Any
STATE = TopicPartition("__transaction_state", 0)
ON_TWO, ON_THREE = TopicPartition("on-two", 0), TopicPartition("on-three", 0)
SETTINGS = {"transaction__state__log__num__partitions": "1"}
PATIENCE_S = 60
AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class Producer(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int


def coordinator(cluster: Cluster) -> int:
    number: int = cluster.leader(STATE)
    return number


async def ask(cluster: Cluster, request: Any, version: int, error: Callable[[Any], int]) -> Any:
    """Ask the present coordinator until its response is final."""

    async def response() -> Any:
        number = coordinator(cluster)
        if number >= 0:
            with suppress(ConnectionError, TimeoutError):
                return await cluster.send(number, request, version)
        return None

    return await eventually(
        response, lambda found: found is not None and error(found) not in AGAIN, PATIENCE_S
    )


async def begun(cluster: Cluster, transactional_id: str, *partitions: TopicPartition) -> Producer:
    """Begin a transaction with partitions."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=60_000
    )
    given = await ask(cluster, request, 4, lambda response: response.error_code)
    assert given.error_code == ErrorCode.NONE
    identity = Producer(transactional_id, given.producer_id, given.producer_epoch)
    await add(cluster, identity, *partitions)
    return identity


async def add(cluster: Cluster, identity: Producer, *partitions: TopicPartition) -> None:
    topics = [
        AddPartitionsToTxnRequestTopic(
            name=topic_partition.topic, partitions=[topic_partition.partition]
        )
        for topic_partition in partitions
    ]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=identity.transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=topics,
    )

    def error(response: Any) -> int:
        rows = [r for t in response.results_by_topic_v3_and_below for r in t.results_by_partition]
        code: int = rows[0].partition_error_code
        return code

    assert error(await ask(cluster, request, 3, error)) == ErrorCode.NONE


async def end(cluster: Cluster, identity: Producer, *, committed: bool = True) -> int:
    """Decide; a decision whose response was lost is asked for again."""
    request = EndTxnRequest(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=committed,
    )
    response = await ask(cluster, request, 3, lambda response: response.error_code)
    code: int = response.error_code
    return code


async def state(cluster: Cluster, transactional_id: str) -> str:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    response = await ask(cluster, request, 0, lambda r: r.transaction_states[0].error_code)
    name: str = response.transaction_states[0].transaction_state
    return name


async def until(cluster: Cluster, transactional_id: str, wanted: str) -> None:
    await eventually(lambda: state(cluster, transactional_id), lambda found: found == wanted)


def markers(cluster: Cluster, number: int, topic_partition: TopicPartition) -> list[str]:
    """Return what the markers in a broker's log say."""
    replica = cluster.brokers[number].replica_manager.find(topic_partition)
    read = replica.log.read(0, 1 << 20, replica.log.log_end_offset, True)
    if read.range is None:
        return []
    try:
        data = read.range.file.read_at(read.range.length, read.range.position)
    finally:
        read.range.release()
    found = [decode_end_marker(data, h) for h in walk_complete(data) if h.is_control]
    return [marker.control_type.name for marker in found if marker is not None]


async def ready(cluster: Cluster) -> None:
    """Make a topic on broker 2, one on broker 3, and the topic of transactions on all, led by broker 1."""
    await cluster.create(ON_TWO.topic, [2])
    await cluster.create(ON_THREE.topic, [3])
    await cluster.create(STATE.topic, [1, 2, 3])


def test_a_partition_without_leader_delays_no_other_and_gets_its_marker_later(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await ready(cluster)
        stuck = await begun(cluster, "stuck", ON_TWO, ON_THREE)
        other = await begun(cluster, "other", ON_THREE)
        await cluster.kill(2)
        assert await end(cluster, stuck) == ErrorCode.NONE
        assert await end(cluster, other) == ErrorCode.NONE
        await until(cluster, "other", "CompleteCommit")
        await cluster.until(lambda: markers(cluster, 3, ON_THREE) == ["COMMIT", "COMMIT"])
        assert await state(cluster, "stuck") == "PrepareCommit"
        await cluster.start(2)
        await until(cluster, "stuck", "CompleteCommit")
        assert markers(cluster, 2, ON_TWO) == ["COMMIT"]
        assert markers(cluster, 3, ON_THREE) == ["COMMIT", "COMMIT"]

    run(story, **SETTINGS)


def test_a_partition_with_too_few_replicas_delays_no_other(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await ready(cluster)
        narrow = TopicPartition("narrow", 0)
        await cluster.create(narrow.topic, [3, 2])
        cluster.partition(3, narrow).min_insync_replicas = 2
        await cluster.kill(2)
        await cluster.until(lambda: cluster.in_sync(narrow) == {3}, "broker 2 is out of sync")
        stuck = await begun(cluster, "stuck", narrow, ON_THREE)
        other = await begun(cluster, "other", ON_THREE)
        assert await end(cluster, stuck, committed=False) == ErrorCode.NONE
        for _ in range(3):
            assert await end(cluster, other) == ErrorCode.NONE
            await add(cluster, other, ON_THREE)
        assert await state(cluster, "stuck") == "PrepareAbort"
        assert markers(cluster, 3, narrow) == []
        await cluster.start(2)
        await until(cluster, "stuck", "CompleteAbort")
        assert markers(cluster, 3, narrow) == ["ABORT"]

    run(story, **SETTINGS)


def test_a_deleted_topic_needs_no_marker(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await ready(cluster)
        identity = await begun(cluster, "x", ON_TWO, ON_THREE)
        gone = DeleteTopicsRequest(
            topics=[DeleteTopicsRequestTopic(name=ON_TWO.topic)], timeout_ms=10_000
        )
        deleted = await cluster.send(cluster.controller, gone)
        assert deleted.responses[0].error_code == ErrorCode.NONE
        assert await end(cluster, identity) == ErrorCode.NONE
        await until(cluster, "x", "CompleteCommit")
        assert markers(cluster, 3, ON_THREE) == ["COMMIT"]

    run(story, **SETTINGS)


@pytest.mark.parametrize("committed", [True, False])
def test_another_coordinator_goes_on_with_an_open_transaction(run: Run, committed: bool) -> None:
    async def story(cluster: Cluster) -> None:
        await ready(cluster)
        identity = await begun(cluster, "x", ON_THREE)
        await cluster.kill(1)
        assert await end(cluster, identity, committed=committed) == ErrorCode.NONE
        outcome = "Commit" if committed else "Abort"
        await until(cluster, "x", f"Complete{outcome}")
        assert markers(cluster, 3, ON_THREE) == [outcome.upper()]

    run(story, **SETTINGS)


@pytest.mark.parametrize("committed", [True, False])
def test_another_coordinator_sends_the_markers_of_what_was_decided(
    run: Run, committed: bool
) -> None:
    async def story(cluster: Cluster) -> None:
        await ready(cluster)
        identity = await begun(cluster, "x", ON_TWO, ON_THREE)
        await cluster.kill(2)
        assert await end(cluster, identity, committed=committed) == ErrorCode.NONE
        outcome = "Commit" if committed else "Abort"
        await cluster.until(lambda: markers(cluster, 3, ON_THREE) == [outcome.upper()])
        await cluster.kill(1)
        await until(cluster, "x", f"Prepare{outcome}")
        changing = asyncio.create_task(end(cluster, identity, committed=not committed))
        await cluster.start(2)
        await until(cluster, "x", f"Complete{outcome}")
        assert await changing == ErrorCode.INVALID_TXN_STATE
        assert markers(cluster, 2, ON_TWO) == [outcome.upper()]
        assert set(markers(cluster, 3, ON_THREE)) == {outcome.upper()}

    run(story, **SETTINGS)


def test_another_coordinator_knows_what_is_complete(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await ready(cluster)
        identity = await begun(cluster, "x", ON_THREE)
        assert await end(cluster, identity) == ErrorCode.NONE
        shard = cluster.brokers[1].transactions.shard_of("x")
        await cluster.until(lambda: shard.machine.durable()["x"].state.title == "CompleteCommit")
        await cluster.kill(1)
        assert await end(cluster, identity) == ErrorCode.NONE  # the same once more
        assert await end(cluster, identity, committed=False) == ErrorCode.INVALID_TXN_STATE
        again = await begun(cluster, "x", ON_THREE)
        assert (again.producer_id, again.epoch) == (identity.producer_id, identity.epoch + 1)
        assert markers(cluster, 3, ON_THREE) == ["COMMIT"]

    run(story, **SETTINGS)


def test_another_coordinator_comes_to_an_end_that_was_owed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kavka.core.transaction.shard.COMPLETION_DELAY_MS", 600_000)

    async def story(cluster: Cluster) -> None:
        await ready(cluster)
        identity = await begun(cluster, "x", ON_THREE)
        assert await end(cluster, identity) == ErrorCode.NONE
        await until(cluster, "x", "CompleteCommit")
        shard = cluster.brokers[1].transactions.shard_of("x")
        assert shard.machine.durable()["x"].state.title == "PrepareCommit"
        await cluster.kill(1)
        await until(cluster, "x", "CompleteCommit")
        assert await end(cluster, identity) == ErrorCode.NONE  # the same once more
        assert set(markers(cluster, 3, ON_THREE)) == {"COMMIT"}

    run(story, **SETTINGS)


def test_no_transaction_is_decided_twice_when_the_coordinator_stops_cleanly(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await ready(cluster)
        identity = await begun(cluster, "x", ON_THREE)
        ending = asyncio.create_task(end(cluster, identity))
        await asyncio.sleep(0)
        await cluster.stop(1)
        assert await ending == ErrorCode.NONE
        await until(cluster, "x", "CompleteCommit")
        assert set(markers(cluster, 3, ON_THREE)) == {"COMMIT"}

    run(story, **SETTINGS)


def test_its_topic_is_replicated_as_kafka_does(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        transactions = cluster.brokers[2].transactions
        assert await transactions.leader_of("x") in (
            1,
            2,
            3,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        )
        await cluster.until(lambda: cluster.in_sync(STATE) == {1, 2, 3})
        leader = cluster.partition(coordinator(cluster), STATE)
        assert leader.min_insync_replicas == 2

    run(story, **SETTINGS)
