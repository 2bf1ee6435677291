"""`kavka consumer-groups --reset-offsets`: from a scenario and a scope to new committed offsets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping

from kavka.cli.arguments.options import BadUsage, BadValue, Given, whole_number
from kavka.cli.arguments.topic_partitions import topic_arguments
from kavka.cli.groups.description import consumer_groups
from kavka.cli.groups.tables import Column, print_error, show, table
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_error as print_json_error
from kavka.cli.json_lines.lines import print_rows, print_warning
from kavka.cli.json_rows.groups import reset_rows
from kavka.cli.text.java_errors import log_line
from kavka.cli.text.times import current_time_ms, duration_ms, moment_ms
from kavka.client.admin.admin import Admin
from kavka.client.admin.records import OffsetSpec
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicPartition
from kavka.settings.text_files import MAX_DOCUMENT, read_text

SCENARIOS = (
    "to-offset",
    "to-current",
    "to-datetime",
    "from-file",
    "by-duration",
    "to-earliest",
    "to-latest",
    "shift-by",
)

Offsets = dict[TopicPartition, int]

_COLUMNS = (
    Column("GROUP", 30, grows=False),
    Column("TOPIC", 30, grows=False),
    Column("PARTITION", 10, grows=False),
    Column("NEW-OFFSET", 15, grows=False),
)


async def reset(admin: Admin, given: Given, timeout_ms: int) -> int:
    """Compute new offsets of every group without members; set them with `--execute`; print them.

    With JSON 1, after the others, when a group has members.
    """
    if given.has("all-groups"):
        names = [group.group_id for group in await consumer_groups(admin)]
    else:
        names = sorted(set(given.all("group")))
    planned: dict[str, Offsets] = {}
    active: list[KafkaError] = []
    for name, group in (await admin.describe_groups(names, timeout_ms=timeout_ms)).items():
        if isinstance(group, Exception):
            raise group
        if group.state not in ("Empty", "Dead"):
            why = (
                f"Assignments can only be reset if the group '{name}' is inactive, but the current state is "
                f"{group.state}."
            )
            active.append(KafkaError(ErrorCode.NON_EMPTY_GROUP, why))
            if not given.has("json"):
                print_error(why)
            continue
        planned[name] = await _planned(admin, given, name, timeout_ms)
        if given.has("execute") and planned[name]:
            outcomes = await admin.alter_group_offsets(name, planned[name], timeout_ms=timeout_ms)
            for error in outcomes.values():
                if error is not None:
                    raise error
    if given.has("json"):
        print_rows(shapes.RESET_OFFSET, reset_rows(planned, executed=given.has("execute")))
        return print_json_error(active[0]) if active else 0
    _show(given, planned)
    return 0


def _show(given: Given, planned: Mapping[str, Offsets]) -> None:
    rows = [
        (name, topic_partition.topic, topic_partition.partition, offset)
        for name, offsets in planned.items()
        for topic_partition, offset in sorted(offsets.items())
    ]
    if not given.has("export"):
        show("\n" + table(_COLUMNS, rows))
        return
    first = 1 if len(given.all("group")) == 1 else 0  # one group needs no column of its own
    show("".join(",".join(map(str, row[first:])) + "\n" for row in rows) + "\n")


# Scope


async def _scope(admin: Admin, given: Given, group: str, timeout_ms: int) -> list[TopicPartition]:
    if given.has("all-topics"):
        return sorted(await admin.list_group_offsets(group, timeout_ms=timeout_ms))
    if not given.has("topic"):
        if given.has("from-file"):
            return []
        raise BadUsage("One of the reset scopes should be defined: --all-topics, --topic.")
    wanted = topic_arguments(given.all("topic"))
    found = [TopicPartition(w.topic, p) for w in wanted for p in w.partitions or ()]
    whole = [w.topic for w in wanted if w.partitions is None]
    for name, topic in (await admin.describe_topics(whole)).items() if whole else ():
        if isinstance(topic, KafkaError):
            raise KafkaError(topic.code)
        found.extend(TopicPartition(name, part.partition) for part in topic.partitions)
    return sorted(set(found))


# Scenarios


async def _planned(admin: Admin, given: Given, group: str, timeout_ms: int) -> Offsets:
    partitions = await _scope(admin, given, group, timeout_ms)
    if given.has("to-offset"):
        offset = given.integer("to-offset", 64)
        assert offset is not None
        return await _in_range(admin, given, dict.fromkeys(partitions, offset))
    if given.has("to-earliest"):
        return await _listed(admin, partitions, OffsetSpec.EARLIEST)
    if given.has("to-latest"):
        return await _listed(admin, partitions, OffsetSpec.LATEST)
    if given.has("to-datetime"):
        return await _at_time(admin, given, partitions, moment_ms(given.text("to-datetime")))
    if given.has("by-duration"):
        ago_ms = duration_ms(given.text("by-duration"))
        return await _at_time(admin, given, partitions, current_time_ms() - ago_ms)
    if given.has("shift-by"):
        return await _shifted(admin, given, group, partitions)
    if given.has("from-file"):
        return await _from_file(admin, given, group)
    if given.has("to-current"):
        return await _current(admin, group, partitions)
    listed = ", ".join(f"[{name}]" for name in SCENARIOS)
    raise BadUsage(f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]")


async def _listed(admin: Admin, partitions: Iterable[TopicPartition], spec: int) -> Offsets:
    found: Offsets = {}
    wanted = dict.fromkeys(partitions, spec)
    for topic_partition, answer in (await admin.list_offsets(wanted)).items() if wanted else ():
        if isinstance(answer, KafkaError):
            raise KafkaError(answer.code)
        found[topic_partition] = answer.offset
    return found


async def _at_time(
    admin: Admin, given: Given, partitions: Iterable[TopicPartition], at_ms: int
) -> Offsets:
    if at_ms < 0:
        raise BadValue("Invalid negative timestamp")
    found = await _listed(admin, partitions, at_ms)
    empty = [topic_partition for topic_partition, offset in found.items() if offset < 0]
    for topic_partition in empty:
        text = (
            f"Partition {topic_partition.partition} from topic {topic_partition.topic} is empty. "
            "Falling back to latest known offset."
        )
        if given.has("json"):
            print_warning(text)
        else:
            show(f"\nWarn: {text}\n")
    return {**found, **await _listed(admin, empty, OffsetSpec.LATEST)}


async def _shifted(
    admin: Admin, given: Given, group: str, partitions: Iterable[TopicPartition]
) -> Offsets:
    shift = given.integer("shift-by", 64)
    assert shift is not None
    committed = await admin.list_group_offsets(group, partitions)
    shifted: Offsets = {}
    for topic_partition in partitions:
        if topic_partition not in committed:
            raise BadUsage(
                f"Cannot shift offset for partition {topic_partition} since there is no current committed offset"
            )
        shifted[topic_partition] = committed[topic_partition].offset + shift
    return await _in_range(admin, given, shifted)


async def _current(admin: Admin, group: str, partitions: list[TopicPartition]) -> Offsets:
    committed = await admin.list_group_offsets(group, partitions)
    known = {
        topic_partition: committed[topic_partition].offset
        for topic_partition in partitions
        if topic_partition in committed
    }
    others = (topic_partition for topic_partition in partitions if topic_partition not in known)
    return {**known, **await _listed(admin, others, OffsetSpec.LATEST)}


async def _from_file(admin: Admin, given: Given, group: str) -> Offsets:
    plan = read_plan(given.text("from-file"), given.all("group"))
    if group not in plan:
        if given.has("json"):
            raise BadValue(f"No reset plan for group {group} found")
        print_error(f"No reset plan for group {group} found")
        return {}
    return await _in_range(admin, given, plan[group])


async def _in_range(admin: Admin, given: Given, wanted: Offsets) -> Offsets:
    """Move offsets that the logs do not have to their nearest end, and say so."""
    first = await _listed(admin, wanted, OffsetSpec.EARLIEST)
    end = await _listed(admin, wanted, OffsetSpec.LATEST)
    found: Offsets = {}
    for topic_partition, offset in wanted.items():
        found[topic_partition] = min(max(offset, first[topic_partition]), end[topic_partition])
        if found[topic_partition] != offset:
            side = (
                "lower than earliest" if offset < found[topic_partition] else "higher than latest"
            )
            _warn(
                given,
                f"New offset ({offset}) is {side} offset for topic partition {topic_partition}. "
                f"Value will be set to {found[topic_partition]}",
            )
    return found


def _warn(given: Given, text: str) -> None:
    if given.has("json"):
        print_warning(text)
    else:
        log_line("WARN", text, "kavka.cli.groups.reset")


def read_plan(path: str, groups: list[str]) -> dict[str, Offsets]:
    """Return the offsets of a file that `--export` printed: `topic,partition,offset`, or with the group before.

    The short form stands for the only group of `groups`; with several it says nothing about any of them.
    """
    try:
        text = read_text(path, MAX_DOCUMENT)
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except ValueError as error:
        raise BadValue(f"java.io.IOException: Unable to read file {path}: {error}") from None
    except (OSError, csv.Error):
        raise BadValue(f"java.io.IOException: Unable to read file {path}") from None
    plan: dict[str, Offsets] = {}
    if rows and len(rows[0]) == 3:
        if len(groups) != 1:
            return plan
        rows = [[groups[0], *row] for row in rows]
    for number, row in enumerate(rows, 1):
        try:
            group, topic, partition, offset = (cell.strip() for cell in row)
            topic_partition = TopicPartition(topic, whole_number(partition, 32))
            plan.setdefault(group, {})[topic_partition] = whole_number(offset, 64)
        except ValueError:
            raise BadValue(
                f"{path}, line {number}: expected group,topic,partition,offset, not {','.join(row)!r}"
            ) from None
    return plan
