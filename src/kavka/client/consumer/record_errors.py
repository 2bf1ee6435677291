"""Errors about one record or batch that a consumer cannot hand out.

The position of the partition stays at the record: the same error is raised again until the user seeks past it.
"""

from __future__ import annotations

from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition


class RecordDeserializationError(Exception):
    """A deserializer raised for the key or the value of a record; its exception is the `__cause__`."""

    def __init__(self, topic_partition: TopicPartition, offset: int, part: str) -> None:
        """Name the record; `part` is "key" or "value"."""
        super().__init__(
            f"Error deserializing {part} for partition {topic_partition} at offset {offset}. "
            "If needed, please seek past the record to continue consumption."
        )
        self.topic_partition = topic_partition
        self.offset = offset
        self.part = part


class CorruptRecordError(KafkaError):
    """A batch breaks the format or its checksum (CORRUPT_MESSAGE)."""

    def __init__(self, topic_partition: TopicPartition, offset: int, cause: object) -> None:
        """Name the batch by the first offset that it would have given."""
        detail = f"Record batch for partition {topic_partition} at offset {offset} is invalid, cause: {cause}"
        super().__init__(ErrorCode.CORRUPT_MESSAGE, detail)
        self.topic_partition = topic_partition
        self.offset = offset


RecordError = RecordDeserializationError | CorruptRecordError
