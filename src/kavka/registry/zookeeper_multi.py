"""A multi of znode operations as ZooKeeper's protocol has it, and facts of a znode from it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kavka.core.znode_access import AccessList
from kavka.core.znodes import Create, Delete, Operation, SetAccess, SetData, Stat, ZnodeError
from kavka.registry.interface import RegistryRefused
from kavka.registry.zookeeper_connection import ServerRefused
from kavka.wire.zookeeper.jute import CorruptPacket, Reader, append, decode
from kavka.wire.zookeeper.messages import (
    EPHEMERAL_FLAG,
    SEQUENCE_FLAG,
    Acl,
    CreateRequest,
    ErrorResponse,
    MultiHeader,
    OpCode,
    PathResponse,
    PathVersionRequest,
    SetDataRequest,
    StatRecord,
    StatResponse,
)

_ROLLED_BACK = (0, ZnodeError.RUNTIME_INCONSISTENCY)
"""Error codes of operations before and after the refused one."""


def read_stat(stat: StatRecord) -> Stat:
    """Return facts as the tree has them."""
    return Stat(
        stat.czxid,
        stat.mzxid,
        stat.ctime_ms,
        stat.mtime_ms,
        stat.version,
        stat.cversion,
        stat.ephemeral_owner,
        stat.data_length,
        stat.num_children,
        stat.pzxid,
        stat.aversion,
    )


def encode_multi(
    operations: Sequence[Operation],
    outer: Callable[[str], str],
    access_of: Callable[[str, AccessList], AccessList],
) -> bytearray:
    """Return the body of a MULTI; `outer` puts the chroot before a path, `access_of` chooses the lists of new nodes."""
    body = bytearray()
    for operation in operations:
        code, record = _request(operation, outer(operation.path), access_of)
        append(body, MultiHeader(code, False, -1))
        append(body, record)
    append(body, MultiHeader(-1, True, -1))
    return body


def acl_records(access: AccessList) -> list[Acl]:
    """Return an access list as it is sent."""
    return [Acl(*entry) for entry in access]


def create_request(
    operation: Create, path: str, access_of: Callable[[str, AccessList], AccessList]
) -> CreateRequest:
    """Return the record that creates a node, at `path` of the server."""
    flags = EPHEMERAL_FLAG * operation.ephemeral | SEQUENCE_FLAG * operation.sequence
    access = access_of(operation.path, operation.access)
    return CreateRequest(path, operation.data, acl_records(access), flags)


def _request(
    operation: Operation, path: str, access_of: Callable[[str, AccessList], AccessList]
) -> tuple[OpCode, NamedTuple]:
    assert not isinstance(operation, SetAccess), "access lists are not changed in a multi"
    if isinstance(operation, Create):
        return OpCode.CREATE, create_request(operation, path, access_of)
    if isinstance(operation, SetData):
        return OpCode.SET_DATA, SetDataRequest(path, operation.data, operation.version)
    code = OpCode.DELETE if isinstance(operation, Delete) else OpCode.CHECK
    return code, PathVersionRequest(path, operation.version)


def read_multi(
    reader: Reader, operations: Sequence[Operation], inner: Callable[[str], str]
) -> list[str]:
    """Return the path of each operation, of a node that was made as the server named it; `inner` takes the chroot away.

    Raise RegistryRefused with what refused the multi, ServerRefused for a number that is no ZnodeError.
    """
    paths: list[str] = []
    refused: RegistryRefused | ServerRefused | None = None
    for at, operation in enumerate(operations):
        header = decode(MultiHeader, reader)
        if header.done:
            raise CorruptPacket(f"answers to {at} of {len(operations)} operations")
        path = operation.path
        if header.type == OpCode.CREATE:
            path = inner(decode(PathResponse, reader).path)
        elif header.type == OpCode.SET_DATA:
            decode(StatResponse, reader)
        elif header.type == OpCode.ERROR:
            code = decode(ErrorResponse, reader).error
            if code not in _ROLLED_BACK and refused is None:
                refused = _refusal(code, path, at)
        paths.append(path)
    if refused is not None:
        raise refused
    return paths


def _refusal(code: int, path: str, at: int) -> RegistryRefused | ServerRefused:
    if code == ZnodeError.NO_AUTH:
        return ServerRefused(code)
    try:
        return RegistryRefused(ZnodeError(code), path, at)
    except ValueError:
        return ServerRefused(code)
