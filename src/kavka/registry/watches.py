"""ZooKeeper's watches: the watchers of each path.

    kind        events                                                          ends
    NODE        the node is created, changed or deleted                         when notified
    CHILD       a child is created or deleted, or the node is deleted           when notified
    PERSISTENT  all of both                                                     when removed
    RECURSIVE   the node or one below it is created, changed or deleted         when removed

A watcher with several watches is notified once of an event. Source: ZooKeeper programmer's guide, "ZooKeeper Watches".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Generic, Protocol, TypeVar

from kavka.core.znode_access import AccessList
from kavka.core.znodes import Event, EventType, parent_of


class WatchKind(Enum):
    """The kind of a watch: its events, and one-time or persistent."""

    NODE = 1
    CHILD = 2
    PERSISTENT = 3
    RECURSIVE = 4


class Watcher(Protocol):
    """The receiver of watch events. Two watches of the same watcher on one path and of one kind are one."""

    def notify(self, event: Event) -> None:
        """Receive an event; must not raise, and must not call the server."""
        ...

    def may_read(self, access: AccessList) -> bool:
        """Return whether a node with this access list may be read: only then is the watcher notified of it."""
        ...


W = TypeVar("W")


class WatchTable(Generic[W]):
    """All watches on one tree, by receiver: watchers at the server, calls at a client."""

    def __init__(self) -> None:
        """Begin without any."""
        self._paths: dict[WatchKind, dict[str, dict[W, None]]] = {kind: {} for kind in WatchKind}

    def add(self, path: str, kind: WatchKind, watcher: W) -> None:
        """Add a watch of `kind` for `watcher`."""
        self._paths[kind].setdefault(path, {})[watcher] = None

    def remove(self, path: str, kind: WatchKind, watcher: W) -> bool:
        """Remove a watch; return whether there was one."""
        watchers = self._paths[kind].get(path, {})
        if watcher not in watchers:
            return False
        del watchers[watcher]
        if not watchers:
            del self._paths[kind][path]
        return True

    def has(self, path: str, kind: WatchKind, watcher: W) -> bool:
        """Return whether there is such a watch."""
        return watcher in self._paths[kind].get(path, {})

    def drop(self, watchers: Iterable[W]) -> None:
        """Remove all watches of some watchers."""
        gone = set(watchers)
        for kind, paths in self._paths.items():
            for path in [path for path, present in paths.items() if not gone.isdisjoint(present)]:
                for watcher in gone.intersection(paths[path]):
                    self.remove(path, kind, watcher)

    def triggered(self, event: Event) -> list[W]:
        """Return the watchers of an event, each once, and remove one-time watches."""
        notified: dict[W, None] = {}
        if event.type is EventType.CHILDREN_CHANGED:
            notified.update(self._paths[WatchKind.CHILD].pop(event.path, {}))
        else:
            notified.update(self._paths[WatchKind.NODE].pop(event.path, {}))
            if event.type is EventType.DELETED:
                notified.update(self._paths[WatchKind.CHILD].pop(event.path, {}))
            if recursive := self._paths[WatchKind.RECURSIVE]:
                for path in _upwards(event.path):
                    notified.update(recursive.get(path, {}))
        notified.update(self._paths[WatchKind.PERSISTENT].get(event.path, {}))
        return list(notified)

    def watchers_of(self, path: str, kind: WatchKind) -> list[W]:
        """Return the watchers of a path, in the order of their first watch."""
        return list(self._paths[kind].get(path, ()))

    def paths(self, kind: WatchKind) -> list[str]:
        """Return the watched paths, in the order of their first watch."""
        return list(self._paths[kind])

    def listing(self) -> Iterator[tuple[WatchKind, str, W]]:
        """Yield every watch."""
        for kind, paths in self._paths.items():
            for path, watchers in paths.items():
                for watcher in watchers:
                    yield kind, path, watcher

    def __len__(self) -> int:
        """Return the number of watches."""
        return sum(len(watchers) for paths in self._paths.values() for watchers in paths.values())


def _upwards(path: str) -> Iterator[str]:
    while path != "/":
        yield path
        path = parent_of(path)
    yield path
