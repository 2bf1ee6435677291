"""Authorized operations of a client. Without an authorizer everything is allowed, and responses say so.

Authorised operations are a bit field: bit n stands for ACL operation n (KIP-430).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class AclOperation(IntEnum):
    """Operations as ACLs number them."""

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


def _bits(operations: Iterable[AclOperation]) -> int:
    return sum(1 << operation for operation in operations)


_O = AclOperation
_CLUSTER = _bits(
    [
        _O.CREATE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.CLUSTER_ACTION,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
        _O.IDEMPOTENT_WRITE,
    ]
)
_TOPIC = _bits(
    [
        _O.READ,
        _O.WRITE,
        _O.CREATE,
        _O.DELETE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
    ]
)
_GROUP = _bits([_O.READ, _O.DELETE, _O.DESCRIBE])


def cluster_operations() -> int:
    """Return the operations on the cluster that the client may use."""
    return _CLUSTER


def topic_operations() -> int:
    """Return the operations on a topic that the client may use."""
    return _TOPIC


def group_operations() -> int:
    """Return the operations on a group that the client may use."""
    return _GROUP
