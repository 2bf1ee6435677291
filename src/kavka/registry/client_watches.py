"""What a client of ZooKeeper watches. Its member forgets this with the connection, and is told again on the next one.

A watch is told of one event and is gone then (ZooKeeper Programmer's Guide, "ZooKeeper Watches").
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from kavka.core.znodes import EventType
from kavka.registry.interface import Watch


class WatchTable:
    """Watches of one type: those of nodes, or those of their children."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._by_path: dict[str, list[Watch]] = {}

    def __contains__(self, path: str) -> bool:
        """Tell whether a path is watched."""
        return path in self._by_path

    def __len__(self) -> int:
        """Count the watches of all paths together."""
        return sum(map(len, self._by_path.values()))

    def paths(self) -> list[str]:
        """Return what is watched, in the order in which it was first asked for."""
        return list(self._by_path)

    def pop(self, path: str) -> list[Watch]:
        """Take out the watches of a path: none is told twice."""
        return self._by_path.pop(path, [])

    def clear(self) -> None:
        """Watch nothing any more."""
        self._by_path.clear()

    @contextmanager
    def asking(self, path: str, watch: Watch | None) -> Iterator[None]:
        """Have a watch, if one is given, from before its call goes: the event may come in the bytes of the answer.

        A call that fails takes it back. One that is set anew is kept once: who looks again and again at what never
        changes would fill the memory.
        """
        if watch is None:
            yield
            return
        self._by_path.setdefault(path, []).append(watch)
        try:
            yield
        except BaseException:
            self._take(path, watch)
            raise
        found = self._by_path.get(path, [])
        if found.count(watch) > 1:
            found.remove(watch)

    def _take(self, path: str, watch: Watch) -> None:
        """Take back one watch; another call may have the same one."""
        found = self._by_path.get(path, [])
        if watch not in found:
            return
        found.remove(watch)
        if not found:
            del self._by_path[path]


class WatchedPaths(NamedTuple):
    """What a member must be told of a session's watches (SetWatches): it answers with what was missed meanwhile."""

    data: list[str]
    exist: list[str]
    children: list[str]


class ClientWatches:
    """The watches of one session."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self.nodes = WatchTable()
        self.children = WatchTable()
        self._absent: set[str] = set()
        """Watched paths that had no node when they were last asked for."""

    def clear(self) -> None:
        """Watch nothing any more: a session's watches end with it."""
        self.nodes.clear()
        self.children.clear()
        self._absent.clear()

    def node_seen(self, path: str, *, exists: bool) -> None:
        """Note whether a node that was asked for is there: its creation is another event than its change."""
        if exists:
            self._absent.discard(path)
        elif path in self.nodes:
            self._absent.add(path)

    def drop(self, path: str, *, node: bool, children: bool) -> None:
        """Forget the watches of a node, of its children, or both."""
        if node:
            self.nodes.pop(path)
            self._absent.discard(path)
        if children:
            self.children.pop(path)

    def pop(self, kind: EventType, path: str) -> list[Watch]:
        """Take out those that an event is for, each once."""
        watches: list[Watch] = []
        if kind is not EventType.CHILDREN_CHANGED:
            watches += self.nodes.pop(path)
            self._absent.discard(path)
        if kind in (EventType.CHILDREN_CHANGED, EventType.DELETED):
            watches += self.children.pop(path)
        return list(dict.fromkeys(watches))

    def paths(self) -> WatchedPaths:
        """Return what is watched, by what is known of it."""
        nodes = self.nodes.paths()
        return WatchedPaths(
            [path for path in nodes if path not in self._absent],
            [path for path in nodes if path in self._absent],
            self.children.paths(),
        )
