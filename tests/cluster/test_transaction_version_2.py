"""Transactions of version 2 over three brokers (KIP-890): nothing that comes late tears one, or leaves one open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kavka.core.transaction.records import TransactionRecord, TransactionState
from kavka.core.transaction.transaction import MAX_EPOCH
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.values import replace
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
)
from kavka.wire.messages.describe_transactions import DescribeTransactionsRequest
from kavka.wire.messages.end_txn import EndTxnRequest
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kavka.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
)
from support.produce import batch, partition_response, produce_request
from support.waiting import eventually

Run = Callable[..., None]
Cluster = Any
STATE = TopicPartition("__transaction_state", 0)
ON_TWO, ON_THREE = TopicPartition("on-two", 0), TopicPartition("on-three", 0)
SETTINGS = {
    "transaction__state__log__num__partitions": "1",
    "offsets__topic__num__partitions": "1",
    "kavka__transaction__version": "2",
}
PATIENCE_S = 60
NONE = ErrorCode.NONE
AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
ID = "x"


async def ask(
    cluster: Cluster, topic_partition: TopicPartition, request: Any, version: int, code: Any
) -> Any:
    """Ask the leader of a partition until its response is final."""

    async def response() -> Any:
        leader = cluster.leader(topic_partition)
        return await cluster.send(leader, request, version) if leader >= 0 else None

    return await eventually(
        response, lambda found: found is not None and code(found) not in AGAIN, PATIENCE_S
    )


def own(response: Any) -> int:
    code: int = response.error_code
    return code


class Producer:
    """Sends the given requests, with the given id and epoch."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.producer_id = -1
        self.epoch = -1

    @classmethod
    async def make(cls, cluster: Cluster) -> Producer:
        """Have two topics on two brokers, and a producer with its first epoch."""
        await cluster.create("on-two", [2, 3, 1])
        await cluster.create("on-three", [3, 2, 1])
        await cluster.send(1, FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]), 4)
        self = cls(cluster)
        request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
        given = await ask(cluster, STATE, request, 6, own)
        assert given.error_code == NONE
        self.producer_id, self.epoch = given.producer_id, given.producer_epoch
        return self

    def batch(self, *values: bytes, **of: int) -> bytearray:
        """Return a batch that is the first of its epoch, if nothing else is said."""
        return batch(
            *values,
            producer_id=of.get("producer_id", self.producer_id),
            producer_epoch=of.get("epoch", self.epoch),
            base_sequence=of.get("sequence", 0),
            transactional=True,
        )

    async def produce(
        self, topic_partition: TopicPartition, *values: bytes, **of: int
    ) -> ErrorCode:
        """Write a batch to its leader, which adds its partition."""
        records = self.batch(*values, **of)
        batches = [(topic_partition.partition, records)]
        request = produce_request(topic_partition.topic, batches, transactional_id=ID)

        def code(response: Any) -> int:
            return partition_response(response).error_code

        return ErrorCode.of(code(await ask(self.cluster, topic_partition, request, 12, code)))

    async def end(self, *, committed: bool, **of: int) -> tuple[ErrorCode, int, int]:
        """End as the version-2 client does, and return error, id and epoch of the response."""
        request = EndTxnRequest(
            transactional_id=ID,
            producer_id=of.get("producer_id", self.producer_id),
            producer_epoch=of.get("epoch", self.epoch),
            committed=committed,
        )
        response = await ask(self.cluster, STATE, request, 5, own)
        return ErrorCode.of(response.error_code), response.producer_id, response.producer_epoch

    async def commit(self) -> None:
        code, self.producer_id, self.epoch = await self.end(committed=True)
        assert code is NONE

    async def state(self) -> Any:
        """Return the transaction as its coordinator shows it when no marker is on its way."""
        request = DescribeTransactionsRequest(transactional_ids=[ID])

        async def state() -> Any:
            response = await self.cluster.send(self.cluster.leader(STATE), request)
            (found,) = response.transaction_states
            return found

        return await eventually(
            state, lambda found: not found.transaction_state.startswith("Prepare"), PATIENCE_S
        )


