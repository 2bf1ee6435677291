"""The settings of one log. The broker fills them from the topic's and replaces them live."""

from __future__ import annotations

from kavka.values import frozen

NEVER = 2**63 - 1


@frozen
class LogConfig:
    """Kafka's topic settings that storage obeys, with Kafka's defaults; -1 in a retention means no limit."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 << 20
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    file_delete_delay_ms: int = 60_000
    max_message_bytes: int = 1_048_588
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
    delete_retention_ms: int = 24 * 3600 * 1000

    @property
    def is_compacted(self) -> bool:
        """Return whether the cleaner keeps the last value of each key."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Return whether retention by time and size applies."""
        return "delete" in self.cleanup_policy

    @property
    def has_max_compaction_lag(self) -> bool:
        """Return whether a record must be compacted after some time, however clean the log is."""
        return self.max_compaction_lag_ms < NEVER
