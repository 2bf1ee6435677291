"""Watches of a ZooKeeper client.

Its server drops them with the connection; the client sets them again on the next one. A watch is notified of one event
and is gone then (ZooKeeper Programmer's Guide, "ZooKeeper Watches").
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from kavka.core.znodes import Event, EventType
from kavka.registry.interface import Watch
from kavka.registry.watches import WatchKind, WatchTable


class WatchedPaths(NamedTuple):
    """The session's watched paths for SetWatches; the server answers with the events missed meanwhile."""

    data: list[str]
    exist: list[str]
    children: list[str]


class _Call:
    """The watch of one call: another may have the same one, and fail alone."""

    __slots__ = ("is_answered", "watch")

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.is_answered = False


class ClientWatches:
    """The watches of one session."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self.table: WatchTable[_Call] = WatchTable()
        self._absent: set[str] = set()
        """Watched paths that had no node when they were last asked for."""

    def clear(self) -> None:
        """Watch nothing any more: a session's watches end with it."""
        self.table = WatchTable()
        self._absent.clear()

    def has(self, path: str, kind: WatchKind) -> bool:
        """Return whether a node (NODE) or its children (CHILD) are watched."""
        return bool(self.table.watchers_of(path, kind))

    @contextmanager
    def reading(self, path: str, kind: WatchKind, watch: Watch | None) -> Iterator[None]:
        """Set a watch, if one is given, before its call is sent: the event may arrive with the bytes of the response.

        A call that fails removes it. One that is set again is kept once: repeated reads of a node that never
        changes would fill the memory.
        """
        if watch is None:
            yield
            return
        call = _Call(watch)
        self.table.add(path, kind, call)
        try:
            yield
        except BaseException:  # of every kind, a cancellation too; all are raised again
            self.table.remove(path, kind, call)
            raise
        call.is_answered = True
        for each in self.table.watchers_of(path, kind):
            if each is not call and each.is_answered and each.watch == watch:
                self.table.remove(path, kind, call)
                return

    def node_read(self, path: str, *, exists: bool) -> None:
        """Note whether a node that was asked for is there: its creation is another event than its change."""
        if exists:
            self._absent.discard(path)
        elif self.has(path, WatchKind.NODE):
            self._absent.add(path)

    def drop(self, path: str, kind: WatchKind) -> None:
        """Forget the watches of a node, or of its children."""
        for call in self.table.watchers_of(path, kind):
            self.table.remove(path, kind, call)
        if kind is WatchKind.NODE:
            self._absent.discard(path)

    def triggered(self, event: Event) -> list[Watch]:
        """Take out those that an event is for, each once."""
        if event.type is not EventType.CHILDREN_CHANGED:
            self._absent.discard(event.path)
        return list(dict.fromkeys(call.watch for call in self.table.triggered(event)))

    def paths(self) -> WatchedPaths:
        """Return what is watched, by what is known of it."""
        nodes = self.table.paths(WatchKind.NODE)
        return WatchedPaths(
            [path for path in nodes if path not in self._absent],
            [path for path in nodes if path in self._absent],
            self.table.paths(WatchKind.CHILD),
        )
