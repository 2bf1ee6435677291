"""Histories of a correct broker show nothing forbidden; each way of spoiling one is found."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kavka.testing.history import (
    Abort,
    Begin,
    Commit,
    Event,
    Poll,
    Promises,
    Record,
    Scan,
    Seek,
    Send,
    Type,
    check,
)
from kavka.testing.history.facts import Facts, Outcome
from kavka.testing.history.operations import pair
from support.examples import examples
from support.history.log_of_a_broker import Model

Change = Callable[[tuple[Record, ...]], tuple[Record, ...]]

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=examples(150), deadline=None)
def test_a_correct_broker_shows_nothing_that_is_forbidden(seed: int) -> None:
    verdict = check(Model(random.Random(seed)).events)
    assert verdict.passed, verdict.report()


def read(event: Event) -> tuple[Record, ...]:
    return event.action.records if isinstance(event.action, Poll | Scan) else ()


def with_records(events: list[Event], change: Change, kinds: tuple[type, ...]) -> list[Event]:
    """Return the events with what polls or scans returned changed."""
    return [
        replace(event, action=replace(event.action, records=change(read(event))))  # type: ignore[arg-type]
        if isinstance(event.action, kinds)
        else event
        for event in events
    ]


def without(victim: Record) -> Change:
    return lambda records: tuple(record for record in records if record != victim)


def polled(events: list[Event]) -> set[Record]:
    return {record for event in events if isinstance(event.action, Poll) for record in read(event)}


def pick(source: random.Random, records: set[Record]) -> Record:
    assume(records)
    return source.choice(sorted(records, key=lambda record: (record.partition, record.offset)))


def lose(events: list[Event], source: random.Random) -> list[Event]:
    """No consumer reads an acknowledged record; not one of a transaction that only its reads show to be committed."""
    seen = {record for event in events for record in read(event)}
    client_events = [event for event in events if not isinstance(event.action, Poll | Scan)]
    writes = Facts(pair(client_events), read_committed=True).writes.values()
    known = {write.send.value for write in writes if write.outcome is Outcome.COMMITTED}
    victim = pick(source, {record for record in seen if record.value in known})
    return with_records(events, without(victim), (Poll, Scan))


def forget(events: list[Event], source: random.Random) -> list[Event]:
    """The scan does not find what a poll found."""
    return with_records(events, without(pick(source, polled(events))), (Scan,))


def double(events: list[Event], source: random.Random) -> list[Event]:
    """A record stands once more at the end of the log."""
    victim = pick(source, {record for event in events for record in read(event)})

    def change(records: tuple[Record, ...]) -> tuple[Record, ...]:
        if victim not in records:
            return records
        return (*records, replace(victim, offset=records[-1].offset + 1))

    return with_records(events, change, (Scan,))


def garble(events: list[Event], source: random.Random) -> list[Event]:
    """A record that was not written replaces one that was never polled."""
    scanned = {record for event in events for record in read(event)} - polled(events)
    victim = pick(source, scanned)

    def change(records: tuple[Record, ...]) -> tuple[Record, ...]:
        return tuple(replace(r, value="garbage") if r == victim else r for r in records)

    return with_records(events, change, (Scan,))


def replace_one(events: list[Event], source: random.Random) -> list[Event]:
    """The scan finds one polled record where another one was polled."""
    victim = pick(source, polled(events))
    other = pick(
        source, {r for r in polled(events) if r != victim and r.partition == victim.partition}
    )

    def change(records: tuple[Record, ...]) -> tuple[Record, ...]:
        return tuple(replace(r, value=other.value) if r == victim else r for r in records)

    return with_records(events, change, (Scan,))


def change_poll(
    events: list[Event], source: random.Random, size: int, change: Change
) -> list[Event]:
    """Change one poll that returned at least `size` records of a single partition."""
    fitting = [
        index
        for index, event in enumerate(events)
        if isinstance(event.action, Poll)
        and len(read(event)) >= size
        and len({record.partition for record in read(event)}) == 1
    ]
    assume(fitting)
    index = source.choice(fitting)
    changed = Poll(change(read(events[index])))
    return [*events[:index], replace(events[index], action=changed), *events[index + 1 :]]


def turn_round(events: list[Event], source: random.Random) -> list[Event]:
    """A poll returns its records in another order."""
    return change_poll(events, source, 2, lambda records: (*records[2:], records[1], records[0]))


def skip(events: list[Event], source: random.Random) -> list[Event]:
    """A poll leaves out a record in its middle."""
    return change_poll(events, source, 3, lambda records: (records[0], *records[2:]))


def seek_elsewhere(events: list[Event], source: random.Random) -> list[Event]:
    """A consumer sought the offset after the first record of its next poll."""
    fitting = [
        index
        for index, event in enumerate(events)
        if isinstance(event.action, Poll) and read(event) and event.process == "alone"
    ]
    assume(fitting)
    index = source.choice(fitting)
    first = read(events[index])[0]
    asked = events.index(next(e for e in events if e.number == events[index].number))
    seek = Event(
        1_000_000, "alone", Type.OK, events[asked].time_ns, Seek(first.partition, first.offset + 1)
    )
    return [*events[:asked], seek, *events[asked:]]


def fail(events: list[Event], source: random.Random) -> list[Event]:
    """A send failed whose record was read."""
    victim = pick(source, {record for event in events for record in read(event)})
    return [
        replace(event, type=Type.FAIL)
        if isinstance(event.action, Send)
        and event.action.value == victim.value
        and event.type is not Type.INVOKE
        else event
        for event in events
    ]


def abort(events: list[Event], source: random.Random) -> list[Event]:
    """Every commit that seemed to succeed was an abort."""
    assume(committed_and_read(events))
    return [
        replace(event, action=Abort()) if isinstance(event.action, Commit) else event
        for event in events
    ]


def commit_late(events: list[Event], source: random.Random) -> list[Event]:
    """The last commit of a process came after all consumers had read everything."""
    last = {event.process: event.number for event in events if event.process in ("x0", "x1")}
    moved = set(last.values()) & set(committed_and_read(events))
    assume(moved)
    late = [event for event in events if event.number in moved]
    return [event for event in events if event.number not in moved] + late


def committed_and_read(events: list[Event]) -> list[int]:
    """Return the operations that committed a transaction of which a record was read."""
    values = {record.value for event in events for record in read(event)}
    found: list[int] = []
    sent: dict[str, set[str]] = {}
    for event in events:
        match event.action:
            case Begin():
                sent[event.process] = set()
            case Send(_, value) if event.process in sent:
                sent[event.process].add(value)
            case Commit() if event.type is Type.OK and sent[event.process] & values:
                found.append(event.number)
            case _:
                pass
    return found


SPOILED = {
    lose: {"lost-write"},
    forget: {"lost-write", "vanished-read"},
    double: {"duplicate"},
    garble: {"unwritten-read"},
    replace_one: {"inconsistent-offsets"},
    turn_round: {"int-nonmonotonic-poll"},
    skip: {"int-poll-skip"},
    seek_elsewhere: {"nonmonotonic-poll"},
    fail: {"failed-write-read"},
    abort: {"aborted-read"},
    commit_late: {"precommitted-read"},
}


@pytest.mark.parametrize("spoil", SPOILED)
@given(seed=seeds)
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
def test_a_lie_is_found(
    spoil: Callable[[list[Event], random.Random], list[Event]], seed: int
) -> None:
    source = random.Random(seed)
    events = spoil(Model(source).events, source)
    verdict = check(events, Promises())
    assert set(verdict.forbidden) & SPOILED[spoil], verdict.report()  # type: ignore[index]
