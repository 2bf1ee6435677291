"""The alerts' part of the history's file: states, events, deliveries, silences. On the file's thread.

The states, events and deliveries of one look are one transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final, NamedTuple

from kavka.console.alerts.book import Key, State
from kavka.console.alerts.messages import Alert
from kavka.console.history.file import HistoryFile
from kavka.console.sentences import parts_of, restored
from kavka.console.views.paging import Paging, paged
from kavka.net.webhook import MAX_RETRY_AFTER_S

KEPT_S: Final = 30 * 86_400
_MOST_EVENTS: Final = 100_000
WAITING, DELIVERED, GIVEN_UP = "waiting", "delivered", "given up"


class NewDelivery(NamedTuple):
    """A message for a channel."""

    channel: str
    key: str
    document: str
    """JSON, without secrets."""


class Delivery(NamedTuple):
    """A message, and how far it came."""

    number: int
    channel: str
    key: str
    document: str
    made_s: int
    attempts: int
    due_s: int
    state: str
    reason: str


class Result(NamedTuple):
    """The state of a message after an attempt."""

    state: str
    attempts: int
    due_s: int
    reason: str


class Silence(NamedTuple):
    """A time in which alerts are not sent."""

    id: str
    alert: str
    """A pattern of names of rules."""
    subject: str
    until_s: int
    comment: str
    made_s: int


def read_states(file: HistoryFile) -> dict[Key, State]:
    """Return the states that were kept."""
    rows = file.connection.execute("select rule, subject, state from alert_states")
    return {Key(rule, subject): State.from_json(state) for rule, subject, state in rows}


def waiting(number: int, new: NewDelivery, now_s: int) -> Delivery:
    """Return a message for which no attempt was made."""
    return Delivery(number, *new, now_s, 0, now_s, WAITING, "")


def write(
    file: HistoryFile,
    states: Mapping[Key, State] | None,
    events: Sequence[tuple[int, Alert]],
    deliveries: Sequence[Delivery],
    results: Mapping[int, Result],
    channels: Sequence[str] | None = None,
) -> list[int]:
    """Keep all of it or nothing, and return the numbers of the messages.

    `states` are all that there are, `events` have their times, `results` are of messages that the file has. Messages of
    other `channels` are given up.
    """
    with file.connection as database:
        if states is not None:
            _write_states(database, states)
        database.executemany(
            "insert into alert_events (at, incident, event, document) values (?, ?, ?, ?)",
            [(at_s, one.incident, one.event, _event_text(one)) for at_s, one in events],
        )
        numbers = [_add_delivery(database, one) for one in deliveries]
        for number, result in results.items():
            _update(database, number, result)
        if channels is not None:
            _give_up_unknown(database, channels)
    return numbers


def _write_states(database: sqlite3.Connection, states: Mapping[Key, State]) -> None:
    kept = {Key(*row) for row in database.execute("select rule, subject from alert_states")}
    database.executemany(
        "delete from alert_states where rule = ? and subject = ?", kept - states.keys()
    )
    database.executemany(
        "insert or replace into alert_states values (?, ?, ?)",
        [(*key, state.to_json()) for key, state in states.items()],
    )


def _add_delivery(database: sqlite3.Connection, one: Delivery) -> int:
    made = database.execute(
        "insert into deliveries (channel, key, document, made, attempts, due, state, reason) "
        "values (?, ?, ?, ?, ?, ?, ?, ?)",
        (*one[1:-1], one.reason[:500]),
    )
    assert made.lastrowid is not None
    return made.lastrowid


def remove_old(file: HistoryFile, now_s: int) -> None:
    """Remove what is older than 30 days, and silences that are over."""
    with file.connection as database:
        database.execute("delete from alert_events where at < ?", (now_s - KEPT_S,))
        database.execute(
            "delete from alert_events where number <= (select max(number) from alert_events) - ?",
            (_MOST_EVENTS,),
        )
        database.execute(
            "delete from deliveries where state != 'waiting' and made < ?", (now_s - KEPT_S,)
        )
        database.execute("delete from silences where until < ?", (now_s - KEPT_S,))


def events(
    file: HistoryFile, page: int, size: int, incident: str = ""
) -> tuple[list[Alert], Paging]:
    """Return a page of events, the newest first, all or those of one alert."""
    where, values = ("where incident = ?", [incident]) if incident else ("", [])
    [count] = file.connection.execute(
        f"select count(*) from alert_events {where}", values
    ).fetchone()
    _, paging = paged(range(count), page, size)
    rows = file.connection.execute(
        f"select document from alert_events {where} order by number desc limit ? offset ?",
        (*values, size, max(paging.first - 1, 0)),
    ).fetchall()
    return [_event(document) for (document,) in rows], paging


_SENTENCES: Final = ("sentence", "advice")


def _event_text(alert: Alert) -> str:
    parts = {name: parts_of(getattr(alert, name)) for name in _SENTENCES}
    return json.dumps({**asdict(alert), "parts": parts})


def _event(document: str) -> Alert:
    given = json.loads(document)
    parts = given.pop("parts", {})
    said = {name: restored(given[name], parts.get(name)) for name in _SENTENCES}
    return Alert(**{**given, **said})


# Deliveries

_LONGEST_PAUSE_S: Final = int(MAX_RETRY_AFTER_S) + 60
_COLUMNS: Final = "number, channel, key, document, made, attempts, due, state, reason"


def oldest(file: HistoryFile, channel: str, after: int = 0) -> Delivery | None:
    """Return the oldest message of a channel that waits, of those with a larger number."""
    row = file.connection.execute(
        f"select {_COLUMNS} from deliveries where state = 'waiting' and channel = ? and number > ? "
        "order by number limit 1",
        (channel, after),
    ).fetchone()
    return None if row is None else Delivery(*row)


def is_due(delivery: Delivery, now_s: int) -> bool:
    """Return whether an attempt is to be made."""
    # One that is due later than any pause is long was tried before the clock was set back.
    return not now_s < delivery.due_s <= now_s + _LONGEST_PAUSE_S


def _update(database: sqlite3.Connection, number: int, result: Result) -> None:
    """Note an attempt."""
    database.execute(
        "update deliveries set state = ?, attempts = ?, due = ?, reason = ? where number = ?",
        (*result[:-1], result.reason[:500], number),
    )


def _give_up_unknown(database: sqlite3.Connection, channels: Sequence[str]) -> None:
    """Give up the messages of channels that the rules have no more."""
    marks = ", ".join("?" * len(channels))
    database.execute(
        "update deliveries set state = 'given up', reason = 'the rules have no such channel any more' "
        f"where state = 'waiting' and channel not in ({marks})",
        tuple(channels),
    )


def of_channels(file: HistoryFile) -> dict[str, tuple[int, Delivery | None]]:
    """Return how many messages wait for each channel, and its newest one that was tried."""
    waiting = dict(
        file.connection.execute(
            "select channel, count(*) from deliveries where state = 'waiting' group by channel"
        )
    )
    rows = file.connection.execute(
        f"select {_COLUMNS} from deliveries where number in "
        "(select max(number) from deliveries where attempts > 0 group by channel)"
    )
    tried = {one.channel: one for one in (Delivery(*row) for row in rows.fetchall())}
    return {name: (waiting.get(name, 0), tried.get(name)) for name in waiting.keys() | tried.keys()}


def deliveries(file: HistoryFile, limit: int) -> list[Delivery]:
    """Return messages, the newest first."""
    rows = file.connection.execute(
        f"select {_COLUMNS} from deliveries order by number desc limit ?", (limit,)
    )
    return [Delivery(*row) for row in rows.fetchall()]


# Silences


def silences(file: HistoryFile, now_s: int) -> list[Silence]:
    """Return the silences that are not over."""
    rows = file.connection.execute(
        "select id, document, until from silences where until > ? order by until", (now_s,)
    )
    found = []
    for number, document, until_s in rows.fetchall():
        given = json.loads(document)
        found.append(
            Silence(
                number, given["alert"], given["subject"], until_s, given["comment"], given["made"]
            )
        )
    return found


def add_silence(file: HistoryFile, silence: Silence) -> None:
    """Keep a silence."""
    document = {
        "alert": silence.alert,
        "subject": silence.subject,
        "comment": silence.comment,
        "made": silence.made_s,
    }
    with file.connection as database:
        database.execute(
            "insert into silences values (?, ?, ?)",
            (silence.id, json.dumps(document), silence.until_s),
        )


def end_silence(file: HistoryFile, number: str) -> bool:
    """End a silence, and return whether there was one."""
    with file.connection as database:
        return database.execute("delete from silences where id = ?", (number,)).rowcount > 0
