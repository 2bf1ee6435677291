"""Decides at each scan what the listed files are: active file of a content, rotated copy, or new content. Pure.

`scan` is a dialogue: a generator that yields a FingerprintRequest about a file and is resumed with its
FingerprintResult. The states of a file:

    FOLLOWED   active file of a content: the lines of the content are read from it
    COPY       its bytes are those of a content with another active file, or were all sent: it is not read
    HELD       it may be a copy, or a file with the same first bytes: later scans decide, within `hold_ms`
    WAITING    it cannot be identified yet: it is empty, unreadable, or an archive that is not complete

    a scan finds                                                    then
    a known inode, fingerprints equal                               it stays active under any name        (rename)
    a known inode, shorter or with other bytes                      content detached; a new content       (copytruncate)
    an unknown file with all bytes sent of a detached content       active file, read from the position   (copy, .gz)
    an unknown file equal to a content with an active file          COPY; HELD first if it is short
    an unknown file with all bytes of the active file, and more     active file, if its name is a rotated one
    an unknown file of which every byte was sent                    COPY
    any other unknown file                                          new content, read from its beginning
    an active file, not listed, read to its end, unchanged          closed: its content is detached       (deletion)

Invariants: a content has at most one active file; `position` only grows; a file is read only while it is FOLLOWED.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import PurePath

from kavka.collect.files.content import (
    CONCLUSIVE_BYTES,
    HEAD_OFFSETS,
    Agreement,
    Comparison,
    Content,
    Identity,
    checked_offsets,
    compare,
    pruned,
)
from kavka.collect.files.content_index import ContentIndex
from kavka.collect.files.file_state import (
    FileEntry,
    FileState,
    FingerprintRequest,
    FingerprintResult,
    ReadTask,
    TrackedFile,
)

HEAD_END = HEAD_OFFSETS[-1]
_MAX_CANDIDATES = 32
"""Contents that a file is compared with beyond its head."""


Scan = Generator[FingerprintRequest, FingerprintResult, None]


class Tracker:
    """The files and the contents of one collector."""

    def __init__(self, *, hold_ms: int = 10_000, expiry_ms: int = 7 * 86_400_000) -> None:
        """Set how long a short file may be HELD, and how long a content without a file is kept."""
        self._hold_ms = hold_ms
        self._expiry_ms = expiry_ms
        self.files: dict[Identity, TrackedFile] = {}
        self.contents: dict[int, Content] = {}
        self.dirty: set[int] = set()
        """Numbers of contents that were changed or removed since their positions were stored."""
        self.decisions: list[str] = []
        """Messages for the log."""
        self._built_index: ContentIndex | None = None
        self._reattached: set[int] = set()
        """Numbers of contents that got an active file in this scan."""
        self._missing_since_ms: dict[int, int] = {}
        self._reads = 0
        self._last_number = 0

    def load(self, contents: Iterable[Content]) -> None:
        """Add stored contents, except those of which nothing was sent: their files count as new."""
        for content in contents:
            if content.position:
                self.contents[content.number] = content
            self._last_number = max(self._last_number, content.number)

    def is_detached(self, content: Content) -> bool:
        """Return whether a content has no active file."""
        return self._active_file(content) is None

    def _active_file(self, content: Content) -> TrackedFile | None:
        file = None if content.identity is None else self.files.get(content.identity)
        if file is None or file.state is not FileState.FOLLOWED or file.content is not content:
            return None
        return file

    def _index(self) -> ContentIndex:
        """Return the index of this scan, built on first use: most scans find no unknown file."""
        if self._built_index is None:
            self._built_index = ContentIndex(self.contents.values())
        return self._built_index

    # Scanning

    def scan(self, listing: Sequence[FileEntry], now_ms: int) -> Scan:
        """Identify all files of a listing, plain ones before compressed ones. Each file is listed once."""
        unknown: list[TrackedFile] = []
        self._built_index = None
        for entry in listing:
            file = self.files.get(entry.identity)
            if file is None:
                file = self.files[entry.identity] = TrackedFile(entry, last_seen_ms=now_ms)
                is_known = yield from self._resume(file, now_ms)
            else:
                is_known = yield from self._check_known(file, entry, now_ms)
            if not is_known:
                unknown.append(file)
        self._drop_unlisted({entry.identity for entry in listing}, now_ms)
        order = sorted(
            unknown,
            key=lambda file: (file.entry.is_compressed, file.entry.mtime_ns, file.entry.path),
        )
        for file in order:
            yield from self._identify(file, now_ms)
        self._recheck_copies()
        self._expire(now_ms)

    def _check_known(
        self, file: TrackedFile, entry: FileEntry, now_ms: int
    ) -> Generator[FingerprintRequest, FingerprintResult, bool]:
        """Update a known file from the listing; return False if it must be identified again."""
        file.entry, file.last_seen_ms = entry, now_ms
        if file.state is not FileState.FOLLOWED:
            return file.identified_version == file.version and not self._needs_check(file, now_ms)
        content = file.content
        assert content is not None
        if content.path != entry.path:
            self._log_decision("renamed", content, f"from={content.path} to={entry.path}")
            content.path = entry.path
            self.dirty.add(content.number)
        if file.identified_version == file.version:
            return True
        if not entry.is_compressed and entry.size < max(content.fingerprints, default=0):
            self._detach(file, "truncated")
            return False
        offsets = set(checked_offsets(content))
        if HEAD_END not in content.fingerprints:
            offsets.update(HEAD_OFFSETS)  # the file has grown since the last scan
        result = yield FingerprintRequest(entry.identity, tuple(sorted(offsets)), to_end=False)
        if _compare(content, result).agreement is Agreement.DIFFERENT:
            self._detach(file, "rewritten")
            return False
        content.fingerprints = pruned(
            {**content.fingerprints, **result.fingerprints}, content.position
        )
        file.identified_version = file.version
        return True

    def _needs_check(self, file: TrackedFile, now_ms: int) -> bool:
        """Return whether a file that is not FOLLOWED must be identified again although it is unchanged."""
        if file.state is not FileState.COPY and now_ms >= file.state_since_ms + self._hold_ms:
            return True
        is_all_sent = file.eof_version == file.version  # a copy of which every byte was sent
        return file.content is not None and self.is_detached(file.content) and not is_all_sent

    def _resume(
        self, file: TrackedFile, now_ms: int
    ) -> Generator[FingerprintRequest, FingerprintResult, bool]:
        """Attach a stored content to its file after a restart; return whether the file has one.

        Device numbers may change when the machine restarts.
        """
        entry = file.entry
        candidates = [
            content
            for content in self._index().at_inode(entry.identity.inode)
            if content.number in self.contents and self.is_detached(content)
        ]
        for content in sorted(candidates, key=lambda content: -content.number):
            if not entry.is_compressed and entry.size < max(content.fingerprints, default=0):
                continue
            offsets = tuple(sorted({*content.fingerprints, *HEAD_OFFSETS}))
            result = yield FingerprintRequest(entry.identity, offsets, to_end=False)
            if _fingerprinted_end(result) < content.position:
                continue
            comparison = _compare(content, result)
            is_same_file = content.identity == entry.identity or content.path == entry.path
            is_certain = is_same_file or comparison.is_conclusive
            if comparison.agreement is Agreement.CONTINUES and is_certain:
                self._attach(file, content, result, now_ms)
                return True
        return False

    def _drop_unlisted(self, listed: set[Identity], now_ms: int) -> None:
        for identity, file in list(self.files.items()):
            file.is_listed = identity in listed
            if not file.is_listed and file.state is not FileState.FOLLOWED:
                del self.files[identity]

    # Identifying an unknown file

    def _identify(self, file: TrackedFile, now_ms: int) -> Scan:
        entry = file.entry
        offsets = sorted({*HEAD_OFFSETS, *self._index().small_positions()})
        heads = yield FingerprintRequest(entry.identity, tuple(offsets), to_end=False)
        candidates = [
            content
            for content in self._index().candidates(heads.fingerprints)
            if _agrees(_compare(content, heads))
        ]
        if len(candidates) > _MAX_CANDIDATES:
            # They share a header; a copy shares more bytes with its original.
            candidates.sort(key=lambda content: -_compare(content, heads).matched_bytes)
            del candidates[_MAX_CANDIDATES:]
        if not candidates:
            is_too_short = heads.end is None and _fingerprinted_end(heads) < HEAD_END
            if not heads.fingerprints or is_too_short:
                # The file is empty or unreadable, or an archive of which too few bytes are written.
                self._set_state(file, FileState.WAITING, None, now_ms)
            else:
                self._start_content(file, heads, now_ms)
            return
        offsets = sorted(
            {offset for content in candidates for offset in content.fingerprints} | {*HEAD_OFFSETS}
        )
        result = yield FingerprintRequest(entry.identity, tuple(offsets))
        if result.end is None:
            self._set_state(file, FileState.WAITING, None, now_ms)
            return
        yield from self._match(file, candidates, result, now_ms)

    def _match(
        self, file: TrackedFile, candidates: list[Content], result: FingerprintResult, now_ms: int
    ) -> Scan:
        """Match a file with the content that it shares most bytes with, and set its state."""
        assert result.end is not None
        matches: list[tuple[Comparison, Content]] = []
        for content in candidates:
            comparison = compare(content, result.fingerprints, result.end)
            active = self._active_file(content)
            if _agrees(comparison) and active is not None:
                comparison = yield from self._compare_with_active(file, active, comparison, result)
            if _agrees(comparison):
                matches.append((comparison, content))
        if not matches:
            self._start_content(file, result, now_ms)
            return
        best, content = max(
            matches,
            key=lambda match: (match[0].matched_bytes, self.is_detached(match[1]), match[1].number),
        )
        if sum(match.matched_bytes == best.matched_bytes for match, _ in matches) > 1:
            # Several contents have these first bytes.
            best = best._replace(matched_bytes=min(best.matched_bytes, CONCLUSIVE_BYTES - 1))
        if self.is_detached(content):
            self._match_detached(file, content, best, result, now_ms)
        else:
            self._match_active(file, content, best, result, now_ms)

    def _compare_with_active(
        self,
        file: TrackedFile,
        active: TrackedFile,
        comparison: Comparison,
        result: FingerprintResult,
    ) -> Generator[FingerprintRequest, FingerprintResult, Comparison]:
        """Compare a file with the active file itself, unsent bytes included, up to the end of the shorter one."""
        assert result.end is not None
        of_active = yield FingerprintRequest(active.entry.identity, (result.end,), to_end=False)
        end = _fingerprinted_end(of_active)
        if end >= result.end:
            is_same = of_active.fingerprints[result.end] == result.fingerprints[result.end]
            compared_bytes, extends = result.end, False
        else:
            assert active.content is not None
            if end < max(active.content.position, 1):
                return comparison  # the active file was truncated just now: the next scan finds it
            of_file = yield FingerprintRequest(file.entry.identity, (end,), to_end=False)
            is_same = of_file.fingerprints.get(end) == of_active.fingerprints[end]
            compared_bytes, extends = end, True
        if not is_same:
            return Comparison(Agreement.DIFFERENT)
        matched_bytes = max(comparison.matched_bytes, compared_bytes)
        return Comparison(comparison.agreement, matched_bytes, extends)

    def _match_detached(
        self,
        file: TrackedFile,
        content: Content,
        comparison: Comparison,
        result: FingerprintResult,
        now_ms: int,
    ) -> None:
        """Set the state of a file that agrees with a detached content."""
        assert result.end is not None
        is_copy = (
            file.state is FileState.COPY
            and file.content is content
            and file.identified_version == file.version
        )
        is_original_path = file.entry.path in (content.path, content.source)
        missing = content.position - result.end
        is_all_sent = comparison.matched_bytes == result.end or (
            comparison.is_conclusive
            and result.end - comparison.matched_bytes <= missing <= result.end // 16
        )
        if not (is_copy or comparison.is_conclusive or self._has_rotated_name(file, content)):
            self._start_content(file, result, now_ms)
        elif comparison.agreement is Agreement.CONTINUES:
            self._attach(file, content, result, now_ms)
        elif is_copy or (is_all_sent and not is_original_path):
            self._log_decision("copy", content, f"path={file.entry.path}")
            self._set_state(file, FileState.COPY, content, now_ms)
            file.eof_version = file.version
        else:  # only the first bytes are equal, as in a file that is written again after a truncation
            self._start_content(file, result, now_ms)

    def _match_active(
        self,
        file: TrackedFile,
        content: Content,
        comparison: Comparison,
        result: FingerprintResult,
        now_ms: int,
    ) -> None:
        """Set the state of a file that agrees with a content that has another active file."""
        assert result.end is not None
        active = self._active_file(content)
        assert active is not None
        is_successor = file.entry.path == content.source and active.entry.path != content.source
        may_follow = self._has_rotated_name(file, content) or not active.is_listed
        if comparison.extends and comparison.is_conclusive and may_follow and not is_successor:
            self._set_state(active, FileState.COPY, content, now_ms)
            self._attach(file, content, result, now_ms)
        elif comparison.extends or (is_successor and not comparison.is_conclusive):
            # Only the first bytes are equal, and no copy is longer than its original.
            self._start_content(file, result, now_ms)
        elif comparison.is_conclusive and not is_successor:
            if file.state is not FileState.COPY:
                self._log_decision("copy", content, f"path={file.entry.path}")
            self._set_state(file, FileState.COPY, content, now_ms)
        else:
            self._hold(file, content, result, now_ms)

    def _hold(
        self, file: TrackedFile, content: Content, result: FingerprintResult, now_ms: int
    ) -> None:
        is_held = file.state is FileState.HELD and file.identified_version == file.version
        active = self._active_file(content)
        is_removed = active is not None and not active.is_listed  # then this may be its copy
        if is_held and not is_removed and now_ms >= file.state_since_ms + self._hold_ms:
            self._start_content(file, result, now_ms)
            return
        state_since_ms = file.state_since_ms if is_held else now_ms
        self._set_state(file, FileState.HELD, content, now_ms)
        file.state_since_ms = state_since_ms

    @staticmethod
    def _has_rotated_name(file: TrackedFile, content: Content) -> bool:
        """Return whether the name is that of a rotated file of the content: then few equal bytes are enough."""
        name = PurePath(file.entry.path).name
        stem = PurePath(content.source).name.partition(".")[0]
        return file.entry.path != content.path and name.startswith(stem)

    # Changing the state

    def _start_content(self, file: TrackedFile, result: FingerprintResult, now_ms: int) -> None:
        """Attach a file to a new content."""
        self._last_number += 1
        content = Content(self._last_number, file.entry.path)
        content.fingerprints = dict(result.fingerprints)
        self._index().add(content)
        self.contents[content.number] = content
        self._attach(file, content, result, now_ms, is_new=True)

    def _attach(
        self,
        file: TrackedFile,
        content: Content,
        result: FingerprintResult,
        now_ms: int,
        *,
        is_new: bool = False,
    ) -> None:
        """Make a file the active file of a content; unsent bytes of another file behind its end are lost."""
        end = _fingerprinted_end(result)
        fingerprints = {
            offset: fingerprint
            for offset, fingerprint in content.fingerprints.items()
            if offset <= end
        }
        content.fingerprints = pruned({**fingerprints, **result.fingerprints}, content.position)
        event = "new" if is_new else "attached"
        self._log_decision(event, content, f"path={file.entry.path}")
        location = (file.entry.identity, file.entry.path)
        if not is_new and location != (content.identity, content.path):
            self.dirty.add(content.number)
        content.identity, content.path = location
        self._missing_since_ms.pop(content.number, None)
        if not is_new:
            self._reattached.add(content.number)
        self._set_state(file, FileState.FOLLOWED, content, now_ms)

    def _recheck_copies(self) -> None:
        """Identify copies again whose content had no active file to compare them with, and has one now."""
        if not self._reattached:
            return
        for file in self.files.values():
            if file.state is not FileState.COPY or file.eof_version != file.version:
                continue
            if file.content is not None and file.content.number in self._reattached:
                file.identified_version, file.eof_version = (-1, -1), None
        self._reattached.clear()

    def _set_state(
        self, file: TrackedFile, state: FileState, content: Content | None, now_ms: int
    ) -> None:
        file.state, file.content, file.state_since_ms = state, content, now_ms
        file.identified_version, file.eof_version, file.flush_at_ms = file.version, None, None
        file.last_seen_ms = now_ms

    def _detach(self, file: TrackedFile, event: str) -> None:
        """Detach the content of a file that was truncated or rewritten."""
        assert file.content is not None
        self._log_decision(
            event, file.content, f"path={file.entry.path} position={file.content.position}"
        )
        self._drop_unsent(file.content)
        file.state, file.content, file.identified_version = FileState.WAITING, None, (-1, -1)

    def _drop_unsent(self, content: Content) -> None:
        """Remove a detached content of which nothing was sent: a file with its bytes counts as new."""
        if not content.position:
            del self.contents[content.number]
            self.dirty.add(content.number)
            self._built_index = None

    def _expire(self, now_ms: int) -> None:
        """Remove contents that have had no file for `expiry_ms`."""
        present = {id(file.content) for file in self.files.values()}
        for number, content in list(self.contents.items()):
            if id(content) in present:
                self._missing_since_ms.pop(number, None)
            elif now_ms - self._missing_since_ms.setdefault(number, now_ms) >= self._expiry_ms:
                del self.contents[number], self._missing_since_ms[number]
                self.dirty.add(number)

    def _log_decision(self, event: str, content: Content, facts: str) -> None:
        self.decisions.append(f"content {event} number={content.number} {facts}")

    # Reading

    def pending_reads(self, now_ms: int) -> list[ReadTask]:
        """Return the files that have unread bytes, least recently read first.

        Of several contents of one source the oldest with unread bytes is read first: its lines were written first.
        """
        tasks: dict[str, ReadTask] = {}
        for content in sorted(self.contents.values(), key=lambda content: content.number):
            file = self._active_file(content)
            if file is None or content.source in tasks:
                continue
            is_flush = file.flush_at_ms is not None and now_ms >= file.flush_at_ms
            if is_flush or file.eof_version != file.version:
                tasks[content.source] = ReadTask(file, content, is_flush)
        return sorted(
            tasks.values(),
            key=lambda task: (
                task.file.last_read_number,
                task.file.entry.mtime_ns,
                task.content.number,
            ),
        )

    def advance(
        self, task: ReadTask, position: int, fingerprints: Mapping[int, str], *, is_at_end: bool
    ) -> None:
        """Record a read: events up to `position`, new fingerprints, and whether the end of the file was reached."""
        file, content = task.file, task.content
        assert position >= content.position
        self._reads += 1
        file.last_read_number = self._reads
        file.eof_version = file.version if is_at_end else None
        file.flush_at_ms = None
        if position > content.position:
            content.position = position
            content.fingerprints = pruned({**content.fingerprints, **fingerprints}, position)
            self.dirty.add(content.number)

    def schedule_flush(self, task: ReadTask, at_ms: int) -> None:
        """Send an incomplete event at `at_ms`, unless the file grows before."""
        task.file.flush_at_ms = at_ms

    def invalidate(self, task: ReadTask) -> None:
        """Identify a file again at the next scan: its bytes do not continue its content."""
        task.file.identified_version = (-1, -1)
        task.file.eof_version = task.file.version

    def update_size(self, identity: Identity, size: int, mtime_ns: int, now_ms: int) -> None:
        """Set the size of a file that is open and not listed any more."""
        file = self.files[identity]
        if (size, mtime_ns) != file.version:
            file.entry = file.entry._replace(size=size, mtime_ns=mtime_ns)
            file.last_seen_ms = now_ms

    def close(self, file: TrackedFile, *, is_deleted: bool) -> None:
        """Remove a file that is not listed any more: its content is detached, the inode of a deleted file free."""
        content = file.content
        assert content is not None
        self._log_decision("closed", content, f"path={file.entry.path}")
        del self.files[file.entry.identity]
        self._drop_unsent(content)
        if is_deleted:
            content.identity = None
            self.dirty.add(content.number)


def _agrees(comparison: Comparison) -> bool:
    return comparison.agreement in (Agreement.CONTINUES, Agreement.PREFIX)


def _compare(content: Content, result: FingerprintResult) -> Comparison:
    return compare(content, result.fingerprints, _fingerprinted_end(result))


def _fingerprinted_end(result: FingerprintResult) -> int:
    """Return the last offset that has a fingerprint."""
    return max(result.fingerprints, default=0) if result.end is None else result.end
