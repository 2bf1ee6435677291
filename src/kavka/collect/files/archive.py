"""Compressed log files: gzip, bzip2, xz and zstd, decompressed as they are read, by the libraries of each."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Protocol

_INPUT_BYTES = {"gzip": 16 * 1024, "bzip2": 1024, "xz": 1024, "zstd": 256}
"""Input of one call of a decompressor, which bounds its output: 20 MB, whatever an archive was made to do."""
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


class MissingLibrary(Exception):
    """A library of the extra `collect` is not installed; the message says what to do."""


class DamagedArchive(Exception):
    """The bytes are not a compressed file."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def compression_of(head: bytes, path: str) -> str | None:
    """Return the compression of a file by its first bytes, None for a plain one.

    A file that has the name of an archive and no bytes yet is an archive that is being written.
    """
    for magic, compression in _MAGIC.items():
        if head.startswith(magic):
            return compression
    if len(head) < 6 and path.endswith(_SUFFIXES):
        return "unknown"
    return None


def _zstd() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise MissingLibrary(
            "Files that zstd compressed need the library zstandard: pip install 'kavka[collect]'"
        ) from error
    return zstandard.ZstdDecompressor().decompressobj()


_DECOMPRESSORS: dict[str, Callable[[], _Decompressor]] = {
    "gzip": lambda: zlib.decompressobj(31),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
    "zstd": _zstd,
}


class Archive:
    """One pass over a compressed file, from its beginning."""

    def __init__(self, compression: str, read: Callable[[int, int], bytes]) -> None:
        """Start at the beginning; `read` returns bytes of the file for a size and a position."""
        self._open = _DECOMPRESSORS.get(compression)
        self._input_bytes = _INPUT_BYTES.get(compression, 1024)
        self._read = read
        self._input_position = 0
        self._decompressor: _Decompressor | None = None
        self._input = b""
        self._output = b""
        self._is_ended = False
        self.is_complete = False
        """The last member of the file is complete, and no bytes follow it."""

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer at the end of the file. Raise DamagedArchive, MissingLibrary."""
        parts = [self._output]
        length = len(self._output)
        while length < size and not self._is_ended:
            part = self._step()
            parts.append(part)
            length += len(part)
        data = b"".join(parts)
        self._output = data[size:]
        return data[:size]

    def _step(self) -> bytes:
        data = self._input or self._next_input()
        self._input = b""
        if not data or self._open is None:
            self._is_ended = True
            self.is_complete = self._decompressor is None and self._input_position > 0
            return b""
        if self._decompressor is None:
            if not data.strip(b"\0"):
                return b""  # padding behind the last member
            self._decompressor = self._open()
        try:
            part = self._decompressor.decompress(data)
        except Exception as error:  # each library has a class of its own
            raise DamagedArchive(str(error)) from error
        if self._decompressor.eof:
            self._input = self._decompressor.unused_data
            self._decompressor = None
        return part

    def _next_input(self) -> bytes:
        data = self._read(self._input_bytes, self._input_position)
        self._input_position += len(data)
        return data
