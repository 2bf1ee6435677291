"""Reads the files of a listing: marks for the tracker, and chunks behind a position."""

from __future__ import annotations

import glob
import logging
import os
import stat
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kavka.collect.files.archive import Archive, DamagedArchive, MissingLibrary, kind_of
from kavka.collect.files.content import (
    HEADS,
    WINDOW,
    Content,
    Identity,
    checked_offsets,
    digest,
    marks_in,
    window_start,
)
from kavka.collect.files.digest_cache import DigestCache
from kavka.collect.files.tracked import Ask, Digests, Seen
from kavka.values import mutable

log = logging.getLogger(__name__)

NOTHING = Digests(None, {})
_STEP = 1 << 20


class Chunk(NamedTuple):
    """Bytes of a content behind its position."""

    lead: bytes
    """The window before them."""
    data: bytes
    is_end: bool
    """Nothing more can be read now."""
    is_complete: bool = False
    """It is the end of a compressed file: nothing more will come."""
    is_unreadable: bool = False
    """The file could not be opened; it may be later."""


@mutable
class OpenFile:
    """A file of a listing, with its descriptor as long as it is open."""

    path: str
    kind: str | None = None
    """The compression; None for a plain file."""
    descriptor: int | None = None
    used: int = 0
    archive: Archive | None = None
    archive_start: int = 0
    """Position in the content of the first byte of `ahead`."""
    ahead: bytes = b""
    """Decompressed bytes, with the window before the position of the last chunk."""
    warned: object = None
    has_kind: bool = False


class Listing(NamedTuple):
    """The files of a look, and paths that could not be looked at."""

    files: list[Seen]
    refused: int


