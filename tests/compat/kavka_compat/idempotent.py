"""An idempotent producer whose sequence numbers a test chooses: it may repeat itself, and leave numbers out."""

from __future__ import annotations

import time
from typing import Any

from kavka.errors import ErrorCode
from kavka.wire.messages.init_producer_id import InitProducerIdRequest
from kavka.wire.messages.produce import (
    ProduceResponsePartition,
)
from kavka_compat.asking import until
from kavka_compat.mixed import MixedCluster
from support.produce import batch, partition_response, produce_request


class IdempotentProducer:
    """An idempotent producer that sends one record at a time, and may repeat itself."""

    def __init__(self, cluster: MixedCluster, topic: str) -> None:
        """Get a producer id."""
        self._cluster = cluster
        self._topic = topic
        self._sequence = 0
        until(self._has_producer_id, what="a producer id")

    def _has_producer_id(self) -> bool:
        """Ask once; Apache Kafka's brokers fetch their first block of ids meanwhile."""
        response = self._send(InitProducerIdRequest(transactional_id=None))
        self._producer_id = response.producer_id
        return response.error_code == ErrorCode.NONE

    def write(self) -> int:
        """Write the next record, and return its offset."""
        response = self._produce(self._sequence)
        assert response.error_code == ErrorCode.NONE
        self._sequence += 1
        return response.base_offset

    def repeat(self) -> int:
        """Write the last record again, and return the offset that the leader remembers for it."""
        response = self._produce(self._sequence - 1)
        assert response.error_code == ErrorCode.NONE
        return response.base_offset

    def skip(self) -> ErrorCode:
        """Leave a record out, and return how the leader refuses what comes after it."""
        return ErrorCode.of(self._produce(self._sequence + 1).error_code)

    def _produce(self, sequence: int) -> ProduceResponsePartition:
        records = batch(
            b"%d" % sequence,
            timestamp_ms=int(time.time() * 1000),
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        request = produce_request(self._topic, [(0, records)], timeout_ms=20_000)
        return partition_response(self._send(request, 9))

    def _send(self, request: object, version: int | None = None) -> Any:
        """Ask the leader."""
        state = self._cluster.state(self._topic, 0)
        assert state is not None
        return self._cluster.ask(state.leader, request, version)
