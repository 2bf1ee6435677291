"""Rows as a digest: equal for the same rows in the same order, however they are cut into record batches. Pure."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Digest:
    """BLAKE2b of the columns of a task's rows, column by column."""

    def __init__(self) -> None:
        """Start without rows."""
        self._columns: dict[str, hashlib.blake2b] = {}

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the next rows; all batches have the same columns."""
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            self._add(name, column)

    def text(self) -> str:
        """Return the digest of all that was added, as 32 hex digits."""
        whole = hashlib.blake2b(digest_size=16)
        for name in sorted(self._columns):
            whole.update(name.encode() + b"\0" + self._columns[name].digest())
        return whole.hexdigest()

    def _add(self, path: str, column: pa.Array) -> None:
        """Feed one stream for each leaf: which are null, how long they are, what they are."""
        self._feed(path + "?", pc.cast(pc.is_null(column), pa.uint8()))
        kind = column.type
        if pa.types.is_struct(kind):
            for number, name in enumerate(kind.names):
                self._add(f"{path}.{name}", column.field(number))
        elif pa.types.is_list(kind):
            self._feed(path + "#", pc.fill_null(pc.list_value_length(column), 0))
            self._add(path + "[]", column.flatten())
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            filled = pc.fill_null(column, pa.scalar(b"" if pa.types.is_binary(kind) else "", kind))
            self._feed(path + "#", pc.binary_length(filled))
            offsets = np.frombuffer(filled.buffers()[1], np.int32)
            start, end = offsets[filled.offset], offsets[filled.offset + len(filled)]
            data = filled.buffers()[2]
            if data is not None:
                self._stream(path).update(memoryview(data)[start:end])
        else:
            self._feed(path, pc.fill_null(column, 0))

    def _feed(self, path: str, numbers: pa.Array) -> None:
        self._stream(path).update(
            np.ascontiguousarray(numbers.to_numpy(zero_copy_only=False)).data.cast("B")
            if len(numbers)
            else b""
        )

    def _stream(self, path: str) -> hashlib.blake2b:
        stream = self._columns.get(path)
        if stream is None:
            stream = self._columns[path] = hashlib.blake2b(digest_size=16)
        return stream
