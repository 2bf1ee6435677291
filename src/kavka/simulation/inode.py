"""The content of one file: what programs read, and what the medium holds.

    cached   |aaaaaaaa|bbbbbbbb|cccccccc|      what a read returns; survives the death of a process
    durable  |aaaaaaaa|                        what a host crash leaves for certain
    dirty              [b][c]                  writes between the two, in order; a crash keeps an arbitrary part of them

The kernel writes dirty pages back by itself after a while (`WRITEBACK_S`), and a `sync` that fails forgets them: on
Linux the pages are marked clean, so the next `sync` succeeds although nothing was written.
"""

from __future__ import annotations

import random
from collections import deque

PAGE = 4096
WRITEBACK_S = 30.0

_Write = tuple[float, int, bytes | None]
"""Time, position and data; None for a truncation to that position."""


class Inode:
    """A file without its name."""

    def __init__(self, number: int) -> None:
        """Make an empty file; `number` identifies it on its disk."""
        self.number = number
        self.cached = bytearray()
        self.durable = bytearray()
        self.dirty: deque[_Write] = deque()
        self.evicted: set[int] = set()

    def write(self, data: bytes, position: int, now_s: float) -> None:
        """Write `data` into the page cache; a gap before it is zeros."""
        _put(self.cached, data, position)
        self.dirty.append((now_s, position, data))
        self._write_back(now_s)

    def truncate(self, size: int, now_s: float) -> None:
        """Cut or extend the cached content."""
        _resize(self.cached, size)
        self.dirty.append((now_s, size, None))

    def read(self, length: int, position: int) -> bytes:
        """Return cached content; its pages are warm afterwards."""
        if self.evicted:
            self.evicted.difference_update(_pages(length, position))
        return bytes(self.cached[position : position + length])

    def is_cached(self, length: int, position: int) -> bool:
        """Return whether all pages of the range are in memory."""
        return not self.evicted or self.evicted.isdisjoint(_pages(length, position))

    def evict(self, length: int, position: int) -> None:
        """Evict the pages of the range from memory."""
        self.evicted.update(_pages(length, position))

    def sync(self) -> None:
        """Make everything durable."""
        while self.dirty:
            self._settle(self.dirty.popleft())

    def forget_dirty(self) -> None:
        """Mark dirty pages clean without having written them, as Linux does when writing fails."""
        self.dirty.clear()

    def flip(self, position: int, bit: int) -> None:
        """Turn one bit over, in memory, on the medium, and on the way between them."""
        for content in (self.cached, self.durable):
            if position < len(content):
                content[position] ^= 1 << bit
        for index, (when, start, data) in enumerate(self.dirty):
            if data is not None and start <= position < start + len(data):
                spoilt = bytearray(data)
                spoilt[position - start] ^= 1 << bit
                self.dirty[index] = (when, start, bytes(spoilt))

    def crash(self, source: random.Random) -> str:
        """Lose power: keep what is durable and an arbitrary part of the rest. Return what was lost, in words."""
        before = len(self.cached)
        dirty = list(self.dirty)
        self.dirty.clear()
        if dirty:
            cut = any(data is None for _, _, data in dirty)
            way = source.choice(["nothing", "all", "prefix", "prefix"] if cut else _WAYS)
            if way == "all":
                self._keep(dirty, len(dirty), source)
            elif way == "prefix":
                self._keep(dirty, source.randrange(len(dirty) + 1), source)
            elif way == "pages":
                self._keep_pages(dirty, source)
        self.cached = bytearray(self.durable)
        self.evicted = set(range(len(self.cached) // PAGE + 1))
        return f"{before} -> {len(self.cached)} bytes" if dirty else ""

    def _keep(self, dirty: list[_Write], count: int, source: random.Random) -> None:
        """Keep the first `count` writes and a torn part of the next one."""
        for write in dirty[:count]:
            self._settle(write)
        if count < len(dirty):
            when, position, data = dirty[count]
            if data is not None:
                self._settle((when, position, data[: source.randrange(len(data) + 1)]))

    def _keep_pages(self, dirty: list[_Write], source: random.Random) -> None:
        """Keep each dirty page or not; a page that was lost before one that was kept reads as zeros."""
        kept: dict[int, bool] = {}
        for _, position, data in dirty:
            assert data is not None
            for page in _pages(len(data), position):
                if page not in kept:
                    kept[page] = source.random() < 0.5
                if kept[page]:
                    first = max(position, page * PAGE)
                    last = min(position + len(data), (page + 1) * PAGE)
                    _put(self.durable, data[first - position : last - position], first)

    def _settle(self, write: _Write) -> None:
        _, position, data = write
        if data is None:
            _resize(self.durable, position)
        else:
            _put(self.durable, data, position)

    def _write_back(self, now_s: float) -> None:
        while self.dirty and self.dirty[0][0] < now_s - WRITEBACK_S:
            self._settle(self.dirty.popleft())


_WAYS = ["nothing", "all", "prefix", "prefix", "pages", "pages"]


def _put(content: bytearray, data: bytes, position: int) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    if size <= len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _pages(length: int, position: int) -> range:
    return range(position // PAGE, (position + max(length, 1) - 1) // PAGE + 1)
