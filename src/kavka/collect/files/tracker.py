"""Decides what each file of a listing is: a content that is followed, a new one, or a copy of one. Pure.

`scan` is a dialogue: a generator that yields an Ask about a file and is resumed with its Digests. The states of a file:

    FOLLOWED   it is the home of a content, whose lines are read from it
    COPY       its bytes are those of a content that has another home, or were all sent: nothing is read from it
    HELD       it may be such a copy, or a file that begins alike: the next looks decide, at last `grace_ms`
    WAITING    it cannot be judged yet: an empty file, a compressed one that is not complete, one that cannot be read

    a look at a listing finds                                       then
    a known inode, and the marks agree                              goes on, whatever its name is now    (rename)
    a known inode that is shorter, or has other bytes               its content is homeless; a new one   (copy-truncate)
    an unknown file that has all that was sent of a homeless        goes on there, behind what was sent  (the copy, .gz)
    an unknown file that agrees with a content that has a home      COPY; short ones are HELD first
    an unknown file that has all of such a home, and more           is the home now, if its name is that of a copy
    an unknown file, of which every byte was sent                   COPY
    none of it                                                      a new content, from its beginning
    a home that is listed no more, read to its end and quiet        closed: its content is homeless       (deletion)

Invariants: a content has one home at most; `position` only grows; a file is read only while it is FOLLOWED.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import PurePath

from kavka.collect.files.content import (
    HEADS,
    STRONG,
    Agreement,
    Comparison,
    Content,
    Identity,
    checked_offsets,
    compare,
    thinned,
)
from kavka.collect.files.content_index import ContentIndex
from kavka.collect.files.tracked import Ask, Digests, FileState, Read, Seen, TrackedFile

HEAD_END = HEADS[-1]
_MAX_ALIKE = 32
"""Contents that a file is compared with beyond its head."""


Scan = Generator[Ask, Digests, None]


class Tracker:
    """The files and the contents of one collector."""

    def __init__(self, *, grace_ms: int = 10_000, forget_ms: int = 7 * 86_400_000) -> None:
        """Take how long a short file may be held, and after which time without a file a content is forgotten."""
        self._grace_ms = grace_ms
        self._forget_ms = forget_ms
        self.files: dict[Identity, TrackedFile] = {}
        self.contents: dict[int, Content] = {}
        self.dirty: set[int] = set()
        """Numbers of contents that were changed, or forgotten, since they were stored."""
        self.notes: list[str] = []
        """Decisions, for the log."""
        self._built_index: ContentIndex | None = None
        self._rehomed: set[int] = set()
        """Numbers of contents that got a home in this look."""
        self._missing_since: dict[int, int] = {}
        self._reads = 0
        self._last_number = 0

    def load(self, contents: Iterable[Content]) -> None:
        """Take the contents that were stored. One of which nothing was sent is new all the same."""
        for content in contents:
            if content.position:
                self.contents[content.number] = content
            self._last_number = max(self._last_number, content.number)

    def is_homeless(self, content: Content) -> bool:
        """Return whether no file is the home of a content."""
        return self._home(content) is None

    def _home(self, content: Content) -> TrackedFile | None:
        file = None if content.identity is None else self.files.get(content.identity)
        is_home = file is not None and file.state is FileState.FOLLOWED and file.content is content
        return file if is_home else None

    def _index(self) -> ContentIndex:
        """Return the index of this look, which most looks do not need."""
        if self._built_index is None:
            self._built_index = ContentIndex(self.contents.values())
        return self._built_index

    # Looking at a listing

    def scan(self, listing: Sequence[Seen], now_ms: int) -> Scan:
        """Judge all files of a listing. Each file is in it once; plain ones are judged before compressed ones."""
        unknown: list[TrackedFile] = []
        self._built_index = None
        for seen in listing:
            file = self.files.get(seen.identity)
            if file is None:
                file = self.files[seen.identity] = TrackedFile(seen, listed_ms=now_ms)
                known = yield from self._restored(file, now_ms)
            else:
                known = yield from self._look_again(file, seen, now_ms)
            if not known:
                unknown.append(file)
        self._leave_unlisted({seen.identity for seen in listing}, now_ms)
        order = sorted(unknown, key=lambda f: (f.seen.is_compressed, f.seen.mtime_ns, f.seen.path))
        for file in order:
            yield from self._judge(file, now_ms)
        self._doubt_copies()
        self._forget(now_ms)

    def _look_again(
        self, file: TrackedFile, seen: Seen, now_ms: int
    ) -> Generator[Ask, Digests, bool]:
        """Take what the listing says of a known file; return False when it has to be judged."""
        file.seen, file.listed_ms = seen, now_ms
        if file.state is not FileState.FOLLOWED:
            return file.judged == file.version and not self._is_due(file, now_ms)
        content = file.content
        assert content is not None
        if content.path != seen.path:
            self._note("renamed", content, f"from={content.path} to={seen.path}")
            content.path = seen.path
            self.dirty.add(content.number)
        if file.judged == file.version:
            return True
        if not seen.is_compressed and seen.size < max(content.marks, default=0):
            self._lose(file, "truncated")
            return False
        offsets = set(checked_offsets(content))
        if HEAD_END not in content.marks:
            offsets.update(HEADS)  # it has grown since it was found
        marks = yield Ask(seen.identity, tuple(sorted(offsets)), whole=False)
        if compare(content, marks.marks, _reach(marks)).agreement is Agreement.DIFFERENT:
            self._lose(file, "rewritten")
            return False
        content.marks = thinned({**content.marks, **marks.marks}, content.position)
        file.judged = file.version
        return True

    def _is_due(self, file: TrackedFile, now_ms: int) -> bool:
        """Return whether a file that is not followed is to be judged although it has not changed."""
        if file.state is not FileState.COPY and now_ms >= file.since_ms + self._grace_ms:
            return True
        is_spent = file.exhausted == file.version  # a copy of which every byte was sent
        return file.content is not None and self._home(file.content) is None and not is_spent

    def _restored(self, file: TrackedFile, now_ms: int) -> Generator[Ask, Digests, bool]:
        """Recognise, after a restart, a file that a stored content has been in; return whether that worked.

        Devices may have other numbers after a start of the machine.
        """
        seen = file.seen
        owned = [
            content
            for content in self._index().at_inode(seen.identity.inode)
            if content.number in self.contents and self._home(content) is None
        ]
        for content in sorted(owned, key=lambda c: -c.number):
            if not seen.is_compressed and seen.size < max(content.marks, default=0):
                continue
            offsets = tuple(sorted({*content.marks, *HEADS}))
            marks = yield Ask(seen.identity, offsets, whole=False)
            if _reach(marks) < content.position:
                continue
            found = compare(content, marks.marks, _reach(marks))
            is_same_place = content.identity == seen.identity or content.path == seen.path
            if found.agreement is Agreement.CONTINUES and (is_same_place or found.is_strong):
                self._follow(file, content, marks, now_ms)
                return True
        return False

    def _leave_unlisted(self, listed: set[Identity], now_ms: int) -> None:
        for identity, file in list(self.files.items()):
            file.is_listed = identity in listed
            if not file.is_listed and file.state is not FileState.FOLLOWED:
                del self.files[identity]

    # Judging a file

    def _judge(self, file: TrackedFile, now_ms: int) -> Scan:
        seen = file.seen
        offsets = sorted({*HEADS, *self._index().small_positions()})
        heads = yield Ask(seen.identity, tuple(offsets), whole=False)
        alike = [
            content
            for content in self._index().alike(heads.marks)
            if _agrees(compare(content, heads.marks, _reach(heads)))
        ]
        if len(alike) > _MAX_ALIKE:  # a header; a copy shares more with what it was made of
            alike.sort(key=lambda c: -compare(c, heads.marks, _reach(heads)).evidence)
            del alike[_MAX_ALIKE:]
        if not alike:
            if not heads.marks or (heads.end is None and _reach(heads) < HEAD_END):
                # It is empty, cannot be read, or is an archive of which too little is there.
                self._put(file, FileState.WAITING, None, now_ms)
            else:
                self._begin(file, heads, now_ms)
            return
        offsets = sorted({offset for content in alike for offset in content.marks} | {*HEADS})
        whole = yield Ask(seen.identity, tuple(offsets))
        if whole.end is None:
            self._put(file, FileState.WAITING, None, now_ms)
            return
        yield from self._choose(file, alike, whole, now_ms)

    def _choose(self, file: TrackedFile, alike: list[Content], whole: Digests, now_ms: int) -> Scan:
        """Choose the content that a file agrees with in most bytes, and what that makes of the file."""
        assert whole.end is not None
        found: list[tuple[Comparison, Content]] = []
        for content in alike:
            one = compare(content, whole.marks, whole.end)
            home = self._home(content)
            if _agrees(one) and home is not None:
                one = yield from self._compare_with_home(file, home, one, whole)
            if _agrees(one):
                found.append((one, content))
        if not found:
            self._begin(file, whole, now_ms)
            return
        best, content = max(
            found, key=lambda f: (f[0].evidence, self._home(f[1]) is None, f[1].number)
        )
        if sum(one.evidence == best.evidence for one, _ in found) > 1:
            best = best._replace(evidence=min(best.evidence, STRONG - 1))  # several begin like this
        if self._home(content) is None:
            self._as_homeless(file, content, best, whole, now_ms)
        else:
            self._as_copy(file, content, best, whole, now_ms)

    def _compare_with_home(
        self, file: TrackedFile, home: TrackedFile, found: Comparison, whole: Digests
    ) -> Generator[Ask, Digests, Comparison]:
        """Compare with the bytes of a home itself, which may have more than was sent of it, up to the end of one."""
        assert whole.end is not None
        there = yield Ask(home.seen.identity, (whole.end,), whole=False)
        end = _reach(there)
        if end >= whole.end:
            is_same = there.marks[whole.end] == whole.marks[whole.end]
            seen_to, extends = whole.end, False
        else:
            assert home.content is not None
            if end < max(home.content.position, 1):
                return found  # it was truncated a moment ago: the next look will show it
            here = yield Ask(file.seen.identity, (end,), whole=False)
            is_same = here.marks.get(end) == there.marks[end]
            seen_to, extends = end, True
        if not is_same:
            return Comparison(Agreement.DIFFERENT)
        return Comparison(found.agreement, max(found.evidence, seen_to), extends)

    def _as_homeless(
        self, file: TrackedFile, content: Content, found: Comparison, whole: Digests, now_ms: int
    ) -> None:
        """Decide on a file that agrees with a content that has no home."""
        assert whole.end is not None
        is_copy = (
            file.state is FileState.COPY and file.content is content and file.judged == file.version
        )
        is_old_place = file.seen.path in (content.path, content.source)
        missing = content.position - whole.end
        is_all_sent = found.evidence == whole.end or (
            found.is_strong and whole.end - found.evidence <= missing <= whole.end // 16
        )
        if not (is_copy or found.is_strong or self._is_kin(file, content)):
            self._begin(file, whole, now_ms)
        elif found.agreement is Agreement.CONTINUES:
            self._follow(file, content, whole, now_ms)
        elif is_copy or (is_all_sent and not is_old_place):
            self._note("copy", content, f"path={file.seen.path}")
            self._put(file, FileState.COPY, content, now_ms)
            file.exhausted = file.version
        else:  # it only begins alike, as what is written after a truncation does
            self._begin(file, whole, now_ms)

    def _as_copy(
        self, file: TrackedFile, content: Content, found: Comparison, whole: Digests, now_ms: int
    ) -> None:
        """Decide on a file that agrees with a content that is being read from another file."""
        assert whole.end is not None
        home = self._home(content)
        assert home is not None
        is_successor = file.seen.path == content.source and home.seen.path != content.source
        may_follow = self._is_kin(file, content) or not home.is_listed
        if found.extends and found.is_strong and may_follow and not is_successor:
            self._put(home, FileState.COPY, content, now_ms)
            self._follow(file, content, whole, now_ms)
        elif found.extends or (is_successor and not found.is_strong):
            # It begins alike, and no copy is longer than what it was made of.
            self._begin(file, whole, now_ms)
        elif found.is_strong and not is_successor:
            if file.state is not FileState.COPY:
                self._note("copy", content, f"path={file.seen.path}")
            self._put(file, FileState.COPY, content, now_ms)
        else:
            self._hold(file, content, whole, now_ms)

    def _hold(self, file: TrackedFile, content: Content, whole: Digests, now_ms: int) -> None:
        is_held = file.state is FileState.HELD and file.judged == file.version
        home = self._home(content)
        is_open = home is not None and not home.is_listed  # it is gone: what was made of it is not
        if is_held and not is_open and now_ms >= file.since_ms + self._grace_ms:
            self._begin(file, whole, now_ms)
            return
        since_ms = file.since_ms if is_held else now_ms
        self._put(file, FileState.HELD, content, now_ms)
        file.since_ms = since_ms

    @staticmethod
    def _is_kin(file: TrackedFile, content: Content) -> bool:
        """Return whether the name is that of a rotated file, so that little evidence is enough."""
        name = PurePath(file.seen.path).name
        stem = PurePath(content.source).name.partition(".")[0]
        return file.seen.path != content.path and name.startswith(stem)

    # Changing the state

    def _begin(self, file: TrackedFile, seen: Digests, now_ms: int) -> None:
        """Follow a file as a content of its own."""
        self._last_number += 1
        content = Content(self._last_number, file.seen.path)
        content.marks = dict(seen.marks)
        self._index().add(content)
        self.contents[content.number] = content
        self._follow(file, content, seen, now_ms, is_new=True)

    def _follow(
        self,
        file: TrackedFile,
        content: Content,
        seen: Digests,
        now_ms: int,
        *,
        is_new: bool = False,
    ) -> None:
        """Make a file the home of a content; what another one had behind the end of this one is lost."""
        end = _reach(seen)
        marks = {offset: mark for offset, mark in content.marks.items() if offset <= end}
        content.marks = thinned({**marks, **seen.marks}, content.position)
        word = "new" if is_new else "found again"
        self._note(word, content, f"path={file.seen.path}")
        place = (file.seen.identity, file.seen.path)
        if not is_new and place != (content.identity, content.path):
            self.dirty.add(content.number)
        content.identity, content.path = place
        self._missing_since.pop(content.number, None)
        if not is_new:
            self._rehomed.add(content.number)
        self._put(file, FileState.FOLLOWED, content, now_ms)

    def _doubt_copies(self) -> None:
        """Judge copies again that were found while there was no home with which to compare them."""
        if not self._rehomed:
            return
        for file in self.files.values():
            is_spent = file.state is FileState.COPY and file.exhausted == file.version
            if is_spent and file.content is not None and file.content.number in self._rehomed:
                file.judged, file.exhausted = (-1, -1), None
        self._rehomed.clear()

    def _put(
        self, file: TrackedFile, state: FileState, content: Content | None, now_ms: int
    ) -> None:
        file.state, file.content, file.since_ms = state, content, now_ms
        file.judged, file.exhausted, file.flush_at_ms = file.version, None, None
        file.listed_ms = now_ms

    def _lose(self, file: TrackedFile, why: str) -> None:
        """Take the content from a file whose bytes are others now."""
        assert file.content is not None
        self._note(why, file.content, f"path={file.seen.path} position={file.content.position}")
        self._drop_unsent(file.content)
        file.state, file.content, file.judged = FileState.WAITING, None, (-1, -1)

    def _drop_unsent(self, content: Content) -> None:
        """Forget a content without a home of which nothing was sent: what is found of it is read from its beginning."""
        if not content.position:
            del self.contents[content.number]
            self.dirty.add(content.number)
            self._built_index = None

    def _forget(self, now_ms: int) -> None:
        """Forget contents that no file has had for long."""
        present = {id(file.content) for file in self.files.values()}
        for number, content in list(self.contents.items()):
            if id(content) in present:
                self._missing_since.pop(number, None)
            elif now_ms - self._missing_since.setdefault(number, now_ms) >= self._forget_ms:
                del self.contents[number], self._missing_since[number]
                self.dirty.add(number)

    def _note(self, what: str, content: Content, facts: str) -> None:
        self.notes.append(f"content {what} number={content.number} {facts}")

    # Reading

    def reads(self, now_ms: int) -> list[Read]:
        """Return which files have something to read, those first that were not read for longest.

        Of contents with one source only the oldest that has something is read: its lines come first.
        """
        found: dict[str, Read] = {}
        for content in sorted(self.contents.values(), key=lambda c: c.number):
            file = self._home(content)
            if file is None or content.source in found:
                continue
            is_flush = file.flush_at_ms is not None and now_ms >= file.flush_at_ms
            if is_flush or file.exhausted != file.version:
                found[content.source] = Read(file, content, is_flush)
        return sorted(
            found.values(),
            key=lambda r: (r.file.last_read, r.file.seen.mtime_ns, r.content.number),
        )

    def advanced(
        self, read: Read, position: int, marks: Mapping[int, str], *, is_exhausted: bool
    ) -> None:
        """Take what was read: events up to `position`, the new marks, and whether more is there."""
        file, content = read.file, read.content
        assert position >= content.position
        self._reads += 1
        file.last_read = self._reads
        file.exhausted = file.version if is_exhausted else None
        file.flush_at_ms = None
        if position > content.position:
            content.position = position
            content.marks = thinned({**content.marks, **marks}, position)
            self.dirty.add(content.number)

    def await_flush(self, read: Read, at_ms: int) -> None:
        """Have an event that no line has ended yet sent at a time, if the file does not grow until then."""
        read.file.flush_at_ms = at_ms

    def distrust(self, read: Read) -> None:
        """Judge a file again: what was about to be read from it does not continue its content."""
        read.file.judged = (-1, -1)
        read.file.exhausted = read.file.version

    def grown(self, identity: Identity, size: int, mtime_ns: int, now_ms: int) -> None:
        """Take the size of a file that is listed no more and still open."""
        file = self.files[identity]
        if (size, mtime_ns) != file.version:
            file.seen = file.seen._replace(size=size, mtime_ns=mtime_ns)
            file.listed_ms = now_ms

    def close(self, file: TrackedFile, *, is_deleted: bool) -> None:
        """Let go of a file that is listed no more: its content is homeless, and a deleted one's inode is free."""
        content = file.content
        assert content is not None
        self._note("closed", content, f"path={file.seen.path}")
        del self.files[file.seen.identity]
        self._drop_unsent(content)
        if is_deleted:
            content.identity = None
            self.dirty.add(content.number)


def _agrees(found: Comparison) -> bool:
    return found.agreement in (Agreement.CONTINUES, Agreement.PREFIX)


def _reach(digests: Digests) -> int:
    """Return up to which offset marks were given."""
    return max(digests.marks, default=0) if digests.end is None else digests.end
