"""Values of the tree of znodes: operations, the changes that they become, refusals, events and paths. Pure.

Source: ZooKeeper programmer's guide (data model, versions, ephemerals, sequences, watches, multi).
"""

from __future__ import annotations

import re
from enum import Enum, IntEnum
from typing import NamedTuple

from kavka.core.znode_access import OPEN, AccessList

ANY_VERSION = -1
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


class ZnodeError(IntEnum):
    """Refusals, numbered as in ZooKeeper's protocol."""

    RUNTIME_INCONSISTENCY = -2
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114


class Stat(NamedTuple):
    """Facts of a znode; times are wall-clock milliseconds."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    ephemeral_owner: int
    """The session that the node dies with; 0 for a persistent one."""
    data_length: int
    num_children: int
    pzxid: int
    aversion: int = 0
    """The number of changes of the access list."""


class Create(NamedTuple):
    """Make a node. With `sequence`, ten digits are appended to the path."""

    path: str
    data: bytes | None = None
    """None is ZooKeeper's null, which Kafka gives nodes that only hold others, and takes for "nothing yet"."""
    ephemeral: bool = False
    sequence: bool = False
    access: AccessList = OPEN


class SetData(NamedTuple):
    """Replace a node's data if its version is `version`."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Remove a node without children if its version is `version`."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Change nothing; refuse the whole multi unless the node's version is `version`."""

    path: str
    version: int


class SetAccess(NamedTuple):
    """Replace a node's access list if it was changed `version` times. Not part of a multi."""

    path: str
    access: AccessList
    version: int = ANY_VERSION


Operation = Create | SetData | Delete | Check | SetAccess


def size_of(operation: Operation) -> int:
    """Return the bytes of an operation's path and data."""
    return len(operation.path) + len(getattr(operation, "data", None) or b"")


class Created(NamedTuple):
    """A resolved change: the node came to be."""

    path: str
    data: bytes | None
    owner: int
    access: AccessList = OPEN


class Changed(NamedTuple):
    """A resolved change: the node has new data and this version."""

    path: str
    data: bytes | None
    version: int


class AccessChanged(NamedTuple):
    """A resolved change: the node has another access list, its `aversion`th."""

    path: str
    access: AccessList
    aversion: int


class Deleted(NamedTuple):
    """A resolved change: the node is gone."""

    path: str


class SessionBegun(NamedTuple):
    """A resolved change: a client's session, which lives until it ends or its timeout expires.

    The tree is notified only of sessions that outlive the server's process.
    """

    session: int
    password: bytes
    """The password by which a client resumes the session on another connection."""
    timeout_ms: int


class SessionEnded(NamedTuple):
    """A resolved change: the session is over. Its ephemeral nodes are deleted by the same transaction."""

    session: int


Change = Created | Changed | AccessChanged | Deleted | SessionBegun | SessionEnded


class Txn(NamedTuple):
    """Changes that happen together; `zxid` is one above the transaction before."""

    zxid: int
    time_ms: int
    changes: tuple[Change, ...]


class StoredNode(NamedTuple):
    """A node with all that is kept of it."""

    path: str
    data: bytes | None
    stat: Stat
    access: AccessList = OPEN


class Refusal(NamedTuple):
    """A refused transaction: operation number `at` met `error`."""

    at: int
    error: ZnodeError
    path: str


class EventType(Enum):
    """The type of a watch event."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


class Event(NamedTuple):
    """Something that happened to a path that may be watched."""

    type: EventType
    path: str


def parent_of(path: str) -> str:
    """Return the path of the parent; the root is its own."""
    return path.rsplit("/", 1)[0] or "/"


def is_valid_path(path: str) -> bool:
    """Return whether ZooKeeper accepts the path: absolute, no empty, `.` or `..` part, no unprintable character."""
    if path == "/":
        return True
    if not path.startswith("/") or path.endswith("/") or _UNPRINTABLE.search(path):
        return False
    return all(part not in ("", ".", "..") for part in path[1:].split("/"))
