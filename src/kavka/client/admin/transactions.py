"""Transactions: list and describe them, list the producers of partitions, end hanging ones (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kavka.client import arguments
from kavka.client.admin.router import Router, plain, refusal
from kavka.client.cluster import CoordinatorKind
from kavka.client.leader_requests import send_until_answered
from kavka.client.partitions import partitions_of
from kavka.client.producer.transaction_requests import version_of
from kavka.core.topic_partitions import partitions_by_topic
from kavka.core.transactional_producer.state import PreparedTxnState
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition
from kavka.net.peer import Peer
from kavka.wire.apis import ApiKey
from kavka.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeProducersResponse,
    DescribeProducersResponsePartition,
)
from kavka.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kavka.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kavka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kavka.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kavka.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)

_DURATION_VERSION = 1
_MIN_TIMEOUT_MS = 1
"""Of the producer that fences another one: it begins no transaction."""


class TransactionListing(NamedTuple):
    """A transactional id, as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """The state of a transactional id; `start_time_ms` is None while no transaction is open."""

    coordinator_id: BrokerId
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: list[TopicPartition]


class ProducerState(NamedTuple):
    """A partition's state of a producer; None for an unknown coordinator epoch, and without an open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    current_transaction_start_offset: int | None


class HangingTransaction(NamedTuple):
    """An open transaction of one partition, to be ended there by force."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


async def list_transactions(
    router: Router,
    states: Sequence[str],
    producer_ids: Sequence[int],
    longer_than_ms: int,
    timeout_ms: int | None,
    failures: dict[BrokerId, Exception] | None,
) -> dict[BrokerId, list[TransactionListing]]:
    """See `Admin.list_transactions`."""

    def build(peer: Peer) -> tuple[ListTransactionsRequest, int]:
        version = peer.version_of(ApiKey.LIST_TRANSACTIONS)
        if longer_than_ms >= 0 and version < _DURATION_VERSION:
            detail = f"{peer.name} is too old to filter transactions by their duration"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
        request = ListTransactionsRequest(
            state_filters=arguments.names("states", states),
            producer_id_filters=arguments.numbers("producer_ids", producer_ids),
            duration_filter=max(longer_than_ms, -1),
        )
        return request, version

    answers: dict[BrokerId, ListTransactionsResponse] = await router.each_broker(
        build, timeout_ms, failures
    )
    return {
        broker_id: [
            TransactionListing(t.transactional_id, t.producer_id, t.transaction_state)
            for t in response.transaction_states
        ]
        for broker_id, response in answers.items()
    }


async def describe_transactions(
    router: Router, transactional_ids: Iterable[str], timeout_ms: int | None
) -> dict[str, TransactionDescription | Exception]:
    """See `Admin.describe_transactions`."""

    async def ask(transactional_id: str) -> TransactionDescription:
        response: DescribeTransactionsResponse = await router.coordinator(
            transactional_id,
            plain(DescribeTransactionsRequest(transactional_ids=[transactional_id])),
            lambda a: (t.error_code for t in a.transaction_states),
            timeout_ms,
            CoordinatorKind.TRANSACTION,
        )
        found = response.transaction_states[0]
        refused = refusal(found.error_code, None, f"transactional id {transactional_id}")
        if refused is not None:
            raise refused
        return TransactionDescription(
            await router.cluster.find_coordinator(transactional_id, CoordinatorKind.TRANSACTION),
            found.transaction_state,
            found.producer_id,
            found.producer_epoch,
            found.transaction_timeout_ms,
            None if found.transaction_start_time_ms < 0 else found.transaction_start_time_ms,
            [TopicPartition(topic.topic, p) for topic in found.topics for p in topic.partitions],
        )

    return await router.gather(
        (t, ask(t)) for t in arguments.names("transactional_ids", transactional_ids)
    )