def test_leaders_add_their_partitions_and_each_end_gives_the_next_epoch(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        producer = await Producer.make(cluster)
        assert await producer.produce(ON_TWO, b"a") is NONE
        assert await producer.produce(ON_THREE, b"b") is NONE
        state = await producer.state()
        assert (state.transaction_state, state.producer_epoch) == ("Ongoing", 0)
        assert {topic.topic for topic in state.topics} == {"on-two", "on-three"}
        assert await producer.end(committed=True) == (NONE, producer.producer_id, 1)
        producer.epoch = 1
        assert await producer.produce(ON_TWO, b"c") is NONE  # at once: the leader waits for markers
        assert await producer.end(committed=False) == (NONE, producer.producer_id, 2)
        assert (await producer.state()).producer_epoch == 2
        assert await cluster.committed("on-two") == [b"a"]
        assert await cluster.committed("on-three") == [b"b"]

    run(story, **SETTINGS)


def test_a_leader_that_coordinates_adds_all_its_partitions_by_one_record(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        producer = await Producer.make(cluster)
        leader = cluster.leader(STATE)
        replicas = [leader, *(one for one in cluster.brokers if one != leader)]
        await cluster.create("many", *[replicas] * 6)
        records = cluster.partition(leader, STATE).log_end_offset
        batches = [(partition, producer.batch(b"v")) for partition in range(6)]
        request = produce_request("many", batches, transactional_id=ID)
        response = await cluster.send(leader, request, 12)
        found = [row.error_code for row in response.responses[0].partition_responses]
        assert found == [NONE] * 6
        assert cluster.partition(leader, STATE).log_end_offset == records + 1

    run(story, **SETTINGS)


def test_offsets_take_part_without_being_announced(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        producer = await Producer.make(cluster)
        await cluster.send(1, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        offsets = TopicPartition("__consumer_offsets", 0)
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        topic = TxnOffsetCommitRequestTopic(name="on-two", partitions=[part])
        request = TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id="g",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[topic],
        )

        def code(response: Any) -> int:
            found: int = response.topics[0].partitions[0].error_code
            return found

        assert code(await ask(cluster, offsets, request, 5, code)) == NONE
        assert {topic.topic for topic in (await producer.state()).topics} == {"__consumer_offsets"}
        await producer.commit()
        assert (await producer.state()).transaction_state == "CompleteCommit"
        request.producer_epoch = 0  # late: of the transaction that is over
        late = ErrorCode.of(code(await ask(cluster, offsets, request, 5, code)))
        assert late is ErrorCode.INVALID_PRODUCER_EPOCH

    run(story, **SETTINGS)


def test_a_late_batch_opens_nothing(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        producer = await Producer.make(cluster)
        assert await producer.produce(ON_TWO, b"a") is NONE
        await producer.commit()
        await producer.state()
        late = await producer.produce(ON_TWO, b"late", epoch=0, sequence=1)
        assert late is ErrorCode.INVALID_PRODUCER_EPOCH
        # Nor where the producer was never learned of: the coordinator knows.
        late = await producer.produce(ON_THREE, b"late", epoch=0)
        assert late is ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await producer.state()).transaction_state == "CompleteCommit"
        assert await cluster.committed("on-two") == [b"a"]

    run(story, **SETTINGS)


def test_a_late_announcement_opens_nothing(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        producer = await Producer.make(cluster)
        assert await producer.produce(ON_TWO, b"a") is NONE
        await producer.commit()
        await producer.state()
        transaction = AddPartitionsToTxnRequestTransaction(
            transactional_id=ID,
            producer_id=producer.producer_id,
            producer_epoch=0,
            topics=[AddPartitionsToTxnRequestTopic(name="on-three", partitions=[0])],
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        response = await ask(cluster, STATE, request, 5, own)
        (row,) = response.results_by_transaction[0].topic_results[0].results_by_partition
        assert row.partition_error_code == ErrorCode.PRODUCER_FENCED
        assert (await producer.state()).transaction_state == "CompleteCommit"

    run(story, **SETTINGS)


def test_an_end_that_is_repeated_ends_nothing_else(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        producer = await Producer.make(cluster)
        producer_id = producer.producer_id
        assert await producer.produce(ON_TWO, b"a") is NONE
        assert await producer.end(committed=True) == (NONE, producer_id, 1)
        await producer.state()
        assert await producer.end(committed=True) == (NONE, producer_id, 1)  # the response was lost
        assert (await producer.end(committed=False))[0] is ErrorCode.INVALID_TXN_STATE
        producer.epoch = 1
        assert await producer.produce(ON_TWO, b"b") is NONE
        for outcome in (True, False):  # late: the next transaction is open
            code, *_ = await producer.end(committed=outcome, epoch=0)
            assert code is ErrorCode.PRODUCER_FENCED
        assert (await producer.state()).transaction_state == "Ongoing"
        assert await producer.end(committed=False) == (NONE, producer_id, 2)
        await producer.state()
        assert await cluster.committed("on-two") == [b"a"]

    run(story, **SETTINGS)


@pytest.mark.parametrize("outcome", [True, False])
def test_a_late_marker_does_not_end_the_next_transaction(outcome: bool, run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        producer = await Producer.make(cluster)
        assert await producer.produce(ON_TWO, b"a") is NONE
        await producer.commit()
        await producer.state()
        assert await producer.produce(ON_TWO, b"b") is NONE
        marker = WriteTxnMarkersRequestMarker(
            producer_id=producer.producer_id,
            producer_epoch=1,
            transaction_result=outcome,
            topics=[WriteTxnMarkersRequestTopic(name="on-two", partition_indexes=[0])],
            coordinator_epoch=0,
            transaction_version=2,
        )
        again = WriteTxnMarkersRequest(markers=[marker])
        response = await cluster.send(cluster.leader(ON_TWO), again, 2)
        (row,) = response.markers[0].topics[0].partitions
        assert row.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await producer.produce(ON_TWO, b"c", sequence=1) is NONE
        assert (await producer.end(committed=not outcome))[0] is NONE
        await producer.state()
        expected = [b"a"] if outcome else [b"a", b"b", b"c"]
        assert await cluster.committed("on-two") == expected

    run(story, **SETTINGS)


def test_when_epochs_run_out_the_end_gives_another_producer_id(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        producer = await Producer.make(cluster)
        first = producer.producer_id
        wear_out(cluster, producer)
        assert await producer.produce(ON_TWO, b"a") is NONE
        await producer.commit()
        assert (producer.producer_id, producer.epoch) == (first, MAX_EPOCH - 1)
        assert await producer.produce(ON_TWO, b"b") is NONE
        await producer.commit()
        assert (producer.producer_id, producer.epoch) == (first + 1, 0)
        await producer.state()
        again = await producer.end(committed=True, producer_id=first, epoch=MAX_EPOCH - 1)
        assert again == (NONE, first + 1, 0)
        late = await producer.produce(
            ON_TWO, b"late", producer_id=first, epoch=MAX_EPOCH - 1, sequence=1
        )
        assert late is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await producer.produce(ON_TWO, b"c") is NONE
        await producer.commit()
        await producer.state()
        assert await cluster.committed("on-two") == [b"a", b"b", b"c"]

    run(story, **SETTINGS)


def wear_out(cluster: Cluster, producer: Producer) -> None:
    """Have the coordinator remember a life of 32,765 epochs, so that one more is left."""
    shard = cluster.brokers[cluster.leader(STATE)].transactions.shard_of(ID)
    value = shard.machine.durable()[ID]
    assert value.state is TransactionState.EMPTY
    producer.epoch = MAX_EPOCH - 2
    shard.machine.apply(TransactionRecord(ID, replace(value, producer_epoch=producer.epoch)))


def test_a_coordinator_that_dies_after_the_decision_answers_the_repeat_alike(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        producer = await Producer.make(cluster)
        assert await producer.produce(ON_TWO, b"a") is NONE
        assert await producer.end(committed=True) == (NONE, producer.producer_id, 1)
        await cluster.kill(cluster.leader(STATE))
        assert await producer.end(committed=True) == (NONE, producer.producer_id, 1)

    run(story, **SETTINGS)
