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
from kavka.client.admin.offset_resets import (
    Adjustment,
    NoCommittedOffset,
    PlannedReset,
    ResetTo,
    plan_offsets,
    plan_reset,
)
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
    if given.has("from-file"):
        return await _from_file(admin, given, group, timeout_ms)
    committed: Offsets = {}
    if given.has("to-current") or given.has("shift-by"):
        found = await admin.list_group_offsets(group, partitions, timeout_ms=timeout_ms)
        committed = {key: found[key].offset for key in partitions if key in found}
    try:
        if given.has("to-current"):
            # The logs of the others are not asked: a topic may be deleted, and its offsets exported.
            others = [key for key in partitions if key not in committed]
            plans = await plan_reset(admin, others, ResetTo.LATEST, timeout_ms=timeout_ms)
            return {**committed, **_new_offsets(given, plans)}
        to, value = _scenario(given)
        plans = await plan_reset(
            admin, partitions, to, value, committed=committed, timeout_ms=timeout_ms
        )
    except NoCommittedOffset as error:
        raise BadUsage(
            f"Cannot shift offset for partition {error.topic_partition} since there is no current committed offset"
        ) from None
    except KafkaError as error:
        raise KafkaError(error.code) from None
    return _new_offsets(given, plans)


def _scenario(given: Given) -> tuple[ResetTo, int]:
    """Return what to set offsets to, with its time, offset or number of records."""
    if given.has("to-earliest"):
        return ResetTo.EARLIEST, 0
    if given.has("to-latest"):
        return ResetTo.LATEST, 0
    if given.has("to-datetime"):
        return ResetTo.TIME, _not_negative(moment_ms(given.text("to-datetime")))
    if given.has("by-duration"):
        ago_ms = duration_ms(given.text("by-duration"))
        return ResetTo.TIME, _not_negative(current_time_ms() - ago_ms)
    for option, to in (("to-offset", ResetTo.OFFSET), ("shift-by", ResetTo.SHIFT)):
        if given.has(option):
            value = given.integer(option, 64)
            assert value is not None
            return to, value
    listed = ", ".join(f"[{name}]" for name in SCENARIOS)
    raise BadUsage(f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]")


def _not_negative(at_ms: int) -> int:
    if at_ms < 0:
        raise BadValue("Invalid negative timestamp")
    return at_ms


async def _from_file(admin: Admin, given: Given, group: str, timeout_ms: int) -> Offsets:
    plan = read_plan(given.text("from-file"), given.all("group"))
    if group not in plan:
        if given.has("json"):
            raise BadValue(f"No reset plan for group {group} found")
        print_error(f"No reset plan for group {group} found")
        return {}
    try:
        return _new_offsets(given, await plan_offsets(admin, plan[group], timeout_ms))
    except KafkaError as error:
        raise KafkaError(error.code) from None


def _new_offsets(given: Given, plans: Iterable[PlannedReset]) -> Offsets:
    """Return the planned offsets, with a warning for each that is not the one that was asked for."""
    for plan in plans:
        match plan.adjustment:
            case Adjustment.NO_LATER_RECORD:
                topic, partition = plan.topic_partition
                text = f"Partition {partition} from topic {topic} is empty. Falling back to latest known offset."
                if given.has("json"):
                    print_warning(text)
                else:
                    show(f"\nWarn: {text}\n")
            case Adjustment.BELOW_START:
                _warn_of_move(given, plan, "lower than earliest")
            case Adjustment.ABOVE_END:
                _warn_of_move(given, plan, "higher than latest")
    return {plan.topic_partition: plan.new for plan in plans}


def _warn_of_move(given: Given, plan: PlannedReset, side: str) -> None:
    text = (
        f"New offset ({plan.wanted}) is {side} offset for topic partition {plan.topic_partition}. "
        f"Value will be set to {plan.new}"
    )
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
