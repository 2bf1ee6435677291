"""Format of the registry's files: records with a checksum, of transactions, nodes and sessions as JSON. Pure.

    record:       length u32 | CRC-32C u32 | payload
    transaction:  [zxid, time_ms, changes, zxid of the last transaction that was synced when this one was written]
    snapshot:     {"version": 2, "zxid": ..., "nodes": [...], "sessions": [...]}

The synced zxid distinguishes a torn tail from damage: the pages of records that share a sync reach the medium in any
order, so a whole record behind a torn one proves nothing, but one that was written after the torn one had been synced
does.

Access lists are written only for nodes that are not open to all: as a fourth field of a creation and of a node in a
snapshot, and as the change "a". Releases that do not know them refuse such files; files without are theirs, too.
Version 1 of the snapshot is read: it has no access lists.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kavka.core.znode_access import OPEN, AccessList, AclEntry
from kavka.core.znodes import (
    AccessChanged,
    Change,
    Changed,
    Created,
    Deleted,
    SessionBegun,
    SessionEnded,
    Stat,
    StoredNode,
    Txn,
    ZnodeTree,
)
from kavka.wire.crc32c import crc32c

HEAD: Final = struct.Struct(">II")
SNAPSHOT_VERSION: Final = 2
_PART_BYTES = 32 << 10
_STAT_FIELDS = 10
"""Fields of a stat in version 1; in version 2 the number of changes of the access list is behind them."""
_LETTERS: dict[type[Change], str] = {
    Created: "c",
    Changed: "s",
    AccessChanged: "a",
    Deleted: "d",
    SessionBegun: "b",
    SessionEnded: "e",
}


class Journaled(NamedTuple):
    """A transaction as the journal has it."""

    txn: Txn
    synced_zxid: int
    """The transactions up to this one were on the medium before the record was written."""


def encode_record(journaled: Journaled) -> bytes:
    """Return the record of a transaction."""
    txn, synced_zxid = journaled
    changes = [[_LETTERS[type(change)], *_fields(change)] for change in txn.changes]
    fields = [txn.zxid, txn.time_ms, changes, synced_zxid]
    payload = json.dumps(fields, separators=(",", ":")).encode()
    return HEAD.pack(len(payload), crc32c(payload)) + payload


def checked(data: bytes, position: int) -> bytes | None:
    """Return the payload of the record at `position`, None when there is no whole one."""
    if len(data) - position < HEAD.size:
        return None
    length, crc = HEAD.unpack_from(data, position)
    if not 0 < length <= len(data) - position - HEAD.size:
        return None
    payload = data[position + HEAD.size : position + HEAD.size + length]
    return payload if crc32c(payload) == crc else None


def decode_transaction(payload: bytes) -> Journaled:
    """Return the transaction of a record. Raise ValueError."""
    zxid, time_ms, changes, *synced = json.loads(payload)
    txn = Txn(zxid, time_ms, tuple(_change(letter, fields) for letter, *fields in changes))
    return Journaled(txn, synced[0] if synced else 0)


def transactions_behind(data: bytes, position: int) -> Iterator[Journaled]:
    """Yield the transactions of all whole records behind damage at `position`, wherever they begin."""
    start = position + 1
    while (bracket := data.find(b"[", start + HEAD.size)) >= 0:
        start = bracket - HEAD.size
        payload = checked(data, start)
        if payload is None:
            start += 1
        else:
            yield decode_transaction(payload)
            start += HEAD.size + len(payload)


def snapshot_parts(tree: ZnodeTree) -> Iterator[bytes]:
    """Return the snapshot of a tree as it is now, in parts of about 32 KiB: a millisecond's work each."""
    sessions = [_fields(begun) for begun in tree.clients.values()]
    return _snapshot_parts(tree.zxid, tree.dump(), json.dumps(sessions))


def _snapshot_parts(zxid: int, nodes: Iterator[StoredNode], sessions: str) -> Iterator[bytes]:
    texts = [f'{{"version": {SNAPSHOT_VERSION}, "zxid": {zxid}, "nodes": [']
    size, comma = 0, ""
    for node in nodes:
        texts.append(comma + json.dumps(_node_fields(node)))
        size, comma = size + len(texts[-1]), ", "
        if size >= _PART_BYTES:
            yield "".join(texts).encode()
            texts, size = [], 0
    texts.append(f'], "sessions": {sessions}}}')
    yield "".join(texts).encode()


def _node_fields(node: StoredNode) -> list[Any]:
    data = None if node.data is None else node.data.decode("latin-1")
    stat = list(node.stat if node.stat.aversion else node.stat[:_STAT_FIELDS])
    return [node.path, data, stat] if node.access is OPEN else [node.path, data, stat, node.access]


def decode_snapshot(payload: bytes) -> ZnodeTree:
    """Return the tree of a snapshot. Raise ValueError for a version that is not known."""
    fields = json.loads(payload)
    if fields["version"] > SNAPSHOT_VERSION:
        raise ValueError(
            f"version {fields['version']} of the snapshot; this release reads {SNAPSHOT_VERSION}"
        )
    tree = ZnodeTree.load(_load(fields["nodes"]), fields["zxid"])
    for session, password, timeout_ms in fields.get("sessions", ()):
        tree.clients[session] = SessionBegun(session, password.encode("latin-1"), timeout_ms)
    return tree


def _fields(change: Change) -> list[Any]:
    # A node that is open to all is written as by releases without access lists.
    is_open = isinstance(change, Created) and change.access == OPEN
    fields = change[:3] if is_open else change
    return [field.decode("latin-1") if isinstance(field, bytes) else field for field in fields]


def _change(letter: str, fields: list[Any]) -> Change:
    match letter:
        case "d":
            return Deleted(*fields)
        case "e":
            return SessionEnded(*fields)
        case "b":
            session, password, timeout_ms = fields
            return SessionBegun(session, password.encode("latin-1"), timeout_ms)
        case "a":
            path, access, aversion = fields
            return AccessChanged(path, _access(access), aversion)
        case "s":
            path, data, version = fields
            return Changed(path, _bytes(data), version)
        case "c":
            path, data, owner, *access = fields
            return Created(path, _bytes(data), owner, _access(*access))
    raise ValueError(f"change {letter!r} of a newer release")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


def _access(entries: list[list[Any]] | None = None) -> AccessList:
    return OPEN if entries is None else tuple(AclEntry(*entry) for entry in entries)


def _load(nodes: list[list[Any]]) -> Iterator[StoredNode]:
    for path, data, stat, *access in nodes:
        yield StoredNode(path, _bytes(data), Stat(*stat), _access(*access))
