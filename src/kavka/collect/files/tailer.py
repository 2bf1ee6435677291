"""Tails log files into a topic: scans the files, then sends batches of their events, each in one transaction.

    scan of the paths --> tracker: state of each file
    pending reads --> events --> records, and the positions behind them --> one transaction
    nothing to read: wait for the next scan

Nothing is read while a transaction is in progress: slow brokers slow the reading down and fill no memory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from kavka.collect.delivery import Batch, Delivery
from kavka.collect.files.content import Content, fingerprint_offsets, fingerprints_in, window_start
from kavka.collect.files.events import EventRules, Events, split_events
from kavka.collect.files.file_state import FileState, ReadTask, TrackedFile
from kavka.collect.files.fingerprint_cache import FingerprintCache
from kavka.collect.files.open_files import Chunk, OpenFiles
from kavka.collect.files.positions import encode, position_key
from kavka.collect.files.record_encoder import encode_events
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
"""The pause after a scan is this many times its duration: scans of many files are rarer."""
_MAX_PAUSE_S = 5.0
"""Maximum pause between scans in seconds."""


@frozen
class FileOptions:
    """The log files to tail, and settings."""

    name: str
    patterns: Sequence[str]
    topic: str
    host: str
    excluded: Sequence[str] = ()
    dead_letter_topic: str | None = None
    labels: dict[str, str] = field(factory=dict)
    rules: EventRules = EventRules(100_000)
    parser: Parser | None = None
    state: Path | None = None
    poll_ms: int = 250
    event_timeout_ms: int = 5_000
    close_ms: int = 10_000
    max_open: int = 512
    starts_at_end: bool = False
    """Leave out the lines that the files have at the very first start."""


class FileTailer:
    """Tails the log files of one collector."""

    def __init__(
        self,
        options: FileOptions,
        delivery: Delivery,
        contents: Sequence[Content],
        statistics: Statistics,
        reporter: Reporter,
    ) -> None:
        """Resume from stored contents; `delivery` is started. Raise OSError if the state directory is unusable."""
        self._options = options
        self._delivery = delivery
        self._statistics = statistics
        self._reporter = reporter
        self._tracker = Tracker()
        self._tracker.load(contents)
        self._skips_existing = options.starts_at_end and not contents
        self._cache = FingerprintCache(options.state)
        self._open_files = OpenFiles(options.max_open, self._cache)
        self._records: dict[str, LogRecords] = {}
        self._chunk_bytes = max(_CHUNK_BYTES, 2 * options.rules.max_bytes)
        self._next_scan_s = 0.0
        self._scans = 0
        self._removed: list[TrackedFile] = []

    async def run(self, stop: asyncio.Event, *, once: bool = False) -> None:
        """Tail until `stop` and commit the last transaction; with `once`, until all lines were sent.

        Raise CollectorError.
        """
        try:
            while not stop.is_set():
                if time.monotonic() >= self._next_scan_s:
                    self._scan()
                batch = self._next_batch(once)
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
            self._open_files.close()

    def _is_all_sent(self) -> bool:
        """Return whether a scan after the last read has found nothing, and no file is held."""
        held_files = self._statistics.states[FileState.HELD.value]
        return self._scans > 1 and not held_files

    async def _wait(self, stop: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(max(0.0, self._next_scan_s - time.monotonic())):
                await stop.wait()
        except TimeoutError:
            return

    # Scanning

    def _scan(self) -> None:
        start_s = time.monotonic()
        now_ms = int(start_s * 1000)
        listing = self._open_files.list_files(self._options.patterns, self._options.excluded)
        if not (listing.files or self._scans):
            log.warning("no file matches patterns=%s", " ".join(self._options.patterns))
        scan = self._tracker.scan(listing.files, now_ms)
        try:
            request = next(scan)
            while True:
                request = scan.send(self._open_files.read_fingerprints(request))
        except StopIteration:
            pass
        if self._skips_existing:
            self._skip_to_ends()
        self._find_removed(now_ms)
        self._open_files.remove(self._open_files.identities() - self._tracker.files.keys())
        if len(self._records) > 2 * len(self._tracker.contents) + 100:
            self._records.clear()  # most are of sources that were removed
        for decision in self._tracker.decisions:
            log.info("%s", decision)
        self._tracker.decisions.clear()
        self._scans += 1
        duration_s = time.monotonic() - start_s
        pause_s = min(duration_s * _SCAN_SHARE, _MAX_PAUSE_S)
        self._next_scan_s = time.monotonic() + max(self._options.poll_ms / 1000, pause_s)
        self._statistics.gauges |= {"refused_paths": listing.refused, "scan_seconds": duration_s}
        self._count()
        self._cache.save()

    def _find_removed(self, now_ms: int) -> None:
        """Find the files that are not listed any more and were read to their end."""
        tracker = self._tracker
        self._removed = []
        for identity, file in tracker.files.items():
            if file.is_listed or file.state is not FileState.FOLLOWED:
                continue
            status = self._open_files.status(identity)
            if status is not None:
                tracker.update_size(identity, status.st_size, status.st_mtime_ns, now_ms)
            is_inactive = now_ms - file.last_seen_ms >= self._options.close_ms
            if is_inactive and (status is None or file.eof_version == file.version):
                self._removed.append(file)

    def _skip_to_ends(self) -> None:
        """Start behind the last line of each file that exists at the first start."""
        self._skips_existing = False
        for task in self._tracker.pending_reads(0):
            position, fingerprints = self._open_files.last_line_end(task.content)
            self._tracker.advance(task, position, fingerprints, is_at_end=True)
            self._tracker.dirty.add(task.content.number)

    def _count(self) -> None:
        states = {state.value: 0 for state in FileState}
        lag = 0
        for file in self._tracker.files.values():
            states[file.state.value] += 1
            if file.state is FileState.FOLLOWED and not file.entry.is_compressed:
                assert file.content is not None
                lag += max(0, file.entry.size - file.content.position)
        self._statistics.states = states
        self._statistics.gauges |= {"lag_bytes": lag, "open_files": self._open_files.open_count}

    # Reading

    def _next_batch(self, once: bool) -> Batch:
        """Return a batch of unread events, with the positions behind them."""
        batch = Batch()
        now_ms = int(time.monotonic() * 1000)
        self._close_removed(batch, now_ms)
        while batch.size < _BATCH_BYTES and batch.count < _BATCH_RECORDS:
            tasks = self._tracker.pending_reads(now_ms)
            for task in tasks:
                self._read(task, batch, now_ms, is_flush=task.is_flush or once)
                if batch.size >= _BATCH_BYTES or batch.count >= _BATCH_RECORDS:
                    break
            if not tasks:
                break
        for number in sorted(self._tracker.dirty):
            content = self._tracker.contents.get(number)
            value = None if content is None else encode(content)
            batch.positions.append((position_key(self._options.name, number), value))
        self._tracker.dirty.clear()
        return batch

    def _read(self, task: ReadTask, batch: Batch, now_ms: int, *, is_flush: bool) -> None:
        content = task.content
        chunk = self._open_files.chunk(content, self._chunk_bytes)
        if chunk is None:
            self._tracker.invalidate(task)
            self._next_scan_s = 0.0
            return
        events = split_events(
            chunk.data,
            content.position,
            chunk.preceding,
            self._options.rules,
            is_flush=is_flush and chunk.is_end,
            is_final=chunk.is_end and chunk.is_complete,
        )
        self._add_events(task, chunk, events, batch, is_at_end=chunk.is_end)
        complete_lines = chunk.data.rfind(b"\n") + 1
        if chunk.is_end and events.end < content.position + complete_lines:
            self._tracker.schedule_flush(task, now_ms + self._options.event_timeout_ms)
        elif chunk.is_unreadable:
            self._tracker.schedule_flush(task, now_ms + self._options.close_ms)

    def _add_events(
        self, task: ReadTask, chunk: Chunk, events: Events, batch: Batch, *, is_at_end: bool
    ) -> None:
        """Add the records of events to a batch, and advance the position."""
        content = task.content
        source = self._records.get(content.source)
        if source is None:
            source = LogRecords(self._options.host, content.source, self._options.labels)
            self._records[content.source] = source
        options, now_ms = self._options, int(time.time() * 1000)
        dead_letters = options.dead_letter_topic
        encoded = encode_events(
            events, source, options.parser, now_ms, separates_errors=dead_letters is not None
        )
        self._statistics.errors += encoded.errors
        if encoded.values:
            batch.add(options.topic, source.key, encoded.values)
        if encoded.dead_letters:
            assert dead_letters is not None
            batch.add(dead_letters, source.key, encoded.dead_letters)
        fingerprints: dict[int, str] = {}
        if events.end > content.position:
            start = window_start(content.position)
            offsets = fingerprint_offsets(content.position, events.end)
            fingerprints = fingerprints_in(chunk.preceding + chunk.data, start, offsets)
        self._tracker.advance(task, events.end, fingerprints, is_at_end=is_at_end)

    def _close_removed(self, batch: Batch, now_ms: int) -> None:
        """Close removed files; the last line of a deleted one counts as complete."""
        for file in self._removed:
            content = file.content
            assert content is not None
            status = self._open_files.status(file.entry.identity)
            is_deleted = status is None or status.st_nlink == 0
            if status is not None and is_deleted:
                chunk = self._open_files.chunk(content, self._chunk_bytes)
                if chunk is not None:
                    rules = self._options.rules
                    events = split_events(
                        chunk.data, content.position, chunk.preceding, rules, is_final=True
                    )
                    task = ReadTask(file, content, True)
                    self._add_events(task, chunk, events, batch, is_at_end=True)
            self._tracker.close(file, is_deleted=is_deleted)
        self._removed = []
