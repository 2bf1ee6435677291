"""Serves one tree of znodes to many sessions: order, durability, watches and session timeouts.

    LocalSession, RequestProcessor --submit/read--> ZnodeTree, WatchTable, Journal --after_sync--> responses, watch
    events

Each response and watch event is computed at one point in time against the tree, and sent, in that order, when all
changes that it is based on are synced. So no client sees a change that a crash could undo, and a watch is notified
before the changed data can be read: ZooKeeper's guarantees. Changes that arrive during a sync share the next one.
Without a journal the tree is in memory only and nothing waits.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from kavka.core.znode_access import OPEN, AccessList, Identity
from kavka.core.znodes import (
    Check,
    Create,
    Created,
    Deleted,
    Event,
    EventType,
    Operation,
    Refusal,
    SessionBegun,
    Stat,
    Txn,
    ZnodeTree,
)
from kavka.io import Clock, Disk, Random
from kavka.registry.interface import RegistryRefused
from kavka.registry.journal import Journal
from kavka.registry.watches import Watcher, WatchTable

log = logging.getLogger(__name__)

_PAUSE_MS = 500  # a timer that is later than this shows that the process was paused
Action = Callable[[ConnectionError | None], None]


class Result(NamedTuple):
    """The result of one operation: the path, with its sequence number, and the node's stat right after."""

    path: str
    stat: Stat | None


class _HasSessionId(Protocol):
    """A session: the state of this server, or a client's own."""

    @property
    def session_id(self) -> int: ...


class SessionState:
    """The server's state of a session."""

    __slots__ = ("deadline_ms", "is_closed", "on_expired", "password", "session_id", "timeout_ms")

    def __init__(self, session_id: int, password: bytes, timeout_ms: int | None) -> None:
        """Begin without a deadline."""
        self.session_id = session_id
        self.password = password
        self.timeout_ms = timeout_ms
        self.deadline_ms: int | None = None
        """Time of expiry by `tick_ms` unless the client is learned of; None while it cannot expire."""
        self.is_closed = False
        self.on_expired: Callable[[], None] | None = None
        """Called when the session has expired, after every event that it was due."""