class OpenFiles:
    """Files by identity, of which the descriptors of the last used ones are kept open."""

    def __init__(self, limit: int, cache: DigestCache) -> None:
        """Take how many may be open, and the digests of compressed files that are known already."""
        self._limit = limit
        self._cache = cache
        self._files: dict[Identity, OpenFile] = {}
        self._uses = 0
        self._open = 0

    # Listing

    def list(self, patterns: Sequence[str], excluded: Sequence[str]) -> Listing:
        """Return the regular files whose paths match, each once, under the path that it had before if it still has."""
        found: dict[Identity, Seen] = {}
        refused = 0
        for path in sorted(_matching(patterns) - _matching(excluded)):
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue  # it went since
            except OSError:
                refused += 1
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            identity = Identity(status.st_dev, status.st_ino)
            before = self._files.get(identity)
            if identity in found and (before is None or before.path != path):
                continue
            is_compressed = self._is_compressed(identity, path, status.st_size)
            found[identity] = Seen(
                identity, path, status.st_size, status.st_mtime_ns, is_compressed
            )
        return Listing(list(found.values()), refused)

    def _is_compressed(self, identity: Identity, path: str, size: int) -> bool:
        file = self._files.setdefault(identity, OpenFile(path))
        file.path = path
        if not file.has_kind:
            descriptor = self._descriptor(identity)
            if descriptor is None:
                return path.endswith((".gz", ".bz2", ".xz", ".zst"))
            head = os.pread(descriptor, 6, 0)
            file.kind = kind_of(head, path)
            file.has_kind = len(head) == 6
        return file.kind is not None

    # Descriptors

    def _descriptor(self, identity: Identity) -> int | None:
        """Return the open file, None when it cannot be opened, or when its path leads to another one now."""
        file = self._files[identity]
        self._uses += 1
        file.used = self._uses
        if file.descriptor is not None:
            return file.descriptor
        self._make_way()
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

    def _make_way(self) -> None:
        """Close files that were not used for longest."""
        if self._open < self._limit:
            return
        by_use = sorted(
            (file for file in self._files.values() if file.descriptor is not None),
            key=lambda file: file.used,
        )
        for file in by_use[: max(1, self._limit // 8)]:
            self._close(file)

    def _close(self, file: OpenFile) -> None:
        if file.descriptor is not None:
            os.close(file.descriptor)
            self._open -= 1
        file.descriptor, file.archive, file.ahead = None, None, b""

    def forget(self, identities: Iterable[Identity]) -> None:
        """Close files, and forget them."""
        for identity in list(identities):
            file = self._files.pop(identity, None)
            if file is not None:
                self._close(file)

    def known(self) -> set[Identity]:
        """Return the files that are remembered."""
        return set(self._files)

    def close(self) -> None:
        """Close all."""
        self.forget(self._files)

    @property
    def open_count(self) -> int:
        """Return how many files are open."""
        return self._open

    def status(self, identity: Identity) -> os.stat_result | None:
        """Return the status of a file that is open, None when it is not."""
        file = self._files.get(identity)
        if file is None or file.descriptor is None:
            return None
        return os.fstat(file.descriptor)

    # Marks

    def digests(self, ask: Ask) -> Digests:
        """Answer a question of the tracker."""
        descriptor = self._descriptor(ask.identity) if ask.identity in self._files else None
        if descriptor is None:
            return NOTHING
        file = self._files[ask.identity]
        if file.kind is None:
            return _plain_digests(descriptor, ask.offsets)
        return self._archive_digests(file, descriptor, ask)

    def _archive_digests(self, file: OpenFile, descriptor: int, ask: Ask) -> Digests:
        status = os.fstat(descriptor)
        version = (*ask.identity, status.st_size, status.st_mtime_ns)
        known = self._cache.get(version, ask.offsets)
        if known is not None:
            return known
        assert file.kind is not None
        archive = Archive(file.kind, lambda size, at: os.pread(descriptor, size, at))
        try:
            found = _archive_marks(archive, ask)
        except (DamagedArchive, MissingLibrary) as error:
            self._warn(file, version, str(error))
            return NOTHING
        if found.end is not None:
            self._cache.put(version, found)
        return found

    def _warn(self, file: OpenFile, key: object, reason: object) -> None:
        if file.warned != key:
            file.warned = key
            log.warning("file cannot be read path=%s reason=%s", file.path, reason)

    # Chunks

    def chunk(self, content: Content, size: int) -> Chunk | None:
        """Return up to `size` bytes behind the position; None when the file does not have the content any more."""
        assert content.identity is not None
        descriptor = self._descriptor(content.identity) if content.identity in self._files else None
        if descriptor is None:
            return Chunk(b"", b"", True, is_unreadable=True)
        file = self._files[content.identity]
        if file.kind is not None:
            return self._archive_chunk(file, descriptor, content, size)
        start = window_start(content.position)
        data = os.pread(descriptor, content.position - start + size, start)
        lead, data = data[: content.position - start], data[content.position - start :]
        return Chunk(lead, data, len(data) < size) if _has(content, descriptor) else None

    def end_of_lines(self, content: Content) -> tuple[int, dict[int, str]]:
        """Return the position behind the last line of a file, and its marks; 0 where there is no line."""
        assert content.identity is not None
        whole = self.digests(Ask(content.identity, ()))
        if whole.end is None:
            return 0, {}
        if self._files[content.identity].kind is not None:
            return whole.end, dict(whole.marks)
        descriptor = self._descriptor(content.identity)
        assert descriptor is not None
        end = whole.end
        while end > 0:
            start = max(0, end - _STEP)
            found = os.pread(descriptor, end - start, start).rfind(b"\n")
            if found >= 0:
                position = start + found + 1
                return position, dict(_plain_digests(descriptor, (*HEADS, position)).marks)
            end = start
        return 0, {}

    def _archive_chunk(
        self, file: OpenFile, descriptor: int, content: Content, size: int
    ) -> Chunk | None:
        assert file.kind is not None
        start = window_start(content.position)
        if file.archive is None or start < file.archive_start:
            file.archive = Archive(file.kind, lambda size, at: os.pread(descriptor, size, at))
            file.archive_start, file.ahead = 0, b""
        try:
            end = content.position + size
            _read_to(file, start, end)
        except (DamagedArchive, MissingLibrary) as error:
            self._warn(file, content.number, str(error))
            file.archive = None
            return Chunk(b"", b"", True)
        at = content.position - file.archive_start
        lead, data = file.ahead[:at], file.ahead[at : at + size]
        is_end, is_complete = len(data) < size, file.archive.is_complete
        if is_end and not is_complete:
            file.archive = None  # what is added meanwhile is behind what was taken for the end
        is_same = not lead or content.marks.get(content.position) == digest(lead)
        return Chunk(lead, data, is_end, is_complete) if is_same else None


def _read_to(file: OpenFile, start: int, end: int) -> None:
    """Have the bytes from `start` to `end` of the content in `ahead`, as far as there are some."""
    archive = file.archive
    assert archive is not None
    have = file.archive_start + len(file.ahead)
    while have < start:  # skip
        skipped = archive.read(min(_STEP, start - have))
        if not skipped:
            break
        have += len(skipped)
        file.archive_start, file.ahead = have, b""
    drop = start - file.archive_start
    if drop > 0:
        file.ahead = file.ahead[drop:]
        file.archive_start = start
    have = file.archive_start + len(file.ahead)
    if have < end:
        file.ahead += archive.read(end - have)


def _matching(patterns: Sequence[str]) -> set[str]:
    return {path for pattern in patterns for path in glob.iglob(pattern, recursive=True)}


def _has(content: Content, descriptor: int) -> bool:
    """Return whether a file still has a content; it is asked after the bytes behind the position were read."""
    offsets = checked_offsets(content)
    marks = _plain_digests(descriptor, offsets).marks
    return all(marks.get(offset) == content.marks[offset] for offset in offsets)


def _plain_digests(descriptor: int, offsets: Sequence[int]) -> Digests:
    end = os.fstat(descriptor).st_size
    wanted = sorted({offset for offset in (*offsets, end) if 0 < offset <= end})
    marks: dict[int, str] = {}
    for offset in wanted:
        start = window_start(offset)
        window = os.pread(descriptor, offset - start, start)
        if len(window) < offset - start:
            return NOTHING  # it was truncated meanwhile
        marks[offset] = digest(window)
    return Digests(end, marks)


def _archive_marks(archive: Archive, ask: Ask) -> Digests:
    """Read an archive once: to its end, or only as far as the last offset where that is enough."""
    wanted = sorted(offset for offset in ask.offsets if offset > 0)
    marks: dict[int, str] = {}
    position, before = 0, b""
    while ask.whole or (wanted and position < wanted[-1]):
        data = archive.read(_STEP)
        if not data:
            break
        start, window = position - len(before), before + data
        position += len(data)
        while wanted and wanted[0] <= position:
            marks |= marks_in(window, start, [wanted.pop(0)])
        before = window[-WINDOW:]
    if not archive.is_complete:
        return Digests(None, marks)
    if position:
        marks[position] = digest(before[-min(WINDOW, position) :])
    return Digests(position, marks)
