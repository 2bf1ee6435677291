"""The content of a log file, apart from its place. Pure.

A *content* is a sequence of bytes that only grows: what is appended to one file from its creation, or from its last
truncation, on. Rotation moves it to another name, copies it to another inode, compresses it. It is known again by
*marks*: digests of the window of bytes that ends at an offset.

    0          1024                                 position            end
    |-- head --|                          |-- window --|                 |
    m  m  m  m m                m          m     m   m m                 m
               '- a mark at 1024 covers the first KiB, one further on the KiB before it

Log lines have times in them, so two files that agree in a window of a KiB at the same offset hold the same lines.
Less than a KiB (a banner, a header line) may be the same by chance: evidence below STRONG is weak.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

from kavka.values import field, mutable

WINDOW = 1024
"""Bytes that a mark covers at most."""
STRONG = 1024
"""Evidence, in bytes, from which on two files that agree are taken for the same content without more."""
HEADS = (16, 32, 64, 128, 256, 512, 1024)
"""Offsets at which every content has marks, as far as it goes."""

Marks = Mapping[int, str]
"""Digests by the offset at which their window ends."""


class Identity(NamedTuple):
    """The device and the inode of a file."""

    device: int
    inode: int


@mutable
class Content:
    """One content: how far its lines were sent, and how it is known again."""

    number: int
    """Counts the contents of a collector; an older one has a smaller number."""
    source: str
    """The path at which it was found first; it is in the key of its records."""
    position: int = 0
    """Bytes whose events were sent."""
    marks: dict[int, str] = field(factory=dict)
    """Facts about the content, also behind `position`."""
    path: str = ""
    """Where its file was seen last."""
    identity: Identity | None = None
    """The file that has it, or had it last."""


def digest(window: bytes) -> str:
    """Return what a mark has of the bytes of its window."""
    return blake2b(window, digest_size=8).hexdigest()


def window_start(offset: int) -> int:
    """Return where the window of the mark at `offset` begins."""
    return max(0, offset - WINDOW)


def offsets_to_mark(start: int, end: int) -> list[int]:
    """Return the offsets that get a mark when a position moves from `start` to `end`: heads, the end, and before it."""
    heads = [head for head in HEADS if start < head < end]
    before = [end - (1 << power) for power in range(6, (end - start).bit_length())]
    return [*heads, *(offset for offset in reversed(before) if offset > max(start, HEADS[-1])), end]


def marks_in(data: bytes, start: int, offsets: Iterable[int]) -> dict[int, str]:
    """Return the marks at offsets whose windows are within `data`, which stands at `start`."""
    return {
        offset: digest(data[window_start(offset) - start : offset - start]) for offset in offsets
    }


def thinned(marks: Marks, position: int) -> dict[int, str]:
    """Return the heads, the last mark, and of those before `position` the last one in each doubling of the distance.

    A file that was copied before its last bytes were read ends a little before `position`: there marks are dense.
    """
    kept: dict[int, str] = {}
    by_distance: dict[int, int] = {}
    for offset in sorted(marks):
        if offset in HEADS:
            kept[offset] = marks[offset]
        else:
            distance = position - offset
            by_distance[distance.bit_length() if distance >= 0 else -1] = offset
    kept.update({offset: marks[offset] for offset in sorted(by_distance.values())})
    return kept


def stored_marks(content: Content) -> dict[int, str]:
    """Return the marks that are stored: of a long content two heads, before the position every second mark, the last.

    A record of them is written whenever a position moves; a file that is found again gets the others again.
    """
    is_long = HEADS[-1] in content.marks
    kept: dict[int, str] = {}
    for offset, mark in content.marks.items():
        distance = content.position - offset
        if offset in HEADS:
            is_kept = not is_long or offset in (HEADS[0], HEADS[-1]) or distance == 0
        else:
            is_kept = distance <= 0 or distance.bit_length() % 2 == 1
        if is_kept:
            kept[offset] = mark
    return kept


def checked_offsets(content: Content) -> tuple[int, ...]:
    """Return the offsets that show best whether a file still has a content: the largest head, position, last mark."""
    heads = [offset for offset in content.marks if offset <= HEADS[-1]]
    wanted = {max(heads, default=0), content.position, max(content.marks, default=0)}
    return tuple(sorted(wanted & content.marks.keys()))


class Agreement(Enum):
    """The relation of a file's bytes to a content."""

    NONE = "no mark of both can be compared"
    DIFFERENT = "a mark differs"
    CONTINUES = "the file has all that was sent, and perhaps more"
    PREFIX = "the file is shorter than what was sent"


class Comparison(NamedTuple):
    """The agreement of a file with a content, and the offset up to which that was seen."""

    agreement: Agreement
    evidence: int = 0
    extends: bool = False
    """The file has all of the content's present home, and more."""

    @property
    def is_strong(self) -> bool:
        """Return whether chance is out of the question."""
        return self.evidence >= STRONG


def compare(content: Content, marks: Marks, end: int) -> Comparison:
    """Compare a content with a file of `end` bytes that has these marks."""
    evidence = 0
    for offset, known in content.marks.items():
        seen = marks.get(offset) if offset <= end else None
        if seen is None:
            continue
        if seen != known:
            return Comparison(Agreement.DIFFERENT)
        evidence = max(evidence, offset)
    if not evidence:
        return Comparison(Agreement.NONE)
    kind = Agreement.CONTINUES if end >= content.position else Agreement.PREFIX
    return Comparison(kind, evidence)
