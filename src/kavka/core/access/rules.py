"""The decision whether a principal may do something with a resource, by the ACLs that there are.

    super user                              allowed
    no ACL for the resource at all          `allow.everyone.if.no.acl.found`
    one that denies the operation           denied
    one that allows it, or implies it       allowed
    else                                    denied

ACLs for a resource are those of its name, of `*`, and of each prefix of its name. READ, WRITE, DELETE and ALTER imply
DESCRIBE, ALTER_CONFIGS implies DESCRIBE_CONFIGS; nothing is implied by what is denied.
Source: Kafka's `AclAuthorizer`; KIP-11, KIP-290, KIP-679.

A decision looks at one entry of a dictionary for the name, one for `*` and one for each length of prefix that there is,
and of each pattern at the ACLs of the principal and of everyone. It is remembered until an ACL changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final
from weakref import WeakValueDictionary

from kavka.core.access.entries import (
    EVERYONE,
    AclBinding,
    AclEntry,
    AclFilter,
    Principal,
    ResourcePattern,
)
from kavka.core.access.names import (
    WILDCARD,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)

_O = AclOperation
_ALLOW, _DENY = AclPermission.ALLOW, AclPermission.DENY
_MAX_REMEMBERED: Final = 50_000
"""Decisions; a client may ask for any number of names."""
_MAX_NAME: Final = 255
"""Characters of a name whose decision is remembered; one that a client makes up may have 32767."""

_IMPLIED_BY: Final = {
    _O.DESCRIBE: frozenset((_O.ALL, _O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER)),
    _O.DESCRIBE_CONFIGS: frozenset((_O.ALL, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS)),
}


def allowed_by(operation: AclOperation) -> frozenset[AclOperation]:
    """Return the operations that an ACL may allow to have `operation` allowed."""
    return _IMPLIED_BY.get(operation) or frozenset((_O.ALL, operation))


def hosts_of(address: str) -> frozenset[str]:
    """Return the texts of ACLs that stand for the host with an address.

    Java writes an IPv6 address in full, `0:0:0:0:0:0:0:1`: ACLs may have it in either way.
    """
    if ":" not in address:
        return frozenset((WILDCARD, address))
    plain, _percent, _zone = address.partition("%")
    head, gap, tail = plain.partition("::")
    groups = [part for part in head.split(":") if part]
    after = [part for part in tail.split(":") if part]
    if gap:
        groups += ["0"] * (8 - len(groups) - len(after)) + after
    return frozenset((WILDCARD, address, plain, ":".join(groups)))


Question = tuple[AclOperation, AclResourceType, str | None]
"""None in place of a name asks for any resource of the type."""


class Decisions(dict[Question, bool]):
    """The decisions for one principal at one host."""

    __slots__ = ("__weakref__",)


class _Rules:
    """The ACLs of one pattern, by principal."""

    __slots__ = ("by_principal", "entries")

    def __init__(self, entries: frozenset[AclEntry]) -> None:
        self.entries = entries
        by_principal: dict[str, list[AclEntry]] = {}
        for entry in entries:
            by_principal.setdefault(entry.principal, []).append(entry)
        self.by_principal = by_principal

    def of(self, principal: str) -> Iterator[AclEntry]:
        """Yield those of a principal, and of everyone."""
        yield from self.by_principal.get(principal, ())
        if principal != EVERYONE:
            yield from self.by_principal.get(EVERYONE, ())


class AccessRules:
    """All ACLs of a cluster, and the decisions by them."""

    def __init__(
        self, super_users: Collection[Principal] = (), *, allows_without_rules: bool = False
    ) -> None:
        """Begin without ACLs; `allows_without_rules` is `allow.everyone.if.no.acl.found`."""
        self._super_users = frozenset(super_users)
        self._allows_without_rules = allows_without_rules
        self._rules: dict[ResourcePattern, _Rules] = {}
        self._literal: dict[tuple[AclResourceType, str], _Rules] = {}
        self._prefixed: dict[AclResourceType, dict[int, dict[str, _Rules]]] = {}
        """By resource type and the length of the prefix."""
        self._decisions: WeakValueDictionary[tuple[Principal, str], Decisions] = (
            WeakValueDictionary()
        )
        """Of each principal at each host, while a session has them."""
        self._decision_count = 0
        self.count = 0
        """The number of ACLs."""

    # -- the ACLs

    def patterns(self) -> list[ResourcePattern]:
        """Return the patterns that have ACLs."""
        return list(self._rules)

    def entries(self, pattern: ResourcePattern) -> frozenset[AclEntry]:
        """Return the ACLs of a pattern."""
        rules = self._rules.get(pattern)
        return frozenset() if rules is None else rules.entries

    def put(self, pattern: ResourcePattern, entries: Iterable[AclEntry]) -> None:
        """Replace the ACLs of a pattern; none remove it. Decisions are made again."""
        new = frozenset(entries)
        self.count += len(new) - len(self.entries(pattern))
        kind, name, pattern_type = pattern
        is_literal = pattern_type == PatternType.LITERAL
        if new:
            rules = self._rules[pattern] = _Rules(new)
            if is_literal:
                self._literal[kind, name] = rules
            else:
                self._prefixed.setdefault(kind, {}).setdefault(len(name), {})[name] = rules
        elif self._rules.pop(pattern, None) is not None:
            if is_literal:
                del self._literal[kind, name]
            else:
                self._remove_prefix(kind, name)
        self._forget()

    def _remove_prefix(self, kind: AclResourceType, name: str) -> None:
        by_length = self._prefixed[kind]
        del by_length[len(name)][name]
        if not by_length[len(name)]:
            del by_length[len(name)]

    def search(self, chosen: AclFilter) -> Iterator[AclBinding | None]:
        """Yield the ACLs that a filter chooses, and None for what it does not: a long search may rest at each.

        What is changed during a rest may be found or not.
        """
        for pattern in chosen.patterns() or self.patterns():
            if not chosen.matches_pattern(pattern):
                yield None
                continue
            for entry in sorted(self.entries(pattern)):
                yield AclBinding(pattern, entry) if chosen.matches_entry(entry) else None

    # -- decisions

    def decisions(self, principal: Principal, host: str) -> Decisions:
        """Return the decisions for a principal at a host that are remembered; they are emptied when an ACL changes.

        They are kept as long as the caller keeps them.
        """
        found = self._decisions.get((principal, host))
        if found is None:
            found = self._decisions[principal, host] = Decisions()
        return found

    def _remember(self, decisions: Decisions, key: Question, allowed: bool) -> bool:
        if key[2] is not None and len(key[2]) > _MAX_NAME:
            return allowed
        if self._decision_count >= _MAX_REMEMBERED:
            self._forget()
        self._decision_count += 1
        decisions[key] = allowed
        return allowed

    def _forget(self) -> None:
        """Forget all decisions, in place: sessions have them."""
        if not self._decision_count:
            return  # as for each ACL but the first of many that are loaded
        self._decision_count = 0
        for decisions in list(self._decisions.values()):
            decisions.clear()

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> bool:
        """Return whether a principal at a host may do this with the resource of this name."""
        decisions = self.decisions(principal, host)
        key = (operation, resource_type, name)
        known = decisions.get(key)
        if known is not None:
            return known
        allowed = self._decide(principal, host, operation, resource_type, name)
        return self._remember(decisions, key, allowed)

    def _decide(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> bool:
        if principal in self._super_users:
            return True
        hosts, text, allowing = hosts_of(host), str(principal), allowed_by(operation)
        has_rules = is_allowed = False
        for rules in self._matching(resource_type, name):
            has_rules = True
            for entry in rules.of(text):
                if entry.host not in hosts:
                    continue
                if entry.permission == _DENY:
                    if entry.operation in (operation, _O.ALL):
                        return False
                elif entry.operation in allowing:
                    is_allowed = True
        return is_allowed if has_rules else self._allows_without_rules

    def _matching(self, resource_type: AclResourceType, name: str) -> Iterator[_Rules]:
        """Yield the ACLs of each pattern that stands for a resource."""
        for literal in (name, WILDCARD) if name != WILDCARD else (WILDCARD,):
            rules = self._literal.get((resource_type, literal))
            if rules is not None:
                yield rules
        for length, by_name in self._prefixed.get(resource_type, {}).items():
            if length <= len(name):
                rules = by_name.get(name[:length])
                if rules is not None:
                    yield rules

    def allows_any(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
    ) -> bool:
        """Return whether a principal at a host may do this with at least one resource of a type (KIP-679).

        An operation that implies it does not count.
        """
        decisions = self.decisions(principal, host)
        key = (operation, resource_type, None)
        known = decisions.get(key)
        if known is not None:
            return known
        allowed = self._decide_any(principal, host, operation, resource_type)
        return self._remember(decisions, key, allowed)

    def _decide_any(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
    ) -> bool:
        if principal in self._super_users:
            return True
        found: dict[tuple[AclPermission, PatternType], set[str]] = {
            (permission, kind): set()
            for permission in (_ALLOW, _DENY)
            for kind in (PatternType.LITERAL, PatternType.PREFIXED)
        }
        hosts, text = hosts_of(host), str(principal)
        for pattern, rules in self._rules.items():
            if pattern.resource_type != resource_type:
                continue
            for entry in rules.of(text):
                if entry.host in hosts and entry.operation in (operation, _O.ALL):
                    found[entry.permission, pattern.pattern_type].add(pattern.name)
        denied = found[_DENY, PatternType.LITERAL]
        if WILDCARD in denied:
            return False
        if self._allows_without_rules:
            return True
        denied_prefixes = found[_DENY, PatternType.PREFIXED]
        return any(
            not _has_prefix(name, denied_prefixes) for name in found[_ALLOW, PatternType.PREFIXED]
        ) or any(
            name == WILDCARD or (name not in denied and not _has_prefix(name, denied_prefixes))
            for name in found[_ALLOW, PatternType.LITERAL]
        )


def _has_prefix(name: str, prefixes: Collection[str]) -> bool:
    return bool(prefixes) and any(name[:length] in prefixes for length in range(1, len(name) + 1))
