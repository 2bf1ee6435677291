"""Runs a scenario of the file tracker: changes in a folder, and the tracker's decisions at its scans.

lines PATH COUNT [WORD]    append lines of 50 bytes; WORD makes them differ from those of other scenarios
text PATH TEXT...          append a line;  part PATH TEXT...  without its end
rename A B    copy A B [BYTES]    truncate PATH    delete PATH    touch PATH
gzip A B [unfinished]      compress a file, and remove it unless the archive is unfinished
finish PATH                complete the archive
scan                       the tracker scans the folder
read [CHUNK]               run the pending reads, in chunks of so many bytes
wait MS    restart [device]    state
"""

from __future__ import annotations

from kavka.collect.files.content import (
    Content,
    Identity,
    checked_offsets,
    fingerprint_of,
    fingerprint_offsets,
    fingerprints_in,
    stored_fingerprints,
    window_start,
)
from kavka.collect.files.file_state import (
    FileEntry,
    FileState,
    FingerprintRequest,
    FingerprintResult,
    ReadTask,
)
from kavka.collect.files.tracker import Tracker
from kavka.values import mutable, replace

HOLD_MS, CLOSE_MS = 10_000, 10_000


@mutable
class Inode:
    number: int
    data: bytes = b""
    mtime: int = 0
    is_compressed: bool = False
    is_complete: bool = True


