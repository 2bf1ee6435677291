"""Produce requests of drained batches: sequences, leader epochs, encoding and the version for a broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kavka.client.metadata import MetadataCache
from kavka.client.producer.accumulator import Accumulator
from kavka.client.producer.batch import ProducerBatch
from kavka.client.producer.sequences import SequenceNumbers
from kavka.client.producer.settings import SenderSettings
from kavka.client.producer.transaction_requests import version_of
from kavka.core.transactional_producer.state import TransactionState
from kavka.errors import ErrorCode, KafkaError
from kavka.io import Buffer, Sendable
from kavka.net.peer import Peer
from kavka.wire.apis import ApiKey
from kavka.wire.frame import encode_request
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from kavka.wire.produce_request import FIRST_VERSION, LAST_VERSION, encode_batch
from kavka.wire.records.compression import Compression

EncodedBatch = tuple[ProducerBatch, Buffer]

_ZSTD_VERSION = 7
_BATCH_VERSION = 3


class ProduceRequestBuilder:
    """Builds the Produce requests of a producer."""

    def __init__(
        self,
        metadata: MetadataCache,
        accumulator: Accumulator,
        settings: SenderSettings,
        sequences: SequenceNumbers | None,
        transaction: TransactionState | None,
        give_up: Callable[[ProducerBatch, Exception], None],
    ) -> None:
        """`give_up` is called with a batch that cannot be encoded, and the reason."""
        self._metadata = metadata
        self._accumulator = accumulator
        self._settings = settings
        self._sequences = sequences
        self._transaction = transaction
        self._give_up = give_up
        self._parameters = (settings.transactional_id, settings.acks, settings.request_timeout_ms)

    def version(self, peer: Peer) -> int:
        """Return the version for a broker. Raise KafkaError UNSUPPORTED_VERSION."""
        if self._transaction is None:
            version = peer.version_of(ApiKey.PRODUCE)
        else:
            version = version_of(peer, ApiKey.PRODUCE, self._transaction.version)
        needed = _ZSTD_VERSION if self._settings.compression is Compression.ZSTD else _BATCH_VERSION
        if version < needed:
            detail = f"{peer.name} is too old to take these batches (Produce {version} < {needed})"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, detail)
        return version

    def encode_batches(self, batches: list[ProducerBatch]) -> list[EncodedBatch]:
        """Return the batches of a request, encoded: one that cannot be encoded is given up."""
        settings = self._settings
        taken: list[EncodedBatch] = []
        for batch in batches:
            if self._sequences is not None:
                self._sequences.assign(batch)
            batch.leader_epoch = self._metadata.leader_epoch(batch.topic_partition)
            try:
                encoded = batch.encode(
                    settings.compression, settings.level, self._transaction is not None
                )
            except (ValueError, TypeError, OverflowError) as error:
                batch.is_in_flight = False
                self._give_up(batch, error)
                continue
            batch.encoded_bytes = len(encoded)
            if settings.compression is not Compression.NONE and batch.columns is None:
                self._accumulator.observe_ratio(
                    batch.topic_partition.topic, batch.reserved, len(encoded)
                )
            taken.append((batch, encoded))
        return taken

    def encode(
        self, batches: list[EncodedBatch], version: int, correlation_id: int, client_id: str | None
    ) -> Sequence[Sendable]:
        """Return the frame of a request."""
        if len(batches) == 1 and FIRST_VERSION <= version <= LAST_VERSION:
            ((batch, records),) = batches
            place = batch.topic_partition
            return encode_batch(
                version, correlation_id, client_id, self._parameters, place, records
            )
        return encode_request(self.message(batches), version, correlation_id, client_id)

    def message(self, batches: list[EncodedBatch]) -> ProduceRequest:
        """Return a request as a message."""
        settings = self._settings
        topics: dict[str, list[ProduceRequestPartition]] = {}
        for batch, encoded in batches:
            part = ProduceRequestPartition(index=batch.topic_partition.partition, records=encoded)
            topics.setdefault(batch.topic_partition.topic, []).append(part)
        data = [ProduceRequestTopic(name=t, partition_data=p) for t, p in topics.items()]
        return ProduceRequest(
            transactional_id=settings.transactional_id,
            acks=settings.acks,
            timeout_ms=settings.request_timeout_ms,
            topic_data=data,
        )
