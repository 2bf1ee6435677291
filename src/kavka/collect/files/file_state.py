"""The state of a tracked file, and the messages to and from the tracker. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from kavka.collect.files.content import Content, Identity
from kavka.values import mutable


class FileEntry(NamedTuple):
    """A file of a listing."""

    identity: Identity
    path: str
    size: int
    mtime_ns: int
    is_compressed: bool = False


class FingerprintRequest(NamedTuple):
    """A request for the fingerprints of a file at these offsets, and at its end if `to_end`."""

    identity: Identity
    offsets: tuple[int, ...]
    to_end: bool = True
    """If false, a compressed file is read up to the last offset only."""


class FingerprintResult(NamedTuple):
    """The result: fingerprints at those of the offsets that the file reaches, and at its end."""

    end: int | None
    """Size of the content in bytes, uncompressed; None if it cannot be read now, or is not complete."""
    fingerprints: Mapping[int, str]


class FileState(Enum):
    """State of a tracked file; the table of `tracker` has the meanings. The values are labels of a metric."""

    FOLLOWED = "followed"
    COPY = "copy"
    HELD = "held"
    WAITING = "waiting"


@mutable
class TrackedFile:
    """A file of the last listing, or a removed one that is not closed yet."""

    entry: FileEntry
    state: FileState = FileState.WAITING
    content: Content | None = None
    """Its content if it is FOLLOWED, else the content that it may be a copy of."""
    state_since_ms: int = 0
    """Time of the last change of the state."""
    last_seen_ms: int = 0
    """Time at which it was last listed, or last grew."""
    is_listed: bool = True
    identified_version: tuple[int, int] = (-1, -1)
    """Version (size, modification time) from which the state was decided."""
    eof_version: tuple[int, int] | None = None
    """Version that was read to its end."""
    last_read_number: int = 0
    """Number of its last read among the reads of all files."""
    flush_at_ms: int | None = None
    """Time at which an incomplete event at the end is sent."""

    @property
    def version(self) -> tuple[int, int]:
        """Return size and modification time: they change whenever the file does."""
        return self.entry.size, self.entry.mtime_ns


class ReadTask(NamedTuple):
    """A read that is due: a file, from the position of its content on."""

    file: TrackedFile
    content: Content
    is_flush: bool
    """An incomplete event at the end is sent, too."""