class Story:
    """One folder and one collector."""

    def __init__(self) -> None:
        self.device = 1
        self.tracker = Tracker(hold_ms=HOLD_MS)
        self.folder: dict[str, Inode] = {}
        self.stored: dict[int, Content] = {}
        self.open: dict[Identity, Inode] = {}
        self.last_inode = 0
        self.changes = 0
        self.now_ms = 0
        self.sent: list[bytes] = []
        """Lines that were read and stored."""
        self.unsent: list[bytes] = []
        self.out: list[str] = []

    def command(self, line: str) -> str:
        name, *words = line.split()
        self.out = []
        getattr(self, f"do_{name}")(words)
        return "\n".join(self.out) or "ok"

    # The folder

    def changed(self, path: str) -> Inode:
        if path not in self.folder:
            self.last_inode += 1
            self.folder[path] = Inode(self.last_inode)
        inode = self.folder[path]
        self.changes += 1
        inode.mtime = self.changes
        return inode

    def do_lines(self, words: list[str]) -> None:
        path, count, *more = words
        inode = self.changed(path)
        word = more[0] if more else "line"
        first = inode.data.count(b"\n")
        for number in range(first, first + int(count)):
            inode.data += f"{word} {number:>{48 - len(word)}}\n".encode()

    def do_text(self, words: list[str]) -> None:
        self.changed(words[0]).data += (" ".join(words[1:]) + "\n").encode()

    def do_part(self, words: list[str]) -> None:
        self.changed(words[0]).data += " ".join(words[1:]).encode()

    def do_touch(self, words: list[str]) -> None:
        self.changed(words[0])

    def do_rename(self, words: list[str]) -> None:
        self.folder[words[1]] = self.folder.pop(words[0])

    def do_copy(self, words: list[str]) -> None:
        data = self.folder[words[0]].data
        self.changed(words[1]).data = data[: int(words[2])] if len(words) > 2 else data

    def do_truncate(self, words: list[str]) -> None:
        self.changed(words[0]).data = b""

    def do_delete(self, words: list[str]) -> None:
        del self.folder[words[0]]

    def do_reuse(self, words: list[str]) -> None:
        """Set the inode of the next new file."""
        self.last_inode = int(words[0]) - 1

    def do_gzip(self, words: list[str]) -> None:
        archive = self.changed(words[1])
        archive.data, archive.is_compressed = self.folder[words[0]].data, True
        archive.is_complete = "unfinished" not in words
        if archive.is_complete:
            del self.folder[words[0]]

    def do_finish(self, words: list[str]) -> None:
        self.changed(words[0]).is_complete = True

    # The collector

    def do_scan(self, _: list[str]) -> None:
        listing = []
        for path, inode in sorted(self.folder.items()):
            identity = Identity(self.device, inode.number)
            self.open.setdefault(identity, inode)
            listing.append(
                FileEntry(identity, path, len(inode.data), inode.mtime, inode.is_compressed)
            )
        scan = self.tracker.scan(listing, self.now_ms)
        try:
            request = next(scan)
            while True:
                request = scan.send(self.read_fingerprints(request))
        except StopIteration:
            pass
        listed = {entry.identity for entry in listing}
        for identity, file in list(self.tracker.files.items()):
            if identity in listed or file.state is not FileState.FOLLOWED:
                continue
            inode = self.open[identity]
            self.tracker.update_size(identity, len(inode.data), inode.mtime, self.now_ms)
            is_inactive = self.now_ms - file.last_seen_ms >= CLOSE_MS
            if is_inactive and file.eof_version == file.version:
                self.tracker.close(file, is_deleted=inode not in self.folder.values())
                del self.open[identity]
        self.print_decisions()

    def read_fingerprints(self, request: FingerprintRequest) -> FingerprintResult:
        inode = self.open[request.identity]
        data = inode.data
        if inode.is_compressed and not inode.is_complete:
            if request.to_end:
                return FingerprintResult(None, {})
            data = data[: len(data) // 2]
        offsets = {o for o in (*request.offsets, len(data)) if 0 < o <= len(data)}
        fingerprints = {
            offset: fingerprint_of(data[window_start(offset) : offset])
            for offset in sorted(offsets)
        }
        return FingerprintResult(len(data) if inode.is_complete else None, fingerprints)

    def do_read(self, words: list[str]) -> None:
        size = int(words[0]) if words else 1 << 20
        while reads := self.tracker.pending_reads(self.now_ms):
            self.read(reads[0], size)
        self.print_decisions()
        self.store()

    def read(self, task: ReadTask, size: int) -> None:
        file, content = task.file, task.content
        data = self.open[file.entry.identity].data
        for offset in checked_offsets(content):
            window = data[window_start(offset) : offset]
            if offset > len(data) or fingerprint_of(window) != content.fingerprints[offset]:
                self.tracker.invalidate(task)
                return
        chunk = data[content.position : content.position + size]
        end = content.position + chunk.rfind(b"\n") + 1
        if end > content.position:
            self.out.append(
                f"reads {content.position} to {end} of {content.number} in {file.entry.path}"
            )
        self.unsent += data[content.position : end].splitlines()
        fingerprints = {}
        if end > content.position:
            fingerprints = fingerprints_in(data, 0, fingerprint_offsets(content.position, end))
        self.tracker.advance(task, end, fingerprints, is_at_end=len(chunk) < size)

    def store(self) -> None:
        for number in self.tracker.dirty:
            content = self.tracker.contents.get(number)
            if content is None:
                self.stored.pop(number, None)
                self.out.append(f"removes {number}")
            else:
                self.stored[number] = replace(content, fingerprints=stored_fingerprints(content))
        self.tracker.dirty.clear()
        self.sent += self.unsent
        self.unsent = []

    def print_decisions(self) -> None:
        self.out += [decision.removeprefix("content ") for decision in self.tracker.decisions]
        self.tracker.decisions.clear()

    def do_wait(self, words: list[str]) -> None:
        self.now_ms += int(words[0])

    def do_restart(self, words: list[str]) -> None:
        """Start a new tracker from the stored contents; with an argument the device number changes, too."""
        self.unsent = []
        if words:
            self.device += 1
        self.tracker = Tracker(hold_ms=HOLD_MS)
        self.tracker.load(
            replace(content, fingerprints=dict(content.fingerprints))
            for content in self.stored.values()
        )
        self.open = {}

    def do_state(self, _: list[str]) -> None:
        for file in sorted(self.tracker.files.values(), key=lambda f: f.entry.path):
            of = "" if file.content is None else f" {file.content.number}"
            self.out.append(f"{file.entry.path} {file.state.value}{of}")
        for content in self.tracker.contents.values():
            if self.tracker.is_detached(content):
                self.out.append(f"{content.number} detached at {content.position}")
