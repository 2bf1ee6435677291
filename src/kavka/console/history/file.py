"""The file of the history: SQLite, in which samples are kept at three resolutions, and what the alerts keep.

    rows      (tier, page, at) -> 256 values as float32, compressed; a page is a range of numbers of series
    series    number -> kind, name, metric; a number is used again when its series was not seen for 31 days; those of a
              group in a topic have numbers, and so pages, of their own
    alerts    states, events, deliveries and silences: `kavka.console.alerts.records`
    about     the cluster whose history this is, and since when all topics of groups are known

A sample is one row for each page, so a look at thousands of series writes some dozen rows, and a chart of 30 days
reads a few thousand small ones. Rows of a longer step are made from those of the step before when it is over, so a
console that died makes them at its next start. All of this runs on one thread, which owns the connection.
"""

from __future__ import annotations

import fcntl
import logging
import math
import sqlite3
import sys
import zlib
from array import array
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, Final

from kavka.console.history.series import (
    PAGE,
    RAW,
    TIERS,
    TOPIC_OF_GROUP,
    Aggregate,
    Key,
    Tier,
    aggregate_of,
    merged,
    pages_of,
)

log = logging.getLogger(__name__)

_VERSION: Final = 1
_SCHEMA: Final = """
create table about (name text primary key, value text not null);
create table series (
    number integer primary key, kind text not null, name text not null, metric text not null, seen integer not null,
    unique (kind, name, metric));
create table rows (
    tier integer not null, page integer not null, at integer not null, data blob not null,
    primary key (tier, page, at)) without rowid;
create table alert_states (
    rule text not null, subject text not null, state text not null, primary key (rule, subject)) without rowid;
create table alert_events (
    number integer primary key, at integer not null, incident text not null, event text not null,
    document text not null);
create index alert_events_by_incident on alert_events (incident);
create table deliveries (
    number integer primary key, channel text not null, key text not null, document text not null, made integer not null,
    attempts integer not null, due integer not null, state text not null, reason text not null);
create table silences (id text primary key, document text not null, until integer not null);
"""
_FORGET_SERIES_S: Final = 31 * 86_400
_SEEN_EVERY_S: Final = 3600
_FIRST_OF_TOPICS: Final = 4096 * PAGE
"""The first number of a series of a group in a topic."""
_SHARE_OF_TOPICS: Final = 5
"""Such series have at most one part of so many of the rows' bytes in a file that has reached its bound."""


