"""Notifications of changed ACLs: each broker reads the changed ones again.

They stand in two places, for literal and for prefixed patterns. Source: Kafka's `ZkAclStore`.
"""

from __future__ import annotations

import logging
from functools import partial

from kavka.broker.context import BrokerContext
from kavka.broker.control.change_notifications import ChangeNotifications
from kavka.broker.security.acl_store import AclStore, UnreadableAcls
from kavka.core.access.entries import ResourcePattern
from kavka.core.access.names import AclResourceType, PatternType, titled
from kavka.registry.interface import decode_or_none
from kavka.wire.stored import acl_znodes

log = logging.getLogger(__name__)


class AclChanges:
    """Follows the notifications."""

    def __init__(self, context: BrokerContext, store: AclStore) -> None:
        """Follow nothing before `start`."""
        self._store = store
        self._notifications = ChangeNotifications(
            context,
            {
                f"{root}/{acl_znodes.CHANGE_NAME}": partial(self._apply, is_prefixed=is_prefixed)
                for is_prefixed, root in acl_znodes.CHANGES.items()
            },
            "changes of ACLs not read",
        )
        self._notifications.reloads.append(store.load)

    async def start(self) -> None:
        """Load all ACLs, and follow their changes from now on. Raise ConnectionError, UnreadableAcls."""
        await self._store.prepare()
        await self._notifications.mark_seen()
        await self._store.load()
        self._notifications.start()

    async def stop(self) -> None:
        """Stop watching the registry."""
        await self._notifications.stop()

    def session_renewed(self) -> None:
        """Note that the watches are gone, and perhaps changes were missed."""
        self._notifications.session_renewed()

    async def _apply(self, data: bytes, path: str, *, is_prefixed: bool) -> None:
        change = decode_or_none(
            data, lambda data: acl_znodes.decode_change(data, is_prefixed=is_prefixed), path
        )
        if change is None:
            self._notifications.must_reload = True  # some ACL has changed
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
