"""Answers of a transaction coordinator that it does not write are confirmed: none is of the past (decision 013)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.net.peer import Peer
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
)
from kavka.wire.messages.end_txn import EndTxnRequest
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.waiting import until

Play = Callable[..., None]
STATE = TopicPartition("__transaction_state", 0)
OFFSETS = TopicPartition("__consumer_offsets", 0)
SETTINGS = {
    "transaction__state__log__num__partitions": "1",
    "request__timeout__ms": "500",
}


async def ended_once(cluster: Any) -> tuple[Peer, int, int]:
    """Commit a transaction at broker 1 while it is alone; then broker 2 is in sync, and never follows: it may lead."""
    await cluster.start(1)
    cluster.ports[2] = cluster.ports[1]
    await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2])
    await cluster.coordinate(STATE, in_sync=[1], epoch=0)
    peer: Peer = await cluster.peer(1)

    def shard() -> Any:
        return cluster.brokers[1].transactions.shard_of("x")

    await until(lambda: not shard().machine.is_loading)
    identity = await transact(peer)
    await until(lambda: stored(cluster, 1) == "CompleteCommit")
    # The in-sync set grows without a new epoch of the leader, as by AlterPartition: the shard stays loaded.
    partition = cluster.replica(1, STATE).partition
    partition.in_sync_replicas = (1, 2)
    assert partition.may_be_replaced
    return peer, *identity


def stored(cluster: Any, number: int) -> str:
    """Return the state that a broker's coordinator has stored; empty where there is none."""
    shard = cluster.brokers[number].transactions.shard_of("x")
    found = {} if isinstance(shard, ErrorCode) else shard.machine.durable()
    return str(found["x"].state.title) if "x" in found else ""


async def transact(peer: Peer) -> tuple[int, int]:
    """Commit the first transaction of a producer; return its id and epoch."""
    init = await peer.send(
        InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4
    )
    assert init.error_code == ErrorCode.NONE, init
    identity = init.producer_id, init.producer_epoch
    await open_one(peer, *identity)
    assert await end(peer, *identity) is ErrorCode.NONE
    return identity


async def open_one(peer: Peer, producer_id: int, producer_epoch: int) -> None:
    added = await peer.send(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnRequestTopic(name="t", partitions=[0])],
        ),
        3,
    )
    (topic,) = added.results_by_topic_v3_and_below
    assert topic.results_by_partition[0].partition_error_code == ErrorCode.NONE, added


async def end(peer: Peer, producer_id: int, producer_epoch: int, version: int = 4) -> ErrorCode:
    request = EndTxnRequest(
        transactional_id="x", producer_id=producer_id, producer_epoch=producer_epoch, committed=True
    )
    return ErrorCode.of((await peer.send(request, version)).error_code)


def test_a_commit_is_not_acknowledged_from_the_memory_of_a_deposed_coordinator(play: Play) -> None:
    """The producer's next transaction is open at broker 2: this commit is of that one, and is stored nowhere."""

    async def story(cluster: Any) -> None:
        peer, *identity = await ended_once(cluster)
        assert await end(peer, *identity) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(story, **SETTINGS)


def test_a_deposed_coordinator_fences_no_producer_from_memory(play: Play) -> None:
    """The id was taken over at broker 2; the Spark sink notes a part that is open as aborted."""

    async def story(cluster: Any) -> None:
        peer, producer_id, producer_epoch = await ended_once(cluster)
        code = await end(peer, producer_id, producer_epoch + 1)
        assert code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(story, **SETTINGS)


def test_a_wrong_request_is_refused_at_once_and_writes_nothing(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer, *_ = await ended_once(cluster)
        before = cluster.replica(1, STATE).log.log_end_offset
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=10**9)
        refused = await peer.send(request, 4)
        assert refused.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert cluster.replica(1, STATE).log.log_end_offset == before

    play(story, **SETTINGS)


