"""Parsers: what they find, and what they refuse."""

from __future__ import annotations

import socket
import subprocess
import time
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.collect.parsers.parsed import Parsed, Unparsable
from kavka.collect.parsers.rules import BadRules, ParserRules, parser_of

NOW_MS = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)


def ms(*parts: int, zone: timezone = UTC) -> int:
    return int(datetime(*parts, tzinfo=zone).timestamp() * 1000)  # type: ignore[misc, arg-type]


def parse(text: str, name: str, **rules: object) -> Parsed:
    return parser_of(ParserRules(name, **rules))(text, NOW_MS)  # type: ignore[arg-type]


def test_combined_and_common_lines() -> None:
    line = (
        '1.2.3.4 - al [17/May/2015:10:05:03 +0200] "GET /a?b=c d HTTP/1.1" 200 12 "-" "M \\"x\\""'
    )
    parsed = parse(line, "combined")
    assert parsed.time_ms == ms(2015, 5, 17, 8, 5, 3)
    assert parsed.fields == {
        "client": "1.2.3.4", "ident": None, "user": "al", "request": "GET /a?b=c d HTTP/1.1",
        "status": 200, "bytes": 12, "method": "GET", "path": "/a?b=c d", "protocol": "HTTP/1.1",
        "referrer": None, "agent": 'M \\"x\\"',
    }  # fmt: skip
    common = parse('::1 - - [01/Jan/2026:00:00:00 +0000] "-" 408 -', "combined").fields
    assert (common["request"], common["status"], common["bytes"]) == ("-", 408, 0)
    assert "method" not in common
    assert "agent" not in common


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("combined", "hello"),
        ("combined", '1.2.3.4 - - [17/Mai/2015:10:05:03 +0200] "GET / HTTP/1.1" 200 12'),
        ("combined", '1.2.3.4 - - [17/May/2015:10:05:03 +0200] "GET / HTTP/1.1" 200 12 "half'),
        ("json", '{"a": 1'),
        ("json", "[1]"),
        ("json", '{"a": NaN}'),
        ("json", "[" * 100_000),
        ("logfmt", "only words here"),
        ("logfmt", 'a="open'),
        ("logfmt", ""),
        ("syslog", "Feb 30 10:00:00 host app: x"),
        ("syslog", "<999>Feb 3 10:00:00 host app: x"),
        ("syslog", "<34>1 yesterday host app - - - x"),
        ("syslog", "no syslog at all"),
    ],
)
def test_what_is_not_in_the_format_is_refused(name: str, text: str) -> None:
    with pytest.raises(Unparsable):
        parse(text, name)


def test_json_keeps_its_types_and_finds_its_time() -> None:
    parsed = parse('{"ts": 1767225600.25, "a": {"b": [1, null]}}', "json")
    assert parsed == (1_767_225_600_250, {"ts": 1767225600.25, "a": {"b": [1, None]}})
    assert parse('{"@timestamp": "2026-01-01T00:00:00Z"}', "json").time_ms == ms(2026, 1, 1)
    assert (
        parse('{"time": "soon"}', "json").time_ms is None
    )  # without a declaration that it is a time
    with pytest.raises(Unparsable, match="no time"):
        parse('{"time": "soon"}', "json", time_field="time")
    with pytest.raises(Unparsable, match="missing"):
        parse("{}", "json", time_field="time")


@pytest.mark.parametrize(
    "number", [1767225600, 1767225600_000, 1767225600_000_000, 1767225600_000_000_000]
)
def test_numbers_are_seconds_to_nanoseconds_by_their_size(number: int) -> None:
    assert parse(f'{{"time": {number}}}', "json").time_ms == ms(2026, 1, 1)
    assert parse(f"time={number}", "logfmt").time_ms == ms(2026, 1, 1)


def test_logfmt_pairs_texts_and_words() -> None:
    parsed = parse(r'level=info msg="it \"works\"\n\\" debug empty= url=/a?b', "logfmt")
    assert parsed.fields == {
        "level": "info", "msg": 'it "works"\n\\', "debug": True, "empty": "", "url": "/a?b",
    }  # fmt: skip


_KEYS = st.from_regex(r"[a-z][a-z0-9_.]{0,8}", fullmatch=True)
_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=20)


@given(st.dictionaries(_KEYS, _TEXTS, min_size=1))
def test_logfmt_that_is_written_is_read(fields: dict[str, str]) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    line = " ".join(f"{key}={quoted(value)}" for key, value in fields.items())
    times = {"time", "timestamp", "ts"}
    if not times & fields.keys():
        assert parse(line, "logfmt") == (None, fields)


