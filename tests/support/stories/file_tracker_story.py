"""Runs a scenario of followed files: what happens in a folder, and what the tracker makes of it at its looks.

lines PATH COUNT [WORD]    append lines of 50 bytes; WORD makes them differ from those of other scenarios
text PATH TEXT...          append a line;  part PATH TEXT...  without its end
rename A B    copy A B [BYTES]    truncate PATH    delete PATH    touch PATH
gzip A B [unfinished]      compress a file, and remove it unless the archive is unfinished
finish PATH                the archive is complete now
look                       the tracker looks at the folder
read [CHUNK]               what it wants to read is read; chunks of so many bytes
wait MS    restart [device]    lose NUMBER...    state
"""

from __future__ import annotations

from kavka.collect.files.content import (
    Content,
    Identity,
    checked_offsets,
    digest,
    marks_in,
    offsets_to_mark,
    stored_marks,
    window_start,
)
from kavka.collect.files.tracked import Ask, Digests, FileState, Read, Seen
from kavka.collect.files.tracker import Tracker
from kavka.values import mutable, replace

GRACE_MS, CLOSE_MS = 10_000, 10_000


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
        self.tracker = Tracker(grace_ms=GRACE_MS)
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
        """Give the next new file the inode of a number."""
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

    def do_look(self, _: list[str]) -> None:
        listing = []
        for path, inode in sorted(self.folder.items()):
            identity = Identity(self.device, inode.number)
            self.open.setdefault(identity, inode)
            listing.append(Seen(identity, path, len(inode.data), inode.mtime, inode.is_compressed))
        scan = self.tracker.scan(listing, self.now_ms)
        try:
            ask = next(scan)
            while True:
                ask = scan.send(self.digests(ask))
        except StopIteration:
            pass
        listed = {seen.identity for seen in listing}
        for identity, file in list(self.tracker.files.items()):
            if identity in listed or file.state is not FileState.FOLLOWED:
                continue
            inode = self.open[identity]
            self.tracker.grown(identity, len(inode.data), inode.mtime, self.now_ms)
            is_quiet = self.now_ms - file.listed_ms >= CLOSE_MS
            if is_quiet and file.exhausted == file.version:
                self.tracker.close(file, is_deleted=inode not in self.folder.values())
                del self.open[identity]
        self.tell()

    def digests(self, ask: Ask) -> Digests:
        inode = self.open[ask.identity]
        data = inode.data
        if inode.is_compressed and not inode.is_complete:
            if ask.whole:
                return Digests(None, {})
            data = data[: len(data) // 2]
        offsets = {o for o in (*ask.offsets, len(data)) if 0 < o <= len(data)}
        marks = {offset: digest(data[window_start(offset) : offset]) for offset in sorted(offsets)}
        return Digests(len(data) if inode.is_complete else None, marks)

    def do_read(self, words: list[str]) -> None:
        size = int(words[0]) if words else 1 << 20
        while reads := self.tracker.reads(self.now_ms):
            self.read(reads[0], size)
        self.tell()
        self.store()

    def read(self, read: Read, size: int) -> None:
        file, content = read.file, read.content
        data = self.open[file.seen.identity].data
        for offset in checked_offsets(content):
            window = data[window_start(offset) : offset]
            if offset > len(data) or digest(window) != content.marks[offset]:
                self.tracker.distrust(read)
                return
        chunk = data[content.position : content.position + size]
        end = content.position + chunk.rfind(b"\n") + 1
        if end > content.position:
            self.out.append(
                f"reads {content.position} to {end} of {content.number} in {file.seen.path}"
            )
        self.unsent += data[content.position : end].splitlines()
        marks = {}
        if end > content.position:
            marks = marks_in(data, 0, offsets_to_mark(content.position, end))
        self.tracker.advanced(read, end, marks, is_exhausted=len(chunk) < size)

    def store(self) -> None:
        for number in self.tracker.dirty:
            content = self.tracker.contents.get(number)
            if content is None:
                self.stored.pop(number, None)
                self.out.append(f"forgets {number}")
            else:
                self.stored[number] = replace(content, marks=stored_marks(content))
        self.tracker.dirty.clear()
        self.sent += self.unsent
        self.unsent = []

    def tell(self) -> None:
        self.out += [note.removeprefix("content ") for note in self.tracker.notes]
        self.tracker.notes.clear()

    def do_wait(self, words: list[str]) -> None:
        self.now_ms += int(words[0])

    def do_restart(self, words: list[str]) -> None:
        """Begin again with what was stored; the machine may have been started, too."""
        self.unsent = []
        if words:
            self.device += 1
        self.tracker = Tracker(grace_ms=GRACE_MS)
        self.tracker.load(
            replace(content, marks=dict(content.marks)) for content in self.stored.values()
        )
        self.open = {}

    def do_state(self, _: list[str]) -> None:
        for file in sorted(self.tracker.files.values(), key=lambda f: f.seen.path):
            of = "" if file.content is None else f" {file.content.number}"
            self.out.append(f"{file.seen.path} {file.state.value}{of}")
        for content in self.tracker.contents.values():
            if self.tracker.is_homeless(content):
                self.out.append(f"{content.number} homeless at {content.position}")