def test_a_producer_that_waits_for_a_confirmation_is_sent_away_when_the_coordinator_resigns(
    play: Play,
) -> None:
    async def story(cluster: Any) -> None:
        peer, *identity = await ended_once(cluster)
        before = cluster.replica(1, STATE).log.log_end_offset
        shell = cluster.brokers[1].transactions.shard_of("x")
        asked = asyncio.ensure_future(end(peer, *identity))
        await until(lambda: cluster.replica(1, STATE).log.log_end_offset == before + 1)
        await cluster.coordinate(STATE, in_sync=[2], epoch=1, leader=2)
        assert await asked is ErrorCode.NOT_COORDINATOR
        assert not shell._confirming

    play(story, **SETTINGS | {"request__timeout__ms": "2000"})


@pytest.mark.slow
def test_a_commit_that_is_acknowledged_is_stored_at_the_coordinator_that_counts(play: Play) -> None:
    """Two brokers; broker 2 is made the leader, which broker 1 has not heard. The producer asks broker 1 to commit."""

    async def story(cluster: Any) -> None:
        await cluster.start(1, 2)
        await cluster.leader_and_isr(1, isr=[1], replicas=[1, 2])
        await cluster.coordinate(STATE, in_sync=[1, 2], epoch=0, to=(1, 2))

        old, new = await cluster.peer(1), await cluster.peer(2)
        identity = await transact(old)
        await until(lambda: stored(cluster, 1) == "CompleteCommit")
        ended = cluster.replica(1, STATE).log.log_end_offset
        await until(lambda: cluster.replica(2, STATE).partition.high_watermark == ended)

        await cluster.coordinate(STATE, in_sync=[2], epoch=1, leader=2, to=(2,))
        await until(lambda: stored(cluster, 2) == "CompleteCommit")
        await open_one(new, *identity)  # the second transaction
        assert (stored(cluster, 1), stored(cluster, 2)) == ("CompleteCommit", "Ongoing")
        code = await end(
            old, *identity
        )  # the producer lost its connection, and was sent to broker 1
        assert code is ErrorCode.COORDINATOR_NOT_AVAILABLE, (
            f"at the coordinator it is {stored(cluster, 2)}"
        )

    play(story, **SETTINGS | {"request__timeout__ms": "2000"})


@pytest.mark.parametrize(("later_epochs", "version"), [(0, 3), (0, 4), (1, 3)])
def test_offsets_are_not_refused_from_the_memory_of_a_deposed_coordinator(
    play: Play, later_epochs: int, version: int
) -> None:
    """The group takes part, and the producer may have a later epoch, at broker 2; its response would be fatal."""

    async def story(cluster: Any) -> None:
        peer, producer_id, producer_epoch = await ended_once(cluster)
        await cluster.coordinate(OFFSETS, in_sync=[1], epoch=0)
        row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=producer_id,
            producer_epoch=producer_epoch + later_epochs,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[row])],
        )
        (topic,) = (await peer.send(request, version)).topics
        assert topic.partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    play(story, **SETTINGS, offsets__topic__num__partitions="1")


def test_a_verified_partition_is_answered_without_a_record(play: Play) -> None:
    async def story(cluster: Any) -> None:
        peer, *identity = await ended_once(cluster)
        partition = cluster.replica(1, STATE).partition
        partition.in_sync_replicas = (1,)
        await open_one(peer, *identity)
        partition.in_sync_replicas = (1, 2)
        before = cluster.replica(1, STATE).log.log_end_offset
        assert await verified(peer, *identity) is ErrorCode.NONE
        assert cluster.replica(1, STATE).log.log_end_offset == before

    play(story, **SETTINGS)


async def verified(peer: Peer, producer_id: int, producer_epoch: int) -> ErrorCode:
    """Ask as the leader of `t-0` does."""
    transaction = AddPartitionsToTxnRequestTransaction(
        transactional_id="x",
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        verify_only=True,
        topics=[AddPartitionsToTxnRequestTopic(name="t", partitions=[0])],
    )
    response = await peer.send(AddPartitionsToTxnRequest(transactions=[transaction]), 4)
    (topic,) = response.results_by_transaction[0].topic_results
    return ErrorCode.of(topic.results_by_partition[0].partition_error_code)
