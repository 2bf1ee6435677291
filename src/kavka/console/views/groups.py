"""Groups: state, members, assignment, and lag in records and in seconds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kavka.client.admin.groups import GroupDescription, GroupListing
from kavka.client.lag import Lag
from kavka.console.sentences import NOTHING, Sentence, as_is, say
from kavka.console.views.brokers import Unanswered
from kavka.console.views.paging import Paging, searched
from kavka.core.group_member.steps import OffsetAndMetadata
from kavka.errors import KafkaError
from kavka.ids import TopicPartition

Committed = Mapping[TopicPartition, OffsetAndMetadata]
Lags = Mapping[TopicPartition, Lag | KafkaError]


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in the list; lags are null where they could not be found, and `note` says why."""

    group_id: str
    state: str
    protocol_type: str
    type: str
    members: int | None
    topics: list[str]
    lag_records: int | None
    lag_seconds: float | None
    """The largest of the partitions."""
    note: Sentence


@dataclass(frozen=True, slots=True)
class GroupList:
    """One page of the groups that match."""

    rows: list[GroupRow]
    paging: Paging
    total: int
    search: str
    state: str
    states: list[str]
    unanswered: list[Unanswered]
    """The brokers whose groups are missing."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member, and the partitions that it reads."""

    member_id: str
    client_id: str
    instance_id: str
    host: str
    partitions: list[str]
    lag_records: int


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """A partition of which the group has an offset, or a member."""

    topic: str
    partition: int
    committed: int | None
    end_offset: int | None
    lag_records: int | None
    lag_seconds: float | None
    lag_share: float
    """Part of the largest lag of the group, 0 to 1."""
    member: str
    note: Sentence


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: str
    members: list[MemberView]
    partitions: list[GroupPartition]
    lag_records: int | None
    lag_seconds: float | None
    can_be_reset: bool
    note: Sentence


def matching_groups(groups: Iterable[GroupListing], search: str, state: str) -> list[GroupListing]:
    """Return the groups, by name, that are in a state (any if it is empty) and have all words of a search."""
    has_words = searched(search)
    return sorted(
        (
            group
            for group in groups
            if (not state or group.state == state) and has_words(group.group_id)
        ),
        key=lambda group: group.group_id,
    )


def total_lag(lags: Lags) -> tuple[int | None, float | None]:
    """Return the sum of the lags in records and the largest in seconds, None where there is none."""
    known = [lag for lag in lags.values() if isinstance(lag, Lag)]
    if not known:
        return None, None
    seconds = [lag.seconds for lag in known if lag.seconds is not None]
    return sum(lag.records for lag in known), max(seconds) if seconds else None


def group_row(
    listing: GroupListing,
    described: GroupDescription | Exception | None,
    lags: Lags | Exception,
) -> GroupRow:
    """Return the row of a group."""
    group = described if isinstance(described, GroupDescription) else None
    refused = next((e for e in (described, lags) if isinstance(e, Exception)), None)
    records, seconds = (None, None) if isinstance(lags, Exception) else total_lag(lags)
    topics = [] if isinstance(lags, Exception) else sorted({key.topic for key in lags})
    return GroupRow(
        group_id=listing.group_id,
        state=listing.state or (group.state if group else ""),
        protocol_type=listing.protocol_type,
        type=listing.type,
        members=len(group.members) if group else None,
        topics=topics,
        lag_records=records,
        lag_seconds=seconds,
        note=as_is(str(refused) if refused else ""),
    )


def group_view(group: GroupDescription, committed: Committed, lags: Lags) -> GroupView:
    """Return a group with a row for each partition that it has committed or that a member reads."""
    owners = {
        topic_partition: member for member in group.members for topic_partition in member.assignment
    }
    largest = max((lag.records for lag in lags.values() if isinstance(lag, Lag)), default=0)
    partitions = []
    for key in sorted({*committed, *owners}):
        lag = lags.get(key)
        known = lag if isinstance(lag, Lag) else None
        owner = owners.get(key)
        partitions.append(
            GroupPartition(
                topic=key.topic,
                partition=key.partition,
                committed=committed[key].offset if key in committed else None,
                end_offset=known.end_offset if known else None,
                lag_records=known.records if known else None,
                lag_seconds=known.seconds if known else None,
                lag_share=known.records / largest if known and largest else 0.0,
                member=owner.client_id if owner else "",
                note=as_is(str(lag) if isinstance(lag, KafkaError) else ""),
            )
        )
    records, seconds = total_lag(lags)
    return GroupView(
        group_id=group.group_id,
        state=group.state,
        protocol_type=group.protocol_type,
        assignor=group.protocol,
        coordinator=f"{group.coordinator.host}:{group.coordinator.port} ({group.coordinator.broker_id})",
        members=_members(group, lags),
        partitions=partitions,
        lag_records=records,
        lag_seconds=seconds,
        can_be_reset=group.state in ("Empty", "Dead"),
        note=_note(group, partitions),
    )


def _members(group: GroupDescription, lags: Lags) -> list[MemberView]:
    views = []
    for member in group.members:
        found = [lags.get(key) for key in member.assignment]
        views.append(
            MemberView(
                member_id=member.member_id,
                client_id=member.client_id,
                instance_id=member.instance_id or "",
                host=member.client_host.lstrip("/"),
                partitions=[str(key) for key in sorted(member.assignment)],
                lag_records=sum(lag.records for lag in found if isinstance(lag, Lag)),
            )
        )
    return sorted(views, key=lambda view: (view.client_id, view.member_id))


def _note(group: GroupDescription, partitions: list[GroupPartition]) -> Sentence:
    """Return what a reader of the group's page should learn first."""
    behind = any(part.lag_records for part in partitions)
    if not group.members and group.state not in ("Empty", "Dead"):
        return say(
            "Its members use a protocol that this page does not know, so they are not shown."
        )
    if group.state == "Empty" and behind:
        return say("No member reads, and records wait.")
    unread = [part for part in partitions if not part.member and part.lag_records]
    if group.members and group.protocol_type == "consumer" and unread:
        return say(
            "{unread} of its partitions have records that wait and no member.", unread=len(unread)
        )
    return NOTHING
