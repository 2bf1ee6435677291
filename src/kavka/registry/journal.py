"""The journal of an embedded registry: transactions appended and synced, folded into a snapshot when they grow long.

    <directory>/kavka-registry.snapshot   the tree after transaction N, replaced by rename
    <directory>/kavka-registry.journal    transactions after N:  length u32 | CRC-32C u32 | JSON

A torn or damaged tail is cut, with a warning: what follows it was never acknowledged. Damage before acknowledged
transactions cannot be told from a tail, so every acknowledged transaction was synced before.
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Iterator
from typing import Any

from crc32c import crc32c

from kavka.core.znodes import Change, Changed, Created, Deleted, Stat, Txn, ZnodeTree
from kavka.doors import Disk, File

log = logging.getLogger(__name__)

_HEAD = struct.Struct(">II")
_FOLD_BYTES = 1 << 20
_LETTERS: dict[type[Change], str] = {Created: "c", Changed: "s", Deleted: "d"}
_CLASSES = {letter: cls for cls, letter in _LETTERS.items()}


class CorruptRegistry(Exception):
    """The snapshot cannot be read: starting without it would forget topics, so the broker must not start."""


class Journal:
    """The files of one registry; `open` reads them, `append` and `sync` write them."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Touch nothing yet."""
        self._disk = disk
        self._directory = directory
        self._snapshot_path = f"{directory}/kavka-registry.snapshot"
        self._journal_path = f"{directory}/kavka-registry.journal"
        self._file: File | None = None
        self._end = 0
        self._fold_bytes = _FOLD_BYTES

    async def open(self) -> ZnodeTree:
        """Return the tree as it was last acknowledged. Raise CorruptRegistry, OSError."""
        tree = self._read_snapshot()
        is_new = not self._disk.exists(self._journal_path)
        self._file = self._disk.open(self._journal_path, create=True)
        self._replay(tree, self._file.read_at(self._file.size(), 0))
        if is_new:
            await self._disk.run(self._disk.sync_directory, self._directory)
        return tree

    def append(self, txn: Txn) -> None:
        """Write a transaction behind the others; it is durable after the next `sync`."""
        assert self._file is not None
        payload = _encode(txn)
        record = _HEAD.pack(len(payload), crc32c(payload)) + payload
        self._file.write_at(record, self._end)
        self._end += len(record)

    async def sync(self) -> None:
        """Return when all appended transactions are on the medium. Raise OSError; the journal is then unusable."""
        assert self._file is not None
        await self._disk.run(self._file.sync)

    @property
    def is_long(self) -> bool:
        """Whether it is time to `fold`."""
        return self._end > self._fold_bytes

    async def fold(self, tree: ZnodeTree) -> None:
        """Write the tree as the new snapshot and empty the journal.

        When transactions are appended meanwhile the journal stays: replay skips what the snapshot holds.
        """
        assert self._file is not None
        end = self._end
        text = json.dumps({"version": 1, "zxid": tree.zxid, "nodes": _dump(tree)})
        payload = text.encode()
        temporary = f"{self._snapshot_path}.tmp"
        file = self._disk.open(temporary, create=True)
        file.truncate(0)
        file.write_at(_HEAD.pack(len(payload), crc32c(payload)) + payload, 0)
        await self._disk.run(file.sync)
        file.close()
        self._disk.rename(temporary, self._snapshot_path)
        await self._disk.run(self._disk.sync_directory, self._directory)
        if self._end != end:
            self._fold_bytes = self._end + _FOLD_BYTES
            return
        self._file.truncate(0)
        self._end, self._fold_bytes = 0, _FOLD_BYTES
        await self._disk.run(self._file.sync)

    def close(self) -> None:
        """Close the file; calling it twice is allowed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read_snapshot(self) -> ZnodeTree:
        if not self._disk.exists(self._snapshot_path):
            return ZnodeTree()
        file = self._disk.open(self._snapshot_path)
        data = file.read_at(file.size(), 0)
        file.close()
        payload = _checked(data, 0)
        if payload is None:
            raise CorruptRegistry(
                f"{self._snapshot_path} fails its checksum; restore it from a copy"
            )
        fields = json.loads(payload)
        return ZnodeTree.load(_load(fields["nodes"]), fields["zxid"])

    def _replay(self, tree: ZnodeTree, data: bytes) -> None:
        position = 0
        while (payload := _checked(data, position)) is not None:
            txn = _decode(payload)
            if txn.zxid > tree.zxid:
                tree.apply(txn)
            position += _HEAD.size + len(payload)
        if position < len(data):
            lost = len(data) - position
            log.warning("registry journal cut path=%s bytes=%d", self._journal_path, lost)
            assert self._file is not None
            self._file.truncate(position)
        self._end = position


def _checked(data: bytes, position: int) -> bytes | None:
    if len(data) - position < _HEAD.size:
        return None
    length, crc = _HEAD.unpack_from(data, position)
    payload = data[position + _HEAD.size : position + _HEAD.size + length]
    return payload if len(payload) == length and length and crc32c(payload) == crc else None


def _encode(txn: Txn) -> bytes:
    changes = [[_LETTERS[type(change)], *_fields(change)] for change in txn.changes]
    return json.dumps([txn.zxid, txn.time_ms, changes], separators=(",", ":")).encode()


def _fields(change: Change) -> list[Any]:
    return [field.decode("latin-1") if isinstance(field, bytes) else field for field in change]


def _decode(payload: bytes) -> Txn:
    zxid, time_ms, changes = json.loads(payload)
    return Txn(zxid, time_ms, tuple(_change(letter, fields) for letter, *fields in changes))


def _change(letter: str, fields: list[Any]) -> Change:
    if letter == "d":
        return Deleted(fields[0])
    path, data, last = fields
    return _CLASSES[letter](path, data.encode("latin-1"), last)  # type: ignore[call-arg]


def _dump(tree: ZnodeTree) -> list[list[Any]]:
    return [[path, data.decode("latin-1"), list(stat)] for path, data, stat in tree.dump()]


def _load(nodes: list[list[Any]]) -> Iterator[tuple[str, bytes, Stat]]:
    for path, data, stat in nodes:
        yield path, data.encode("latin-1"), Stat(*stat)
