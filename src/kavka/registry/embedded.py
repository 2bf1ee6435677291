"""The registry of a lone broker: the znode tree in this process, durable by its journal.

A change is applied in memory at once and acknowledged, to the caller and to watches, when its transaction is synced;
changes that arrive while a sync is under way share the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from kavka.core.znodes import (
    ANY_VERSION,
    Create,
    Created,
    Delete,
    Event,
    EventType,
    Operation,
    Refusal,
    SetData,
    Stat,
    Txn,
    ZnodeError,
    ZnodeTree,
)
from kavka.doors import Chance, Clock, Disk
from kavka.registry.interface import RegistryRefused, Watch
from kavka.registry.journal import Journal

log = logging.getLogger(__name__)


class EmbeddedRegistry:
    """Implements `Registry` for the one process that holds the directory's lock."""

    def __init__(self, tree: ZnodeTree, journal: Journal, clock: Clock, session_id: int) -> None:
        """Use `open` instead."""
        self._tree = tree
        self._journal = journal
        self._clock = clock
        self._session_id = session_id
        self._waiting: list[tuple[asyncio.Future[None], list[Event]]] = []
        self._syncing: asyncio.Task[None] | None = None
        self._failure: OSError | None = None
        self._node_watches: dict[str, list[Watch]] = {}
        self._child_watches: dict[str, list[Watch]] = {}
        self.on_failure: Callable[[OSError], None] | None = None
        """Told once when the journal can no longer be written: the broker must stop."""

    @classmethod
    async def open(
        cls, disk: Disk, directory: str, clock: Clock, chance: Chance
    ) -> EmbeddedRegistry:
        """Read the journal, drop the ephemeral nodes of the processes before, and begin a session."""
        journal = Journal(disk, directory)
        tree = await journal.open()
        session_id = int.from_bytes(chance.random_bytes(7)) | 1
        registry = cls(tree, journal, clock, session_id)
        for old in tree.sessions():
            registry._record(tree.prepare_session_end(old, clock.now_ms()))
        await registry._synced([])
        return registry

    @property
    def session_id(self) -> int:
        """The session of this process."""
        return self._session_id

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Return data and facts."""
        stat = self._tree.stat(path)
        if stat is None:
            raise RegistryRefused(ZnodeError.NO_NODE, path)
        if watch is not None:
            self._node_watches.setdefault(path, []).append(watch)
        return self._tree.data(path) or b"", stat

    async def stat(self, path: str, watch: Watch | None = None) -> Stat | None:
        """Return facts, or None."""
        if watch is not None:
            self._node_watches.setdefault(path, []).append(watch)
        return self._tree.stat(path)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the names of the children."""
        names = self._tree.children(path)
        if names is None:
            raise RegistryRefused(ZnodeError.NO_NODE, path)
        if watch is not None:
            self._child_watches.setdefault(path, []).append(watch)
        return names

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """Make a node."""
        return (await self.multi([Create(path, data, ephemeral, sequence)]))[0]

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace a node's data."""
        await self.multi([SetData(path, data, version)])
        stat = self._tree.stat(path)
        if stat is None:
            raise RegistryRefused(ZnodeError.NO_NODE, path)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a node."""
        await self.multi([Delete(path, version)])

    async def multi(self, operations: Sequence[Operation]) -> list[str]:
        """Do all operations or none, durably."""
        if self._failure is not None:
            raise ConnectionError(f"the registry's journal failed: {self._failure}")
        txn = self._tree.prepare(operations, self._session_id, self._clock.now_ms())
        if isinstance(txn, Refusal):
            raise RegistryRefused(txn.error, txn.path)
        await self._synced(self._record(txn))
        created = [change.path for change in txn.changes if isinstance(change, Created)]
        names = iter(created)
        return [next(names) if isinstance(op, Create) else op.path for op in operations]

    async def close(self) -> None:
        """End the session and fold the journal."""
        if self._failure is None:
            self._record(self._tree.prepare_session_end(self._session_id, self._clock.now_ms()))
            await self._synced([])
            await self._journal.fold(self._tree)
        self._journal.close()

    # -- inside

    def _record(self, txn: Txn) -> list[Event]:
        """Journal a transaction, then apply it."""
        if not txn.changes:
            return []
        try:
            self._journal.append(txn)
        except OSError as error:
            self._fail(error, [])
            raise ConnectionError(f"the registry's journal failed: {error}") from error
        return self._tree.apply(txn)

    async def _synced(self, events: list[Event]) -> None:
        """Wait until what was journaled is on the medium; then tell the watches."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((done, events))
        if self._syncing is None:
            self._syncing = asyncio.ensure_future(self._sync_all())
        await done

    async def _sync_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await self._journal.sync()
                if self._journal.is_long and not self._waiting:
                    await self._journal.fold(self._tree)
            except OSError as error:
                self._fail(error, batch)
                return
            for done, events in batch:
                self._tell(events)
                if not done.done():
                    done.set_result(None)
        self._syncing = None

    def _fail(self, error: OSError, batch: list[tuple[asyncio.Future[None], list[Event]]]) -> None:
        """A failed sync is never retried: what is on the medium is unknown."""
        log.error("registry journal failed reason=%s", error)
        self._failure = error
        for done, _events in [*batch, *self._waiting]:
            if not done.done():
                done.set_exception(ConnectionError(f"the registry's journal failed: {error}"))
        self._waiting = []
        if self.on_failure is not None:
            self.on_failure(error)

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            watches = (
                self._child_watches
                if event.type is EventType.CHILDREN_CHANGED
                else self._node_watches
            )
            for watch in watches.pop(event.path, ()):
                watch(event)
            if event.type is EventType.DELETED:
                for watch in self._child_watches.pop(event.path, ()):
                    watch(event)
