"""The requests of a transaction in Kafka's protocol, and the parts of their responses that decide. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kavka.core.topic_partitions import group_by_topic, partitions_by_topic
from kavka.core.transactional_producer.steps import (
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    EndTransaction,
    InitProducerId,
    Request,
    RequestResult,
)
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import ProducerEpoch, ProducerId, TopicPartition
from kavka.net.peer import Peer
from kavka.wire.apis import ApiKey
from kavka.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kavka.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
)
from kavka.wire.messages.end_txn import EndTxnRequest
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

_NEWEST_ADD_PARTITIONS = 3
"""Later versions are for brokers alone."""
_LAST_OF_VERSION_0 = {ApiKey.PRODUCE: 11, ApiKey.TXN_OFFSET_COMMIT: 4, ApiKey.END_TXN: 4}
"""Later versions are for transactions of version 2 (KIP-890): brokers add to them what they are sent, and each end
gives a new epoch.
"""
_MEMBERS_VERSION = 3
"""TxnOffsetCommit before it cannot say which member commits (KIP-447)."""
_RAISE_VERSION = 3
"""First version of InitProducerId that can raise a given epoch (KIP-360)."""
_TWO_PHASE_VERSION = 6
"""InitProducerId before it knows nothing of two-phase commit (KIP-939)."""


def version_of(peer: Peer, api_key: ApiKey, transaction_version: int) -> int:
    """Return the version in which Produce, TxnOffsetCommit or EndTxn is sent. Raise KafkaError UNSUPPORTED_VERSION."""
    last = _LAST_OF_VERSION_0[api_key]
    if transaction_version < 2:
        return peer.version_of(api_key, last)
    version = peer.version_of(api_key)
    if version <= last:
        detail = f"{peer.name} is too old for transaction.version 2 ({api_key.title} {version} < {last + 1})"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
    return version


class TransactionSettings(NamedTuple):
    """Settings of transactions."""

    transactional_id: str
    timeout_ms: int
    max_block_ms: int
    retry_backoff_ms: int
    two_phase_commit: bool
    """True if transactions stay open until they are completed, for a decision made elsewhere (KIP-939)."""


class Identity(NamedTuple):
    """The settings, producer id and epoch of requests."""

    settings: TransactionSettings
    producer_id: ProducerId
    epoch: ProducerEpoch

    def encode(self, request: Request, peer: Peer) -> tuple[Any, int | None]:
        """Return a request's message for a connection, and its version if it must be a certain one.

        Raise KafkaError UNSUPPORTED_VERSION.
        """
        match request:
            case InitProducerId():
                return self._init_producer_id(request, peer)
            case AddPartitions(partitions):
                version = peer.version_of(ApiKey.ADD_PARTITIONS_TO_TXN, _NEWEST_ADD_PARTITIONS)
                return self._add_partitions(partitions), version
            case AddOffsets(group_id):
                return self._add_offsets(group_id), None
            case CommitOffsets(_, _, transaction_version):
                version = version_of(peer, ApiKey.TXN_OFFSET_COMMIT, transaction_version)
                if request.group.generation_id >= 0:
                    _require(
                        peer, version, _MEMBERS_VERSION, "to check the member", "TxnOffsetCommit"
                    )
                return self._commit_offsets(request), version
            case EndTransaction(commit, transaction_version):
                return self._end(commit), version_of(peer, ApiKey.END_TXN, transaction_version)

    def _init_producer_id(
        self, request: InitProducerId, peer: Peer
    ) -> tuple[InitProducerIdRequest, int]:
        version = peer.version_of(ApiKey.INIT_PRODUCER_ID)
        settings = self.settings
        message = InitProducerIdRequest(
            transactional_id=settings.transactional_id,
            transaction_timeout_ms=settings.timeout_ms,
            enable_2pc=settings.two_phase_commit,
            keep_prepared_txn=request.keeps_prepared,
        )
        if request.raises_epoch:
            _require(peer, version, _RAISE_VERSION, "to raise the epoch", "InitProducerId")
            message.producer_id, message.producer_epoch = self.producer_id, self.epoch
        if settings.two_phase_commit or request.keeps_prepared:
            _require(peer, version, _TWO_PHASE_VERSION, "for two-phase commit", "InitProducerId")
        return message, version

    def _add_partitions(self, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.settings.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequestTopic(name=name, partitions=numbers)
                for name, numbers in partitions_by_topic(partitions).items()
            ],
        )

    def _add_offsets(self, group_id: str) -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest(
            transactional_id=self.settings.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )

    def _commit_offsets(self, request: CommitOffsets) -> TxnOffsetCommitRequest:
        topics = group_by_topic(
            (
                topic_partition,
                TxnOffsetCommitRequestPartition(
                    partition_index=topic_partition.partition,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    committed_metadata=metadata,
                ),
            )
            for topic_partition, (offset, metadata, leader_epoch) in request.offsets.items()
        )
        group = request.group
        return TxnOffsetCommitRequest(
            transactional_id=self.settings.transactional_id,
            group_id=group.group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=n, partitions=p) for n, p in topics.items()],
        )

    def _end(self, commit: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.settings.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )


def _require(peer: Peer, version: int, needed: int, purpose: str, api: str) -> None:
    if version < needed:
        detail = f"{peer.name} is too old {purpose} ({api} {version} < {needed})"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)


def result_of(request: Request, response: Any) -> RequestResult:
    """Return what a response says."""
    match request:
        case InitProducerId():
            return RequestResult(
                {None: ErrorCode.of(response.error_code)},
                response.producer_id,
                response.producer_epoch,
                response.ongoing_txn_producer_id,
                response.ongoing_txn_producer_epoch,
            )
        case EndTransaction():
            code = ErrorCode.of(response.error_code)
            return RequestResult({None: code}, response.producer_id, response.producer_epoch)
        case AddOffsets():
            return RequestResult({None: ErrorCode.of(response.error_code)})
        case AddPartitions():
            return RequestResult(
                {
                    TopicPartition(topic.name, part.partition_index): ErrorCode.of(
                        part.partition_error_code
                    )
                    for topic in response.results_by_topic_v3_and_below
                    for part in topic.results_by_partition
                }
            )
        case CommitOffsets():
            return RequestResult(
                {
                    TopicPartition(topic.name, part.partition_index): ErrorCode.of(part.error_code)
                    for topic in response.topics
                    for part in topic.partitions
                }
            )
