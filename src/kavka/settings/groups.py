"""Broker settings of groups and their committed offsets."""

from __future__ import annotations

from kavka.settings.declaration import Setting, ValueType

_T = ValueType

GROUP_SETTINGS: list[Setting] = [
    Setting(
        "offsets.topic.num.partitions",
        _T.INT,
        50,
        "Number of partitions of __consumer_offsets, at its creation.",
        minimum=1,
    ),
    Setting(
        "offsets.topic.replication.factor",
        _T.SHORT,
        3,
        "Replication factor of __consumer_offsets. The topic is not created, and groups do not work, while fewer "
        "brokers are alive.",
        minimum=1,
    ),
    Setting(
        "offsets.topic.segment.bytes",
        _T.INT,
        104_857_600,
        "Segment size of __consumer_offsets in bytes: smaller segments are compacted earlier, and loaded faster by "
        "a new coordinator.",
        minimum=1,
    ),
    Setting(
        "offsets.topic.compression.codec",
        _T.INT,
        0,
        "Compression of what group coordinators write: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    ),
    Setting(
        "offsets.retention.minutes",
        _T.INT,
        10_080,
        "Time in minutes for which committed offsets are kept after their group has become empty, or after the "
        "commit where no member subscribes to the topic.",
        minimum=1,
    ),
    Setting(
        "offsets.retention.check.interval.ms",
        _T.LONG,
        600_000,
        "Interval in milliseconds at which expired offsets are removed.",
        minimum=1,
    ),
    Setting(
        "offset.metadata.max.bytes",
        _T.INT,
        4_096,
        "Maximum length of the metadata of a committed offset, in UTF-16 code units as Kafka counts them; a longer "
        "one is refused.",
        minimum=0,
    ),
    Setting(
        "group.min.session.timeout.ms",
        _T.INT,
        6_000,
        "Smallest session.timeout.ms that members may have; a smaller one is refused.",
    ),
    Setting(
        "group.max.session.timeout.ms",
        _T.INT,
        1_800_000,
        "Largest session.timeout.ms that members may have; a larger one is refused.",
    ),
    Setting(
        "group.initial.rebalance.delay.ms",
        _T.INT,
        3_000,
        "Wait in milliseconds for more members before the first rebalance of an empty group: 0 for tests, longer "
        "for groups that start slowly.",
    ),
    Setting(
        "group.max.size",
        _T.INT,
        2_147_483_647,
        "Maximum number of members of one group; further ones are refused (GROUP_MAX_SIZE_REACHED).",
        minimum=1,
    ),
]
