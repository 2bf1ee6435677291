"""What is raised for bytes that are no record batch."""

from __future__ import annotations


class CorruptBatch(Exception):
    """Bytes that break the format: `what` says how, `position` where in the buffer that was handed in.

    A position inside a compressed body counts from the start of what it decompresses to.
    """

    def __init__(self, what: str, position: int) -> None:
        """Remember both parts; the text has both."""
        super().__init__(f"{what} at position {position}")
        self.what = what
        self.position = position


class BatchTooLarge(CorruptBatch):
    """A body that decompresses to more than the reader's bound; it may be well formed all the same."""
