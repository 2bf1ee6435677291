"""Exceptions of storage, by kind: a refusal, corrupt files, a failed disk."""

from __future__ import annotations

import errno

from kavka.errors import ErrorCode, KafkaError


class OffsetOutOfRange(KafkaError):
    """The offset is not between the log's start and its end."""

    def __init__(self, offset: int, start_offset: int, end_offset: int) -> None:
        """Name the offset and the range that the log holds."""
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is outside of {start_offset} to {end_offset}",
        )
        self.start_offset = start_offset
        self.end_offset = end_offset


class OffsetBelowEnd(ValueError):
    """The log of a follower has the sent offsets already.

    With `may_restart` the log is empty and its end lies inside the batch: the follower begins again at `base_offset`
    (`truncate_fully_and_start_at`), appends again, and then moves its log start to the leader's.
    """

    def __init__(self, base_offset: int, end_offset: int, *, may_restart: bool) -> None:
        """Name the first offset that was sent and the log's end."""
        super().__init__(f"offset {base_offset} was sent to a log that ends at {end_offset}")
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.may_restart = may_restart


class CorruptFile(ValueError):
    """A stored file breaks its format; the text says which, where and how."""


class LogDirectoryFailed(OSError):
    """The log directory is offline since an earlier error; nothing in it is read or written any more."""


class LogClosed(LogDirectoryFailed):
    """The log was deleted, moved or closed while it was read; Kafka too answers as for a bad directory."""

    def __init__(self, path: str) -> None:
        """Name the log's directory."""
        super().__init__(errno.ESTALE, f"the log {path} is closed")
