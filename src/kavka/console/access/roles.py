"""Roles: what a user may do, on which topics and groups. Pure.

A grant gives a role on the topics and groups whose names begin with one of its prefixes; the empty prefix is all. A
role includes those below it. A need is what a route asks for; `permissions` has those of all routes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, Literal


class Role(IntEnum):
    """The roles, each with all that the one before may do."""

    VIEWER = 1
    """Looks, and reads messages."""
    OPERATOR = 2
    """Also creates topics, changes their settings, and sets offsets of groups."""
    ADMINISTRATOR = 3
    """Also deletes."""

    @property
    def label(self) -> str:
        """The name in files and messages."""
        return self.name.lower()


ROLES: Final = {role.label: role for role in Role}

Scope = Literal["public", "any", "topic", "group", "cluster"]
"""The resources that a need is about: none, not even a login; whatever the user may see; the topic of the path; the
group of the parameter `id`; all topics and groups."""


@dataclass(frozen=True, slots=True)
class Need:
    """The role that a route needs, and on what."""

    role: Role
    scope: Scope


@dataclass(frozen=True, slots=True)
class Grant:
    """A role on the topics and groups with these prefixes."""

    role: Role
    topics: tuple[str, ...] = ("",)
    groups: tuple[str, ...] = ("",)

    def is_for_all(self) -> bool:
        """Return whether every topic and every group is included."""
        return "" in self.topics and "" in self.groups


@dataclass(frozen=True, slots=True)
class User:
    """A user with grants; `source` is local, oidc, or none where the console has no login."""

    name: str
    source: str
    grants: tuple[Grant, ...]

    def may(self, role: Role, topic: str | None = None, group: str | None = None) -> bool:
        """Return whether the user has a role on a topic and on a group; on any, if neither is named."""
        return any(
            grant.role >= role
            and (topic is None or topic.startswith(grant.topics))
            and (group is None or group.startswith(grant.groups))
            for grant in self.grants
        )

    def may_on_all(self, role: Role) -> bool:
        """Return whether the user has a role on all topics and groups."""
        return any(grant.role >= role and grant.is_for_all() for grant in self.grants)

    def meets(self, need: Need, topic: str | None, group: str | None) -> bool:
        """Return whether the user may use a route, with the topic and the group that a request names."""
        match need.scope:
            case "public":
                return True
            case "any":
                return self.may(need.role)
            case "topic":
                return topic is not None and self.may(need.role, topic=topic)
            case "group":
                return group is not None and self.may(need.role, group=group)
            case "cluster":
                return self.may_on_all(need.role)

    def capped(self, role: Role) -> User:
        """Return the user with no role above this one."""
        grants = (replace(grant, role=min(grant.role, role)) for grant in self.grants)
        return replace(self, grants=tuple(grants))


LOCAL: Final = User("", "none", (Grant(Role.ADMINISTRATOR),))
"""The user of a console without login."""


def highest(grants: Iterable[Grant]) -> Role | None:
    """Return the highest role of some grants."""
    return max((grant.role for grant in grants), default=None)