def test_syslog_of_rfc_5424() -> None:
    line = (
        "<165>1 2003-10-11T22:14:15.003+02:00 mymachine evntslog - ID47 "
        r'[exampleSDID@32473 iut="3" eventSource="App\]\"\\"][b@1] ' + "\ufeffAn event"
    )
    parsed = parse(line, "syslog")
    assert parsed.time_ms == ms(2003, 10, 11, 20, 14, 15) + 3
    assert parsed.fields == {
        "facility": 20, "severity": "notice", "hostname": "mymachine", "app": "evntslog",
        "message_id": "ID47", "message": "An event",
        "structured_data": {"exampleSDID@32473": {"iut": "3", "eventSource": 'App]"\\'}, "b@1": {}},
    }  # fmt: skip
    assert parse("<0>1 - - - - - -", "syslog").fields["message"] == ""


def test_syslog_of_rfc_3164_and_of_files() -> None:
    line = "<34>Oct 11 22:14:15 mymachine su[12]: 'su root' failed"
    parsed = parse(line, "syslog", zone=UTC)
    assert parsed.time_ms == ms(2025, 10, 11, 22, 14, 15)  # the last one before March 2026
    assert parsed.fields == {
        "facility": 4, "severity": "critical", "hostname": "mymachine", "app": "su",
        "process_id": "12", "message": "'su root' failed",
    }  # fmt: skip
    parsed = parse("Mar  1 23:00:00 h kernel: [ 1.2] up", "syslog", zone=ZoneInfo("Asia/Tokyo"))
    assert parsed.time_ms == ms(2026, 3, 1, 23, 0, 0, zone=timezone(timedelta(hours=9)))
    assert parsed.fields["message"] == "[ 1.2] up"
    iso = parse("2026-02-28T10:00:00.5+01:00 h cron[9]: ran", "syslog")
    assert iso.time_ms == ms(2026, 2, 28, 9, 0, 0) + 500
    assert parse("Feb 29 10:00:00 h a: b", "syslog", zone=UTC).time_ms == ms(2024, 2, 29, 10)


def test_a_regular_expression_names_its_fields() -> None:
    parsed = parse(
        "03.02.2026 04:05 WARN low (optional)",
        "regex",
        regex=r"(?P<at>\S+ \S+) (?P<level>\w+) (?P<text>.*?)(?: x(?P<no>.*))?",
        time_field="at",
        time_format="%d.%m.%Y %H:%M",
        zone=UTC,
    )
    assert parsed == (
        ms(2026, 2, 3, 4, 5),
        {"at": "03.02.2026 04:05", "level": "WARN", "text": "low (optional)"},
    )


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (ParserRules("regex"), "--regex are given together"),
        (ParserRules("json", regex="x"), "--regex are given together"),
        (ParserRules("regex", regex="("), "no regular expression"),
        (ParserRules("regex", regex="a"), "no named group"),
        (ParserRules("combined", time_field="x"), "has its own time"),
    ],
)
def test_rules_that_do_not_go_together_are_refused(rules: ParserRules, said: str) -> None:
    with pytest.raises(BadRules, match=said):
        parser_of(rules)


@pytest.mark.parametrize("form", ["--rfc5424", "--rfc3164"])
def test_what_logger_sends_is_parsed(form: str) -> None:
    """util-linux's program sends both formats."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(30)
        to = ["--udp", "--server", "127.0.0.1", "--port", str(server.getsockname()[1])]
        words = ["logger", *to, form, "--tag", "app", "--id=123", "-p", "mail.warning"]
        if form == "--rfc5424":
            words += ["--sd-id", "x@1", "--sd-param", 'a="b c"', "--msgid", "ID7"]
        before_ms = int(time.time()) * 1000
        subprocess.run([*words, "up: and running"], check=True, timeout=30)
        line = server.recv(65_536).decode()
        after_ms = int(time.time() * 1000)
    parsed = parser_of(ParserRules("syslog"))(line, after_ms)
    assert parsed.time_ms is not None
    assert before_ms <= parsed.time_ms <= after_ms
    wanted = {"facility": 2, "severity": "warning", "app": "app", "process_id": "123"}
    assert parsed.fields.items() >= {**wanted, "message": "up: and running"}.items()
    if form == "--rfc5424":
        assert parsed.fields["structured_data"]["x@1"] == {"a": "b c"}
        assert parsed.fields["message_id"] == "ID7"
