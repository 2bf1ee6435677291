"""Values that are sampled every ten seconds: a scrape must not wait for a disk, and ages need a look before.

A log knows where an open transaction begins but not when it began, so its age counts from the first look that found it:
it is right within ten seconds, and begins again with the broker.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping

from kavka.ids import TopicPartition
from kavka.metrics.families import Family, Sample, gauge, labelled
from kavka.storage.directory.log_directory import LogDirectory

log = logging.getLogger(__name__)


class OpenTransactions:
    """The times since when transactions are known to be open, by partition and first offset."""

    def __init__(self) -> None:
        """Begin without any."""
        self._since_ms: dict[TopicPartition, dict[int, int]] = {}

    def turn(
        self, now_ms: int, open_offsets: Iterable[tuple[TopicPartition, Collection[int]]]
    ) -> None:
        """Take the first offsets of the transactions that are open now, by partition."""
        before, self._since_ms = self._since_ms, {}
        for topic_partition, offsets in open_offsets:
            if offsets:
                known = before.get(topic_partition, {})
                self._since_ms[topic_partition] = {o: known.get(o, now_ms) for o in offsets}

    def late(self, now_ms: int, limit_ms: int) -> int:
        """Return how many partitions have one that is open for longer than `limit_ms`."""
        return sum(
            now_ms - min(since.values()) > limit_ms for since in self._since_ms.values() if since
        )


class Samples:
    """The space of log directories, and the transactions that are open."""

    def __init__(self) -> None:
        """Begin without any."""
        self.transactions = OpenTransactions()
        self._space: Mapping[str, tuple[int, int]] = {}

    async def read_space(self, directories: Iterable[LogDirectory]) -> None:
        """Read total and usable bytes of the file systems, on the disks' threads."""
        space = {}
        for directory in directories:
            if directory.failure is not None:
                continue
            try:
                space[directory.path] = await directory.disk.run(
                    directory.disk.usage, directory.path
                )
            except OSError as error:  # whether the directory has failed is decided by its writes
                log.info(
                    "space of a log directory not read path=%s reason=%s", directory.path, error
                )
        self._space = space

    def families(self) -> Iterator[Family]:
        """Yield the families of directories."""
        for place, name, help in (
            (0, "total", "Bytes of the file system of a log directory."),
            (1, "usable", "Bytes of that file system that are free for the broker."),
        ):
            samples: list[Sample] = [
                (labelled(logDirectory=path), sizes[place])
                for path, sizes in sorted(self._space.items())
            ]
            yield gauge(f"kavka_log_directory_{name}_bytes", help, samples)
