"""State of a log's compaction."""

from __future__ import annotations


class CleaningState:
    """The cleaner's offset of one log, and whether a pass is over it."""

    __slots__ = ("is_running", "offset")

    def __init__(self, offset: int | None) -> None:
        """Begin with the offset of the directory's checkpoint."""
        self.offset = offset
        """Everything below was compacted against everything below; None before the first pass."""
        self.is_running = False
        """True while the cleaner has a pass over the log: retention waits for its end."""

    def lower(self, offset: int) -> None:
        """Forget that something above `offset` is clean."""
        if self.offset is not None:
            self.offset = min(self.offset, offset)
