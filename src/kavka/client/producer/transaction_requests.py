"""The requests of a transaction, and what their answers say. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kavka.client.consumer.subscription import OffsetAndMetadata
from kavka.core.group_member.steps import GroupMetadata
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import ProducerEpoch, ProducerId, TopicPartition
from kavka.net.peer import Peer
from kavka.wire.apis import ApiKey
from kavka.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnResponse,
)
from kavka.wire.messages.end_txn import EndTxnRequest
from kavka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

NEWEST_ADD_PARTITIONS = 3
"""Later versions are for brokers alone."""
_LAST_OF_VERSION_0 = {ApiKey.PRODUCE: 11, ApiKey.TXN_OFFSET_COMMIT: 4, ApiKey.END_TXN: 4}
"""Later versions are for transactions of version 2 (KIP-890): brokers add to them what they are sent, and each end
gives a new epoch.
"""
MEMBERS_VERSION = 3
"""TxnOffsetCommit before it cannot say which member commits (KIP-447)."""

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


def version_of(peer: Peer, api_key: ApiKey, transaction_version: int) -> int:
    """Return the version in which Produce, TxnOffsetCommit or EndTxn is asked. Raise KafkaError UNSUPPORTED_VERSION."""
    last = _LAST_OF_VERSION_0[api_key]
    if transaction_version < 2:
        return peer.version_of(api_key, last)
    version = peer.version_of(api_key)
    if version <= last:
        detail = f"{peer.name} is too old for transaction.version 2 ({api_key.title} {version} < {last + 1})"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
    return version


class Identity(NamedTuple):
    """The transactional id, producer id and epoch of requests."""

    transactional_id: str
    producer_id: ProducerId
    epoch: ProducerEpoch

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnRequest:
        """Ask for partitions to take part."""
        topics: dict[str, list[int]] = {}
        for topic_partition in partitions:
            topics.setdefault(topic_partition.topic, []).append(topic_partition.partition)
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequestTopic(name=name, partitions=numbers)
                for name, numbers in topics.items()
            ],
        )

    def add_offsets(self, group_id: str) -> AddOffsetsToTxnRequest:
        """Ask for a group's offsets to take part."""
        return AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )

    def commit_offsets(self, group: GroupMetadata, offsets: Offsets) -> TxnOffsetCommitRequest:
        """Hand offsets over, to be valid when the transaction is committed."""
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for topic_partition, where in offsets.items():
            part = TxnOffsetCommitRequestPartition(
                partition_index=topic_partition.partition,
                committed_offset=where.offset,
                committed_leader_epoch=where.leader_epoch,
                committed_metadata=where.metadata,
            )
            topics.setdefault(topic_partition.topic, []).append(part)
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=n, partitions=p) for n, p in topics.items()],
        )

    def end(self, commit: bool) -> EndTxnRequest:
        """Decide."""
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )


Codes = dict[TopicPartition | None, ErrorCode]
"""Error codes of an answer, by partition or, under None, of the whole."""


def code_of_answer(answer: Any) -> Codes:
    """Return the only code of an answer."""
    return {None: ErrorCode.of(answer.error_code)}


def codes_of_partitions(answer: AddPartitionsToTxnResponse) -> Codes:
    """Return what became of each partition that was to take part."""
    return {
        TopicPartition(topic.name, part.partition_index): ErrorCode.of(part.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    }


def codes_of_offsets(answer: TxnOffsetCommitResponse) -> Codes:
    """Return what became of each offset."""
    return {
        TopicPartition(topic.name, part.partition_index): ErrorCode.of(part.error_code)
        for topic in answer.topics
        for part in topic.partitions
    }
