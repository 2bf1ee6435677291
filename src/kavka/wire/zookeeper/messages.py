"""The records of ZooKeeper's client protocol, 3.4 to 3.9. Source: ZooKeeper's programmer's guide, its protocol.

    client: ConnectRequest              server: ConnectResponse (a timeout of 0 or less: the session is over)
    client: RequestHeader, request      server: ReplyHeader, response (nothing behind an error)
                                        server: ReplyHeader(xid -1), WatcherEvent

Each is a frame behind four bytes of size. Replies come in the order of the requests. A multi is a chain of
`MultiHeader` and operation, ended by a header that is `done`; its reply has the same form.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kavka.wire.zookeeper.jute import boolean, buffer, i32, i64, ustring

NOTIFICATION_XID = -1
PING_XID = -2
AUTH_XID = -4
SET_WATCHES_XID = -8

EPHEMERAL_FLAG = 1
SEQUENCE_FLAG = 2
"""Flags of Create; 4 is a container, 5 and 6 have a time to live."""


class OpCode(IntEnum):
    """The operation of a request."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CREATE_SESSION = -10
    CLOSE_SESSION = -11
    ERROR = -1


class ConnectRequest(NamedTuple):
    """The first frame of a client; clients since 3.4 append whether a read-only server is good enough."""

    protocol_version: i32
    last_zxid_seen: i64
    timeout_ms: i32
    session_id: i64
    password: buffer


class ConnectResponse(NamedTuple):
    """The first frame of a server; to a client that sent the read-only byte it is appended here, too."""

    protocol_version: i32
    timeout_ms: i32
    session_id: i64
    password: buffer


class RequestHeader(NamedTuple):
    """Before each request. `type` is an OpCode."""

    xid: i32
    type: i32


class ReplyHeader(NamedTuple):
    """Before each response. `error` is 0 or a ZnodeError."""

    xid: i32
    zxid: i64
    error: i32


class StatRecord(NamedTuple):
    """Facts of a znode."""

    czxid: i64
    mzxid: i64
    ctime_ms: i64
    mtime_ms: i64
    version: i32
    cversion: i32
    aversion: i32
    ephemeral_owner: i64
    data_length: i32
    num_children: i32
    pzxid: i64


class Acl(NamedTuple):
    """A permission."""

    permissions: i32
    scheme: ustring
    id: ustring


OPEN_ACL = [Acl(31, "world", "anyone")]


class CreateRequest(NamedTuple):
    """CREATE, CREATE2, CREATE_CONTAINER. Answered by PathResponse, or Create2Response."""

    path: ustring
    data: buffer
    acl: list[Acl]
    flags: i32


class CreateTtlRequest(NamedTuple):
    """CREATE_TTL."""

    path: ustring
    data: buffer
    acl: list[Acl]
    flags: i32
    ttl_ms: i64


class Create2Response(NamedTuple):
    """The path and stat of a node created by CREATE2."""

    path: ustring
    stat: StatRecord


class PathResponse(NamedTuple):
    """Answers CREATE and SYNC."""

    path: ustring


class PathRequest(NamedTuple):
    """SYNC, GET_ACL, GET_ALL_CHILDREN_NUMBER, GET_EPHEMERALS (a prefix)."""

    path: ustring


class PathWatchRequest(NamedTuple):
    """EXISTS, GET_DATA, GET_CHILDREN, GET_CHILDREN2."""

    path: ustring
    watch: boolean


class PathVersionRequest(NamedTuple):
    """DELETE, CHECK."""

    path: ustring
    version: i32


class SetDataRequest(NamedTuple):
    """SET_DATA. Answered by StatResponse."""

    path: ustring
    data: buffer
    version: i32


class StatResponse(NamedTuple):
    """Answers EXISTS, SET_DATA, SET_ACL."""

    stat: StatRecord


class GetDataResponse(NamedTuple):
    """Answers GET_DATA."""

    data: buffer
    stat: StatRecord


class ChildrenResponse(NamedTuple):
    """Answers GET_CHILDREN."""

    children: list[ustring]


class Children2Response(NamedTuple):
    """Answers GET_CHILDREN2."""

    children: list[ustring]
    stat: StatRecord


class GetAclResponse(NamedTuple):
    """Answers GET_ACL."""

    acl: list[Acl]
    stat: StatRecord


class SetAclRequest(NamedTuple):
    """SET_ACL."""

    path: ustring
    acl: list[Acl]
    version: i32


class AuthRequest(NamedTuple):
    """AUTH."""

    type: i32
    scheme: ustring
    auth: buffer


class SaslToken(NamedTuple):
    """SASL, and its reply; null where the server offers no SASL."""

    token: buffer


class SetWatchesRequest(NamedTuple):
    """SET_WATCHES: a reconnected client lists its watches; changes since `relative_zxid` are sent at once."""

    relative_zxid: i64
    data_watches: list[ustring]
    exist_watches: list[ustring]
    child_watches: list[ustring]


class SetWatches2Request(NamedTuple):
    """SET_WATCHES2: with the watches of ADD_WATCH."""

    relative_zxid: i64
    data_watches: list[ustring]
    exist_watches: list[ustring]
    child_watches: list[ustring]
    persistent_watches: list[ustring]
    persistent_recursive_watches: list[ustring]


class WatchTypeRequest(NamedTuple):
    """CHECK_WATCHES and REMOVE_WATCHES (type 1 children, 2 data, 3 any), ADD_WATCH (mode 0 persistent, 1 recursive)."""

    path: ustring
    type: i32


class ErrorResponse(NamedTuple):
    """The result of an operation of a multi that was refused."""

    error: i32


class MultiHeader(NamedTuple):
    """Before each operation of a multi, and `done` after the last one, with type and error -1."""

    type: i32
    done: boolean
    error: i32


class WatcherEvent(NamedTuple):
    """A watch that fires: `type` 1 created, 2 deleted, 3 data changed, 4 children changed; state 3 is connected."""

    type: i32
    state: i32
    path: ustring


class EphemeralsResponse(NamedTuple):
    """Answers GET_EPHEMERALS."""

    ephemerals: list[ustring]


class NumberResponse(NamedTuple):
    """Answers GET_ALL_CHILDREN_NUMBER."""

    total: i32


class ClientInfo(NamedTuple):
    """The identity of a connection."""

    auth_scheme: ustring
    user: ustring


class WhoAmIResponse(NamedTuple):
    """Answers WHO_AM_I."""

    client_info: list[ClientInfo]
