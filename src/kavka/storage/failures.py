"""What storage raises, by kind: a refusal, corrupt files, the world failed."""

from __future__ import annotations

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


class CorruptFile(ValueError):
    """A stored file breaks its format; the text says which, where and how."""


class LogDirectoryFailed(OSError):
    """The log directory is offline since an earlier error; nothing in it is read or written any more."""
