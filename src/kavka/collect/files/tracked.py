"""Messages to and from the tracker of files, and its state. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from kavka.collect.files.content import Content, Identity
from kavka.values import mutable


class Seen(NamedTuple):
    """A file of a listing."""

    identity: Identity
    path: str
    size: int
    mtime_ns: int
    is_compressed: bool = False


class Ask(NamedTuple):
    """The question for the marks of a file at these offsets, and at its end where `whole`."""

    identity: Identity
    offsets: tuple[int, ...]
    whole: bool = True
    """False lets a compressed file be read up to the last offset only."""


class Digests(NamedTuple):
    """The answer: marks at those of the offsets that the file reaches, and at its end."""

    end: int | None
    """Bytes of the content, uncompressed; None when it cannot be read now, or is not complete."""
    marks: Mapping[int, str]


class FileState(Enum):
    """See the table of this module."""

    FOLLOWED = "followed"
    COPY = "copy"
    HELD = "held"
    WAITING = "waiting"


@mutable
class TrackedFile:
    """A file of the last listing, or one that is gone and not closed yet."""

    seen: Seen
    state: FileState = FileState.WAITING
    content: Content | None = None
    """Its content where it is FOLLOWED, else the one that it may be a copy of."""
    since_ms: int = 0
    """Time at which it came into this state."""
    listed_ms: int = 0
    """Time at which it was listed or grew last."""
    is_listed: bool = True
    judged: tuple[int, int] = (-1, -1)
    """Size and time of the file that the state is about."""
    exhausted: tuple[int, int] | None = None
    """Size and time at which no more could be read from it."""
    last_read: int = 0
    """Number of the read that was its last."""
    flush_at_ms: int | None = None
    """Time at which an event that no line has ended yet is sent."""

    @property
    def version(self) -> tuple[int, int]:
        """Return what changes when the file does."""
        return self.seen.size, self.seen.mtime_ns


class Read(NamedTuple):
    """The decision to read a file from the position of its content on."""

    file: TrackedFile
    content: Content
    is_flush: bool
    """An event at the end is sent although no further line has ended it."""
