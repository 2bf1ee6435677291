"""Faults around a console: in the file of its history, the clock, answers of webhooks, files of rules."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kavka.console.alerts import records
from kavka.console.alerts.book import Book, Key
from kavka.console.alerts.conditions import Observation
from kavka.console.alerts.records import NewDelivery, Result
from kavka.console.alerts.rules import parse
from kavka.console.history.file import HistoryError, HistoryFile
from kavka.console.history.series import MINUTES, RAW, TENS
from kavka.console.history.series import Key as Series
from kavka.console.sentences import as_is
from kavka.net.webhook import Endpoint, Outcome, Verdict
from support.console import console

LAG = Series("group", "g", "lag_records")
BEGIN = 1_800_000_000


def opened(path: Path) -> HistoryFile:
    return HistoryFile(path, 1 << 30, 1000)


# The history


def test_a_damaged_row_is_a_gap(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = opened(tmp_path / "h.sqlite")
    for number in range(12):
        file.add(BEGIN + number * 10, {LAG: number})
    file.connection.execute("update rows set data = x'00' where at = ?", (BEGIN + 10,))
    file.connection.execute("update rows set data = substr(data, 1, 9) where at = ?", (BEGIN + 20,))
    file.add(BEGIN + 120, {LAG: 12})
    found = file.points([LAG], RAW, BEGIN, BEGIN + 200)[LAG]
    assert [value for _, value in found] == [0, *range(3, 13)]
    assert file.points([LAG], MINUTES, BEGIN, BEGIN)[LAG] == [(BEGIN, 5)]
    assert caplog.text.count("rows of the history are damaged") == 1
    file.close()


def test_a_file_whose_tables_are_damaged_is_refused_and_free_for_others(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    opened(path).close()
    with sqlite3.connect(path) as database:
        [root] = database.execute(
            "select rootpage from sqlite_master where name = 'series'"
        ).fetchone()
        [size] = database.execute("pragma page_size").fetchone()
    database.close()
    data = bytearray(path.read_bytes())
    data[(root - 1) * size : root * size] = b"\xff" * size
    path.write_bytes(data)
    for _ in range(2):  # the first one lets go of it
        with pytest.raises(HistoryError, match=r"cannot be opened: .*malformed"):
            opened(path)


def test_pages_say_that_the_disk_of_the_history_is_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with console("127.0.0.1:1", history=tmp_path / "h.sqlite", timeout_ms=200) as pages:
        history = pages.app.state.services.history
        assert pages.portal is not None
        pages.portal.call(
            history.run, lambda file: file.connection.execute("pragma query_only = on")
        )
        form = {"alert": "*", "subject": "*", "for": "1h"}
        answer = pages.post("/api/alerts/silence", json=form)
        assert (answer.status_code, answer.json()["title"]) == (
            503,
            "The file of the history cannot be used",
        )
        pages.portal.call(history.look)
        assert "alerts not kept" in caplog.text
        assert "Traceback" not in caplog.text
        pending = [one["alert"] for one in pages.get("/api/alerts").json()["alerts"]]
        assert pending == ["ClusterUnreachable"]
        pages.portal.call(history.look)
        said = {one["alert"]: one["sentence"] for one in pages.get("/api/alerts").json()["alerts"]}
        assert said["HistoryNotKept"].startswith("The history cannot be written: attempt to write")


# The clock


def test_a_clock_that_was_ahead_does_not_stop_longer_steps() -> None:
    file = HistoryFile(None, 1 << 30, 10)
    file.add(BEGIN + 20 * 86_400, {LAG: 99})
    file.add(BEGIN + 20 * 86_400 + TENS.step_s, {LAG: 99})
    for second in range(0, 1300, 20):
        file.add(BEGIN + second, {LAG: second})
    assert file.points([LAG], TENS, BEGIN, BEGIN + 600)[LAG] == [(BEGIN, 580), (BEGIN + 600, 1180)]
    file.close()


def rule_of(text: str):
    rules, problems = parse(f"rules: [{{{text}}}]", Path())
    assert problems == []
    return rules.rules[0]


def test_alerts_go_on_when_the_clock_is_set_back() -> None:
    rule = rule_of(
        "alert: Late, watch: group_lag_records, above: 1, for: 1m, clear_for: 1m, repeat: 1h"
    )
    book, late = Book(), [Observation("g", 5.0, as_is("late"), "/")]
    fine = [Observation("g", 0.0, as_is("fine"), "/")]

    def look(at_s: int, observations: list[Observation]) -> list[str]:
        book.set_back(at_s * 1000)
        return [one.event for one in book.evaluate(at_s * 1000, rule, observations, lambda *_: "")]

    hour, key = 3600, Key("Late", "g")
    assert look(10 * hour, late) == look(10 * hour + 40, late) == []
    assert look(hour, late) == []
    assert look(hour + 10, late) == []
    assert look(hour + 20, late) == ["firing"]
    incident = book.states[key].since_ms
    assert look(60, late) == []
    assert look(120, fine) == []
    assert book.states[key].since_ms == incident
    assert look(0, fine) == []
    assert look(40, fine) == []
    assert look(60, fine) == ["resolved"]
    assert key not in book.states


def test_messages_are_not_kept_back_when_the_clock_is_set_back() -> None:
    file = HistoryFile(None, 1 << 30, 10)
    one = records.waiting(0, NewDelivery("hook", "k", "{}"), BEGIN)
    records.write(file, {}, [], [one], {})
    records.write(file, None, [], [], {1: Result(records.WAITING, 1, BEGIN + 600, "")})
    found = records.oldest(file, "hook")
    assert found is not None
    assert not records.is_due(found, BEGIN)
    assert records.is_due(found, BEGIN + 600)
    assert records.is_due(found, BEGIN - 86_400)
    file.close()


# Answers of webhooks


@contextmanager
def answering(*parts: bytes, pause_s: float = 0) -> Iterator[str]:
    """Serve one request with these parts, and nothing after them."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                try:
                    for part in parts:
                        connection.sendall(part)
                        is_over.wait(pause_s)
                except OSError:
                    pass  # the other end has had enough

        is_over = threading.Event()
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        is_over.set()
        thread.join()


