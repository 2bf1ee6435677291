"""Topic settings of Kafka 3.9, with the broker settings that give their defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kavka.settings.declaration import LONG_MAX, Catalogue, Setting, Value, ValueType
from kavka.settings.releases import release_fault

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


def _throttled_replicas(value: Value) -> str | None:
    assert isinstance(value, list)
    if "".join(value) == "*" or all(_REPLICA.fullmatch(item) for item in value):
        return None
    return "Must be the literal '*' or a list of [partitionId]:[brokerId]"


def gzip_level_fault(value: Value) -> str | None:
    """Return why gzip does not have this level, None when it has."""
    assert isinstance(value, int)
    return (
        None if value == -1 or 1 <= value <= 9 else "Value must be between 1 and 9 or equal to -1"
    )


_T = ValueType

TOPIC_SETTINGS = Catalogue(
    [
        Setting(
            "cleanup.policy",
            _T.LIST,
            ["delete"],
            "Retention policy of old segments: delete, compact, or both.",
            choices=("compact", "delete"),
            synonym="log.cleanup.policy",
        ),
        Setting(
            "compression.gzip.level",
            _T.INT,
            -1,
            "Level of gzip when the broker compresses: 1 to 9, -1 for the library's default.",
            check=gzip_level_fault,
            synonym="compression.gzip.level",
        ),
        Setting(
            "compression.lz4.level",
            _T.INT,
            9,
            "Level of lz4 when the broker compresses: 1 to 17.",
            minimum=1,
            maximum=17,
            synonym="compression.lz4.level",
        ),
        Setting(
            "compression.type",
            _T.STRING,
            "producer",
            "The codec that batches are stored with; `producer` keeps the producer's.",
            choices=COMPRESSION_TYPES,
            synonym="compression.type",
        ),
        Setting(
            "compression.zstd.level",
            _T.INT,
            3,
            "Level of zstd when the broker compresses: -131072 to 22.",
            minimum=-131072,
            maximum=22,
            synonym="compression.zstd.level",
        ),
        Setting(
            "delete.retention.ms",
            _T.LONG,
            86_400_000,
            "Retention of tombstones of a compacted topic, milliseconds.",
            minimum=0,
            synonym="log.cleaner.delete.retention.ms",
        ),
        Setting(
            "file.delete.delay.ms",
            _T.LONG,
            60_000,
            "Delay before the renamed files of a deleted segment are removed.",
            minimum=0,
            synonym="log.segment.delete.delay.ms",
        ),
        Setting(
            "flush.messages",
            _T.LONG,
            LONG_MAX,
            "After how many records the log is forced to the medium.",
            minimum=1,
            synonym="log.flush.interval.messages",
        ),
        Setting(
            "flush.ms",
            _T.LONG,
            LONG_MAX,
            "Maximum time before a record is flushed to disk.",
            minimum=0,
            synonym="log.flush.interval.ms",
        ),
        Setting(
            "follower.replication.throttled.replicas",
            _T.LIST,
            [],
            "Replicas whose fetching is throttled: partition:broker pairs or *.",
            check=_throttled_replicas,
        ),
        Setting(
            "index.interval.bytes",
            _T.INT,
            4096,
            "At most one index entry is written per so many bytes of log.",
            minimum=0,
            synonym="log.index.interval.bytes",
        ),
        Setting(
            "leader.replication.throttled.replicas",
            _T.LIST,
            [],
            "Replicas whose leader's serving is throttled: partition:broker pairs or *.",
            check=_throttled_replicas,
        ),
        Setting(
            "local.retention.bytes",
            _T.LONG,
            -2,
            "Bytes kept locally under tiered storage; -2 means retention.bytes.",
            minimum=-2,
            effective=False,
        ),
        Setting(
            "local.retention.ms",
            _T.LONG,
            -2,
            "Milliseconds kept locally under tiered storage; -2 means retention.ms.",
            minimum=-2,
            effective=False,
        ),
        Setting(
            "max.compaction.lag.ms",
            _T.LONG,
            LONG_MAX,
            "A record is compacted at the latest after so long.",
            minimum=1,
            synonym="log.cleaner.max.compaction.lag.ms",
        ),
        Setting(
            "max.message.bytes",
            _T.INT,
            1_048_588,
            "The largest batch that is accepted, in bytes, compressed as it came.",
            minimum=0,
            synonym="message.max.bytes",
        ),
        Setting(
            "message.downconversion.enable",
            _T.BOOLEAN,
            True,
            "True enables down-conversion for consumers of an old format.",
            synonym="log.message.downconversion.enable",
            effective=False,
        ),
        Setting(
            "message.format.version",
            _T.STRING,
            "3.0-IV1",
            "Deprecated: the format follows the inter-broker protocol.",
            check=release_fault,
            synonym="log.message.format.version",
            effective=False,
        ),
        Setting(
            "message.timestamp.after.max.ms",
            _T.LONG,
            LONG_MAX,
            "Maximum difference of a record's timestamp after the broker's clock.",
            minimum=0,
            synonym="log.message.timestamp.after.max.ms",
        ),
        Setting(
            "message.timestamp.before.max.ms",
            _T.LONG,
            LONG_MAX,
            "Maximum difference of a record's timestamp before the broker's clock.",
            minimum=0,
            synonym="log.message.timestamp.before.max.ms",
        ),
        Setting(
            "message.timestamp.difference.max.ms",
            _T.LONG,
            LONG_MAX,
            "Deprecated: how far a record's timestamp may differ from the broker's clock.",
            minimum=0,
            synonym="log.message.timestamp.difference.max.ms",
        ),
        Setting(
            "message.timestamp.type",
            _T.STRING,
            "CreateTime",
            "Timestamp type of records: CreateTime or LogAppendTime.",
            choices=("CreateTime", "LogAppendTime"),
            synonym="log.message.timestamp.type",
        ),
        Setting(
            "min.cleanable.dirty.ratio",
            _T.DOUBLE,
            0.5,
            "The share of a log that must be dirty before it is compacted.",
            minimum=0,
            maximum=1,
            synonym="log.cleaner.min.cleanable.ratio",
        ),
        Setting(
            "min.compaction.lag.ms",
            _T.LONG,
            0,
            "A record is not compacted before so long.",
            minimum=0,
            synonym="log.cleaner.min.compaction.lag.ms",
        ),
        Setting(
            "min.insync.replicas",
            _T.INT,
            1,
            "Minimum number of in-sync replicas for a write with acks=all.",
            minimum=1,
            synonym="min.insync.replicas",
        ),
        Setting(
            "preallocate",
            _T.BOOLEAN,
            False,
            "True preallocates the file of a new segment.",
            synonym="log.preallocate",
            effective=False,
        ),
        Setting(
            "remote.log.copy.disable",
            _T.BOOLEAN,
            False,
            "True stops copying segments to tiered storage.",
            effective=False,
        ),
        Setting(
            "remote.log.delete.on.disable",
            _T.BOOLEAN,
            False,
            "True deletes the records in tiered storage when it is disabled.",
            effective=False,
        ),
        Setting(
            "remote.storage.enable",
            _T.BOOLEAN,
            False,
            "Tiered storage, which kavka does not have.",
            effective=False,
        ),
        Setting(
            "retention.bytes",
            _T.LONG,
            -1,
            "Old segments go while what stays is not smaller than this; -1 is no limit.",
            synonym="log.retention.bytes",
        ),
        Setting(
            "retention.ms",
            _T.LONG,
            604_800_000,
            "Segments whose newest record is older go; -1 keeps all.",
            minimum=-1,
            synonym="log.retention.ms",
        ),
        Setting(
            "segment.bytes",
            _T.INT,
            1_073_741_824,
            "The size at which a segment is closed and a new one begun.",
            minimum=14,
            synonym="log.segment.bytes",
        ),
        Setting(
            "segment.index.bytes",
            _T.INT,
            10_485_760,
            "The size at which an index is full and the segment is closed.",
            minimum=4,
            synonym="log.index.size.max.bytes",
        ),
        Setting(
            "segment.jitter.ms",
            _T.LONG,
            0,
            "The most that is taken off segment.ms at random, so that segments do not roll together.",
            minimum=0,
            synonym="log.roll.jitter.ms",
        ),
        Setting(
            "segment.ms",
            _T.LONG,
            604_800_000,
            "The age at which a segment is closed even when it is not full.",
            minimum=1,
            synonym="log.roll.ms",
        ),
        Setting(
            "unclean.leader.election.enable",
            _T.BOOLEAN,
            False,
            "True allows a replica that is not in sync to be elected leader, which may lose records.",
            synonym="unclean.leader.election.enable",
            effective=False,
        ),
    ]
)


def topic_defaults(broker: Mapping[str, Value]) -> dict[str, Value]:
    """Return the value of each topic setting for a topic without overrides, given the broker's values."""
    return {
        setting.name: setting.default
        if setting.synonym is None or broker.get(setting.synonym) is None
        else broker[setting.synonym]
        for setting in TOPIC_SETTINGS
    }
