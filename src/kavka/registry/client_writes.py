"""Changes as ZooKeeper's clients ask for them: records to operations on a tree, results to replies. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kavka.core.znode_access import OPEN, AccessList, AclEntry
from kavka.core.znodes import Check, Create, Delete, Operation, SetData, Stat, ZnodeError
from kavka.registry.znode_server import Result
from kavka.wire.zookeeper.jute import CorruptPacket, Reader, append, decode
from kavka.wire.zookeeper.messages import (
    EPHEMERAL_FLAG,
    SEQUENCE_FLAG,
    Acl,
    Create2Response,
    CreateRequest,
    CreateTtlRequest,
    ErrorResponse,
    MultiHeader,
    OpCode,
    PathResponse,
    PathVersionRequest,
    PathWatchRequest,
    SetDataRequest,
    StatRecord,
    StatResponse,
)

_LAST_FLAGS = 6  # 4 is a container, 5 and 6 have a time to live
_NO_BODY = (OpCode.DELETE, OpCode.CHECK)
WRITES: dict[int, Any] = {
    OpCode.CREATE: CreateRequest,
    OpCode.CREATE2: CreateRequest,
    OpCode.CREATE_CONTAINER: CreateRequest,
    OpCode.CREATE_TTL: CreateTtlRequest,
    OpCode.DELETE: PathVersionRequest,
    OpCode.SET_DATA: SetDataRequest,
    OpCode.CHECK: PathVersionRequest,
}
"""The records of the changes that may stand alone or in a multi."""
_READS: dict[int, Any] = {
    OpCode.GET_DATA: PathWatchRequest,
    OpCode.GET_CHILDREN: PathWatchRequest,
}


class Failure(IntEnum):
    """Error codes of the protocol that no operation on a tree gives; the others are `core.znodes.ZnodeError`."""

    UNIMPLEMENTED = -6
    AUTH_FAILED = -115
    NO_WATCHER = -121
    LOGIN_REQUIRED = -124


class Refused(Exception):
    """A request that is answered with an error code alone."""

    def __init__(self, code: int) -> None:
        """`code` is of `Failure` or `ZnodeError`."""
        super().__init__(code)
        self.code = code


def operation_of(kind: int, request: NamedTuple) -> Operation:
    """Return what a change asks of the tree. Raise Refused for what a served registry does not have."""
    if isinstance(request, SetDataRequest):
        return SetData(request.path, request.data, request.version)
    if isinstance(request, PathVersionRequest):
        change = Delete if kind == OpCode.DELETE else Check
        return change(request.path, request.version)
    assert isinstance(request, CreateRequest | CreateTtlRequest)
    if not 0 <= request.flags <= _LAST_FLAGS:
        raise Refused(ZnodeError.BAD_ARGUMENTS)
    if kind in (OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL) or (
        request.flags > EPHEMERAL_FLAG | SEQUENCE_FLAG
    ):
        raise Refused(Failure.UNIMPLEMENTED)
    is_ephemeral = bool(request.flags & EPHEMERAL_FLAG)
    is_sequence = bool(request.flags & SEQUENCE_FLAG)
    access = access_list(request.acl)
    return Create(request.path, request.data, is_ephemeral, is_sequence, access)


def access_list(asked: Sequence[Acl]) -> AccessList:
    """Return an access list as a client asks for it, which the tree checks and resolves."""
    entries = tuple(AclEntry(*entry) for entry in asked)
    return OPEN if entries == OPEN else entries


def stat_record(stat: Stat) -> StatRecord:
    """Return facts as clients get them."""
    return StatRecord(*stat[:6], stat.aversion, *stat[6:10])


def written(kind: int, result: Result) -> NamedTuple | None:
    """Return what a change is answered, None for nothing."""
    if kind in _NO_BODY:
        return None
    assert result.stat is not None
    if kind == OpCode.CREATE:
        return PathResponse(result.path)
    stat = stat_record(result.stat)
    return StatResponse(stat) if kind == OpCode.SET_DATA else Create2Response(result.path, stat)


# -- many at once


def read_multi(reader: Reader, *, is_read: bool) -> list[tuple[int, NamedTuple]]:
    """Return the kinds and records of a MULTI or a MULTI_READ. Raise CorruptPacket."""
    records = _READS if is_read else WRITES
    found: list[tuple[int, NamedTuple]] = []
    while True:
        header = decode(MultiHeader, reader)
        if header.done:
            return found
        if header.type not in records:
            raise CorruptPacket(f"operation {header.type} in a multi")
        found.append((header.type, decode(records[header.type], reader)))


def multi_reply(results: Sequence[tuple[int, NamedTuple | None]]) -> bytearray:
    """Return the body that answers a multi: the kind and the response of each operation.

    The kind of an operation that was refused is `OpCode.ERROR`, its response an `ErrorResponse`.
    """
    body = bytearray()
    for kind, response in results:
        error = response.error if isinstance(response, ErrorResponse) else 0
        append(body, MultiHeader(kind, False, error))
        if response is not None:
            append(body, response)
    append(body, MultiHeader(-1, True, -1))
    return body


def failed_multi(count: int, at: int, error: int) -> bytearray:
    """Return the body that answers a multi of which operation number `at` was refused: nothing happened."""
    codes = [0] * at + [error] + [int(ZnodeError.RUNTIME_INCONSISTENCY)] * (count - at - 1)
    return multi_reply([(OpCode.ERROR, ErrorResponse(code)) for code in codes])
