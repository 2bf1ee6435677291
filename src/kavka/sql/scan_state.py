"""State that the scans of one statement share: the topics' ends, counts for warnings and progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kavka.ids import TopicPartition
from kavka.sql.bounds import Interval, Predicate
from kavka.sql.brokers import Brokers, OffsetRange, RangesReader
from kavka.sql.errors import RecordsLost, UndecodableValue
from kavka.wire.records.columns import Columns


class Scan(NamedTuple):
    """A scan that a statement has begun."""

    topic: str
    predicates: list[Predicate]
    starts_by_time: Callable[[Mapping[TopicPartition, Interval]], dict[TopicPartition, int]]
    """Gives the first offset that is young enough."""


Feed = list[tuple[TopicPartition, Columns]]
"""Records that a statement reads in place of those in the topic."""


class ScanState:
    """The state of one statement. Scans of it run in several threads."""

    def __init__(
        self, brokers: Brokers, *, is_strict: bool = False, feed: Feed | None = None
    ) -> None:
        """With `is_strict`, a value that cannot be decoded and a record that is gone end the statement."""
        self._brokers = brokers
        self._is_strict = is_strict
        self.feed = feed
        self.scans: list[Scan] = []
        self._lock = threading.Lock()
        self._bounds: dict[TopicPartition, OffsetRange] = {}
        self._losses: dict[str, None] = {}
        self._bad: dict[str, int] = {}
        self._bad_before: dict[str, int] = {}
        self._example: dict[str, str] = {}
        self.offsets_total = 0
        self.offsets_done = 0
        self.failure: BaseException | None = None
        """The error that ended a scan: the engine repeats only its text."""
        self.is_cancelled = False
        self._readers: list[RangesReader] = []

    def add_reader(self, reader: RangesReader) -> None:
        """Register the reader of a scan, for `cancel`."""
        with self._lock:
            self._readers.append(reader)

    def forget(self, reader: RangesReader) -> None:
        """Unregister the reader of a scan that has ended."""
        with self._lock:
            self._readers.remove(reader)

    def cancel(self) -> None:
        """End all scans, those that wait for a broker, too. Any thread may call it."""
        with self._lock:
            self.is_cancelled = True
            readers = list(self._readers)
        for reader in readers:
            reader.cancel()

    def bounds(self, partitions: Iterable[TopicPartition]) -> list[OffsetRange]:
        """Return where partitions begin and end, the same for all scans of the statement."""
        places = list(partitions)
        with self._lock:
            missing = [place for place in places if place not in self._bounds]
            if missing:
                read_bounds = self._brokers.bounds(missing)
                self._bounds.update((one.topic_partition, one) for one in read_bounds)
            return [self._bounds[place] for place in places]

    def add_range(self, count: int) -> None:
        """Add offsets that a scan will read."""
        with self._lock:
            self.offsets_total += count

    def add_done(self, count: int) -> None:
        """Add offsets that a scan has read."""
        with self._lock:
            self.offsets_done += count

    def on_loss(self, sentence: str) -> None:
        """Record that records were lost; `sentence` is the warning. Raise RecordsLost when strict."""
        if self._is_strict:
            raise RecordsLost(f"Records were removed meanwhile: {sentence}.")
        with self._lock:
            self._losses[sentence] = None

    def on_bad(
        self, topic_partition: TopicPartition, offset: int, reason: str, count_so_far: int
    ) -> None:
        """Count a value that could not be decoded. Raise UndecodableValue when strict.

        `count_so_far` is the number of them in one scan of the topic: of several scans the largest counts.
        """
        if self._is_strict:
            raise UndecodableValue(topic_partition, offset, reason)
        with self._lock:
            self._bad[topic_partition.topic] = max(
                self._bad.get(topic_partition.topic, 0), count_so_far
            )
            self._example.setdefault(
                topic_partition.topic, f"{topic_partition} at offset {offset}: {reason}"
            )

    def add_counts(self, before: ScanState) -> None:
        """Continue the counts of the piece before, of a statement that runs piece by piece."""
        self._losses.update(before._losses)
        self._example.update(before._example)
        self._bad_before = before.bad_counts()

    def bad_counts(self) -> dict[str, int]:
        """Return how many values could not be decoded, by topic."""
        topics = dict.fromkeys([*self._bad_before, *self._bad])
        return {topic: self._bad_before.get(topic, 0) + self._bad.get(topic, 0) for topic in topics}

    def warnings(self) -> list[str]:
        """Return sentences about what the rows lack."""
        sentences = [f"Records were removed meanwhile: {sentence}." for sentence in self._losses]
        for topic, count in self.bad_counts().items():
            values = "1 value" if count == 1 else f"{count:,} values"
            sentences.append(
                f"{values} of {topic} could not be decoded and became null, the first of {self._example[topic]} "
                "(--strict ends at the first)."
            )
        return sentences
