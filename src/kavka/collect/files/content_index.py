"""Finds the contents that a file may have, without comparing it with all of them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kavka.collect.files.content import HEADS, Content, Marks

_Head = tuple[int, str]
"""An offset among HEADS, and the mark there."""


class ContentIndex:
    """The contents of one look, by inode and by heads; what is found is still to be compared."""

    def __init__(self, contents: Iterable[Content]) -> None:
        """Take all contents that there are."""
        self._all: list[Content] = []
        self._by_inode: dict[int, list[Content]] = defaultdict(list)
        self._by_head: dict[_Head, list[Content]] = defaultdict(list)
        self._by_last_head: dict[_Head, list[Content]] = defaultdict(list)
        self._tiny: list[Content] = []
        """Those that do not reach the first head."""
        self._small_positions: set[int] = set()
        for content in contents:
            self.add(content)

    def add(self, content: Content) -> None:
        """Take a content that is new."""
        self._all.append(content)
        if content.identity is not None:
            self._by_inode[content.identity.inode].append(content)
        heads = _heads(content.marks)
        for head in heads:
            self._by_head[head].append(content)
        if heads:
            self._by_last_head[heads[-1]].append(content)
        else:
            self._tiny.append(content)
        if 0 < content.position < HEADS[-1]:
            self._small_positions.add(content.position)

    def small_positions(self) -> set[int]:
        """Return the offsets, beside the heads, at which short contents have marks."""
        return self._small_positions

    def at_inode(self, inode: int) -> list[Content]:
        """Return the contents whose file has, or had, an inode."""
        return self._by_inode.get(inode, [])

    def alike(self, marks: Marks) -> list[Content]:
        """Return the contents that agree with a file in all heads that both have, and those without a head."""
        heads = _heads(marks)
        if not heads:
            return list(self._all)
        found = [*self._by_head.get(heads[-1], []), *self._tiny]
        for shorter in heads[:-1]:
            found += self._by_last_head.get(shorter, [])
        return found


def _heads(marks: Marks) -> list[_Head]:
    return [(offset, marks[offset]) for offset in HEADS if offset in marks]