class _Numbers:
    """The numbers that some kinds of series have, from `first` on: dense, and no more than `most` series."""

    def __init__(self, first: int, most: int) -> None:
        self.first, self.most = first, most
        self.count = self._end = 0
        self._free: list[int] = []

    def use(self, count: int, used: set[int]) -> None:
        """Begin with so many series, and with the numbers of this range that are in use."""
        self.count = count
        self._end = max(used, default=self.first - 1) + 1
        self._free = [number for number in range(self.first, self._end) if number not in used]

    def take(self) -> int | None:
        """Return the number of one more series, None where there is no room."""
        if self.count >= self.most:
            return None
        self.count += 1
        if self._free:
            return self._free.pop()
        self._end += 1
        return self._end - 1

    @property
    def pages(self) -> range:
        """The pages that have a series."""
        return range(self.first // PAGE, -(-self._end // PAGE))


class HistoryError(Exception):
    """The file cannot be used; the sentence says why, and what to do."""


class HistoryFile:
    """The file, or a history in memory without a path. Not safe for several threads."""

    def __init__(
        self,
        path: Path | None,
        most_bytes: int,
        most_series: int,
        most_of_topics: int | None = None,
    ) -> None:
        """Open the file, and make it if it is not there. Raise HistoryError.

        Series of a group in a topic are not among `most_series`: they are `most_of_topics`, half as many by default.
        """
        self.path = path
        self._most_bytes = most_bytes
        of_topics = most_series // 2 if most_of_topics is None else most_of_topics
        self._own, self._of_topics = _Numbers(0, most_series), _Numbers(_FIRST_OF_TOPICS, of_topics)
        self._lock: IO[str] | None = None if path is None else _locked(path)
        try:
            self.connection = _connected(path)
        except BaseException:
            self._unlock()
            raise
        self._numbers: dict[Key, int] = {}
        self._seen: dict[Key, int] = {}
        try:
            known = self.connection.execute(
                "select number, kind, name, metric, seen from series"
            ).fetchall()
        except sqlite3.Error as error:
            self.close()
            raise _unusable(path, error) from error
        for number, kind, name, metric, seen in known:
            self._numbers[Key(kind, name, metric)] = number
            self._seen[Key(kind, name, metric)] = seen
        self._find_free()
        self._is_damaged = False
        self.left_out = self.left_out_of_topics = 0
        """Series that the last sample had no room for: of a group in a topic, and others."""

    def close(self) -> None:
        """Close the file."""
        self.connection.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

    # The cluster

    def is_of_cluster(self, cluster_id: str) -> bool:
        """Return whether the history is of this cluster; the first one that is asked about is it."""
        with self.connection as database:
            database.execute("insert or ignore into about values ('cluster', ?)", (cluster_id,))
            found = database.execute("select value from about where name = 'cluster'").fetchone()
        return bool(found[0] == cluster_id)

    # Writing

    def add(self, at_s: int, values: Mapping[Key, float]) -> None:
        """Keep a sample, make rows of the longer steps that are over, and remove what is too old."""
        at_s = at_s // RAW.step_s * RAW.step_s
        with self.connection:
            numbered = self._numbered(at_s, values)
            self._note_topics_of_groups(at_s, values)
            for page, row in pages_of(numbered).items():
                self._put(RAW, page, at_s, row)
        self.tidy(at_s)

    def _note_topics_of_groups(self, at_s: int, values: Mapping[Key, float]) -> None:
        """Note the time from which on each topic that a group has committed in has a series."""
        is_whole = all(
            key in self._numbers
            for key in values
            if self.left_out_of_topics and key.kind == TOPIC_OF_GROUP
        )
        if is_whole:  # the first sample of a new file has nothing before it that is unknown
            self.connection.execute(
                "insert or ignore into about select 'topics of groups', "
                "case when exists (select 1 from rows) then ? else '0' end",
                (str(at_s),),
            )
        else:
            self.connection.execute(
                "insert or replace into about values ('topics of groups', ?)", (str(at_s + 1),)
            )

    def topics_of_group(self, group: str) -> tuple[set[str], int]:
        """Return the topics in which a group has committed since a time, and that time; 0 where it is all the time."""
        topics = {
            key.name.partition("/")[0]
            for key in self._numbers
            if key.kind == TOPIC_OF_GROUP and key.name.partition("/")[2] == group
        }
        row = self.connection.execute(
            "select value from about where name = 'topics of groups'"
        ).fetchone()
        since_s = sys.maxsize if row is None else int(row[0])
        return topics, since_s if self._oldest() < since_s else 0

    def _oldest(self) -> float:
        """Return the time of the oldest row."""
        found = [
            self.connection.execute(
                "select min(at) from rows where tier = ? and page = ?", (tier.number, page)
            ).fetchone()[0]
            for tier in TIERS
            for page in self._pages()
        ]
        return min((at for at in found if at is not None), default=math.inf)

    def tidy(self, now_s: int) -> None:
        """Make the rows of longer steps, and remove what is too old or too much."""
        with self.connection:
            for finer, coarser in pairwise(TIERS):
                self._roll_up(finer, coarser, now_s)
            for tier in TIERS:
                for page in self._pages():
                    self.connection.execute(
                        "delete from rows where tier = ? and page = ? and at < ?",
                        (tier.number, page, now_s - tier.kept_s),
                    )
        self._shrink()

    def _numbered(self, at_s: int, values: Mapping[Key, float]) -> dict[int, float]:
        found: dict[int, float] = {}
        self.left_out = self.left_out_of_topics = 0
        if any(key not in self._numbers for key in values):
            self._forget_old(at_s)
        for key, value in values.items():
            number = self._numbers.get(key)
            if number is None:
                number = self._new_number(key, at_s)
            if number is None:
                if key.kind == TOPIC_OF_GROUP:
                    self.left_out_of_topics += 1
                else:
                    self.left_out += 1
                continue
            if at_s - self._seen[key] >= _SEEN_EVERY_S:
                self._seen[key] = at_s
                self.connection.execute(
                    "update series set seen = ? where number = ?", (at_s, number)
                )
            found[number] = value
        return found

    def _new_number(self, key: Key, at_s: int) -> int | None:
        number = (self._of_topics if key.kind == TOPIC_OF_GROUP else self._own).take()
        if number is None:
            return None
        self._numbers[key], self._seen[key] = number, at_s
        self.connection.execute("insert into series values (?, ?, ?, ?, ?)", (number, *key, at_s))
        return number

    def _forget_old(self, at_s: int) -> None:
        """Let numbers be used again whose rows are all gone."""
        gone = [key for key, seen in self._seen.items() if at_s - seen > _FORGET_SERIES_S]
        for key in gone:
            self.connection.execute(
                "delete from series where number = ?", (self._numbers.pop(key),)
            )
            del self._seen[key]
        if gone:
            self._find_free()

    def _find_free(self) -> None:
        """Find the unused numbers below the highest, so that numbers stay dense."""
        used = set(self._numbers.values())
        of_topics = sum(key.kind == TOPIC_OF_GROUP for key in self._numbers)
        self._own.use(len(used) - of_topics, {n for n in used if n < _FIRST_OF_TOPICS})
        self._of_topics.use(of_topics, {n for n in used if n >= _FIRST_OF_TOPICS})

    def _put(self, tier: Tier, page: int, at_s: int, row: array[float]) -> None:
        self.connection.execute(
            "insert or replace into rows values (?, ?, ?, ?)",
            (tier.number, page, at_s, zlib.compress(row.tobytes(), 1)),
        )

    def _pages(self) -> list[int]:
        return [*self._own.pages, *self._of_topics.pages]

    def _roll_up(self, finer: Tier, coarser: Tier, now_s: int) -> None:
        """Make rows of each step of the coarser tier that is over, from the finer one."""
        over_s = now_s // coarser.step_s * coarser.step_s
        for page in self._pages():
            # Later rows are of a clock that was set back since; they must not keep others from being made.
            [last] = self.connection.execute(
                "select max(at) from rows where tier = ? and page = ? and at < ?",
                (coarser.number, page, over_s),
            ).fetchone()
            begin = 0 if last is None else last + coarser.step_s
            if begin >= over_s:
                continue
            steps: dict[int, list[array[float]]] = {}
            for at_s, row in self._read(finer, page, begin, over_s - 1):
                steps.setdefault(at_s // coarser.step_s * coarser.step_s, []).append(row)
            if steps:
                aggregates = self._aggregates(page)
                for at_s, rows in steps.items():
                    self._put(coarser, page, at_s, merged(rows, aggregates))

    def _aggregates(self, page: int) -> list[Aggregate]:
        by_number = {number: key for key, number in self._numbers.items() if number // PAGE == page}
        return [
            aggregate_of(by_number[number]) if number in by_number else "max"
            for number in range(page * PAGE, (page + 1) * PAGE)
        ]

    # Bounds

    def used_bytes(self) -> int:
        """Return the bytes of the file that are in use."""
        [size], [pages], [unused] = (
            self.connection.execute(f"pragma {name}").fetchone()
            for name in ("page_size", "page_count", "freelist_count")
        )
        return int(size * (pages - unused))

    def _shrink(self) -> None:
        """Remove the oldest twentieth of the rows of each tier while there is too much."""
        removed = False
        while self.used_bytes() > self._most_bytes and self._cut():
            removed = True
        if removed:
            log.warning(
                "history cut path=%s bytes=%d reason=it reached its bound, the oldest samples were removed",
                self.path,
                self._most_bytes,
            )
        self.connection.execute("pragma incremental_vacuum(1000)").fetchall()

    def _cut(self) -> bool:
        """Remove the oldest twentieth of the rows of each tier; False where there is nothing to remove.

        The series of groups in topics lose theirs first while they have more than their share, so that they do not
        shorten the history of others.
        """
        with self.connection as database:
            total, of_topics = database.execute(
                "select total(length(data)), total(length(data) * (page >= ?)) from rows",
                (_FIRST_OF_TOPICS // PAGE,),
            ).fetchone()
            before = database.total_changes
            if of_topics * _SHARE_OF_TOPICS > total:
                self._cut_pages(_FIRST_OF_TOPICS // PAGE)
            if database.total_changes == before:
                self._cut_pages(0)
            return database.total_changes > before

    def _cut_pages(self, first_page: int) -> None:
        for tier in TIERS:
            first, last = self.connection.execute(
                "select min(at), max(at) from rows where tier = ? and page >= ?",
                (tier.number, first_page),
            ).fetchone()
            if first is not None and first < last:
                self.connection.execute(
                    "delete from rows where tier = ? and page >= ? and at <= ?",
                    (tier.number, first_page, first + (last - first) // 20),
                )

    # Reading

    def _read(
        self, tier: Tier, page: int, from_s: int, until_s: int
    ) -> Iterable[tuple[int, array[float]]]:
        for at_s, data in self.connection.execute(
            "select at, data from rows where tier = ? and page = ? and at between ? and ? order by at",
            (tier.number, page, from_s, until_s),
        ).fetchall():
            row = self._row(data)
            if row is not None:
                yield at_s, row

    def _row(self, data: bytes) -> array[float] | None:
        """Return the values of a row, None for one that is damaged: it is a gap."""
        row = array("f")
        with suppress(TypeError, ValueError, zlib.error):
            row.frombytes(zlib.decompress(data))
        if len(row) == PAGE:
            return row
        if not self._is_damaged:
            log.error("rows of the history are damaged, charts have gaps there path=%s", self.path)
        self._is_damaged = True
        return None

    def points(
        self, keys: Iterable[Key], tier: Tier, from_s: int, until_s: int
    ) -> dict[Key, list[tuple[int, float]]]:
        """Return the points of series, from old to new; none for a series that is not known.

        A longer step that is not over has no row yet: its points are those of the finer steps.
        """
        found: dict[Key, list[tuple[int, float]]] = {key: [] for key in keys}
        by_page: dict[int, list[tuple[Key, int]]] = {}
        for key in found:
            number = self._numbers.get(key)
            if number is not None:
                page, place = divmod(number, PAGE)
                by_page.setdefault(page, []).append((key, place))
        for page, wanted in by_page.items():
            begin = from_s
            for one in TIERS[tier.number :: -1]:
                for at_s, row in self._read(one, page, begin, until_s):
                    begin = at_s + one.step_s
                    for key, place in wanted:
                        found[key].append((at_s, row[place]))
        return found


def _locked(path: Path) -> IO[str]:
    """Return the open file that says that a console uses this history. Raise HistoryError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # It is never removed: another console might hold the one that is removed.
        lock = path.with_name(path.name + ".lock").open("w", encoding="ascii")
    except OSError as error:
        raise HistoryError(
            f"the history {path} cannot be kept: {error.strerror or error}. Choose another file with --history, or "
            "keep it in memory with --history none"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise HistoryError(
            f"another console keeps its history in {path}. Choose another file with --history, or keep it in memory "
            "with --history none"
        ) from error
    return lock


def _connected(path: Path | None) -> sqlite3.Connection:
    try:
        made = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
        if path is not None:
            path.chmod(0o600)
        [version] = made.execute("pragma user_version").fetchone()
        if version == 0:
            made.execute("pragma auto_vacuum = incremental")
            made.executescript(f"begin;{_SCHEMA}pragma user_version = {_VERSION};commit;")
        elif version != _VERSION:
            raise HistoryError(
                f"the history {path} was written by another release of kavka (version {version}, this one has "
                f"{_VERSION}). Choose another file with --history"
            )
        made.execute("pragma journal_mode = wal")
        made.execute("pragma synchronous = normal")
        made.execute("pragma busy_timeout = 5000")
        return made
    except (sqlite3.Error, OSError) as error:
        raise _unusable(path, error) from error


def _unusable(path: Path | None, error: Exception) -> HistoryError:
    return HistoryError(
        f"the history {path} cannot be opened: {error}. Move the file away, or choose another with --history"
    )
