"""The log cleaner, by the names of Kafka's LogCleaner and LogCleanerManager."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kavka.broker.metrics.sources import MetricsSources
from kavka.broker.partitions.cleaner import CleanerCounts
from kavka.ids import TopicPartition
from kavka.metrics.families import Family, counter, gauge, labelled

_CLEANER = "kafka_log_logcleaner_"
_MANAGER = "kafka_log_logcleanermanager_"


def families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the families; zeros where the cleaner is off, or has not begun."""
    cleaner = sources.cleaner.made
    counts = CleanerCounts() if cleaner is None else cleaner.counts
    help = "Share of the room for keys that the last pass used, in percent."
    yield gauge(f"{_CLEANER}max_buffer_utilization_percent", help, counts.map_use_percent)
    help = "Share of the bytes that were rewritten which the last pass kept, in percent."
    yield gauge(f"{_CLEANER}cleaner_recopy_percent", help, counts.recopy_percent)
    help = "How long the last pass took, in seconds."
    yield gauge(f"{_CLEANER}max_clean_time_secs", help, counts.last_pass_ms / 1000)
    help = "How long the oldest dirty record is beyond max.compaction.lag.ms, in seconds."
    yield gauge(f"{_CLEANER}max_compaction_delay_secs", help, counts.max_compaction_delay_ms / 1000)
    yield gauge(f"{_CLEANER}deadthreadcount", "Cleaners that have ended: none does.", 0)
    help = "Share of the dirtiest log that is dirty, in percent."
    yield gauge(f"{_MANAGER}max_dirty_percent", help, counts.max_dirty_percent)
    help = "Milliseconds since logs were looked at."
    since_ms = 0 if cleaner is None else sources.context.clock.tick_ms() - counts.last_round_ms
    yield gauge(f"{_MANAGER}time_since_last_run_ms", help, since_ms)
    yield from _uncleanable(sources, () if cleaner is None else cleaner.uncleanable)
    help = "Bytes that the cleaner has read and written."
    moved = counts.read_bytes + counts.written_bytes
    yield counter("kafka_utils_throttler_cleaner_io_total", help, moved)
    yield counter("kavka_cleaner_passes_total", "Logs that were cleaned.", counts.passes)


def _uncleanable(
    sources: MetricsSources, uncleanable: Iterable[TopicPartition]
) -> Iterator[Family]:
    logs = Counter[str]()
    sizes = Counter[str]()
    for topic_partition in uncleanable:
        found = sources.replica_manager.store.get(topic_partition)
        if found is not None:
            logs[found.directory.path] += 1
            sizes[found.directory.path] += found.size
    paths = [directory.path for directory in sources.replica_manager.store.directories]
    for name, help, counted in (
        ("partitions_count", "Logs that cannot be cleaned, because a batch is damaged.", logs),
        ("bytes", "Bytes of logs that cannot be cleaned.", sizes),
    ):
        rows = [(labelled(logdirectory=path), counted[path]) for path in paths]
        yield gauge(f"{_MANAGER}uncleanable_{name}", help, rows)
