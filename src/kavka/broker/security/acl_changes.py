"""Notifications of changed ACLs: each broker reads the changed ones again.

They stand in two places, for literal and for prefixed patterns, and are removed after a quarter of an hour. After a
session that was lost all ACLs are read: notifications may have come and gone meanwhile. Source: Kafka's `ZkAclStore`.
"""

from __future__ import annotations

import logging

from kavka.broker.context import BrokerContext
from kavka.broker.control.watch_loop import WatchLoop
from kavka.broker.security.acl_store import AclStore, UnreadableAcls
from kavka.core.access.entries import ResourcePattern
from kavka.core.access.names import AclResourceType, PatternType, titled
from kavka.registry.interface import RegistryRefused, require_no_node
from kavka.registry.znode_decoding import decode_or_none
from kavka.wire.stored import acl_znodes

log = logging.getLogger(__name__)

_KEPT_MS = 15 * 60_000


class AclChanges:
    """Follows the notifications."""

    def __init__(self, context: BrokerContext, store: AclStore) -> None:
        """Follow nothing before `start`."""
        self._context = context
        self._store = store
        self._seen = {False: "", True: ""}
        """The last notification that was followed, by whether it is of prefixed patterns."""
        self._must_load = False
        self._watch_loop = WatchLoop(self._read, log, "changes of ACLs not read")

    async def start(self) -> None:
        """Load all ACLs, and follow their changes from now on. Raise ConnectionError, UnreadableAcls."""
        await self._store.prepare()
        for is_prefixed, path in acl_znodes.CHANGES.items():
            names = await self._notifications(path)
            self._seen[is_prefixed] = names[-1] if names else ""
        await self._store.load()
        self._watch_loop.start()

    async def stop(self) -> None:
        """Stop watching the registry."""
        await self._watch_loop.stop()

    def session_renewed(self) -> None:
        """Note that the watches are gone, and perhaps changes were missed."""
        self._must_load = True
        self._watch_loop.notify()

    async def _notifications(self, path: str) -> list[str]:
        """Return the names of the notifications, in order, and watch for others.

        A node of another name is none: what is behind it in the order would count as followed.
        """
        names = await self._context.registry.children(path, self._watch_loop.notify)
        return [name for name in names if name.startswith(acl_znodes.CHANGE_NAME)]

    async def _read(self) -> None:
        for is_prefixed, path in acl_znodes.CHANGES.items():
            for name in await self._notifications(path):
                await self._follow(f"{path}/{name}", name, is_prefixed=is_prefixed)
        if self._must_load:
            await self._load()

    async def _load(self) -> None:
        self._must_load = False  # the session may change once more meanwhile
        try:
            await self._store.load()
        except BaseException:
            self._must_load = True
            raise

    async def _follow(self, path: str, name: str, *, is_prefixed: bool) -> None:
        registry = self._context.registry
        try:
            data, stat = await registry.get(path)
            if name > self._seen[is_prefixed]:
                await self._apply(data, path, is_prefixed=is_prefixed)
                self._seen[is_prefixed] = name
            if self._context.clock.now_ms() - stat.ctime_ms > _KEPT_MS:
                await registry.delete(path)
        except RegistryRefused as refused:
            require_no_node(refused)  # another broker has removed it

    async def _apply(self, data: bytes, path: str, *, is_prefixed: bool) -> None:
        change = decode_or_none(
            data, lambda data: acl_znodes.decode_change(data, is_prefixed=is_prefixed), path
        )
        if change is None:
            self._must_load = True  # some ACL has changed
            return
        try:
            kind = titled(AclResourceType, change.resource_type)
        except ValueError as error:
            log.warning("changed ACLs not read znode=%s reason=%s", path, error)
            return
        pattern_type = PatternType.PREFIXED if change.is_prefixed else PatternType.LITERAL
        try:
            await self._store.read_again(ResourcePattern(kind, change.name, pattern_type))
        except UnreadableAcls as error:
            # What was in force stays so: neither allowed nor denied by what is not understood.
            log.error("changed ACLs not applied reason=%s", error)
        except RegistryRefused as refused:
            # It names what can be no znode: the notifications behind it count all the same.
            log.error("changed ACLs not read znode=%s reason=%s", path, refused)
