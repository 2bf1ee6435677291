"""`send` of a record that cannot go the short way: with serializers, headers, in a transaction, or waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from kavka.client.producer.accumulator import BufferFull
from kavka.client.producer.record_failures import RecordFailures
from kavka.client.producer.record_future import RecordFuture, RecordMetadata, new_send_future
from kavka.client.producer.record_input import RecordInput
from kavka.client.producer.record_serializer import RecordSerializer
from kavka.client.producer.records import ProducerRecord, call_back, checked_timestamp


class RecordSend:
    """Takes a record now where that is possible, else where its outcome is awaited; errors are raised there."""

    def __init__(
        self,
        records: RecordInput,
        serializer: RecordSerializer,
        failures: RecordFailures,
        require_loop: Callable[[], None],
    ) -> None:
        """`require_loop` raises RuntimeError outside of the producer's loop, and where that is not open."""
        self._input = records
        self._serializer = serializer
        self._failures = failures
        self._require_loop = require_loop

    def send(self, given: ProducerRecord) -> Coroutine[Any, Any, RecordMetadata]:
        """Return the outcome; nothing is raised before it is awaited."""
        try:
            self._require_loop()
        except RuntimeError:
            return self._send_when_awaited(given)
        try:
            self._input.require_sending()
        except Exception as error:  # noqa: BLE001  as all errors, where the outcome is awaited
            return _failed(error)
        try:
            if given.timestamp_ms is not None:
                checked_timestamp(given.timestamp_ms)
            record = self._serializer.serialize(given)
            future: Any = new_send_future(asyncio.get_running_loop())
            target = self._serializer.delivery_target(None)
            if target is not None:
                future.add_done_callback(call_back(target))
            if record.topic in self._input.appender.topics:
                with suppress(BufferFull), self._failures.failing_transaction():
                    self._input.append(record, future)
                    taken: Coroutine[Any, Any, RecordMetadata] = future
                    return taken
        except Exception as error:  # noqa: BLE001
            self._serializer.report_failure(None, error)
            return _failed(error)
        return self._send_when_possible(record, future)

    async def _send_when_awaited(self, given: ProducerRecord) -> RecordMetadata:
        """Send a record of which another thread, or another loop, has made the coroutine."""
        self._require_loop()
        return await self.send(given)

    async def _send_when_possible(
        self, record: ProducerRecord, future: RecordFuture
    ) -> RecordMetadata:
        """Send a record that has to wait for its topic, or for memory."""
        try:
            with self._failures.failing_transaction():
                await self._input.append_when_possible(record, future)
        except Exception as error:
            self._serializer.report_failure(None, error)
            raise
        return await future


def _failed(error: Exception) -> Coroutine[Any, Any, RecordMetadata]:
    """Return the outcome of a record that was not taken."""
    future: Any = new_send_future(asyncio.get_running_loop())
    future.set_exception(error)
    failed: Coroutine[Any, Any, RecordMetadata] = future
    return failed
