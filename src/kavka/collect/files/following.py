"""Follows log files into a topic: a look at the files, then batches of what they have, each in one transaction.

    look at the paths --> tracker: what is each file?
    reads that it decides --> events --> records, and the positions behind them --> one transaction
    nothing to read: wait for the next look

Nothing is read while a transaction is under way: brokers that are slow or away hold the reading back, not the memory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from kavka.collect.delivery import Batch, Delivery
from kavka.collect.files.content import Content, marks_in, offsets_to_mark, window_start
from kavka.collect.files.digest_cache import DigestCache
from kavka.collect.files.encoding import encode_events
from kavka.collect.files.events import Events, Rules, cut
from kavka.collect.files.opened import Chunk, OpenFiles
from kavka.collect.files.positions import encode, position_key
from kavka.collect.files.tracked import FileState, Read, TrackedFile
from kavka.collect.files.tracker import Tracker
from kavka.collect.parsers.parsed import Parser
from kavka.collect.record import LogRecords
from kavka.collect.statistics import Reporter, Statistics
from kavka.values import field, frozen

log = logging.getLogger(__name__)

_CHUNK_BYTES = 512 * 1024
_BATCH_BYTES = 4 << 20
_BATCH_RECORDS = 20_000
_SCAN_SHARE = 20
"""A look takes at most this part of the time: over many files looks are rarer."""
_MAX_PAUSE_S = 5.0
"""Seconds between looks at most, whatever they take."""


@frozen
class FileOptions:
    """The files to follow, and settings for it."""

    name: str
    patterns: Sequence[str]
    topic: str
    host: str
    excluded: Sequence[str] = ()
    dead_letter_topic: str | None = None
    labels: dict[str, str] = field(factory=dict)
    rules: Rules = Rules(100_000)
    parser: Parser | None = None
    state: Path | None = None
    poll_ms: int = 250
    event_timeout_ms: int = 5_000
    close_ms: int = 10_000
    max_open: int = 512
    starts_at_end: bool = False
    """Lines that are there at the very first start are left out."""


class FileCollector:
    """One collector of files; `delivery` is started, and `contents` are its positions."""

    def __init__(
        self,
        options: FileOptions,
        delivery: Delivery,
        contents: Sequence[Content],
        statistics: Statistics,
        reporter: Reporter,
    ) -> None:
        """Take what was stored of an earlier run. Raise OSError where the directory of the state cannot be used."""
        self._options = options
        self._delivery = delivery
        self._statistics = statistics
        self._reporter = reporter
        self._tracker = Tracker()
        self._tracker.load(contents)
        self._skips = options.starts_at_end and not contents
        self._cache = DigestCache(options.state)
        self._opened = OpenFiles(options.max_open, self._cache)
        self._records: dict[str, LogRecords] = {}
        self._chunk_bytes = max(_CHUNK_BYTES, 2 * options.rules.max_bytes)
        self._next_scan_s = 0.0
        self._scans = 0
        self._gone: list[TrackedFile] = []

    async def run(self, stop: asyncio.Event, *, once: bool = False) -> None:
        """Follow until `stop`, whose last transaction is committed; with `once`, until all that is there was sent.

        Raise CollectorError.
        """
        try:
            while not stop.is_set():
                if time.monotonic() >= self._next_scan_s:
                    self._scan()
                batch = self._fill(once)
                if batch.count or batch.positions:
                    await self._delivery.send(batch)
                elif once and self._is_all_sent():
                    return
                else:
                    await self._wait(stop)
                if self._reporter.is_due():
                    self._count()
                    self._reporter.report()
        finally:
            self._count()
            self._cache.save()
            self._opened.close()

    def _is_all_sent(self) -> bool:
        """Return whether a look behind the last read has found nothing, and no file is held."""
        held = self._statistics.states[FileState.HELD.value]
        return self._scans > 1 and not held

    async def _wait(self, stop: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(max(0.0, self._next_scan_s - time.monotonic())):
                await stop.wait()
        except TimeoutError:
            return

    # Looking

    def _scan(self) -> None:
        start_s = time.monotonic()
        now_ms = int(start_s * 1000)
        listing = self._opened.list(self._options.patterns, self._options.excluded)
        if not (listing.files or self._scans):
            log.warning("no file matches yet patterns=%s", " ".join(self._options.patterns))
        scan = self._tracker.scan(listing.files, now_ms)
        try:
            ask = next(scan)
            while True:
                ask = scan.send(self._opened.digests(ask))
        except StopIteration:
            pass
        if self._skips:
            self._skip_to_ends()
        self._find_gone(now_ms)
        self._opened.forget(self._opened.known() - self._tracker.files.keys())
        if len(self._records) > 2 * len(self._tracker.contents) + 100:
            self._records.clear()  # sources that are gone
        for note in self._tracker.notes:
            log.info("%s", note)
        self._tracker.notes.clear()
        self._scans += 1
        took_s = time.monotonic() - start_s
        pause_s = min(took_s * _SCAN_SHARE, _MAX_PAUSE_S)
        self._next_scan_s = time.monotonic() + max(self._options.poll_ms / 1000, pause_s)
        self._statistics.gauges |= {"refused_paths": listing.refused, "scan_seconds": took_s}
        self._count()
        self._cache.save()

    def _find_gone(self, now_ms: int) -> None:
        """Find the files that are listed no more and were read to their end."""
        tracker = self._tracker
        self._gone = []
        for identity, file in tracker.files.items():
            if file.is_listed or file.state is not FileState.FOLLOWED:
                continue
            status = self._opened.status(identity)
            if status is not None:
                tracker.grown(identity, status.st_size, status.st_mtime_ns, now_ms)
            is_quiet = now_ms - file.listed_ms >= self._options.close_ms
            if is_quiet and (status is None or file.exhausted == file.version):
                self._gone.append(file)

    def _skip_to_ends(self) -> None:
        """Begin behind the last line of each file that is there at the first start."""
        self._skips = False
        for read in self._tracker.reads(0):
            position, marks = self._opened.end_of_lines(read.content)
            self._tracker.advanced(read, position, marks, is_exhausted=True)
            self._tracker.dirty.add(read.content.number)

    def _count(self) -> None:
        states = {state.value: 0 for state in FileState}
        lag = 0
        for file in self._tracker.files.values():
            states[file.state.value] += 1
            if file.state is FileState.FOLLOWED and not file.seen.is_compressed:
                assert file.content is not None
                lag += max(0, file.seen.size - file.content.position)
        self._statistics.states = states
        self._statistics.gauges |= {"lag_bytes": lag, "open_files": self._opened.open_count}

    # Reading

    def _fill(self, once: bool) -> Batch:
        """Return a batch of what the files have, with the positions behind it."""
        batch = Batch()
        now_ms = int(time.monotonic() * 1000)
        self._close_gone(batch, now_ms)
        while batch.size < _BATCH_BYTES and batch.count < _BATCH_RECORDS:
            reads = self._tracker.reads(now_ms)
            for read in reads:
                self._read(read, batch, now_ms, is_flush=read.is_flush or once)
                if batch.size >= _BATCH_BYTES or batch.count >= _BATCH_RECORDS:
                    break
            if not reads:
                break
        for number in sorted(self._tracker.dirty):
            content = self._tracker.contents.get(number)
            value = None if content is None else encode(content)
            batch.positions.append((position_key(self._options.name, number), value))
        self._tracker.dirty.clear()
        return batch

    def _read(self, read: Read, batch: Batch, now_ms: int, *, is_flush: bool) -> None:
        content = read.content
        chunk = self._opened.chunk(content, self._chunk_bytes)
        if chunk is None:
            self._tracker.distrust(read)
            self._next_scan_s = 0.0
            return
        found = cut(
            chunk.data,
            content.position,
            chunk.lead,
            self._options.rules,
            is_flush=is_flush and chunk.is_end,
            is_final=chunk.is_end and chunk.is_complete,
        )
        self._take(read, chunk, found, batch, is_exhausted=chunk.is_end)
        whole_lines = chunk.data.rfind(b"\n") + 1
        if chunk.is_end and found.end < content.position + whole_lines:
            self._tracker.await_flush(read, now_ms + self._options.event_timeout_ms)
        elif chunk.is_unreadable:
            self._tracker.await_flush(read, now_ms + self._options.close_ms)

    def _take(
        self, read: Read, chunk: Chunk, found: Events, batch: Batch, *, is_exhausted: bool
    ) -> None:
        """Add the records of events to a batch, and move the position behind them."""
        content = read.content
        source = self._records.get(content.source)
        if source is None:
            source = LogRecords(self._options.host, content.source, self._options.labels)
            self._records[content.source] = source
        options, now_ms = self._options, int(time.time() * 1000)
        dead_letters = options.dead_letter_topic
        encoded = encode_events(
            found, source, options.parser, now_ms, separates=dead_letters is not None
        )
        self._statistics.errors += encoded.errors
        if encoded.values:
            batch.add(options.topic, source.key, encoded.values)
        if encoded.separated:
            assert dead_letters is not None
            batch.add(dead_letters, source.key, encoded.separated)
        marks: dict[int, str] = {}
        if found.end > content.position:
            start = window_start(content.position)
            wanted = offsets_to_mark(content.position, found.end)
            marks = marks_in(chunk.lead + chunk.data, start, wanted)
        self._tracker.advanced(read, found.end, marks, is_exhausted=is_exhausted)

    def _close_gone(self, batch: Batch, now_ms: int) -> None:
        """Let go of files that are gone; a last line without its end is complete then."""
        for file in self._gone:
            content = file.content
            assert content is not None
            status = self._opened.status(file.seen.identity)
            is_deleted = status is None or status.st_nlink == 0
            if status is not None and is_deleted:
                chunk = self._opened.chunk(content, self._chunk_bytes)
                if chunk is not None:
                    rules = self._options.rules
                    found = cut(chunk.data, content.position, chunk.lead, rules, is_final=True)
                    read = Read(file, content, True)
                    self._take(read, chunk, found, batch, is_exhausted=True)
            self._tracker.close(file, is_deleted=is_deleted)
        self._gone = []
