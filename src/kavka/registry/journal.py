"""The journal of an embedded registry: transactions appended and synced, folded into a snapshot when they grow long.

    <directory>/kavka-registry.snapshot   the tree after transaction N, replaced by rename
    <directory>/kavka-registry.journal    transactions, those after N among them, replaced by rename when folded

Both hold the passwords of sessions, so only the user of the process may read them (mode 0600).

A torn tail is cut, with a warning: it was never acknowledged. Damage before transactions that were acknowledged stops
the start instead. What `open` returns is on the medium.
"""

from __future__ import annotations

import asyncio
import logging

from kavka.core.znodes import Txn, ZnodeTree
from kavka.io import Disk, File
from kavka.registry.journal_format import (
    HEAD,
    Journaled,
    checked,
    decode_snapshot,
    decode_transaction,
    encode_record,
    snapshot_parts,
    transactions_behind,
)
from kavka.wire.crc32c import crc32c

log = logging.getLogger(__name__)

_SNAPSHOT_BYTES = 1 << 20
"""A journal below this is never folded; above, it may grow as long as the snapshot before it is."""


class CorruptRegistry(Exception):
    """Acknowledged data cannot be read: starting without it would lose topics, so the broker must not start."""


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
        self._snapshot_bytes = 0
        self._zxid = 0  # of the last transaction appended
        self._synced_zxid = 0

    async def open(self) -> ZnodeTree:
        """Return the tree as it was last acknowledged. Raise CorruptRegistry, OSError."""
        tree = self._read_snapshot()
        self._file = self._disk.open(self._journal_path, create=True, private=True)
        data = self._file.read_at(self._file.size(), 0)
        self._end = self._replay(tree, data)
        if self._end < len(data):
            log.warning(
                "registry journal cut path=%s bytes=%d", self._journal_path, len(data) - self._end
            )
            self._file.truncate(self._end)
        # A process that was killed may have left bytes and names that are not on the medium yet.
        await self._disk.run(self._file.sync)
        await self._disk.run(self._disk.sync_directory, self._directory)
        self._zxid = self._synced_zxid = tree.zxid
        return tree

    def append(self, txn: Txn) -> None:
        """Write a transaction behind the others; it is durable after the next `sync`."""
        assert self._file is not None
        record = encode_record(Journaled(txn, self._synced_zxid))
        self._file.write_at(record, self._end)
        self._end += len(record)
        self._zxid = txn.zxid

    async def sync(self) -> None:
        """Return when all appended transactions are on the medium. Raise OSError; the journal is then unusable."""
        assert self._file is not None
        zxid = self._zxid
        await self._disk.run(self._file.sync)
        self._synced_zxid = zxid

    @property
    def needs_snapshot(self) -> bool:
        """Return whether a new snapshot is due.

        A snapshot has the whole tree. Written only when the journal is as long as the tree, all snapshots together are
        about as long as what was appended.
        """
        return self._end > max(_SNAPSHOT_BYTES, self._snapshot_bytes)

    async def write_snapshot(self, tree: ZnodeTree) -> None:
        """Write the tree, as it is now, as the new snapshot, and drop from the journal what it holds.

        Transactions may be appended meanwhile; `sync` must not be called before this has returned.
        """
        end = self._end
        await self._write_snapshot(tree)
        await self._drop(end)

    async def _write_snapshot(self, tree: ZnodeTree) -> None:
        temporary = f"{self._snapshot_path}.tmp"
        file = self._disk.open(temporary, create=True, private=True)
        try:
            file.truncate(0)
            end, crc = HEAD.size, 0
            for part in snapshot_parts(tree):
                file.write_at(part, end)
                end, crc = end + len(part), crc32c(part, crc)
                await asyncio.sleep(0)  # a large tree must not stop the loop
            file.write_at(HEAD.pack(end - HEAD.size, crc), 0)
            await self._disk.run(file.sync)
        finally:
            file.close()
        self._snapshot_bytes = end
        self._disk.rename(temporary, self._snapshot_path)
        await self._disk.run(self._disk.sync_directory, self._directory)

    async def _drop(self, end: int) -> None:
        """Continue in a new file that begins with what was appended after `end`."""
        assert self._file is not None
        temporary = f"{self._journal_path}.tmp"
        file = self._disk.open(temporary, create=True, private=True)
        file.truncate(0)
        rest = self._file.read_at(self._end - end, end)
        file.write_at(rest, 0)
        self._file.close()
        # What is appended from here on is acknowledged by a `sync` after the rename.
        self._file, self._end = file, len(rest)
        await self._disk.run(file.sync)
        self._disk.rename(temporary, self._journal_path)
        await self._disk.run(self._disk.sync_directory, self._directory)

    def close(self) -> None:
        """Close the file; calling it twice is allowed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read_snapshot(self) -> ZnodeTree:
        if not self._disk.exists(self._snapshot_path):
            return ZnodeTree()
        file = self._disk.open(self._snapshot_path, private=True)
        data = file.read_at(file.size(), 0)
        file.close()
        self._snapshot_bytes = len(data)
        payload = checked(data, 0)
        if payload is None:
            raise CorruptRegistry(
                f"{self._snapshot_path} fails its checksum; restore it from a copy"
            )
        try:
            return decode_snapshot(payload)
        except ValueError as error:
            raise CorruptRegistry(f"{self._snapshot_path} cannot be read: {error}") from error

    def _replay(self, tree: ZnodeTree, data: bytes) -> int:
        """Apply what the snapshot does not hold; return where the whole records end."""
        position = 0
        while (payload := checked(data, position)) is not None:
            try:
                txn = decode_transaction(payload).txn
            except ValueError as error:
                raise CorruptRegistry(f"{self._journal_path} cannot be read: {error}") from error
            if txn.zxid > tree.zxid + 1:
                raise CorruptRegistry(
                    f"{self._journal_path} goes on with transaction {txn.zxid}, but {self._snapshot_path} and what is "
                    f"before end with {tree.zxid}; restore both files from the same copy"
                )
            if txn.zxid > tree.zxid:
                tree.apply(txn)
            position += HEAD.size + len(payload)
        behind = transactions_behind(data, position)
        synced = max((journaled.synced_zxid for journaled in behind), default=0)
        if synced > tree.zxid:
            raise CorruptRegistry(
                f"{self._journal_path} is damaged at byte {position}, after transaction {tree.zxid}, and acknowledged "
                f"transactions stand behind the damage, up to {synced} at least; restore this file and "
                f"{self._snapshot_path} from a copy. To give up all that changed after transaction "
                f"{tree.zxid}, cut the file: truncate -s {position} {self._journal_path}"
            )
        return position
