"""AddPartitionsToTxn between brokers, as the machine of verifications knows it and on the wire."""

from __future__ import annotations

from collections.abc import Iterable

from kavka.core.verification.events import VerificationCodes, VerificationRequest
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
)


def request_of(requests: Iterable[VerificationRequest]) -> AddPartitionsToTxnRequest:
    """Return one request with all of these, of which those of one transactional id have one producer."""
    transactions: dict[str, AddPartitionsToTxnRequestTransaction] = {}
    topics: dict[tuple[str, str], AddPartitionsToTxnRequestTopic] = {}
    for request in requests:
        transactional_id, (name, partition) = request.transactional_id, request.topic_partition
        transaction = transactions.get(transactional_id)
        if transaction is None:
            transaction = transactions[transactional_id] = AddPartitionsToTxnRequestTransaction(
                transactional_id=transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                verify_only=not request.adds,
            )
        topic = topics.get((transactional_id, name))
        if topic is None:
            topic = topics[transactional_id, name] = AddPartitionsToTxnRequestTopic(name=name)
            transaction.topics.append(topic)
        topic.partitions.append(partition)
    return AddPartitionsToTxnRequest(transactions=list(transactions.values()))


def codes_of(response: AddPartitionsToTxnResponse) -> VerificationCodes:
    """Return the codes of a response, by transactional id and partition."""
    return {
        (transaction.transactional_id, TopicPartition(topic.name, row.partition_index)): (
            ErrorCode.of(row.partition_error_code)
        )
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for row in topic.results_by_partition
    }