async def describe_producers(
    router: Router,
    partitions: Iterable[TopicPartition],
    broker_id: BrokerId | None,
    timeout_ms: int | None,
) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
    """See `Admin.describe_producers`."""
    wanted = partitions_of(partitions)

    async def ask(
        broker: BrokerId, group: list[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
        response: DescribeProducersResponse = await router.broker(
            broker, plain(_producers_request(group)), lambda a: (), timeout_ms
        )
        return {
            (topic_partition := TopicPartition(topic.name, part.partition_index)): refusal(
                part.error_code, part.error_message, str(topic_partition)
            )
            or _states(part)
            for topic in response.topics
            for part in topic.partitions
        }

    if broker_id is not None:
        return await ask(broker_id, wanted)
    found = await send_until_answered(
        router.cluster, wanted, ask, timeout_ms=router.timeout_ms(timeout_ms)
    )
    for topic_partition in wanted:
        if topic_partition not in found:
            raise TimeoutError(f"no leader of {topic_partition} answered in time")
    return found


def _producers_request(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=[
            DescribeProducersRequestTopic(name=name, partition_indexes=numbers)
            for name, numbers in partitions_by_topic(partitions).items()
        ]
    )


def _states(part: DescribeProducersResponsePartition) -> list[ProducerState]:
    return [
        ProducerState(
            p.producer_id,
            p.producer_epoch,
            p.last_sequence,
            p.last_timestamp,
            None if p.coordinator_epoch < 0 else p.coordinator_epoch,
            None if p.current_txn_start_offset < 0 else p.current_txn_start_offset,
        )
        for p in part.active_producers
    ]


async def abort_transaction(
    router: Router, hanging: HangingTransaction, timeout_ms: int | None
) -> None:
    """See `Admin.abort_transaction`."""
    arguments.one("hanging", hanging, HangingTransaction)
    topic = WriteTxnMarkersRequestTopic(
        name=hanging.topic_partition.topic, partition_indexes=[hanging.topic_partition.partition]
    )
    marker = WriteTxnMarkersRequestMarker(
        producer_id=hanging.producer_id,
        producer_epoch=hanging.producer_epoch,
        transaction_result=False,
        topics=[topic],
        coordinator_epoch=hanging.coordinator_epoch,
    )

    async def ask(
        broker: BrokerId, group: list[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | bool]:
        response: WriteTxnMarkersResponse = await router.broker(
            broker, plain(WriteTxnMarkersRequest(markers=[marker])), lambda a: (), timeout_ms
        )
        return {
            TopicPartition(topic.name, part.partition_index): refusal(
                part.error_code, None, str(hanging.topic_partition)
            )
            or True
            for written in response.markers
            for topic in written.topics
            for part in topic.partitions
        }

    found = await send_until_answered(
        router.cluster, [hanging.topic_partition], ask, timeout_ms=router.timeout_ms(timeout_ms)
    )
    if hanging.topic_partition not in found:
        raise TimeoutError(f"no leader of {hanging.topic_partition} answered in time")
    outcome = found[hanging.topic_partition]
    if isinstance(outcome, KafkaError):
        raise outcome


async def end_transaction(
    router: Router,
    transactional_id: str,
    state: PreparedTxnState,
    committed: bool,
    timeout_ms: int | None,
) -> None:
    """See `Admin.end_transaction`."""
    arguments.name("transactional_id", transactional_id)
    arguments.one("state", state, PreparedTxnState)
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=state.producer_id,
        producer_epoch=state.epoch,
        committed=committed,
    )

    def build(peer: Peer) -> tuple[EndTxnRequest, int]:
        return request, version_of(peer, ApiKey.END_TXN, peer.transaction_version)

    response: EndTxnResponse = await router.coordinator(
        transactional_id, build, lambda a: (a.error_code,), timeout_ms, CoordinatorKind.TRANSACTION
    )
    refused = refusal(response.error_code, None, f"transaction {transactional_id} {state}")
    if refused is not None:
        raise refused


async def fence_producers(
    router: Router, transactional_ids: Iterable[str], timeout_ms: int | None
) -> dict[str, Exception | None]:
    """See `Admin.fence_producers`."""

    async def ask(transactional_id: str) -> None:
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=_MIN_TIMEOUT_MS
        )
        response: InitProducerIdResponse = await router.coordinator(
            transactional_id,
            plain(request),
            lambda a: (a.error_code,),
            timeout_ms,
            CoordinatorKind.TRANSACTION,
        )
        refused = refusal(response.error_code, None, f"transactional id {transactional_id}")
        if refused is not None:
            raise refused

    return await router.gather(
        (t, ask(t)) for t in arguments.names("transactional_ids", transactional_ids)
    )
