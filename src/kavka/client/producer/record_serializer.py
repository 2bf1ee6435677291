"""A user's record on its way in: interceptors, serializers, and the types that the batches need."""

from __future__ import annotations

import logging
from typing import Any

from kavka.client.config import Config
from kavka.client.producer.batch import Acknowledged, Callback, Target, call
from kavka.client.producer.records import ProducerRecord, as_bytes, checked_headers
from kavka.client.serialization import (
    FieldFunction,
    RecordSerializationError,
    SerializationContext,
    field_function,
)

log = logging.getLogger(__name__)


def check_topic(topic: object) -> None:
    """Raise TypeError for what is no text, ValueError for a name that is empty: no broker would ever know it."""
    if not isinstance(topic, str):
        raise TypeError(f"topic is {type(topic).__name__}, and must be a name (str)")
    if not topic:
        raise ValueError("topic must have a name")


class RecordSerializer:
    """The interceptors and serializers that each record passes before it has a partition."""

    def __init__(self, config: Config) -> None:
        """Raise InvalidSetting for a serializer that cannot be called, and for what is no interceptor."""
        self._key_serializer = field_function(config, "key.serializer")
        self._value_serializer = field_function(config, "value.serializer")
        self.interceptors = config.interceptors("on_send", "on_acknowledgement")
        self.is_plain = not (self._key_serializer or self._value_serializer or self.interceptors)
        """True if records stay unchanged."""

    def serialize(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record with bytes. Raise TypeError, ValueError, RecordSerializationError."""
        check_topic(record.topic)
        if not self.is_plain:
            record = self._intercepted(record)
        if record.headers:
            record = record._replace(headers=checked_headers(record.headers))
        key, value = record.key, record.value
        if (type(value) is bytes or value is None) and (type(key) is bytes or key is None):
            return record
        return record._replace(
            key=as_bytes("key", key, record.topic, key),
            value=as_bytes("value", value, record.topic, key),
        )

    def _intercepted(self, record: ProducerRecord) -> ProducerRecord:
        for interceptor in self.interceptors:
            try:
                record = interceptor.on_send(record)
            except Exception:  # as in Kafka: an interceptor cannot stop its client
                log.exception("interceptor failed in on_send topic=%s", record.topic)
        headers = list(record.headers)  # a serializer may append to it
        key = _serialized(self._key_serializer, "key", record.key, record, headers)
        value = _serialized(self._value_serializer, "value", record.value, record, headers)
        return record._replace(key=key, value=value, headers=headers)

    def report_failure(self, callback: Callback | None, error: Exception) -> None:
        """Report the failure of a record that came into no batch to interceptors and callback."""
        target = Acknowledged(self.interceptors, callback) if self.interceptors else callback
        if target is not None:
            call(target, None, error)

    def delivery_target(self, callback: Callback | None) -> Target | None:
        """Return the target of a record's outcome: the interceptors, then the user's callback."""
        return Acknowledged(self.interceptors, callback) if self.interceptors else callback


def _serialized(
    serializer: FieldFunction | None,
    field: str,
    given: Any,
    record: ProducerRecord,
    headers: list[tuple[str, bytes | None]],
) -> Any:
    """Return a key or value as its serializer makes it. Raise RecordSerializationError."""
    if serializer is None:
        return given
    try:
        if not serializer.wants_context:
            return serializer.call(given)
        context = SerializationContext(record.topic, field, headers, record.partition)
        return serializer.call(given, context)
    except Exception as error:
        raise RecordSerializationError(
            record.topic, record.partition, record.key, field, error
        ) from error
