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
        "True runs the log cleaner, which compacts topics with cleanup.policy=compact, among them "
        "__consumer_offsets. False lets these topics grow without limit.",
    ),
    Setting(
        "log.cleaner.threads",
        _T.INT,
        1,
        "Maximum number of logs that are compacted at the same time.",
        minimum=0,
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.io.max.bytes.per.second",
        _T.DOUBLE,
        1.7976931348623157e308,
        "Maximum bytes per second that all compactions together read and write.",
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.dedupe.buffer.size",
        _T.LONG,
        134_217_728,
        "Maximum memory in bytes of the key maps of all compactions together; a key takes 24 bytes. A log with more "
        "keys is compacted in several passes.",
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.io.buffer.size",
        _T.INT,
        524_288,
        "Memory in bytes of the read and write buffers of all compactions together.",
        minimum=0,
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.io.buffer.load.factor",
        _T.DOUBLE,
        0.9,
        "Share of a key map that may be filled, 0.1 to 0.99: with a higher one a pass takes more keys, and lookups "
        "are slower.",
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.backoff.ms",
        _T.LONG,
        15_000,
        "Wait of the cleaner in milliseconds after it found no log to compact.",
        minimum=0,
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.delete.retention.ms",
        _T.LONG,
        86_400_000,
        "Time in milliseconds for which compaction keeps tombstones, and markers of transactions without remaining "
        "records: consumers that take longer to read a topic may miss deletions. Default of delete.retention.ms.",
        minimum=0,
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.min.cleanable.ratio",
        _T.DOUBLE,
        0.5,
        "Share of a log, 0 to 1, that must be new since its last compaction before it is compacted again. Default "
        "of min.cleanable.dirty.ratio.",
        minimum=0,
        maximum=1,
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.min.compaction.lag.ms",
        _T.LONG,
        0,
        "Age in milliseconds before which a record is not compacted away. Default of min.compaction.lag.ms.",
        minimum=0,
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.max.compaction.lag.ms",
        _T.LONG,
        LONG_MAX,
        "Age in milliseconds of a record after which its log is compacted whatever log.cleaner.min.cleanable.ratio "
        "says. Default of max.compaction.lag.ms.",
        minimum=1,
        scope=_DYNAMIC,
    ),
]
