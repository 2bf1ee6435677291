"""The settings of the group machine, with Kafka's defaults."""

from __future__ import annotations

from kavka.values import frozen

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""Maximum milliseconds for which a first join may wait before its member is removed: its client may be gone and
cannot heartbeat.
"""


@frozen
class GroupSettings:
    """Each field is the broker setting that its comment names."""

    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    max_size: int = 2**31 - 1  # group.max.size
    max_members_bytes: int = 1 << 62  # kavka.group.members.max.bytes
    offset_metadata_max_bytes: int = 4_096  # offset.metadata.max.bytes
    offsets_retention_ms: int = 7 * 24 * 3_600_000  # offsets.retention.minutes
    retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
