"""`kavka consumer-groups --list` and `--describe`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kavka.cli.admin.connection import FAILURES
from kavka.cli.arguments.options import BadUsage, Given
from kavka.cli.groups.tables import Column, print_error, print_note, show, table
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import error_object, print_failure, print_rows
from kavka.cli.json_rows.groups import group_rows, member_rows, offset_rows, state_row
from kavka.cli.text.standard_streams import is_output_failure
from kavka.client.admin.admin import Admin
from kavka.client.admin.groups import GroupDescription, GroupListing, MemberDescription
from kavka.client.admin.records import OffsetSpec
from kavka.client.lag import Lag
from kavka.core.group_member.steps import OffsetAndMetadata
from kavka.core.topic_partitions import partitions_by_topic
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicPartition

_STATES = (
    "Reconciling",
    "Assigning",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Empty",
    "Dead",
)
_TYPES = ("Consumer", "Classic")


# List


async def list_groups(admin: Admin, given: Given, timeout_ms: int) -> int:
    """Print the names of groups, with states and types if they are asked for."""
    states = _chosen(given, "state", _STATES, "state")
    types = _chosen(given, "type", _TYPES, "types")
    silent: Silent = {}
    listed = await consumer_groups(admin, states, types, timeout_ms, silent)
    if given.has("json"):
        print_rows(shapes.GROUP, group_rows(listed))
    else:
        _print_listed(given, listed)
    return _failed(given, {_broker(broker): error for broker, error in silent.items()})


def _print_listed(given: Given, listed: Sequence[GroupListing]) -> None:
    columns = [Column("GROUP", 25)]
    if given.has("type"):
        columns.append(Column("TYPE", 20))
    if given.has("state"):
        columns.append(Column("STATE", 20))
    if len(columns) == 1:
        show("".join(f"{group.group_id}\n" for group in listed))
        return
    cells = [
        {"GROUP": g.group_id, "TYPE": g.type.capitalize() or "Classic", "STATE": g.state}
        for g in listed
    ]
    show(table(columns, [[row[column.title] for column in columns] for row in cells]))


Silent = dict[BrokerId, Exception]
"""Brokers that did not list their groups, and why."""


async def consumer_groups(
    admin: Admin,
    states: Sequence[str] = (),
    types: Sequence[str] = (),
    timeout_ms: int | None = None,
    silent: Silent | None = None,
) -> list[GroupListing]:
    """Return the groups of consumers, sorted; groups of other protocols (Connect's) are left out.

    Raise where a broker fails. With `silent` it is put there, and the groups of the others are returned, if there are
    others.
    """
    listed = await admin.list_groups(
        states=states, types=types, timeout_ms=timeout_ms, failures=silent
    )
    return sorted(group for group in listed if group.protocol_type in ("", "consumer"))


def _chosen(given: Given, name: str, valid: Sequence[str], noun: str) -> list[str]:
    """Return the words of an option in their right case. Raise BadUsage when one does not exist."""
    text = given.one(name)
    if not text:
        return []
    by_word = {word.lower(): word for word in valid}
    words = [word.strip().lower() for word in text.split(",")]
    if not all(word in by_word for word in words):
        listed = ", ".join(valid)
        plural = "types" if noun == "types" else "states"
        raise BadUsage(f"Invalid {noun} list '{text}'. Valid {plural} are: {listed}")
    return [by_word[word] for word in words]


# Describe


async def describe(admin: Admin, given: Given, timeout_ms: int) -> int:
    """Print offsets, members or state of groups, a table for each; with JSON 1 if there is no such group.

    What cannot be described because a broker does not answer is a failure, after all the others.
    """
    silent: Silent = {}
    if given.has("all-groups"):
        listed = await consumer_groups(admin, timeout_ms=timeout_ms, silent=silent)
        names = [group.group_id for group in listed]
    else:
        names = sorted(set(given.all("group")))
    failed: dict[str, Exception] = {_broker(broker): error for broker, error in silent.items()}
    described = await admin.describe_groups(names, timeout_ms=timeout_ms)
    for name, group in described.items():
        try:
            if isinstance(group, Exception):
                raise group
            await _describe_one(admin, name, group, given, timeout_ms, failed)
        except FAILURES as error:
            if is_output_failure(error) or len(names) == 1:
                raise
            failed[f"Group '{name}' was not described"] = error
    return _failed(given, failed)


async def _describe_one(
    admin: Admin,
    name: str,
    group: GroupDescription,
    given: Given,
    timeout_ms: int,
    failed: dict[str, Exception],
) -> None:
    """Print what is asked for of a group; what of it is not known is put into `failed`."""
    is_json = given.has("json")
    if group.state == "Dead":
        why = await _why_unknown(admin, name)
        if is_json:
            failed[why] = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, why)
            return
        print_error(why)
        if given.has("members"):  # Kafka's tool prints its empty table
            _print_members(group, given.has("verbose"))
    elif given.has("members"):
        if is_json:
            print_rows(shapes.GROUP_MEMBER, member_rows(group))
        else:
            _print_members(group, given.has("verbose"))
    elif given.has("state"):
        if is_json:
            print_rows(shapes.GROUP_STATE, [state_row(group)])
        else:
            _print_group_state(group, given.has("verbose"))
    else:
        await _print_offsets(admin, name, group, given, timeout_ms, failed)


def _broker(broker_id: BrokerId) -> str:
    return f"Broker {broker_id} did not list its groups"


def _failed(given: Given, failed: Mapping[str, Exception]) -> int:
    """Say what failed, on standard error, where no list of groups is read from, and return the exit code."""
    if not failed:
        return 0
    said = {
        what: what if what == getattr(error, "detail", None) else f"{what}: {error}"
        for what, error in failed.items()
    }
    if not given.has("json"):
        for text in said.values():
            print_note(f"Error: {text}")
        return 1
    first, *others = failed
    more = f" ({len(others)} more failed)" if others else ""
    return print_failure(error_object(failed[first])["code"], said[first] + more)


async def _why_unknown(admin: Admin, name: str) -> str:
    """Return why the coordinator does not describe a group: to it, groups of the new protocol (KIP-848) are dead."""
    for group in await admin.list_groups():
        if group.group_id == name and group.type.lower() not in ("", "classic"):
            return (
                f"Consumer group '{name}' is of type {group.type.capitalize()}; this release describes groups of "
                "type Classic only."
            )
    return f"Consumer group '{name}' does not exist."


_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def _print_state(group: GroupDescription) -> None:
    if group.state == "Empty":
        print_note(f"Consumer group '{group.group_id}' has no active members.")
    elif group.state in _REBALANCING:
        print_note(f"Warning: Consumer group '{group.group_id}' is rebalancing.")


async def _print_offsets(
    admin: Admin,
    name: str,
    group: GroupDescription,
    given: Given,
    timeout_ms: int,
    failed: dict[str, Exception],
) -> None:
    committed = await admin.list_group_offsets(name, timeout_ms=timeout_ms)
    owned = [topic_partition for member in group.members for topic_partition in member.assignment]
    partitions = sorted({*committed, *owned})
    listed = dict.fromkeys(partitions, OffsetSpec.LATEST)
    found = await admin.list_offsets(listed, timeout_ms=timeout_ms) if listed else {}
    ends: dict[TopicPartition, int | None] = {}
    for topic_partition in partitions:
        end = found[topic_partition]
        ends[topic_partition] = None if isinstance(end, KafkaError) else end.offset
        if isinstance(end, KafkaError) and end.retriable and end.code is not _NO_TOPIC:
            failed[f"The end of {topic_partition} is not known"] = end
    known = {each: offset for each, offset in committed.items() if ends[each] is not None}
    lags = await _lags(admin, known, timeout_ms) if given.has("lag-seconds") else {}
    if given.has("json"):
        print_rows(shapes.GROUP_OFFSET, offset_rows(group, committed, ends, lags))
        return
    _print_state(group)
    if not partitions:
        return
    verbose = given.has("verbose")
    owners = {each: member for member in group.members for each in member.assignment}
    rows = [
        _offset_row(name, each, committed.get(each), ends[each], owners.get(each), verbose)
        for each in partitions
    ]
    if given.has("lag-seconds"):
        for row, topic_partition in zip(rows, partitions, strict=True):
            row.insert(_LAG_SECONDS_COLUMN + verbose, _seconds(lags.get(topic_partition)))
    columns = [Column("GROUP", 15), Column("TOPIC", 15), Column("PARTITION", 10)]
    columns += [Column("LEADER-EPOCH", 15)] if verbose else []
    columns += [Column(title, 15) for title in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")]
    columns += [Column("LAG-SECONDS", 15)] if given.has("lag-seconds") else []
    columns += [Column("CONSUMER-ID", 15), Column("HOST", 15), Column("CLIENT-ID", 0)]
    show("\n" + table(columns, rows))


_NO_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
"""It was deleted after the group committed offsets of it."""
_LAG_SECONDS_COLUMN = 6
"""Its place in a row: behind LAG."""


async def _lags(
    admin: Admin, committed: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: int
) -> Mapping[TopicPartition, Lag | KafkaError]:
    """Return how far behind the committed offsets are."""
    positions = {topic_partition: offset.offset for topic_partition, offset in committed.items()}
    return await admin.lags(positions, timeout_ms=timeout_ms)


def _seconds(lag: Lag | KafkaError | None) -> str:
    """Return the age of the first record that is not read; `-` where that is not known."""
    return "-" if not isinstance(lag, Lag) or lag.seconds is None else f"{lag.seconds:.3f}"


def _offset_row(
    group: str,
    topic_partition: TopicPartition,
    committed: OffsetAndMetadata | None,
    log_end: int | None,
    member: MemberDescription | None,
    verbose: bool,
) -> list[object]:
    lag = None if committed is None or log_end is None else log_end - committed.offset
    epoch = committed.leader_epoch if committed is not None else -1
    return [
        group,
        topic_partition.topic,
        topic_partition.partition,
        *(["-" if epoch < 0 else epoch] if verbose else []),
        _known(None if committed is None else committed.offset),
        _known(log_end),
        _known(lag),
        "-" if member is None else member.member_id,
        "-" if member is None else member.client_host,
        "-" if member is None else member.client_id,
    ]


def _known(number: int | None) -> str:
    return "-" if number is None else str(number)


def _print_members(group: GroupDescription, verbose: bool) -> None:
    _print_state(group)
    has_instances = any(member.instance_id for member in group.members)
    columns = [Column("GROUP", 15), Column("CONSUMER-ID", 15)]
    columns += [Column("GROUP-INSTANCE-ID", 17)] if has_instances else []
    columns += [Column("HOST", 15), Column("CLIENT-ID", 15)]
    columns += [Column("#PARTITIONS", 15 if verbose else 16)]  # Kafka's line ends with a space
    if verbose:
        columns += [Column("CURRENT-EPOCH", 15), Column("CURRENT-ASSIGNMENT", 20)]
        columns += [Column("TARGET-EPOCH", 15), Column("TARGET-ASSIGNMENT", 20)]
    rows = [
        [
            group.group_id,
            member.member_id,
            *([member.instance_id or ""] if has_instances else []),
            member.client_host,
            member.client_id,
            len(member.assignment),
            *(["-", assignment_text(member.assignment), "-", "-"] if verbose else []),
        ]
        for member in sorted(group.members, key=lambda m: (-len(m.assignment), m.member_id))
    ]
    show("\n" + table(columns, rows))


def assignment_text(partitions: Sequence[TopicPartition]) -> str:
    """Return partitions as `t:0,1;u:0`."""
    topics = partitions_by_topic(sorted(partitions))
    return ";".join(f"{topic}:{','.join(map(str, parts))}" for topic, parts in topics.items())


def _print_group_state(group: GroupDescription, verbose: bool) -> None:
    _print_state(group)
    node = group.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.broker_id})"
    columns = [Column("GROUP", 15), Column("COORDINATOR (ID)", 25)]
    columns += [Column("ASSIGNMENT-STRATEGY", 20), Column("STATE", 20)]
    columns += [Column("GROUP-EPOCH", 15), Column("TARGET-ASSIGNMENT-EPOCH", 25)] if verbose else []
    columns += [Column("#MEMBERS", 0)]
    row = [group.group_id, coordinator, group.protocol or "-", group.state]
    row += ["-", "-"] if verbose else []
    show("\n" + table(columns, [[*row, len(group.members)]]))
