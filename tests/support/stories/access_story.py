"""Runs a scenario of ACLs: changes in, decisions out.

begin [super=User:a;User:b] [default=allow]      begin without ACLs
add [deny] User:alice[@host] Read Topic:orders   (`Topic:or*` is a prefix, `Topic:*` all, `Read` any operation)
remove ...                                       the same ACL
ask User:alice[@host] Read Topic:orders          is it allowed?
any User:alice[@host] Write Topic                is it allowed with some resource of the type?
find [match|any|literal|prefixed] Topic:orders   the ACLs that a filter chooses
"""

from __future__ import annotations

from kavka.core.access.entries import (
    AclBinding,
    AclFilter,
    Principal,
    parse_super_users,
)
from kavka.core.access.names import AclOperation, AclResourceType, PatternType, titled
from kavka.core.access.rules import AccessRules
from support.access import acl


class Story:
    """The ACLs of a cluster."""

    def __init__(self) -> None:
        self.rules = AccessRules()

    def command(self, line: str) -> str:
        """Do what a line says; return what there is to see of it."""
        verb, *words = line.split()
        reply: str = getattr(self, f"_{verb}")(words)
        return reply

    def _begin(self, words: list[str]) -> str:
        given = dict(word.split("=", 1) for word in words)
        users = parse_super_users(given.get("super", ""))
        self.rules = AccessRules(users, allows_without_rules=given.get("default") == "allow")
        return "ok"

    def _add(self, words: list[str]) -> str:
        pattern, entry = acl(" ".join(words))
        self.rules.put(pattern, self.rules.entries(pattern) | {entry})
        return f"{self.rules.count} in all"

    def _remove(self, words: list[str]) -> str:
        pattern, entry = acl(" ".join(words))
        self.rules.put(pattern, self.rules.entries(pattern) - {entry})
        return f"{self.rules.count} in all"

    def _ask(self, words: list[str]) -> str:
        (principal, host), operation, resource = _who(words[0]), words[1], words[2]
        kind, _colon, name = resource.partition(":")
        is_allowed = self.rules.allows(
            principal, host, titled(AclOperation, operation), titled(AclResourceType, kind), name
        )
        return "allowed" if is_allowed else "denied"

    def _any(self, words: list[str]) -> str:
        principal, host = _who(words[0])
        is_allowed = self.rules.allows_any(
            principal, host, titled(AclOperation, words[1]), titled(AclResourceType, words[2])
        )
        return "allowed" if is_allowed else "denied"

    def _find(self, words: list[str]) -> str:
        kind, _colon, name = words[-1].partition(":")
        pattern_type = titled(PatternType, words[0]) if len(words) > 1 else PatternType.ANY
        chosen = AclFilter(titled(AclResourceType, kind), name or None, pattern_type)
        found = filter(None, self.rules.search(chosen))
        return "\n".join(map(_shown, sorted(found))) or "none"


def _who(text: str) -> tuple[Principal, str]:
    principal, _at, host = text.partition("@")
    return Principal.parse(principal), host or "10.0.0.1"


def _shown(binding: AclBinding) -> str:
    pattern, entry = binding
    star = "*" if pattern.pattern_type == PatternType.PREFIXED else ""
    at = "" if entry.host == "*" else f"@{entry.host}"
    word = "" if entry.permission.name == "ALLOW" else "deny "
    what = f"{entry.operation.title} {pattern.resource_type.title}:{pattern.name}{star}"
    return f"{word}{entry.principal}{at} {what}"
