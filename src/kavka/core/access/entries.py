"""Principals, resource patterns, ACLs and their filters. Source: KIP-11, KIP-140, KIP-290."""

from __future__ import annotations

from typing import Final, NamedTuple

from kavka.core.access.names import (
    WILDCARD,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)


class Principal(NamedTuple):
    """An authenticated user, `User:alice` in the text of ACLs."""

    type: str
    name: str

    def __str__(self) -> str:
        """Return the text of ACLs."""
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Return the principal of a text. Raise ValueError when it is not `type:name`."""
        kind, colon, name = text.partition(":")
        if not kind or not colon or not name:
            raise ValueError(
                f"expected a string in format principalType:principalName but got {text}"
            )
        return cls(kind, name)


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
EVERYONE: Final = "User:*"
"""The principal of ACLs that are for all users."""


def parse_super_users(text: str) -> frozenset[Principal]:
    """Return the principals of `super.users`, which are separated by semicolons. Raise ValueError."""
    return frozenset(Principal.parse(part.strip()) for part in text.split(";") if part.strip())


class ResourcePattern(NamedTuple):
    """The resources that an ACL is for: one by its name, all of a type, or all that begin with the name."""

    resource_type: AclResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL


class AclEntry(NamedTuple):
    """The entry of a pattern's ACL: a principal at a host may, or may not, do something."""

    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission


class AclBinding(NamedTuple):
    """An ACL: a pattern and an entry."""

    pattern: ResourcePattern
    entry: AclEntry

    def fault(self) -> str | None:
        """Return why there can be no such ACL; None when there can."""
        pattern, entry = self
        numbers = (pattern.resource_type, pattern.pattern_type, entry.operation, entry.permission)
        if 0 in numbers:
            return "ACL binding contains unknown elements"
        if pattern.pattern_type in (PatternType.ANY, PatternType.MATCH):
            return f"patternType must not be {pattern.pattern_type.name}"
        if pattern.resource_type == AclResourceType.ANY:
            return "resourceType must not be ANY"
        if entry.operation == AclOperation.ANY:
            return "operation must not be ANY"
        if entry.permission == AclPermission.ANY:
            return "permissionType must not be ANY"
        return _name_fault(pattern.name) or _entry_fault(entry)


def _name_fault(name: str) -> str | None:
    """Return why no znode can have a resource's name."""
    if "/" in name or name in (".", ".."):
        return f"ACL binding contains invalid resource name: {name}"
    if any(not _may_be_in_a_path(character) for character in name):
        return "ACL binding contains a resource name with characters that the registry refuses"
    return None


def _may_be_in_a_path(character: str) -> bool:
    """Return whether ZooKeeper takes a character in a path; beyond 0xFFFF it is two surrogates there, as in Java."""
    code = ord(character)
    is_control = code < 0x20 or 0x7F <= code < 0xA0
    return not (is_control or 0xD800 <= code < 0xF900 or code >= 0xFFF0)


def _entry_fault(entry: AclEntry) -> str | None:
    try:
        Principal.parse(entry.principal)
    except ValueError as error:
        return str(error)
    if not entry.host:
        return "host must not be empty: * stands for all hosts"
    return None


class AclFilter(NamedTuple):
    """A choice of ACLs; None, ANY stand for each."""

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    @property
    def has_unknown(self) -> bool:
        """Return whether the filter has a number that means nothing: then it chooses nothing."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        """Return whether ACLs of this pattern may be chosen.

        With MATCH, `name` is that of a resource, and each pattern is chosen that stands for the resource.
        """
        if self.resource_type not in (AclResourceType.ANY, pattern.resource_type):
            return False
        wanted = self.pattern_type
        if wanted not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if wanted != PatternType.MATCH:
            return False
        if pattern.pattern_type == PatternType.LITERAL:
            return pattern.name == WILDCARD
        return self.name.startswith(pattern.name)

    def matches_entry(self, entry: AclEntry) -> bool:
        """Return whether the filter chooses an ACL with this entry, if it chooses its pattern."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (AclPermission.ANY, entry.permission)
        )

    def patterns(self) -> list[ResourcePattern]:
        """Return the patterns that are chosen by name; none when the filter has to look through all."""
        if self.name is None or self.resource_type == AclResourceType.ANY:
            return []
        if self.pattern_type == PatternType.MATCH:
            return []
        kinds = (PatternType.LITERAL, PatternType.PREFIXED)
        return [
            ResourcePattern(self.resource_type, self.name, kind)
            for kind in kinds
            if self.pattern_type in (PatternType.ANY, kind)
        ]
