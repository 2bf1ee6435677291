"""The content of a log file, whatever its name and inode are. Pure.

A *content* is a sequence of bytes that only grows: the bytes appended to one file since its creation or its last
truncation. Rotation renames it, copies it to another inode, or compresses it. It is identified by *fingerprints*:
digests of the window of bytes that ends at an offset.

    0          1024                                 position            end
    |-- head --|                          |-- window --|                 |
    f  f  f  f f                f          f     f   f f                 f
               '- the fingerprint at 1024 covers the first KiB, a later one the KiB before its offset

Log lines contain times, so two files with equal windows of a KiB at the same offset hold the same lines.
Less than a KiB (a banner, a header line) may be equal by chance: fewer equal bytes than CONCLUSIVE_BYTES prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

from kavka.values import field, mutable

FINGERPRINT_BYTES = 1024
"""Maximum number of bytes that a fingerprint covers."""
CONCLUSIVE_BYTES = 1024
"""Number of equal bytes from which on two files have the same content, without other evidence."""
HEAD_OFFSETS = (16, 32, 64, 128, 256, 512, 1024)
"""Offsets at which every content that reaches them has fingerprints."""

Fingerprints = Mapping[int, str]
"""Digests by the offset at which their window ends."""


class Identity(NamedTuple):
    """The device and the inode of a file."""

    device: int
    inode: int


@mutable
class Content:
    """One content: its position, and its fingerprints."""

    number: int
    """Number among the contents of a collector; an older one has a smaller number."""
    source: str
    """The first path of its file; it is in the key of its records."""
    position: int = 0
    """Bytes whose events were sent."""
    fingerprints: dict[int, str] = field(factory=dict)
    """By offset, also behind `position`."""
    path: str = ""
    """The last path of its file."""
    identity: Identity | None = None
    """Its active file, or the last one."""


def fingerprint_of(window: bytes) -> str:
    """Return the fingerprint of a window of bytes."""
    return blake2b(window, digest_size=8).hexdigest()


def window_start(offset: int) -> int:
    """Return the offset at which the window of the fingerprint at `offset` begins."""
    return max(0, offset - FINGERPRINT_BYTES)


def fingerprint_offsets(start: int, end: int) -> list[int]:
    """Return the offsets of new fingerprints when a position moves from `start` to `end`: heads, end, before it."""
    heads = [head for head in HEAD_OFFSETS if start < head < end]
    before = [end - (1 << power) for power in range(6, (end - start).bit_length())]
    return [
        *heads,
        *(offset for offset in reversed(before) if offset > max(start, HEAD_OFFSETS[-1])),
        end,
    ]


def fingerprints_in(data: bytes, start: int, offsets: Iterable[int]) -> dict[int, str]:
    """Return the fingerprints at offsets whose windows are within `data`, which begins at offset `start`."""
    return {
        offset: fingerprint_of(data[window_start(offset) - start : offset - start])
        for offset in offsets
    }


def pruned(fingerprints: Fingerprints, position: int) -> dict[int, str]:
    """Return the heads, the last fingerprint, and before `position` the last one in each doubling of the distance.

    A copy made before the last bytes were read ends a little before `position`, so fingerprints are dense there.
    """
    kept: dict[int, str] = {}
    by_distance: dict[int, int] = {}
    for offset in sorted(fingerprints):
        if offset in HEAD_OFFSETS:
            kept[offset] = fingerprints[offset]
        else:
            distance = position - offset
            by_distance[distance.bit_length() if distance >= 0 else -1] = offset
    kept.update({offset: fingerprints[offset] for offset in sorted(by_distance.values())})
    return kept


def stored_fingerprints(content: Content) -> dict[int, str]:
    """Return the fingerprints to store: two heads of a long content, every second one before the position, the last.

    They are written whenever a position moves; the others are computed again when the file is attached again.
    """
    is_long = HEAD_OFFSETS[-1] in content.fingerprints
    kept: dict[int, str] = {}
    for offset, fingerprint in content.fingerprints.items():
        distance = content.position - offset
        if offset in HEAD_OFFSETS:
            is_kept = not is_long or offset in (HEAD_OFFSETS[0], HEAD_OFFSETS[-1]) or distance == 0
        else:
            is_kept = distance <= 0 or distance.bit_length() % 2 == 1
        if is_kept:
            kept[offset] = fingerprint
    return kept


def checked_offsets(content: Content) -> tuple[int, ...]:
    """Return the offsets at which a file is compared with its content: largest head, position, last fingerprint."""
    heads = [offset for offset in content.fingerprints if offset <= HEAD_OFFSETS[-1]]
    offsets = {max(heads, default=0), content.position, max(content.fingerprints, default=0)}
    return tuple(sorted(offsets & content.fingerprints.keys()))


class Agreement(Enum):
    """The relation of a file's bytes to a content."""

    NONE = "no fingerprints at the same offset"
    DIFFERENT = "a fingerprint differs"
    CONTINUES = "the file has all bytes that were sent, and perhaps more"
    PREFIX = "the file is shorter than the bytes that were sent"


class Comparison(NamedTuple):
    """The agreement of a file with a content, and up to which offset their bytes are equal."""

    agreement: Agreement
    matched_bytes: int = 0
    extends: bool = False
    """The file has all bytes of the content's active file, and more."""

    @property
    def is_conclusive(self) -> bool:
        """Return whether the bytes cannot be equal by chance."""
        return self.matched_bytes >= CONCLUSIVE_BYTES


def compare(content: Content, fingerprints: Fingerprints, end: int) -> Comparison:
    """Compare a content with a file of `end` bytes that has these fingerprints."""
    matched_bytes = 0
    for offset, expected in content.fingerprints.items():
        fingerprint = fingerprints.get(offset) if offset <= end else None
        if fingerprint is None:
            continue
        if fingerprint != expected:
            return Comparison(Agreement.DIFFERENT)
        matched_bytes = max(matched_bytes, offset)
    if not matched_bytes:
        return Comparison(Agreement.NONE)
    agreement = Agreement.CONTINUES if end >= content.position else Agreement.PREFIX
    return Comparison(agreement, matched_bytes)