def posted(url: str, timeout_s: float = 5.0) -> Outcome:
    async def post() -> Outcome:
        return await Endpoint(url, {}, timeout_s).post(b"{}", "k", asyncio.Event())

    return asyncio.run(post())


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n", 302),
        (b"HTTP/1.1 503 x\r\nRetry-After: Mon, 01 Jan 2026 00:00:00 +" + b"9" * 20 + b"\r\n", 503),
        (b"HTTP/1.1 200 ok\r\nContent-Length: 999999999999\r\n", 200),
        (b"HTTP/1.1 500 \x1b[2J\x07" + b"x" * 5000 + b"\r\n", 500),
        (b"HTTP/1.1 200 ok\r\n" + b"A: b\r\n" * 200, None),
        (b"HTTP/1.1 2x0 ok\r\n", None),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 50 + b"HTTP/1.1 204 x\r\n", 204),
        (b"\xff\xfe\r\n", None),
    ],
)
def test_an_attempt_has_an_outcome_whatever_a_webhook_answers(
    head: bytes, status: int | None
) -> None:
    with answering(head + b"\r\n", b"x" * 100_000) as url:
        outcome = posted(url)
    assert outcome.status == status
    assert len(outcome.text) <= 300
    assert outcome.text.isprintable()


def test_a_webhook_that_drips_is_left_after_the_time_out() -> None:
    with answering(b"HTTP/1.1 200 ok\r\n", *[b"A: b\r\n"] * 90, pause_s=0.02) as url:
        outcome = posted(url, 0.1)
    assert (outcome.status, outcome.verdict) == (None, Verdict.UNAVAILABLE)


# Files of rules


BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 15)
)


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        (BOMB, 1, "more than 20,000 values"),
        ("[" * 520, 1, "nested too deeply"),
        ("\na: 2026-13-45", 2, "month must be in 1..12"),
        ("a: " + "9" * 5000, 1, "integer string conversion"),
        ("a: !!float x", 1, "could not convert"),
        ("a: !!timestamp x", 1, "not valid YAML"),
        ('a: "\\ud800"', 1, "half of a character"),
        ("\0", 1, "special characters are not allowed"),
    ],
)
def test_a_file_of_rules_that_cannot_be_read_is_a_mistake_with_a_line(
    text: str, line: int, sentence: str
) -> None:
    _, [problem] = parse(text, Path())
    assert sentence in problem.sentence
    if text != BOMB:
        assert problem.line == line
