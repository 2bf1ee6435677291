"""The ACLs in the registry: all of them are loaded at the start, and one pattern's are changed at a time.

A change replaces the znode of a pattern at the version that was read, together with a notification for all brokers
(`security.acl_changes`); one that another broker has changed meanwhile is read again. Source: Kafka's `AclAuthorizer`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from kavka.core.access.entries import AclEntry, ResourcePattern
from kavka.core.access.names import (
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    titled,
)
from kavka.core.access.rules import AccessRules
from kavka.core.znodes import ANY_VERSION, Create, Delete, Operation, SetData, ZnodeError
from kavka.registry.embedded import EmbeddedRegistry
from kavka.registry.interface import (
    Registry,
    RegistryRefused,
    ensure_paths,
    gathered,
    require_no_node,
)
from kavka.wire.stored import acl_znodes
from kavka.wire.stored.acl_znodes import AclChange, AclRow

log = logging.getLogger(__name__)

Entries = frozenset[AclEntry]
Make = Callable[[Entries], Iterable[AclEntry]]
"""Makes the ACLs of a pattern of those that it has; it may be called again."""
_TOGETHER = 50
"""Patterns that are changed in one transaction."""
_AT_ONCE = 500
_ABSENT = ANY_VERSION
"""The version of a znode that is not there."""
_RACES = (ZnodeError.BAD_VERSION, ZnodeError.NODE_EXISTS, ZnodeError.NO_NODE)


class UnreadableAcls(ValueError):
    """A znode with ACLs that cannot be read: what it allows and denies is unknown."""

    def __init__(self, path: str, error: Exception) -> None:
        """Name the znode."""
        super().__init__(
            f"the ACLs of znode {path} cannot be read ({error!r}); repair the znode, or delete it"
        )


class AclStore:
    """Reads and changes the ACLs in the registry, and keeps `rules` as they are there."""

    def __init__(self, registry: Registry, rules: AccessRules) -> None:
        """Read nothing before `load`."""
        self._registry = registry
        self._at_once = 1 if isinstance(registry, EmbeddedRegistry) else _AT_ONCE
        self.rules = rules
        # Held from a read, or a write, until `rules` has it: else what is older could replace what is newer.
        self._lock = asyncio.Lock()

    async def prepare(self) -> None:
        """Make the znodes that hold ACLs and notifications. Raise ConnectionError."""
        await ensure_paths(self._registry, acl_znodes.all_paths())

    async def load(self) -> None:
        """Read all ACLs. Raise ConnectionError, and UnreadableAcls: a broker without some of them must not serve."""
        async with self._lock:
            patterns = await self._patterns()
            read = await gathered(self._read, patterns, self._at_once)
            for known in set(self.rules.patterns()) - set(patterns):
                self.rules.put(known, ())
            for pattern, (entries, _version) in zip(patterns, read, strict=True):
                self.rules.put(pattern, entries)

    async def _patterns(self) -> list[ResourcePattern]:
        patterns = []
        for is_prefixed, root in acl_znodes.ROOTS.items():
            kind = PatternType.PREFIXED if is_prefixed else PatternType.LITERAL
            for type_name in await self._registry.children(root):
                try:
                    resource_type = titled(AclResourceType, type_name)
                except ValueError as error:
                    log.warning("ACLs not read znode=%s/%s reason=%s", root, type_name, error)
                    continue
                names = await self._registry.children(f"{root}/{type_name}")
                patterns += [ResourcePattern(resource_type, name, kind) for name in names]
        return patterns

    async def read_again(self, pattern: ResourcePattern) -> None:
        """Read the ACLs of a pattern that have changed. Raise ConnectionError, UnreadableAcls."""
        async with self._lock:
            entries, _version = await self._read(pattern)
            self.rules.put(pattern, entries)

    async def change(self, changes: Mapping[ResourcePattern, Make]) -> dict[ResourcePattern, str]:
        """Store the ACLs that functions make for patterns, of those that are stored then, some patterns at a time.

        Return the patterns that were not changed, and why. Raise ConnectionError.
        """
        failures: dict[ResourcePattern, str] = {}
        wanted = list(changes.items())
        for at in range(0, len(wanted), _TOGETHER):
            some = wanted[at : at + _TOGETHER]
            async with self._lock:
                if len(some) > 1 and await self._change_together(some):
                    continue
                for pattern, make in some:
                    failure = await self._change_one(pattern, make)
                    if failure is not None:
                        failures[pattern] = failure
        return failures

    async def _change_together(self, changes: Sequence[tuple[ResourcePattern, Make]]) -> bool:
        """Change patterns in one transaction; return whether it went through. Each is changed alone if not."""
        operations: list[Operation] = []
        after: dict[ResourcePattern, Entries] = {}
        try:
            read = await gathered(
                self._read, [pattern for pattern, _make in changes], self._at_once
            )
            for (pattern, make), (before, version) in zip(changes, read, strict=True):
                after[pattern] = frozenset(make(before))
                if after[pattern] != before:
                    operations += _operations(pattern, after[pattern], version)
            if operations:
                await self._registry.multi(operations)
        except (RegistryRefused, UnreadableAcls):
            return False
        for pattern, entries in after.items():
            self.rules.put(pattern, entries)
        return True

    async def _change_one(self, pattern: ResourcePattern, make: Make) -> str | None:
        """Change a pattern, again when another broker does so meanwhile; return what keeps it from being changed."""
        while True:
            try:
                before, version = await self._read(pattern)
                after = frozenset(make(before))
                if after != before:
                    await self._registry.multi(_operations(pattern, after, version))
            except UnreadableAcls as error:
                return str(error)
            except RegistryRefused as refused:
                if refused.error not in _RACES:
                    return str(refused)
                await self.prepare()
                continue
            self.rules.put(pattern, after)
            return None

    async def _read(self, pattern: ResourcePattern) -> tuple[Entries, int]:
        path = _path(pattern)
        try:
            data, stat = await self._registry.get(path)
        except RegistryRefused as refused:
            require_no_node(refused)
            return frozenset(), _ABSENT
        try:
            return frozenset(map(_entry, acl_znodes.decode_acls(data))), stat.version
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UnreadableAcls(path, error) from error


def _path(pattern: ResourcePattern) -> str:
    is_prefixed = pattern.pattern_type == PatternType.PREFIXED
    return acl_znodes.acl_path(pattern.resource_type.title, pattern.name, is_prefixed=is_prefixed)


def _operations(pattern: ResourcePattern, after: Entries, version: int) -> list[Operation]:
    path = _path(pattern)
    write: Operation
    if not after:
        write = Delete(path, version)
    elif version == _ABSENT:
        write = Create(path, acl_znodes.encode_acls(map(_row, sorted(after))))
    else:
        write = SetData(path, acl_znodes.encode_acls(map(_row, sorted(after))), version)
    is_prefixed = pattern.pattern_type == PatternType.PREFIXED
    change = AclChange(pattern.resource_type.name, pattern.name, is_prefixed)
    notification = f"{acl_znodes.CHANGES[is_prefixed]}/{acl_znodes.CHANGE_NAME}"
    return [write, Create(notification, acl_znodes.encode_change(change), sequence=True)]


def _row(entry: AclEntry) -> AclRow:
    return AclRow(entry.principal, entry.permission.title, entry.operation.title, entry.host)


def _entry(row: AclRow) -> AclEntry:
    return AclEntry(
        row.principal,
        row.host,
        titled(AclOperation, row.operation),
        titled(AclPermission, row.permission),
    )
