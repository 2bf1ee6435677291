"""The listed files, open as long as they are in use: fingerprints for the tracker, and chunks behind a position."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kavka.collect.files.archive import Archive, DamagedArchive, MissingLibrary, compression_of
from kavka.collect.files.content import (
    FINGERPRINT_BYTES,
    HEAD_OFFSETS,
    Content,
    Identity,
    checked_offsets,
    fingerprint_of,
    fingerprints_in,
    window_start,
)
from kavka.collect.files.file_state import FileEntry, FingerprintRequest, FingerprintResult
from kavka.collect.files.fingerprint_cache import FingerprintCache
from kavka.collect.files.patterns import matching_paths
from kavka.values import mutable

log = logging.getLogger(__name__)

NO_FINGERPRINTS = FingerprintResult(None, {})
_STEP = 1 << 20


class Chunk(NamedTuple):
    """Bytes of a content behind its position."""

    preceding: bytes
    """The window of bytes before them."""
    data: bytes
    is_end: bool
    """The end of the file, as it is now."""
    is_complete: bool = False
    """The end of a compressed file, which does not grow any more."""
    is_unreadable: bool = False
    """The file could not be opened; a later attempt may succeed."""


@mutable
class OpenFile:
    """A listed file, with its descriptor while it is open."""

    path: str
    compression: str | None = None
    """None for a plain file."""
    descriptor: int | None = None
    last_use: int = 0
    archive: Archive | None = None
    buffer_start: int = 0
    """Position in the content of the first byte of `buffer`."""
    buffer: bytes = b""
    """Decompressed bytes, from the window before the position of the last chunk on."""
    last_warning: object = None
    is_compression_known: bool = False


class Listing(NamedTuple):
    """The files of a scan, and the number of paths whose status could not be read."""

    files: list[FileEntry]
    refused: int


class OpenFiles:
    """Files by identity; the descriptors of the most recently used ones stay open."""

    def __init__(self, limit: int, cache: FingerprintCache) -> None:
        """Set how many files may be open, and the cache of compressed files' fingerprints."""
        self._limit = limit
        self._cache = cache
        self._files: dict[Identity, OpenFile] = {}
        self._uses = 0
        self._open = 0

    # Listing

    def list_files(self, patterns: Sequence[str], excluded: Sequence[str]) -> Listing:
        """Return the regular files that match, each once: under its last path while that leads to it."""
        entries: dict[Identity, FileEntry] = {}
        refused = 0
        for path in sorted(matching_paths(patterns) - matching_paths(excluded)):
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue  # removed since the directory was read
            except OSError:
                refused += 1
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            identity = Identity(status.st_dev, status.st_ino)
            known_file = self._files.get(identity)
            if identity in entries and (known_file is None or known_file.path != path):
                continue
            is_compressed = self._is_compressed(identity, path, status.st_size)
            entries[identity] = FileEntry(
                identity, path, status.st_size, status.st_mtime_ns, is_compressed
            )
        return Listing(list(entries.values()), refused)

    def _is_compressed(self, identity: Identity, path: str, size: int) -> bool:
        file = self._files.setdefault(identity, OpenFile(path))
        file.path = path
        if not file.is_compression_known:
            descriptor = self._descriptor(identity)
            if descriptor is None:
                return path.endswith((".gz", ".bz2", ".xz", ".zst"))
            try:
                head = os.pread(descriptor, 6, 0)
            except OSError as error:
                self._unreadable(file, error)
                return path.endswith((".gz", ".bz2", ".xz", ".zst"))
            file.compression = compression_of(head, path)
            file.is_compression_known = len(head) == 6
        return file.compression is not None

    # Descriptors

    def _descriptor(self, identity: Identity) -> int | None:
        """Return the descriptor of a file; None if it cannot be opened, or its path leads to another file now."""
        file = self._files[identity]
        self._uses += 1
        file.last_use = self._uses
        if file.descriptor is not None:
            return file.descriptor
        self._evict()
        try:
            descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            self._warn(file, (error.errno, file.path), error.strerror)
            return None
        status = os.fstat(descriptor)
        if Identity(status.st_dev, status.st_ino) != identity:
            os.close(descriptor)
            return None
        file.descriptor = descriptor
        self._open += 1
        return descriptor

    def _evict(self) -> None:
        """Close the least recently used files when the limit is reached."""
        if self._open < self._limit:
            return
        by_use = sorted(
            (file for file in self._files.values() if file.descriptor is not None),
            key=lambda file: file.last_use,
        )
        for file in by_use[: max(1, self._limit // 8)]:
            self._close(file)

    def _close(self, file: OpenFile) -> None:
        if file.descriptor is not None:
            os.close(file.descriptor)
            self._open -= 1
        file.descriptor, file.archive, file.buffer = None, None, b""

    def remove(self, identities: Iterable[Identity]) -> None:
        """Close and remove files."""
        for identity in list(identities):
            file = self._files.pop(identity, None)
            if file is not None:
                self._close(file)

    def identities(self) -> set[Identity]:
        """Return the identities of all files."""
        return set(self._files)

    def close(self) -> None:
        """Close all files."""
        self.remove(self._files)

    @property
    def open_count(self) -> int:
        """Number of open files."""
        return self._open

    def status(self, identity: Identity) -> os.stat_result | None:
        """Return the status of an open file, None if it is not open."""
        file = self._files.get(identity)
        if file is None or file.descriptor is None:
            return None
        try:
            return os.fstat(file.descriptor)
        except OSError as error:
            self._unreadable(file, error)
            return None

    # Fingerprints

    def read_fingerprints(self, request: FingerprintRequest) -> FingerprintResult:
        """Return the fingerprints that the tracker requests."""
        descriptor = self._descriptor(request.identity) if request.identity in self._files else None
        if descriptor is None:
            return NO_FINGERPRINTS
        file = self._files[request.identity]
        try:
            if file.compression is None:
                return _plain_fingerprints(descriptor, request.offsets)
            return self._archive_result(file, descriptor, request)
        except OSError as error:
            self._unreadable(file, error)
            return NO_FINGERPRINTS

    def _archive_result(
        self, file: OpenFile, descriptor: int, request: FingerprintRequest
    ) -> FingerprintResult:
        status = os.fstat(descriptor)
        version = (*request.identity, status.st_size, status.st_mtime_ns)
        cached = self._cache.get(version, request.offsets)
        if cached is not None:
            return cached
        assert file.compression is not None
        archive = Archive(file.compression, lambda size, offset: os.pread(descriptor, size, offset))
        try:
            result = _archive_fingerprints(archive, request)
        except (DamagedArchive, MissingLibrary) as error:
            self._warn(file, version, str(error))
            return NO_FINGERPRINTS
        if result.end is not None:
            self._cache.put(version, result)
        return result

    def _unreadable(self, file: OpenFile, error: OSError) -> None:
        """Close a file of which a read failed, on a damaged disk or in another file system: others go on."""
        self._warn(file, (error.errno, file.path), error.strerror)
        self._close(file)

    def _warn(self, file: OpenFile, key: object, reason: object) -> None:
        if file.last_warning != key:
            file.last_warning = key
            log.warning("file cannot be read path=%s reason=%s", file.path, reason)

    # Chunks

    def chunk(self, content: Content, size: int) -> Chunk | None:
        """Return up to `size` bytes behind the position; None if the file does not have the content any more."""
        assert content.identity is not None
        descriptor = self._descriptor(content.identity) if content.identity in self._files else None
        if descriptor is None:
            return Chunk(b"", b"", True, is_unreadable=True)
        file = self._files[content.identity]
        try:
            if file.compression is not None:
                return self._archive_chunk(file, descriptor, content, size)
            return _plain_chunk(descriptor, content, size)
        except OSError as error:
            self._unreadable(file, error)
            return Chunk(b"", b"", True, is_unreadable=True)

    def last_line_end(self, content: Content) -> tuple[int, dict[int, str]]:
        """Return the position behind the last line of a file, and its fingerprints; 0 without a line."""
        assert content.identity is not None
        result = self.read_fingerprints(FingerprintRequest(content.identity, ()))
        if result.end is None:
            return 0, {}
        if self._files[content.identity].compression is not None:
            return result.end, dict(result.fingerprints)
        descriptor = self._descriptor(content.identity)
        assert descriptor is not None
        end = result.end
        while end > 0:
            start = max(0, end - _STEP)
            index = os.pread(descriptor, end - start, start).rfind(b"\n")
            if index >= 0:
                position = start + index + 1
                result = _plain_fingerprints(descriptor, (*HEAD_OFFSETS, position))
                return position, dict(result.fingerprints)
            end = start
        return 0, {}

    def _archive_chunk(
        self, file: OpenFile, descriptor: int, content: Content, size: int
    ) -> Chunk | None:
        assert file.compression is not None
        start = window_start(content.position)
        if file.archive is None or start < file.buffer_start:
            file.archive = Archive(
                file.compression, lambda size, offset: os.pread(descriptor, size, offset)
            )
            file.buffer_start, file.buffer = 0, b""
        try:
            end = content.position + size
            _read_to(file, start, end)
        except (DamagedArchive, MissingLibrary) as error:
            self._warn(file, content.number, str(error))
            file.archive = None
            return Chunk(b"", b"", True)
        index = content.position - file.buffer_start
        preceding, data = file.buffer[:index], file.buffer[index : index + size]
        is_end, is_complete = len(data) < size, file.archive.is_complete
        if is_end and not is_complete:
            file.archive = None  # the decompressor does not go on when bytes are appended
        fingerprint = content.fingerprints.get(content.position)
        if preceding and fingerprint != fingerprint_of(preceding):
            return None
        return Chunk(preceding, data, is_end, is_complete)


def _plain_chunk(descriptor: int, content: Content, size: int) -> Chunk | None:
    start = window_start(content.position)
    data = os.pread(descriptor, content.position - start + size, start)
    preceding, data = data[: content.position - start], data[content.position - start :]
    if not _has_content(content, descriptor):
        return None
    return Chunk(preceding, data, len(data) < size)


def _read_to(file: OpenFile, start: int, end: int) -> None:
    """Decompress until `buffer` has the bytes from `start` to `end` of the content, or the file ends."""
    archive = file.archive
    assert archive is not None
    buffer_end = file.buffer_start + len(file.buffer)
    while buffer_end < start:  # skip
        skipped = archive.read(min(_STEP, start - buffer_end))
        if not skipped:
            break
        buffer_end += len(skipped)
        file.buffer_start, file.buffer = buffer_end, b""
    dropped_bytes = start - file.buffer_start
    if dropped_bytes > 0:
        file.buffer = file.buffer[dropped_bytes:]
        file.buffer_start = start
    buffer_end = file.buffer_start + len(file.buffer)
    if buffer_end < end:
        file.buffer += archive.read(end - buffer_end)


def _has_content(content: Content, descriptor: int) -> bool:
    """Return whether a file still has a content; called after the bytes behind the position were read."""
    offsets = checked_offsets(content)
    fingerprints = _plain_fingerprints(descriptor, offsets).fingerprints
    return all(fingerprints.get(offset) == content.fingerprints[offset] for offset in offsets)


def _plain_fingerprints(descriptor: int, offsets: Sequence[int]) -> FingerprintResult:
    end = os.fstat(descriptor).st_size
    fingerprints: dict[int, str] = {}
    for offset in sorted({offset for offset in (*offsets, end) if 0 < offset <= end}):
        start = window_start(offset)
        window = os.pread(descriptor, offset - start, start)
        if len(window) < offset - start:
            return NO_FINGERPRINTS  # truncated since fstat
        fingerprints[offset] = fingerprint_of(window)
    return FingerprintResult(end, fingerprints)


def _archive_fingerprints(archive: Archive, request: FingerprintRequest) -> FingerprintResult:
    """Read an archive once, to its end or to the last offset, and return its fingerprints."""
    offsets = sorted(offset for offset in request.offsets if offset > 0)
    fingerprints: dict[int, str] = {}
    position, preceding = 0, b""
    while request.to_end or (offsets and position < offsets[-1]):
        data = archive.read(_STEP)
        if not data:
            break
        start, window = position - len(preceding), preceding + data
        position += len(data)
        while offsets and offsets[0] <= position:
            fingerprints |= fingerprints_in(window, start, [offsets.pop(0)])
        preceding = window[-FINGERPRINT_BYTES:]
    if not archive.is_complete:
        return FingerprintResult(None, fingerprints)
    if position:
        fingerprints[position] = fingerprint_of(preceding[-min(FINGERPRINT_BYTES, position) :])
    return FingerprintResult(position, fingerprints)
