"""DescribeAcls, CreateAcls and DeleteAcls, apart from their messages. Texts of errors are Kafka's, where it has any."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.broker.requests.pace import Pace
from kavka.broker.security.acl_store import AclStore
from kavka.core.access.entries import AclBinding, AclEntry, AclFilter, ResourcePattern
from kavka.core.access.names import (
    CLUSTER_NAME,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    numbered,
)

if TYPE_CHECKING:
    from kavka.broker.security.access_control import AccessControl

NO_AUTHORIZER: Final = "No Authorizer is configured."
_FIRST_WITH_PATTERNS: Final = 1
_LITERAL: Final = PatternType.LITERAL


def acl_store(access_control: AccessControl | None) -> AclStore | None:
    """Return the ACLs of the broker; None without an authorizer that keeps any."""
    return None if access_control is None else access_control.acls


# -- messages


def read_binding(creation: Any) -> AclBinding | str:
    """Return the ACL of a CreateAcls request, or why there can be no such ACL."""
    pattern = ResourcePattern(
        numbered(AclResourceType, creation.resource_type),
        creation.resource_name,
        numbered(PatternType, creation.resource_pattern_type),
    )
    entry = AclEntry(
        creation.principal,
        creation.host,
        numbered(AclOperation, creation.operation),
        numbered(AclPermission, creation.permission_type),
    )
    if pattern.resource_type == AclResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not pattern.name:
        return "Invalid empty resource name"
    binding = AclBinding(pattern, entry)
    return binding.fault() or binding


def read_filter(asked: Any, *, version: int) -> AclFilter | str:
    """Return the filter of a DescribeAcls or DeleteAcls request, or why it means nothing.

    Version 0 knows literal patterns only.
    """
    wanted = AclFilter(
        numbered(AclResourceType, asked.resource_type_filter),
        asked.resource_name_filter,
        numbered(PatternType, asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        numbered(AclOperation, asked.operation),
        numbered(AclPermission, asked.permission_type),
    )
    if version < _FIRST_WITH_PATTERNS:
        wanted = wanted._replace(pattern_type=_LITERAL)
    return "Filter contains UNKNOWN elements" if wanted.has_unknown else wanted


async def chosen(store: AclStore, wanted: AclFilter, pace: Pace) -> AsyncIterator[AclBinding]:
    """Yield the ACLs that a filter chooses, in slices of the loop's time."""
    for binding in store.rules.search(wanted):
        if pace.is_over():
            await pace.rest()
        if binding is not None:
            yield binding


# -- changes


async def create(
    store: AclStore, bindings: Iterable[AclBinding], pace: Pace
) -> dict[ResourcePattern, str]:
    """Store ACLs, those of a pattern together; return the patterns that failed, and why."""
    by_pattern: dict[ResourcePattern, set[AclEntry]] = {}
    for pattern, entry in bindings:
        by_pattern.setdefault(pattern, set()).add(entry)
        if pace.is_over():
            await pace.rest()
    return await store.change({pattern: new.union for pattern, new in by_pattern.items()})


class Deleted(NamedTuple):
    """An ACL that a filter chose, and why it was not removed if it was not."""

    binding: AclBinding
    failure: str | None


async def delete(store: AclStore, filters: Sequence[AclFilter], pace: Pace) -> list[list[Deleted]]:
    """Remove the ACLs that filters choose; return them for each filter, an ACL for the first that chooses it."""
    rows: list[list[Deleted]] = [[] for _ in filters]
    patterns = dict.fromkeys(store.rules.patterns())
    for wanted in filters:
        patterns |= dict.fromkeys(wanted.patterns())  # some may not be known here yet
    deletions: dict[ResourcePattern, _Deletion] = {}
    for pattern in patterns:
        matching = [(n, f) for n, f in enumerate(filters) if f.matches_pattern(pattern)]
        if matching:
            deletions[pattern] = _Deletion(matching)
        if pace.is_over(1 + len(filters)):
            await pace.rest()
    failures = await store.change(
        {pattern: deletion.without for pattern, deletion in deletions.items()}
    )
    for pattern, deletion in deletions.items():
        for entry, number in deletion.removed.items():
            rows[number].append(Deleted(AclBinding(pattern, entry), failures.get(pattern)))
        if pace.is_over(1 + len(deletion.removed)):
            await pace.rest()
    return rows


class _Deletion:
    """The removal of a pattern's ACLs that filters choose."""

    def __init__(self, matching: Sequence[tuple[int, AclFilter]]) -> None:
        """Take the filters that choose the pattern, with their numbers."""
        self._matching = matching
        self.removed: dict[AclEntry, int] = {}
        """The ACLs that the last attempt removed, with the number of the filter that chose each."""

    def without(self, before: frozenset[AclEntry]) -> frozenset[AclEntry]:
        """Return what is left."""
        self.removed.clear()
        for entry in sorted(before):
            number = next((n for n, f in self._matching if f.matches_entry(entry)), None)
            if number is not None:
                self.removed[entry] = number
        return before - self.removed.keys()
