"""The transaction coordinator of one broker, on the wire: the rules of Kafka 3.9 and its codes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NamedTuple

import pytest

from kavka.core.shards import partition_for
from kavka.core.transaction.records import StoredTransaction, TransactionRecord, TransactionState
from kavka.core.transaction.stored import to_bytes
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
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
from kavka.wire.records.batch import BatchBuilder
from kavka.wire.records.control import decode_end_marker
from kavka.wire.records.header import walk_complete
from support.one_broker import SILENT, Run, Served
from support.waiting import until

ID = "tx"
PARTITIONS = 3
SETTINGS = {"transaction__state__log__num__partitions": str(PARTITIONS)}
TRIES = 10_000


class Producer(NamedTuple):
    producer_id: int
    epoch: int


async def ready(served: Served) -> None:
    """Make the topics `t` and `__transaction_state`."""
    await served.topic("t")
    found = await served.send(FindCoordinatorRequest(key=ID, key_type=1), 3)
    assert found.error_code == ErrorCode.NONE


async def init(
    served: Served, version: int = 4, *, timeout_ms: int = 60_000, was: Producer | None = None
) -> Any:
    """Ask until the transaction before is over."""
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=timeout_ms)
    if was is not None:
        request.producer_id, request.producer_epoch = was
    for _ in range(TRIES):
        response = await served.send(request, version)
        if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            return response
    raise AssertionError("a transaction does not end")


async def producer(served: Served) -> Producer:
    given = await init(served)
    assert given.error_code == ErrorCode.NONE
    return Producer(given.producer_id, given.producer_epoch)


async def add(
    served: Served, identity: Producer, version: int = 3, **topics: list[int]
) -> dict[tuple[str, int], int]:
    """Add partitions; ask until the transaction before is over."""
    asked = [AddPartitionsToTxnRequestTopic(name=n, partitions=p) for n, p in topics.items()]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=asked,
    )
    for _ in range(TRIES):
        response = await served.send(request, version)
        codes = {
            (topic.name, row.partition_index): row.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        }
        if ErrorCode.CONCURRENT_TRANSACTIONS not in codes.values():
            return codes
    raise AssertionError("a transaction does not end")


async def end(
    served: Served, identity: Producer, version: int = 3, *, committed: bool = True
) -> int:
    request = EndTxnRequest(
        transactional_id=ID,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=committed,
    )
    response = await served.send(request, version)
    code: int = response.error_code
    return code


async def state(served: Served) -> Any:
    response = await served.send(DescribeTransactionsRequest(transactional_ids=[ID]))
    return response.transaction_states[0]


async def until_it_is(served: Served, name: str) -> Any:
    for _ in range(TRIES):
        described = await state(served)
        if described.transaction_state == name:
            return described
    raise AssertionError(f"it is {described.transaction_state}, not {name}")


def markers(served: Served, topic: str = "t") -> list[str]:
    """Return what the markers in partition 0 of a topic say, in order."""
    replica = served.broker.replica_manager.find(TopicPartition(topic, 0))
    read = replica.log.read(0, 1 << 20, replica.log.log_end_offset, True)
    if read.range is None:
        return []
    try:
        data = read.range.file.read_at(read.range.length, read.range.position)
    finally:
        read.range.release()
    found = [decode_end_marker(data, h) for h in walk_complete(data) if h.is_control]
    return [marker.control_type.name for marker in found if marker is not None]


# A transaction


@pytest.mark.parametrize(("committed", "over"), [(True, "Commit"), (False, "Abort")])
def test_the_outcome_is_written_to_the_partitions(run: Run, committed: bool, over: str) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        identity = await producer(served)
        assert identity == Producer(0, 0)
        assert await add(served, identity, t=[0]) == {("t", 0): ErrorCode.NONE}
        described = await until_it_is(served, "Ongoing")
        assert [(t.topic, list(t.partitions)) for t in described.topics] == [("t", [0])]
        batch = {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        await served.produce("t", b"v", acks=-1, **batch)
        assert await end(served, identity, committed=committed) == ErrorCode.NONE
        described = await until_it_is(served, f"Complete{over}")
        assert (described.topics, described.producer_id, described.producer_epoch) == ([], 0, 0)
        assert markers(served) == [over.upper()]

    run(story, **SETTINGS)


def test_the_same_outcome_may_be_asked_for_again(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        identity = await producer(served)
        await add(served, identity, t=[0])
        assert await end(served, identity) == ErrorCode.NONE
        await until_it_is(served, "CompleteCommit")
        assert await end(served, identity) == ErrorCode.NONE
        assert await end(served, identity, committed=False) == ErrorCode.INVALID_TXN_STATE

    run(story, **SETTINGS)


def test_a_transaction_goes_on_with_the_broker_after_a_restart(run: Run) -> None:
    async def before(served: Served) -> None:
        await ready(served)
        await add(served, await producer(served), t=[0])

    async def after(served: Served) -> None:
        described = await until_it_is(served, "Ongoing")
        assert [(t.topic, list(t.partitions)) for t in described.topics] == [("t", [0])]
        assert await end(served, Producer(0, 0)) == ErrorCode.NONE
        await until_it_is(served, "CompleteCommit")
        assert markers(served) == ["COMMIT"]

    run(before, **SETTINGS)
    run(after, **SETTINGS)


def test_a_transaction_that_lasts_too_long_is_aborted_and_its_producer_fenced(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        given = await init(served, timeout_ms=1)
        identity = Producer(given.producer_id, given.producer_epoch)
        await add(served, identity, t=[0])
        described = await until_it_is(served, "CompleteAbort")
        assert described.producer_epoch == 1
        assert markers(served) == ["ABORT"]
        assert await end(served, identity) == ErrorCode.PRODUCER_FENCED
        assert f"transaction timed out id={ID} producer_id={identity.producer_id}" in caplog.text

    setting = "transaction__abort__timed__out__transaction__cleanup__interval__ms"
    run(story, **SETTINGS, **{setting: "1"})


# Producers


def test_a_new_life_ends_what_the_former_began(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        former = await producer(served)
        await add(served, former, t=[0])
        assert await producer(served) == Producer(former.producer_id, 2)  # 1 fenced the former
        assert markers(served) == ["ABORT"]
        assert await end(served, former) == ErrorCode.PRODUCER_FENCED

    run(story, **SETTINGS)


@pytest.mark.parametrize(
    ("version", "code"), [(3, "INVALID_PRODUCER_EPOCH"), (4, "PRODUCER_FENCED")]
)
def test_old_versions_know_no_fenced_producer(run: Run, version: int, code: str) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        former = await producer(served)
        await producer(served)
        fenced = await init(served, version, was=former)
        assert (fenced.error_code, fenced.producer_id) == (ErrorCode[code], -1)
        older = 2 * (version - 3) + 1  # of the other APIs: 1 and 3
        assert await end(served, former, older) == ErrorCode[code]
        assert await add(served, former, older, t=[0]) == {("t", 0): ErrorCode[code]}
        request = AddOffsetsToTxnRequest(
            transactional_id=ID,
            producer_id=former.producer_id,
            producer_epoch=former.epoch,
            group_id="g",
        )
        assert (await served.send(request, older)).error_code == ErrorCode[code]

    run(story, **SETTINGS)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_time_outs_have_bounds(run: Run, timeout_ms: int) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        refused = await init(served, timeout_ms=timeout_ms)
        assert refused.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT

    run(story, **SETTINGS)


def test_a_transactional_id_without_topic_has_no_coordinator(run: Run) -> None:
    async def story(served: Served) -> None:
        assert (await init(served)).error_code == ErrorCode.NOT_COORDINATOR
        assert await end(served, Producer(0, 0)) == ErrorCode.NOT_COORDINATOR
        assert (await state(served)).error_code == ErrorCode.NOT_COORDINATOR

    run(story, **SETTINGS)


# Partitions


def test_nothing_is_added_when_a_partition_is_not_known(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        identity = await producer(served)
        assert await add(served, identity, t=[0, 7], nothing=[0]) == {
            ("t", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
            ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert (await state(served)).transaction_state == "Empty"

    run(story, **SETTINGS)


@pytest.mark.parametrize(
    ("version", "code"), [(4, "INVALID_TXN_STATE"), (5, "TRANSACTION_ABORTABLE")]
)
def test_brokers_look_for_partitions_of_several_transactions(
    run: Run, version: int, code: str
) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        await served.topic("u")
        identity = await producer(served)
        await add(served, identity, t=[0])
        topics = [AddPartitionsToTxnRequestTopic(name=name, partitions=[0]) for name in ("t", "u")]
        asked = [
            AddPartitionsToTxnRequestTransaction(
                transactional_id=name,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                verify_only=True,
                topics=topics,
            )
            for name in (ID, "other")
        ]
        response = await served.send(AddPartitionsToTxnRequest(transactions=asked), version)
        found = {
            one.transactional_id: [
                row.partition_error_code
                for topic in one.topic_results
                for row in topic.results_by_partition
            ]
            for one in response.results_by_transaction
        }
        unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert found == {ID: [ErrorCode.NONE, ErrorCode[code]], "other": [unknown, unknown]}

    run(story, **SETTINGS)


def test_the_partition_of_a_group_takes_part(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        identity = await producer(served)
        request = AddOffsetsToTxnRequest(
            transactional_id=ID,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id="g",
        )
        assert (await served.send(request)).error_code == ErrorCode.NONE
        (topic,) = (await state(served)).topics
        assert topic.topic == "__consumer_offsets"
        assert list(topic.partitions) == [partition_for("g", 3)]

    run(story, **SETTINGS)


# Describing and listing


def test_transactions_are_listed_by_state_and_producer(run: Run) -> None:
    async def listed(served: Served, **filters: Any) -> tuple[list[str], list[str]]:
        response = await served.send(ListTransactionsRequest(**filters))
        assert response.error_code == ErrorCode.NONE
        rows = response.transaction_states
        return [r.transactional_id for r in rows], list(response.unknown_state_filters)

    async def story(served: Served) -> None:
        await ready(served)
        await add(served, await producer(served), t=[0])
        assert await listed(served) == ([ID], [])
        assert await listed(served, state_filters=["Ongoing", "Nonsense"]) == ([ID], ["Nonsense"])
        assert await listed(served, state_filters=["Empty"]) == ([], [])
        assert await listed(served, producer_id_filters=[0]) == ([ID], [])
        assert await listed(served, producer_id_filters=[7]) == ([], [])
        assert await listed(served, duration_filter=3_600_000) == ([], [])

    run(story, **SETTINGS)


def test_an_unknown_transactional_id_is_not_described(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        assert (await state(served)).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    run(story, **SETTINGS)


def test_its_topic_is_made_as_kafka_makes_it(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        assert len(served.broker.metadata.topics["__transaction_state"].partitions) == PARTITIONS
        values = served.broker.context.effective_configs.topic("__transaction_state")
        assert values["cleanup.policy"] == ["compact"]
        assert values["compression.type"] == "uncompressed"
        assert values["segment.bytes"] == 104_857_600
        assert values["unclean.leader.election.enable"] is False
        assert values["min.insync.replicas"] == 1  # no more than there are brokers

    run(story, **SETTINGS)


# Replication of the states


async def wait_for_follower(served: Served) -> Any:
    """Let a follower that never fetches be in sync with the partition of the transactional id; return the replica."""
    topic_partition = TopicPartition("__transaction_state", partition_for(ID, PARTITIONS))
    replica = served.replica(topic_partition)
    await served.add_silent_follower(replica)
    return replica


def catch_up(served: Served, replica: Any) -> None:
    """Let the follower have everything."""
    replica.partition.followers[SILENT].log_end_offset = replica.log.log_end_offset
    served.broker.replica_manager.metadata_changed((), are_brokers_others=True)


async def meanwhile(served: Served, replica: Any, request: Coroutine[Any, Any, int]) -> int:
    """Let the follower follow until the request is answered."""
    response = asyncio.ensure_future(request)
    while not response.done():
        catch_up(served, replica)
        await asyncio.sleep(0)
    return await response


def test_an_outcome_that_is_not_replicated_in_time_stands_all_the_same(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        identity = await producer(served)
        await add(served, identity, t=[0])
        replica = await wait_for_follower(served)
        assert await end(served, identity) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await end(served, identity, committed=False) == ErrorCode.CONCURRENT_TRANSACTIONS
        assert markers(served) == []
        catch_up(served, replica)
        for _ in range(TRIES):
            catch_up(served, replica)
            if (await state(served)).transaction_state == "CompleteCommit":
                break
        asked = await meanwhile(served, replica, end(served, identity, committed=False))
        assert asked == ErrorCode.INVALID_TXN_STATE
        assert await meanwhile(served, replica, end(served, identity)) == ErrorCode.NONE
        assert markers(served) == ["COMMIT"]

    run(story, **SETTINGS, request__timeout__ms="50")


def test_a_shard_does_not_serve_before_all_that_it_loaded_is_committed(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        identity = await producer(served)
        await add(served, identity, t=[0])
        replica = await wait_for_follower(served)
        assert await end(served, identity) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        served.broker.transactions.become_leader(
            replica
        )  # a new leader whose follower has not all of it
        for _ in range(10):
            assert await end(served, identity) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert markers(served) == []
        for _ in range(TRIES):
            catch_up(served, replica)
            if (await state(served)).transaction_state == "CompleteCommit":
                break
        assert markers(served) == ["COMMIT"]

    run(story, **SETTINGS, request__timeout__ms="50")


def test_an_outcome_stands_whose_producer_has_gone_before_the_response(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        identity = await producer(served)
        await add(served, identity, t=[0])
        replica = await wait_for_follower(served)
        other = await served.another()
        asking = asyncio.create_task(end(other, identity))
        connections = served.broker.dispatcher.connections
        await until(lambda: any(state.waiting for state in connections.values()))
        assert len(connections) == 2
        other.peer.close()
        with pytest.raises(ConnectionError):
            await asking
        await until(lambda: len(served.broker.dispatcher.connections) == 1)
        for _ in range(TRIES):
            catch_up(served, replica)
            if (await state(served)).transaction_state == "CompleteCommit":
                break
        assert markers(served) == ["COMMIT"]

    run(story, **SETTINGS)


# The end of the broker


def test_waiting_producers_are_answered_when_their_coordinator_stops(run: Run) -> None:
    async def story(served: Served) -> None:
        await ready(served)
        async with served.broker.producer_ids._lock:  # so that no producer id comes
            asking = asyncio.create_task(init(await served.another()))
            for _ in range(TRIES):
                if served.broker.transactions.shard_of(ID)._tokens:
                    break
                await asyncio.sleep(0)
            await served.broker.transactions.stop()
            assert (await asking).error_code == ErrorCode.NOT_COORDINATOR

    run(story, **SETTINGS)


def test_a_partition_of_transactions_that_is_damaged_is_not_served(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    t0 = TopicPartition("t", 0)
    stale = StoredTransaction(1, 0, 60_000, TransactionState.PREPARE_COMMIT, frozenset({t0}), 0, 0)
    topic_partition = TopicPartition("__transaction_state", partition_for(ID, PARTITIONS))

    async def before(served: Served) -> None:
        await ready(served)
        key, value = to_bytes(TransactionRecord(ID, stale))
        assert value is not None
        replica = served.broker.replica_manager.find(topic_partition)
        for missing in (0, 1):
            builder = BatchBuilder()
            builder.append(key, value, 0)
            batch = builder.build()
            batch[60] += missing  # the number of records
            assert replica.append_internal(batch).error is ErrorCode.NONE

    async def after(served: Served) -> None:
        await until(lambda: f"shard not loaded partition={topic_partition}" in caplog.text)
        assert (await init(served)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await state(served)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert markers(served) == []

    run(before, **SETTINGS)
    run(after, **SETTINGS)
