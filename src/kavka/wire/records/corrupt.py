"""Errors raised for bytes that are not a valid record batch."""

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


class CorruptBody(CorruptBatch):
    """A compressed body that breaks the format of its codec."""


class BatchTooLarge(CorruptBatch):
    """A body that decompresses to more than the reader's bound; it may be well formed all the same."""


LENGTH, FIELDS, MISSING, EXTRA = 1, 2, 3, 4
FAULTS = {
    LENGTH: "a record with a length that is cut or does not fit",
    FIELDS: "a record with fields that do not fill its length",
    MISSING: "fewer records than the header says",
    EXTRA: "bytes after the last record",
}
"""Faults that a kernel finds in the bytes of records; the position is that of the record."""

CHECKSUM = "a batch that fails its checksum"

WRONG_OFFSET, NO_KEY, BAD_TIMESTAMP, MISLEADS = 1, 2, 3, 4
"""Broken rules of a record that can still be walked over, as reported by `check`."""
MAX_VIOLATIONS = 1024
"""Number of violations after which `check` stops recording more."""
