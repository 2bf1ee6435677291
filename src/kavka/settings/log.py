"""Broker settings of logs: mostly the defaults of topics' settings."""

from __future__ import annotations

from kavka.settings.declaration import LONG_MAX, Scope, Setting, ValueType
from kavka.settings.topic import gzip_level_fault

_T = ValueType
_ANYWHERE = Scope.CLUSTER_WIDE

LOG_SETTINGS: list[Setting] = [
    Setting(
        "log.cleanup.policy",
        _T.LIST,
        ["delete"],
        "Default of cleanup.policy of topics: delete old segments, compact, or both.",
        choices=("compact", "delete"),
        scope=_ANYWHERE,
    ),
    Setting(
        "compression.type",
        _T.STRING,
        "producer",
        "Default of compression.type of topics: codec with which batches are stored.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        scope=_ANYWHERE,
    ),
    Setting(
        "compression.gzip.level",
        _T.INT,
        -1,
        "Default of compression.gzip.level of topics: 1 to 9, or -1 for the library's default.",
        check=gzip_level_fault,
        scope=_ANYWHERE,
    ),
    Setting(
        "compression.lz4.level",
        _T.INT,
        9,
        "Default of compression.lz4.level of topics: higher is smaller and slower.",
        minimum=1,
        maximum=17,
        scope=_ANYWHERE,
    ),
    Setting(
        "compression.zstd.level",
        _T.INT,
        3,
        "Default of compression.zstd.level of topics: higher is smaller and slower.",
        minimum=-131072,
        maximum=22,
        scope=_ANYWHERE,
    ),
    Setting(
        "log.segment.bytes",
        _T.INT,
        1_073_741_824,
        "Default of segment.bytes of topics: size in bytes at which a segment is rolled.",
        minimum=14,
        scope=_ANYWHERE,
    ),
    Setting(
        "log.roll.ms",
        _T.LONG,
        None,
        "Default of segment.ms of topics: age in milliseconds at which a segment is rolled. Unset: log.roll.hours.",
        minimum=1,
        scope=_ANYWHERE,
    ),
    Setting(
        "log.roll.hours",
        _T.INT,
        168,
        "Default of segment.ms of topics, in hours, when log.roll.ms is not set.",
        minimum=1,
    ),
    Setting(
        "log.roll.jitter.ms",
        _T.LONG,
        None,
        "Default of segment.jitter.ms of topics: maximum milliseconds taken off segment.ms at random. Unset: "
        "log.roll.jitter.hours.",
        minimum=0,
        scope=_ANYWHERE,
    ),
    Setting(
        "log.roll.jitter.hours",
        _T.INT,
        0,
        "Default of segment.jitter.ms of topics, in hours, when log.roll.jitter.ms is not set.",
        minimum=0,
    ),
    Setting(
        "log.retention.ms",
        _T.LONG,
        None,
        "Default of retention.ms of topics: age in milliseconds at which segments are deleted, -1 for never. Unset: "
        "log.retention.minutes.",
        scope=_ANYWHERE,
    ),
    Setting(
        "log.retention.minutes",
        _T.INT,
        None,
        "Default of retention.ms of topics, in minutes, when log.retention.ms is not set. Unset: log.retention.hours.",
    ),
    Setting(
        "log.retention.hours",
        _T.INT,
        168,
        "Default of retention.ms of topics, in hours, when neither log.retention.ms nor log.retention.minutes is set.",
    ),
    Setting(
        "log.retention.bytes",
        _T.LONG,
        -1,
        "Default of retention.bytes of topics: size in bytes of each partition above which its oldest segments are "
        "deleted, -1 for no limit.",
        scope=_ANYWHERE,
    ),
    Setting(
        "log.retention.check.interval.ms",
        _T.LONG,
        300_000,
        "Interval in milliseconds at which segments beyond their retention are deleted.",
        minimum=1,
    ),
    Setting(
        "log.index.size.max.bytes",
        _T.INT,
        10_485_760,
        "Default of segment.index.bytes of topics: size in bytes of an index at which its segment is rolled.",
        minimum=4,
        scope=_ANYWHERE,
    ),
    Setting(
        "log.index.interval.bytes",
        _T.INT,
        4_096,
        "Default of index.interval.bytes of topics: bytes of log between two index entries.",
        minimum=0,
        scope=_ANYWHERE,
    ),
    Setting(
        "log.flush.interval.messages",
        _T.LONG,
        LONG_MAX,
        "Default of flush.messages of topics: number of records after which a log is flushed.",
        minimum=1,
        scope=_ANYWHERE,
    ),
    Setting(
        "log.flush.interval.ms",
        _T.LONG,
        None,
        "Default of flush.ms of topics: maximum time in milliseconds before a record is flushed. Unset: "
        "log.flush.scheduler.interval.ms.",
        scope=_ANYWHERE,
    ),
    Setting(
        "log.flush.scheduler.interval.ms",
        _T.LONG,
        LONG_MAX,
        "Interval in milliseconds at which logs whose flush.ms is over are flushed, at least every second; also the "
        "default of log.flush.interval.ms.",
    ),
    Setting(
        "log.flush.offset.checkpoint.interval.ms",
        _T.INT,
        60_000,
        "Interval in milliseconds at which recovery points are written: after a crash, logs are checked from there on.",
        minimum=0,
    ),
    Setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        _T.INT,
        60_000,
        "Interval in milliseconds at which log start offsets are written, so that deleted records stay deleted "
        "after a crash.",
        minimum=0,
    ),
    Setting(
        "log.segment.delete.delay.ms",
        _T.LONG,
        60_000,
        "Default of file.delete.delay.ms of topics: milliseconds between the deletion of a segment and that of its "
        "files.",
        minimum=0,
        scope=_ANYWHERE,
    ),
    Setting(
        "log.message.timestamp.type",
        _T.STRING,
        "CreateTime",
        "Default of message.timestamp.type of topics: CreateTime of the producer, or LogAppendTime of the broker.",
        choices=("CreateTime", "LogAppendTime"),
        scope=_ANYWHERE,
    ),
    Setting(
        "log.message.timestamp.before.max.ms",
        _T.LONG,
        LONG_MAX,
        "Default of message.timestamp.before.max.ms of topics: milliseconds by which a record may be older than the "
        "broker's clock.",
        minimum=0,
        scope=_ANYWHERE,
    ),
    Setting(
        "log.message.timestamp.after.max.ms",
        _T.LONG,
        LONG_MAX,
        "Default of message.timestamp.after.max.ms of topics: milliseconds by which a record may be newer than the "
        "broker's clock.",
        minimum=0,
        scope=_ANYWHERE,
    ),
    Setting(
        "log.message.timestamp.difference.max.ms",
        _T.LONG,
        LONG_MAX,
        "Deprecated. Default of message.timestamp.difference.max.ms of topics; use "
        "log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms.",
        minimum=0,
        scope=_ANYWHERE,
    ),
    Setting(
        "replica.high.watermark.checkpoint.interval.ms",
        _T.LONG,
        5_000,
        "Interval in milliseconds at which high watermarks are written.",
    ),
]
