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
        "Whether topics with cleanup.policy=compact are compacted; __consumer_offsets is one.",
    ),
    Setting(
        "log.cleaner.threads",
        _T.INT,
        1,
        "How many logs are compacted at once.",
        minimum=0,
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.io.max.bytes.per.second",
        _T.DOUBLE,
        1.7976931348623157e308,
        "How many bytes all compaction together reads and writes a second.",
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.dedupe.buffer.size",
        _T.LONG,
        134_217_728,
        "Bytes for the maps of keys of all logs that are compacted at once; a key takes 24. A map is only as large as"
        " its log needs, and gone with its pass.",
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
        "How full a map of keys may become: a fuller one is slower and cleans more in one pass.",
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.backoff.ms",
        _T.LONG,
        15_000,
        "How long to wait before logs are looked at again, when there was nothing to compact.",
        minimum=0,
        scope=_DYNAMIC,
    ),
    Setting(
        "log.cleaner.delete.retention.ms",
        _T.LONG,
        86_400_000,
        "How long tombstones, and markers of transactions of which nothing is left, stay readable.",
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