class ZnodeServer:
    """A tree of znodes, on the running loop; `submit`, reads of `tree` and `watches.add` are ordered as called."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        journal: Journal | None = None,
        tree: ZnodeTree | None = None,
    ) -> None:
        """Keep a tree in memory. With a journal use `open`."""
        self.tree = ZnodeTree() if tree is None else tree
        self.watches: WatchTable[Watcher] = WatchTable()
        self.clock = clock
        self.context = contextvars.copy_context()
        self.on_failure: Callable[[OSError], None] | None = None
        """Called once when the journal can no longer be written: there are no replies from then on."""
        self.random = random
        self._journal = journal
        self._sessions: dict[int, SessionState] = {}
        # Invariant: in the order of zxids, all above _synced_zxid.
        self._waiting: deque[tuple[int, Action]] = deque()
        self._synced_zxid = self.tree.zxid
        self._syncing: asyncio.Task[None] | None = None
        self._failure: OSError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0

    @classmethod
    async def open(cls, disk: Disk, directory: str, clock: Clock, random: Random) -> ZnodeServer:
        """Read the journal. Raise CorruptRegistry, OSError.

        Sessions that outlive a process continue with their whole timeout; the ephemeral nodes of all others are
        removed.
        """
        journal = Journal(disk, directory)
        znode_server = cls(clock, random, journal, await journal.open())
        for begun in znode_server.tree.clients.values():
            session = SessionState(begun.session, begun.password, begun.timeout_ms)
            znode_server._sessions[session.session_id] = session
            znode_server.notify(session)
        for owner in znode_server.tree.sessions():
            if owner not in znode_server._sessions:
                znode_server._commit(znode_server.tree.prepare_session_end(owner, clock.now_ms()))
        return znode_server

    # -- sessions

    def create_session(self, timeout_ms: int | None, *, is_durable: bool = False) -> SessionState:
        """Begin a session; a durable one outlives this process."""
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = int.from_bytes(self.random.random_bytes(7))
        session = SessionState(session_id, self.random.random_bytes(16), timeout_ms)
        if is_durable:
            assert timeout_ms is not None
            begun = SessionBegun(session_id, session.password, timeout_ms)
            self._commit(self.tree.prepare_session(begun, self.clock.now_ms()))
        self._sessions[session_id] = session
        return session

    def session(self, session_id: int) -> SessionState | None:
        """Return a session that is not over."""
        return self._sessions.get(session_id)

    def sessions(self) -> list[SessionState]:
        """Return all sessions that are not over."""
        return list(self._sessions.values())

    def notify(self, session: SessionState) -> None:
        """Begin the timeout of a session again, because its client was heard of."""
        if session.timeout_ms is None:
            return
        session.deadline_ms = self.clock.tick_ms() + session.timeout_ms
        if self._timer is None or session.deadline_ms < self._timer_due_ms:
            self._set_timer()

    def expire(self, session: int | _HasSessionId) -> None:
        """Expire a session: delete its ephemeral nodes and notify it."""
        number = session if isinstance(session, int) else session.session_id
        state = self._sessions.get(number)
        if state is None:
            return
        log.info("registry session expired session=0x%x", number)
        self.end(state)
        if state.on_expired is not None:
            self.after_sync(partial(_unless_failed, state.on_expired))

    def end(self, session: SessionState) -> None:
        """End a session because its client asks for it."""
        if session.is_closed:
            return
        session.is_closed = True
        del self._sessions[session.session_id]
        self._commit(self.tree.prepare_session_end(session.session_id, self.clock.now_ms()))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadlines = [s.deadline_ms for s in self._sessions.values() if s.deadline_ms is not None]
        if deadlines:
            self._timer_due_ms = min(deadlines)
            wait_ms = max(1, self._timer_due_ms - self.clock.tick_ms())
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(
                wait_ms / 1000, self._expire_due, context=self.context.copy()
            )

    def _expire_due(self) -> None:
        """Expire sessions past their deadline, unless this process itself was paused."""
        now_ms = self.clock.tick_ms()
        late_ms = now_ms - self._timer_due_ms
        for session in self.sessions():
            if session.deadline_ms is None:
                continue
            if late_ms > _PAUSE_MS:
                session.deadline_ms += late_ms + _PAUSE_MS
            elif session.deadline_ms <= now_ms:
                try:
                    self.expire(session)
                except ConnectionError:
                    return  # the journal failed: nothing happens here any more
        self._set_timer()

    # -- changes

    def submit(
        self,
        operations: Sequence[Operation],
        session_id: int,
        identities: Collection[Identity] | None = None,
    ) -> list[Result]:
        """Apply all operations or none; the results may be shown `after_sync`.

        `identities` are those of the client's connection; None is this process, which may do everything. Raise
        RegistryRefused, and ConnectionError when the journal has failed.
        """
        self.check()
        txn = self.tree.prepare(operations, session_id, self.clock.now_ms(), identities)
        if isinstance(txn, Refusal):
            raise RegistryRefused(txn.error, txn.path, txn.at)
        changed = self._commit(txn)
        created = (change.path for change in txn.changes if isinstance(change, Created))
        results: list[Result] = []
        stats = iter(changed)
        for operation in operations:
            if isinstance(operation, Check):
                results.append(Result(operation.path, None))
            else:
                path = next(created) if isinstance(operation, Create) else operation.path
                results.append(Result(path, next(stats)))
        return results

    def _commit(self, txn: Txn) -> list[Stat | None]:
        """Journal a transaction, apply it, and notify the watches; return the stat that each change left."""
        stats: list[Stat | None] = []
        if not txn.changes:
            return stats
        self.check()
        if self._journal is not None:
            try:
                self._journal.append(txn)
            except OSError as error:
                self._fail(error)
                self.check()
        # Of a node that is deleted the list that it had counts.
        lists = {
            change.path: self.tree.access(change.path)
            for change in txn.changes
            if isinstance(change, Deleted)
        }
        self._notify_watchers(self.tree.apply(txn, stats), lists)
        if self._journal is None:
            self._synced_zxid = txn.zxid
        elif self._syncing is None:
            # In the znode server's own context: in the simulation the caller's process may die before the sync is done.
            work = self._sync_all(self._journal)
            self._syncing = self.context.copy().run(asyncio.ensure_future, work)
        return stats

    def _notify_watchers(self, events: list[Event], lists: dict[str, AccessList]) -> None:
        """Queue the events for the watchers that may read the nodes, each once; other watches end as well."""
        for event in events:
            access = lists.get(event.path, OPEN)
            if event.type is not EventType.DELETED:
                access = self.tree.access(event.path)
            for watcher in self.watches.triggered(event):
                if access is not OPEN and not watcher.may_read(access):
                    continue
                self._waiting.append(
                    (self.tree.zxid, partial(_unless_failed, partial(watcher.notify, event)))
                )
        if self._journal is None:
            self._release(self.tree.zxid)

    # -- durability

    @property
    def is_synced(self) -> bool:
        """Return whether all changes in the tree are durable."""
        return self._synced_zxid == self.tree.zxid

    def after_sync(self, action: Action) -> None:
        """Call `action`, now or later, once all that is in the tree may be shown: with None, or what prevents it."""
        if self._failure is not None:
            action(self._failed())
        elif self.is_synced:
            action(None)
        else:
            self._waiting.append((self.tree.zxid, action))

    @property
    def has_failed(self) -> bool:
        """Return whether the journal can no longer be written."""
        return self._failure is not None

    def check(self) -> None:
        """Raise ConnectionError when the journal has failed."""
        if self._failure is not None:
            raise self._failed()

    async def synced(self) -> None:
        """Wait until everything in the tree is on the medium. Raise ConnectionError when the journal fails."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settle(failure: ConnectionError | None) -> None:
            if not done.done():
                done.set_result(None) if failure is None else done.set_exception(failure)

        self.after_sync(settle)
        await done

    async def close(self) -> None:
        """Write a snapshot and close the journal; sessions stay as they are."""
        if self._timer is not None:
            self._timer.cancel()
        if self._journal is None:
            return
        try:
            if self._failure is None:
                await self.synced()
                if self._syncing is not None:
                    await self._syncing
                await self._journal.write_snapshot(self.tree)
        finally:
            self._journal.close()

    async def _sync_all(self, journal: Journal) -> None:
        try:
            while not self.is_synced:
                zxid = self.tree.zxid
                await journal.sync()
                self._synced_zxid = zxid
                self._release(zxid)
                if journal.needs_snapshot:
                    await journal.write_snapshot(self.tree)
        except OSError as error:
            self._fail(error)
        finally:
            self._syncing = None

    def _release(self, zxid: int) -> None:
        while self._waiting and self._waiting[0][0] <= zxid:
            self._waiting.popleft()[1](None)

    def _failed(self) -> ConnectionError:
        return ConnectionError(f"the registry's journal failed: {self._failure}")

    def _fail(self, error: OSError) -> None:
        """Stop after a failed sync, which is never retried: the state of the medium is unknown."""
        if self._failure is not None:
            return  # an append and the sync before it may both fail
        log.error("registry journal failed reason=%s", error)
        self._failure = error
        waiting, self._waiting = self._waiting, deque()
        for _zxid, action in waiting:
            action(self._failed())
        if self.on_failure is not None:
            self.on_failure(error)


def _unless_failed(action: Callable[[], None], failure: ConnectionError | None) -> None:
    if failure is None:
        action()
