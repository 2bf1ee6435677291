"""A multi of znode operations as ZooKeeper's protocol has it, and facts of a znode from it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kavka.core.znodes import Create, Delete, Operation, SetData, Stat, ZnodeError
from kavka.registry.interface import RegistryRefused
from kavka.registry.zookeeper_connection import ServerRefused
from kavka.wire.zookeeper.jute import CorruptPacket, Reader, append, decode
from kavka.wire.zookeeper.messages import (
    EPHEMERAL_FLAG,
    OPEN_ACL,
    SEQUENCE_FLAG,
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
    """Return facts without `aversion`, which only access lists have."""
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
    )


def encode_multi(operations: Sequence[Operation], outer: Callable[[str], str]) -> bytearray:
    """Return the body of a MULTI; `outer` puts the chroot before a path."""
    body = bytearray()
    for operation in operations:
        code, record = _request(operation, outer(operation.path))
        append(body, MultiHeader(code, False, -1))
        append(body, record)
    append(body, MultiHeader(-1, True, -1))
    return body


def _request(operation: Operation, path: str) -> tuple[OpCode, NamedTuple]:
    if isinstance(operation, Create):
        flags = EPHEMERAL_FLAG * operation.ephemeral | SEQUENCE_FLAG * operation.sequence
        return OpCode.CREATE, CreateRequest(path, operation.data, OPEN_ACL, flags)
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
    refusal: RegistryRefused | ServerRefused | None = None
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
            if code not in _ROLLED_BACK and refusal is None:
                refusal = _refusal(code, path, at)
        paths.append(path)
    if refusal is not None:
        raise refusal
    return paths


def _refusal(code: int, path: str, at: int) -> RegistryRefused | ServerRefused:
    try:
        return RegistryRefused(ZnodeError(code), path, at)
    except ValueError:
        return ServerRefused(code)
