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
            "Treatment of old records: delete drops segments by retention.ms and retention.bytes, compact keeps "
            "the last record of each key; both may be given.",
            choices=("compact", "delete"),
            synonym="log.cleanup.policy",
        ),
        Setting(
            "compression.gzip.level",
            _T.INT,
            -1,
            "Level of gzip where the broker compresses: 1 to 9, or -1 for the library's default; higher is smaller "
            "and slower.",
            check=gzip_level_fault,
            synonym="compression.gzip.level",
        ),
        Setting(
            "compression.lz4.level",
            _T.INT,
            9,
            "Level of lz4 where the broker compresses; higher is smaller and slower.",
            minimum=1,
            maximum=17,
            synonym="compression.lz4.level",
        ),
        Setting(
            "compression.type",
            _T.STRING,
            "producer",
            "Codec with which batches are stored; `producer` keeps each producer's codec, any other recompresses "
            "batches that have another one.",
            choices=COMPRESSION_TYPES,
            synonym="compression.type",
        ),
        Setting(
            "compression.zstd.level",
            _T.INT,
            3,
            "Level of zstd where the broker compresses; higher is smaller and slower.",
            minimum=-131072,
            maximum=22,
            synonym="compression.zstd.level",
        ),
        Setting(
            "delete.retention.ms",
            _T.LONG,
            86_400_000,
            "Time in milliseconds for which compaction keeps tombstones: a consumer that takes longer to read the "
            "topic may miss deletions.",
            minimum=0,
            synonym="log.cleaner.delete.retention.ms",
        ),
        Setting(
            "file.delete.delay.ms",
            _T.LONG,
            60_000,
            "Time in milliseconds between the deletion of a segment, when its files are renamed, and that of its "
            "files.",
            minimum=0,
            synonym="log.segment.delete.delay.ms",
        ),
        Setting(
            "flush.messages",
            _T.LONG,
            LONG_MAX,
            "Number of records after which the log is flushed to disk (fsync). The default leaves that to the "
            "operating system, and durability to replication.",
            minimum=1,
            synonym="log.flush.interval.messages",
        ),
        Setting(
            "flush.ms",
            _T.LONG,
            LONG_MAX,
            "Maximum time in milliseconds before a record is flushed to disk (fsync). The default leaves that to "
            "the operating system, and durability to replication.",
            minimum=0,
            synonym="log.flush.interval.ms",
        ),
        Setting(
            "follower.replication.throttled.replicas",
            _T.LIST,
            [],
            "Replicas whose fetching counts for follower.replication.throttled.rate: partition:broker pairs, or * "
            "for all.",
            check=_throttled_replicas,
        ),
        Setting(
            "index.interval.bytes",
            _T.INT,
            4096,
            "Bytes of log between two index entries: fewer find an offset faster, with a larger index.",
            minimum=0,
            synonym="log.index.interval.bytes",
        ),
        Setting(
            "leader.replication.throttled.replicas",
            _T.LIST,
            [],
            "Replicas to which the leader's sending counts for leader.replication.throttled.rate: partition:broker "
            "pairs, or * for all.",
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
            "Age in milliseconds of a record after which the log is compacted whatever min.cleanable.dirty.ratio says.",
            minimum=1,
            synonym="log.cleaner.max.compaction.lag.ms",
        ),
        Setting(
            "max.message.bytes",
            _T.INT,
            1_048_588,
            "Largest record batch that is accepted, in bytes after compression; a larger one gets MESSAGE_TOO_LARGE.",
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
            "Milliseconds by which a record's timestamp may be later than the broker's clock; a later one is "
            "refused (INVALID_TIMESTAMP).",
            minimum=0,
            synonym="log.message.timestamp.after.max.ms",
        ),
        Setting(
            "message.timestamp.before.max.ms",
            _T.LONG,
            LONG_MAX,
            "Milliseconds by which a record's timestamp may be earlier than the broker's clock; an earlier one is "
            "refused (INVALID_TIMESTAMP).",
            minimum=0,
            synonym="log.message.timestamp.before.max.ms",
        ),
        Setting(
            "message.timestamp.difference.max.ms",
            _T.LONG,
            LONG_MAX,
            "Deprecated: milliseconds by which a record's timestamp may differ from the broker's clock; use "
            "message.timestamp.before.max.ms and message.timestamp.after.max.ms.",
            minimum=0,
            synonym="log.message.timestamp.difference.max.ms",
        ),
        Setting(
            "message.timestamp.type",
            _T.STRING,
            "CreateTime",
            "Timestamp of records: CreateTime is the producer's, LogAppendTime the broker's at the append.",
            choices=("CreateTime", "LogAppendTime"),
            synonym="log.message.timestamp.type",
        ),
        Setting(
            "min.cleanable.dirty.ratio",
            _T.DOUBLE,
            0.5,
            "Share of the log, 0 to 1, that must be new since its last compaction before it is compacted again.",
            minimum=0,
            maximum=1,
            synonym="log.cleaner.min.cleanable.ratio",
        ),
        Setting(
            "min.compaction.lag.ms",
            _T.LONG,
            0,
            "Age in milliseconds before which a record is not compacted away.",
            minimum=0,
            synonym="log.cleaner.min.compaction.lag.ms",
        ),
        Setting(
            "min.insync.replicas",
            _T.INT,
            1,
            "Number of in-sync replicas below which a write with acks=all is refused (NOT_ENOUGH_REPLICAS).",
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
            "Size in bytes that each partition keeps: its oldest segments are deleted as long as at least so much "
            "remains; -1 is no limit.",
            synonym="log.retention.bytes",
        ),
        Setting(
            "retention.ms",
            _T.LONG,
            604_800_000,
            "Age in milliseconds, by its newest record, at which a segment is deleted; -1 deletes none.",
            minimum=-1,
            synonym="log.retention.ms",
        ),
        Setting(
            "segment.bytes",
            _T.INT,
            1_073_741_824,
            "Size in bytes at which a segment is rolled. Retention deletes whole segments that are closed.",
            minimum=14,
            synonym="log.segment.bytes",
        ),
        Setting(
            "segment.index.bytes",
            _T.INT,
            10_485_760,
            "Size in bytes of an index at which its segment is rolled.",
            minimum=4,
            synonym="log.index.size.max.bytes",
        ),
        Setting(
            "segment.jitter.ms",
            _T.LONG,
            0,
            "Maximum milliseconds taken off segment.ms at random, so that segments do not all roll at the same time.",
            minimum=0,
            synonym="log.roll.jitter.ms",
        ),
        Setting(
            "segment.ms",
            _T.LONG,
            604_800_000,
            "Age in milliseconds at which a segment is rolled even if it is not full, so that retention can delete it.",
            minimum=1,
            synonym="log.roll.ms",
        ),
        Setting(
            "unclean.leader.election.enable",
            _T.BOOLEAN,
            False,
            "True allows a replica that is not in sync to become leader when no other is alive: the partition is "
            "available again, and acknowledged records may be lost.",
            synonym="unclean.leader.election.enable",
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
