"""Objects of `kavka consumer-groups`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kavka.cli.json_lines.lines import Row, error_or_none
from kavka.cli.json_rows.topics import of_partition, of_partitions
from kavka.client.admin.groups import GroupDescription, GroupListing
from kavka.client.lag import Lag
from kavka.core.group_member.steps import OffsetAndMetadata
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition


def group_rows(groups: Iterable[GroupListing]) -> list[Row]:
    """Return listed groups."""
    return [
        {
            "group": group.group_id,
            "state": group.state or None,
            "type": group.type.capitalize() or None,
            "protocol_type": group.protocol_type,
        }
        for group in groups
    ]


def offset_rows(
    group: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    ends: Mapping[TopicPartition, int | None],
    lags: Mapping[TopicPartition, Lag | KafkaError],
) -> list[Row]:
    """Return the offsets of a group in the order of `ends`, its partitions with the ends of their logs."""
    owners = {each: member for member in group.members for each in member.assignment}
    rows: list[Row] = []
    for topic_partition, end in ends.items():
        offset, member = committed.get(topic_partition), owners.get(topic_partition)
        lag = lags.get(topic_partition)
        rows.append(
            {
                "group": group.group_id,
                "state": group.state,
                **of_partition(topic_partition),
                "leader_epoch": offset.leader_epoch
                if offset and offset.leader_epoch >= 0
                else None,
                "current_offset": None if offset is None else offset.offset,
                "log_end_offset": end,
                "lag": None if offset is None or end is None else end - offset.offset,
                "lag_seconds": lag.seconds if isinstance(lag, Lag) else None,
                "consumer_id": None if member is None else member.member_id,
                "instance_id": None if member is None else member.instance_id,
                "host": None if member is None else member.client_host,
                "client_id": None if member is None else member.client_id,
            }
        )
    return rows


def member_rows(group: GroupDescription) -> list[Row]:
    """Return the members of a group, those with most partitions first."""
    return [
        {
            "group": group.group_id,
            "state": group.state,
            "consumer_id": member.member_id,
            "instance_id": member.instance_id,
            "host": member.client_host,
            "client_id": member.client_id,
            "assignment": of_partitions(member.assignment),
        }
        for member in sorted(group.members, key=lambda m: (-len(m.assignment), m.member_id))
    ]


def state_row(group: GroupDescription) -> Row:
    """Return the state of a group."""
    return {
        "group": group.group_id,
        "state": group.state,
        "coordinator_id": group.coordinator.broker_id,
        "coordinator_host": group.coordinator.host,
        "coordinator_port": group.coordinator.port,
        "assignment_strategy": group.protocol or None,
        "member_count": len(group.members),
    }


def deleted_group_rows(outcomes: Mapping[str, Exception | None]) -> list[Row]:
    """Return what became of groups."""
    return [{"group": name, "error": error_or_none(each)} for name, each in outcomes.items()]


def deleted_offset_rows(
    group: str, unknown: Iterable[str], outcomes: Mapping[TopicPartition, KafkaError | None]
) -> list[Row]:
    """Return what became of offsets, after the topics that do not exist."""
    missing = error_or_none(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    rows: list[Row] = [
        {"group": group, "topic": topic, "partition": None, "error": missing} for topic in unknown
    ]
    rows += [
        {"group": group, **of_partition(topic_partition), "error": error_or_none(outcome)}
        for topic_partition, outcome in sorted(outcomes.items(), key=lambda each: each[0])
    ]
    return rows


def reset_rows(planned: Mapping[str, Mapping[TopicPartition, int]], *, executed: bool) -> list[Row]:
    """Return new offsets."""
    return [
        {
            "group": name,
            **of_partition(topic_partition),
            "new_offset": offset,
            "executed": executed,
        }
        for name, offsets in planned.items()
        for topic_partition, offset in sorted(offsets.items())
    ]
