"""The numbers and names of ACLs: resource types, operations, permissions and pattern types.

Each has three forms: its number in messages, Java's constant (`TRANSACTIONAL_ID`), which is the member's name here, and
the form of znodes and tools (`TransactionalId`), which `title` returns.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Final, TypeVar


@cache
def _title(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


class AclOperation(IntEnum):
    """Operations as ACLs number them."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14

    @property
    def title(self) -> str:
        """Return the name in znodes and tools, `DescribeConfigs` say."""
        return _title(self.name)


class AclResourceType(IntEnum):
    """Resource types as ACLs number them."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @property
    def title(self) -> str:
        """Return the name in znodes and tools, `TransactionalId` say."""
        return _title(self.name)


class AclPermission(IntEnum):
    """Permission types as ACLs number them."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3

    @property
    def title(self) -> str:
        """Return the name in znodes and tools."""
        return _title(self.name)


class PatternType(IntEnum):
    """Pattern types as ACLs number them; ANY and MATCH are of filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


Name = TypeVar("Name", AclOperation, AclResourceType, AclPermission, PatternType)


def numbered(names: type[Name], number: int) -> Name:
    """Return the name with a number; UNKNOWN for a number without one."""
    try:
        return names(number)
    except ValueError:
        return names(0)


def titled(names: type[Name], text: str) -> Name:
    """Return the name with a title or Java constant, in any case. Raise ValueError when there is none."""
    wanted = text.replace("_", "").upper()
    for name in names:
        if name.name.replace("_", "") == wanted and name.value > 0:
            return name
    raise ValueError(f"{text!r} is not one of {', '.join(_title(n.name) for n in names if n > 0)}")


CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""
WILDCARD: Final = "*"
"""In place of a resource's name all resources of the type, in place of a host all hosts."""

_O = AclOperation
SUPPORTED_OPERATIONS: Final = {
    AclResourceType.TOPIC: (
        _O.READ,
        _O.WRITE,
        _O.CREATE,
        _O.DELETE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE),
    AclResourceType.CLUSTER: (
        _O.CREATE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.CLUSTER_ACTION,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
        _O.IDEMPOTENT_WRITE,
    ),
    AclResourceType.TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE),
    AclResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    AclResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}
"""The operations that a resource type has. Source: Kafka's `AclEntry.supportedOperations`."""
