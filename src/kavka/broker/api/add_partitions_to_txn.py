"""AddPartitionsToTxn: partitions take part in a transaction, or are looked for in it (KIP-98, KIP-890).

Producers ask for one transaction, below version 4. Brokers ask for several: leaders that verify what they append, or
add their partition for producers that leave this to them (transaction version 2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from kavka.broker.coordination.shard_reply import DelayedReply, respond_when_done
from kavka.broker.metadata.cache import INTERNAL_TOPICS, MetadataCache
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.deferred import SecondStage
from kavka.broker.requests.pace import Pace
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.core.machine import Token
from kavka.core.transaction.events import AddPartitions, AddPartitionsReply, Verify, VerifyReply
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartition,
    AddPartitionsToTxnResponseTopic,
    AddPartitionsToTxnResponseTransaction,
)

if TYPE_CHECKING:
    from kavka.broker.coordination.transaction_coordinators import TransactionCoordinators


_FIRST_WITH_PRODUCER_FENCED = 2
_FIRST_BATCHED = 4
_FIRST_WITH_TRANSACTION_ABORTABLE = 5
_AT_ONCE = 64
"""Transactions that are asked about together."""

_Codes = dict[TopicPartition, ErrorCode]


def handle(
    metadata: MetadataCache,
    transactions: TransactionCoordinators,
    context: RequestContext,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse | DelayedReply | SecondStage:
    """Ask the shard of each transactional id."""
    if context.version >= _FIRST_BATCHED:
        return SecondStage(_handle_several(metadata, transactions, context, request))
    transaction = AddPartitionsToTxnRequestTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        verify_only=False,
        topics=request.v3_and_below_topics,
    )
    if context.is_paced:
        return SecondStage(_handle_large(metadata, transactions, context, transaction))
    return _handle_small(metadata, transactions, context, transaction)


def _handle_small(
    metadata: MetadataCache,
    transactions: TransactionCoordinators,
    context: RequestContext,
    transaction: AddPartitionsToTxnRequestTransaction,
) -> AddPartitionsToTxnResponse | DelayedReply:
    """Ask a shard in this iteration of the loop."""
    checks = _Checks(metadata, context)
    for topic in transaction.topics:
        for index in topic.partitions:
            checks.add(TopicPartition(topic.name, index))
    if checks.refused:
        return _response(checks.codes())
    partitions, version = tuple(checks.asked), context.version
    reply = transactions.ask(transaction.transactional_id, _addition(transaction, partitions, 0))

    def build(reply: AddPartitionsReply | ErrorCode) -> AddPartitionsToTxnResponse:
        code = reply if isinstance(reply, ErrorCode) else reply.error_code
        return _response(dict.fromkeys(partitions, _code_for_version(code, version)))

    result: AddPartitionsToTxnResponse | DelayedReply = respond_when_done(reply, build)
    return result


def _response(codes: _Codes) -> AddPartitionsToTxnResponse:
    topics: dict[str, AddPartitionsToTxnResponseTopic] = {}
    for topic_partition, code in codes.items():
        _add_row(topics, topic_partition, code)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=list(topics.values()))


async def _handle_large(
    metadata: MetadataCache,
    transactions: TransactionCoordinators,
    context: RequestContext,
    transaction: AddPartitionsToTxnRequestTransaction,
) -> AddPartitionsToTxnResponse:
    codes = await _handle_transaction(metadata, transactions, context, transaction)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=await _topics(codes, context.pace)
    )


async def _handle_several(
    metadata: MetadataCache,
    transactions: TransactionCoordinators,
    context: RequestContext,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse:
    rows = []
    for at in range(0, len(request.transactions), _AT_ONCE):
        some = request.transactions[at : at + _AT_ONCE]
        results = await asyncio.gather(
            *(_handle_transaction(metadata, transactions, context, each) for each in some)
        )
        rows += [
            AddPartitionsToTxnResponseTransaction(
                transactional_id=transaction.transactional_id,
                topic_results=await _topics(codes, context.pace),
            )
            for transaction, codes in zip(some, results, strict=True)
        ]
    return AddPartitionsToTxnResponse(error_code=ErrorCode.NONE, results_by_transaction=rows)


async def _handle_transaction(
    metadata: MetadataCache,
    transactions: TransactionCoordinators,
    context: RequestContext,
    transaction: AddPartitionsToTxnRequestTransaction,
) -> _Codes:
    """Return what became of each partition; where one is not known, none is added."""
    checks, pace = _Checks(metadata, context), context.pace
    for topic in transaction.topics:
        if pace.is_over():
            await pace.rest()
        for index in topic.partitions:
            checks.add(TopicPartition(topic.name, index))
            if pace.is_over():
                await pace.rest()
    if checks.refused:
        return checks.codes()
    partitions, version = tuple(checks.asked), context.version
    if transaction.verify_only:
        codes = await _verify(transactions, transaction, partitions)
    else:
        client_version = 0 if version < _FIRST_BATCHED else 2
        codes = await _add(transactions, transaction, partitions, client_version)
    return {
        topic_partition: _code_for_version(code, version) for topic_partition, code in codes.items()
    }


class _Checks:
    """The partitions of a transaction, checked one after the other."""

    def __init__(self, metadata: MetadataCache, context: RequestContext) -> None:
        self._metadata = metadata
        self._context = context
        self.asked: dict[TopicPartition, None] = {}
        self.refused: _Codes = {}

    def add(self, topic_partition: TopicPartition) -> None:
        self.asked[topic_partition] = None
        code = self._refusal(topic_partition)
        if code is not ErrorCode.NONE:
            self.refused[topic_partition] = code

    def _refusal(self, topic_partition: TopicPartition) -> ErrorCode:
        """Return why a partition can take no part: it is unknown, or the client may not write there."""
        context, topic = self._context, topic_partition.topic
        if context.version < _FIRST_BATCHED and (
            topic in INTERNAL_TOPICS
            or not context.allows(AclOperation.WRITE, AclResourceType.TOPIC, topic)
        ):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if self._metadata.partition(topic_partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def codes(self) -> _Codes:
        """Return the codes where some are refused: none is added."""
        return dict.fromkeys(self.asked, ErrorCode.OPERATION_NOT_ATTEMPTED) | self.refused


async def _add(
    transactions: TransactionCoordinators,
    transaction: AddPartitionsToTxnRequestTransaction,
    partitions: tuple[TopicPartition, ...],
    client_version: int,
) -> _Codes:
    reply: AddPartitionsReply | ErrorCode = await transactions.submit(
        transaction.transactional_id, _addition(transaction, partitions, client_version)
    )
    code = reply if isinstance(reply, ErrorCode) else reply.error_code
    return dict.fromkeys(partitions, code)


def _addition(
    transaction: AddPartitionsToTxnRequestTransaction,
    partitions: tuple[TopicPartition, ...],
    client_version: int,
) -> Callable[[Token], AddPartitions]:
    return lambda token: AddPartitions(
        token,
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        partitions,
        client_version,
    )


async def _verify(
    transactions: TransactionCoordinators,
    transaction: AddPartitionsToTxnRequestTransaction,
    partitions: tuple[TopicPartition, ...],
) -> _Codes:
    reply: VerifyReply | ErrorCode = await transactions.submit(
        transaction.transactional_id,
        lambda token: Verify(
            token,
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            partitions,
        ),
    )
    if isinstance(reply, ErrorCode):
        return dict.fromkeys(partitions, reply)
    return dict(reply.partitions)


def _code_for_version(code: ErrorCode, version: int) -> ErrorCode:
    """Return the code that this version has for it."""
    if code is ErrorCode.PRODUCER_FENCED and version < _FIRST_WITH_PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_WITH_TRANSACTION_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return code


async def _topics(codes: _Codes, pace: Pace) -> list[AddPartitionsToTxnResponseTopic]:
    topics: dict[str, AddPartitionsToTxnResponseTopic] = {}
    for topic_partition, code in codes.items():
        _add_row(topics, topic_partition, code)
        if pace.is_over():
            await pace.rest()
    return list(topics.values())


def _add_row(
    topics: dict[str, AddPartitionsToTxnResponseTopic],
    topic_partition: TopicPartition,
    code: ErrorCode,
) -> None:
    topic = topics.get(topic_partition.topic)
    if topic is None:
        topic = AddPartitionsToTxnResponseTopic(name=topic_partition.topic)
        topics[topic_partition.topic] = topic
    topic.results_by_partition.append(
        AddPartitionsToTxnResponsePartition(
            partition_index=topic_partition.partition, partition_error_code=code
        )
    )
