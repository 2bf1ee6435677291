"""Errors of statements over topics; their texts are all that a user sees."""

from __future__ import annotations

from kavka.ids import TopicPartition


class SqlError(Exception):
    """A statement cannot be run, or its topics cannot be read."""


class UndecodableValue(SqlError):
    """A value does not fit its schema, and the statement is strict."""

    def __init__(self, topic_partition: TopicPartition, offset: int, reason: str) -> None:
        """Name the record and what is wrong with it."""
        super().__init__(
            f"The value of {topic_partition} at offset {offset} cannot be decoded: {reason}."
        )
        self.topic_partition = topic_partition
        self.offset = offset


class RecordsLost(SqlError):
    """Records were removed while a strict statement read them."""
