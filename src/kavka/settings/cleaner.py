"""Broker settings of the log cleaner, and the defaults of topics for it."""

from __future__ import annotations

from kavka.settings.declaration import LONG_MAX, Scope, Setting, ValueType

_T = ValueType
_DYNAMIC = Scope.CLUSTER_WIDE

CLEANER_SETTINGS: list[Setting] = [
    Setting(
        "log.cleaner.enable",
        _T.BOOLEAN,
        True,
        "True runs the log cleaner, which compacts topics with cleanup.policy=compact, __consumer_offsets among them.",
    ),
    Setting(
        "log.cleaner.threads",
        _T.INT,
        1,
        "Maximum number of logs that are compacted at once.",
        minimum=0,
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.io.max.bytes.per.second",
        _T.DOUBLE,
        1.7976931348623157e308,
        "Maximum bytes per second that all compaction together reads and writes.",
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.dedupe.buffer.size",
        _T.LONG,
        134_217_728,
        "Maximum bytes of the key maps of all logs that are compacted concurrently; a key takes 24.",
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.io.buffer.size",
        _T.INT,
        524_288,
        "Bytes for reading and writing of all logs that are compacted at once.",
        minimum=0,
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.io.buffer.load.factor",
        _T.DOUBLE,
        0.9,
        "Load factor of the map of keys: a higher one is slower and cleans more in one pass.",
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.backoff.ms",
        _T.LONG,
        15_000,
        "Sleep time of the cleaner when there are no logs to clean.",
        minimum=0,
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.delete.retention.ms",
        _T.LONG,
        86_400_000,
        "Retention of tombstones, and of markers whose transaction has no records left.",
        minimum=0,
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.min.cleanable.ratio",
        _T.DOUBLE,
        0.5,
        "The share of a log that must be dirty before it is compacted.",
        minimum=0,
        maximum=1,
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.min.compaction.lag.ms",
        _T.LONG,
        0,
        "A record is not compacted before so long.",
        minimum=0,
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.max.compaction.lag.ms",
        _T.LONG,
        LONG_MAX,
        "A record is compacted at the latest after so long, however clean its log is.",
        minimum=1,
        scope=_DYNAMIC,
    ),
]
