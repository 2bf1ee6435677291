"""Broker settings of groups and their committed offsets."""

from __future__ import annotations

from kavka.settings.declaration import Setting, ValueType

_T = ValueType

GROUP_SETTINGS: list[Setting] = [
    Setting(
        "offsets.topic.num.partitions", _T.INT, 50, "Partitions of __consumer_offsets.", minimum=1
    ),
    Setting(
        "offsets.topic.replication.factor",
        _T.SHORT,
        3,
        "Replication factor of __consumer_offsets, which is not created while fewer brokers are alive.",
        minimum=1,
    ),
    Setting(
        "offsets.topic.segment.bytes",
        _T.INT,
        104_857_600,
        "Segment size of __consumer_offsets.",
        minimum=1,
    ),
    Setting(
        "offsets.topic.compression.codec",
        _T.INT,
        0,
        "Codec of the records that the coordinator writes.",
    ),
    Setting(
        "offsets.retention.minutes",
        _T.INT,
        10_080,
        "Retention of committed offsets after a group is empty.",
        minimum=1,
    ),
    Setting(
        "offsets.retention.check.interval.ms",
        _T.LONG,
        600_000,
        "Interval of the check for expired offsets.",
        minimum=1,
    ),
    Setting(
        "offset.metadata.max.bytes",
        _T.INT,
        4_096,
        "The longest metadata of a committed offset.",
        minimum=0,
    ),
    Setting(
        "group.min.session.timeout.ms",
        _T.INT,
        6_000,
        "The shortest session timeout of a member.",
    ),
    Setting(
        "group.max.session.timeout.ms",
        _T.INT,
        1_800_000,
        "The longest session timeout of a member.",
    ),
    Setting(
        "group.initial.rebalance.delay.ms",
        _T.INT,
        3_000,
        "Delay of the first rebalance of a new group, for more members to join.",
    ),
    Setting("group.max.size", _T.INT, 2_147_483_647, "Members of one group.", minimum=1),
]
