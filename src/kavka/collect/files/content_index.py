"""An index of contents: those that a file may have, without comparing it with all of them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kavka.collect.files.content import HEAD_OFFSETS, Content, Fingerprints

_Head = tuple[int, str]
"""One of HEAD_OFFSETS, and the fingerprint at it."""


class ContentIndex:
    """The contents of one scan, by inode and by heads; a lookup returns candidates, which are compared then."""

    def __init__(self, contents: Iterable[Content]) -> None:
        """Add all contents of a collector."""
        self._all: list[Content] = []
        self._by_inode: dict[int, list[Content]] = defaultdict(list)
        self._by_head: dict[_Head, list[Content]] = defaultdict(list)
        self._by_last_head: dict[_Head, list[Content]] = defaultdict(list)
        self._tiny: list[Content] = []
        """Contents that do not reach the first head."""
        self._small_positions: set[int] = set()
        for content in contents:
            self.add(content)

    def add(self, content: Content) -> None:
        """Add a new content."""
        self._all.append(content)
        if content.identity is not None:
            self._by_inode[content.identity.inode].append(content)
        heads = _heads(content.fingerprints)
        for head in heads:
            self._by_head[head].append(content)
        if heads:
            self._by_last_head[heads[-1]].append(content)
        else:
            self._tiny.append(content)
        if 0 < content.position < HEAD_OFFSETS[-1]:
            self._small_positions.add(content.position)

    def small_positions(self) -> set[int]:
        """Return the offsets, beside the heads, at which short contents have fingerprints."""
        return self._small_positions

    def at_inode(self, inode: int) -> list[Content]:
        """Return the contents whose file has, or had, an inode."""
        return self._by_inode.get(inode, [])

    def candidates(self, fingerprints: Fingerprints) -> list[Content]:
        """Return the contents that agree with a file in all common heads, and those without a head."""
        heads = _heads(fingerprints)
        if not heads:
            return list(self._all)
        contents = [*self._by_head.get(heads[-1], []), *self._tiny]
        for head in heads[:-1]:
            contents += self._by_last_head.get(head, [])
        return contents


def _heads(fingerprints: Fingerprints) -> list[_Head]:
    return [(offset, fingerprints[offset]) for offset in HEAD_OFFSETS if offset in fingerprints]
