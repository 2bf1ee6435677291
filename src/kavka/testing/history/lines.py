"""Histories on disk: JSON lines that a program in any language can write.

The first line may be a header: `{"history": 1}`, with the promises that the run was made under if it knows them
(`"acks"`, `"idempotent"`, ...: see `promises`). Every other line is an event:

    {"op": 7, "process": "producer-0", "type": "invoke", "time_ns": 1200, "action": "send", "topic": "t",
     "partition": 0, "value": "a"}
    {"op": 7, "process": "producer-0", "type": "ok", "time_ns": 3400, "action": "send", "topic": "t",
     "partition": 0, "value": "a", "offset": 12}

`op` ties a completion to its invocation. Actions and their fields, beside those of all events:

    send       topic, partition, value; when it is acknowledged `offset`, null where unknown
    poll       records, a list of [topic, partition, offset, value]; none when invoked
    assign     partitions, a list of [topic, partition]
    subscribe  topics
    rebalance  revoked and assigned, lists of [topic, partition]
    seek       topic, partition, offset (null: somewhere)
    begin, commit, abort
    scan       topic, partition, start, end, records

`error` may say in words what went wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import IO, Any

from kavka.ids import TopicPartition
from kavka.testing.history.operations import (
    Abort,
    Action,
    Assign,
    Begin,
    Commit,
    Event,
    MalformedHistory,
    Poll,
    Rebalance,
    Record,
    Scan,
    Seek,
    Send,
    Subscribe,
    Type,
)

FORMAT = 1


def write_header(sink: IO[str], promises: dict[str, Any]) -> None:
    """Write the first line."""
    sink.write(json.dumps({"history": FORMAT, **promises}) + "\n")


def write_event(sink: IO[str], event: Event) -> None:
    """Write one event as a line."""
    sink.write(json.dumps(event_fields(event), ensure_ascii=False) + "\n")


def read_lines(lines: Iterable[str]) -> tuple[dict[str, Any], list[Event]]:
    """Return the header's promises (none without a header) and the events. Raise MalformedHistory."""
    promises: dict[str, Any] = {}
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            if "history" in fields:
                promises = _header(fields, is_first=not events)
            else:
                events.append(read_event(fields))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise MalformedHistory(f"line {number}: {type(error).__name__}: {error}") from error
    return promises, events


def _header(fields: dict[str, Any], *, is_first: bool) -> dict[str, Any]:
    if not is_first or fields["history"] != FORMAT:
        raise ValueError(f"a header must come first and say {FORMAT}: {fields}")
    return {name: value for name, value in fields.items() if name != "history"}


def event_fields(event: Event) -> dict[str, Any]:
    """Return an event as the object of its line."""
    fields: dict[str, Any] = {
        "op": event.number,
        "process": event.process,
        "type": str(event.type),
        "time_ns": event.time_ns,
        "action": type(event.action).__name__.lower(),
    }
    fields |= _action_fields(event.action, is_completed=event.type is not Type.INVOKE)
    if event.error is not None:
        fields["error"] = event.error
    return fields


def _action_fields(action: Action, *, is_completed: bool) -> dict[str, Any]:
    match action:
        case Send((topic, partition), value, offset):
            fields = {"topic": topic, "partition": partition, "value": value}
            return fields | ({"offset": offset} if is_completed else {})
        case Poll(records):
            return {"records": _rows(records)} if is_completed else {}
        case Assign(partitions):
            return {"partitions": [list(topic_partition) for topic_partition in partitions]}
        case Subscribe(topics):
            return {"topics": list(topics)}
        case Rebalance(revoked, assigned):
            return {
                "revoked": [list(topic_partition) for topic_partition in revoked],
                "assigned": [list(topic_partition) for topic_partition in assigned],
            }
        case Seek((topic, partition), offset):
            return {"topic": topic, "partition": partition, "offset": offset}
        case Scan((topic, partition), start, end, records):
            fields = {"topic": topic, "partition": partition}
            result = {"start": start, "end": end, "records": _rows(records)}
            return fields | (result if is_completed else {})
        case Begin() | Commit() | Abort():
            return {}


def _rows(records: Iterable[Record]) -> list[list[Any]]:
    return [[*record.partition, record.offset, record.value] for record in records]


def read_event(fields: dict[str, Any]) -> Event:
    """Return the event of a line's object. Raise ValueError, KeyError, TypeError for what is none."""
    return Event(
        int(fields["op"]),
        str(fields["process"]),
        Type(fields["type"]),
        int(fields["time_ns"]),
        _read_action(fields),
        fields.get("error"),
    )


def _read_action(fields: dict[str, Any]) -> Action:
    match fields["action"]:
        case "send":
            return Send(_place(fields), str(fields["value"]), _optional(fields.get("offset")))
        case "poll":
            return Poll(_records(fields.get("records", ())))
        case "assign":
            return Assign(_partitions(fields["partitions"]))
        case "subscribe":
            return Subscribe(tuple(map(str, fields["topics"])))
        case "rebalance":
            gone, came = fields.get("revoked", ()), fields.get("assigned", ())
            return Rebalance(_partitions(gone), _partitions(came))
        case "seek":
            return Seek(_place(fields), _optional(fields.get("offset")))
        case "begin":
            return Begin()
        case "commit":
            return Commit()
        case "abort":
            return Abort()
        case "scan":
            start, end = int(fields.get("start", 0)), int(fields.get("end", 0))
            return Scan(_place(fields), start, end, _records(fields.get("records", ())))
        case other:
            raise ValueError(f"{other!r} is no action")


def _place(fields: dict[str, Any]) -> TopicPartition:
    return TopicPartition(str(fields["topic"]), int(fields["partition"]))


def _optional(offset: int | None) -> int | None:
    """Return an offset; what is negative is unknown, as in Kafka's responses."""
    return None if offset is None or int(offset) < 0 else int(offset)


def _partitions(rows: Iterable[list[Any]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(str(topic), int(partition)) for topic, partition in rows)


def _records(rows: Iterable[list[Any]]) -> tuple[Record, ...]:
    return tuple(
        Record(TopicPartition(str(topic), int(partition)), int(offset), str(value))
        for topic, partition, offset, value in rows
    )
