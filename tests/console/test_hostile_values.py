"""Values that no page expects, in requests and in records: each has an answer, and none is a mistake of the console."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from kavka.client.consumer.batches import ConsumerRecord
from kavka.console import application
from kavka.console.access.exposure import local_path
from kavka.console.access.masks import mask_of
from kavka.console.formats import plain, utf8_of
from kavka.console.options import ConsoleOptions
from kavka.console.parameters import Arguments
from kavka.console.subject import Outcome, Services
from kavka.spark.queries.flow_progress import progress_from_json
from support.console import Cluster
from support.console_access import BASE, access, audited, browsers

JSON = {"Content-Type": "application/json"}


def record_of(value: bytes, key: bytes) -> ConsumerRecord:
    return ConsumerRecord("t", 0, 1, 2, 0, key, value, ())


HALF = b'{"a": "\\ud800"}'
"""JSON of half of a pair of UTF-16: valid, and no text."""


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    cluster.create("odd")
    cluster.write("odd", [(HALF, HALF), (b"k", b'{"event": "denied", "resource": "\\udfff"}')])
    return "odd"


@pytest.mark.parametrize("value", [b'"t-\\ud800"', b'["t"]', b'{"a": 1}', b"[" * 400 + b"]" * 400])
def test_values_of_json_that_are_no_text_are_refused(pages: TestClient, value: bytes) -> None:
    answer = pages.post("/api/create-topic", content=b'{"name": %s}' % value, headers=JSON)
    assert answer.status_code == 400, answer.text
    assert "name has half of a character" in answer.text or "name is an object" in answer.text


def test_numbers_of_json_that_are_no_numbers_are_refused(pages: TestClient) -> None:
    for value in (b"NaN", b"Infinity", b"1e999", b"9" * 4000, b"1.5", b"true", b"-" + b"9" * 18):
        body = b'{"name": "t", "partitions": %s}' % value
        assert pages.post("/api/create-topic", content=body, headers=JSON).status_code == 400
    body = b'{"name": "t", "partitions": %s}' % (b"9" * 5000)
    assert "no JSON object" in pages.post("/api/create-topic", content=body, headers=JSON).text


@pytest.mark.parametrize(
    "path",
    [
        "/topics/odd/messages",
        "/topics/odd/records/0/0",
        "/topics/odd/produce?from=0:0",
        "/audit?topic=odd",
        "/topics/odd/export?format=csv",
        "/topics/odd/export?format=json",
    ],
)
def test_records_with_half_of_a_character_are_shown(
    pages: TestClient, topic: str, path: str
) -> None:
    for answer in (pages.get(path), pages.get(f"/api{path}")):
        assert answer.status_code == 200, answer.text
        assert "\\ud" in answer.text


@pytest.mark.parametrize("charset", ["punycode", "undefined", "a\0b"])
def test_a_form_in_a_charset_that_cannot_be_read_is_refused(
    pages: TestClient, charset: str
) -> None:
    answer = pages.post(
        "/create-topic",
        content=b'--x\r\nContent-Disposition: form-data; name="csrf_token"\r\n\r\na\r\n--x--\r\n',
        headers={
            "Content-Type": f"multipart/form-data; boundary=x; charset={charset}",
            "Origin": BASE,
        },
    )
    assert (answer.status_code, "is no form" in answer.text) == (400, True)


def test_headers_that_are_no_addresses_or_numbers_are_refused(pages: TestClient) -> None:
    for origin in ("http://[", "null", "[", "http://", "x"):
        sent = pages.post("/api/create-topic", json={"name": "t"}, headers={"Origin": origin})
        assert sent.status_code == 403
    long = pages.post(
        "/api/create-topic", content=b"{}", headers={**JSON, "Content-Length": "9" * 5000}
    )
    assert long.status_code == 400
    assert local_path("//[::1") == local_path("//[") == "/"
    assert pages.get(f"/brokers/{'9' * 5000}").status_code == 400


def test_names_that_no_request_of_kafka_can_hold_are_refused(pages: TestClient) -> None:
    long = "\u00e9" * 19_000  # two bytes each
    sent = pages.post("/api/create-topic", json={"name": long})
    for answer in (sent, pages.get(f"/api/topics/{'x' * 40_000}")):
        assert (answer.status_code, "more than 32000 bytes" in answer.text) == (400, True)


def test_masks_cover_fields_beside_what_has_no_text() -> None:
    field, digits = mask_of({"field": "$.card"}), mask_of({"pattern": r"\d{4}"})
    half = rb'{"card": "1234", "x": "\ud800"}'
    for mask in (field, digits):
        done = mask.apply(record_of(half, key=half))
        assert done.key == done.value == rb'{"card": "***", "x": "\ud800"}'
    long = b'{"card": "1234", "n": %s}' % (b"9" * 5000)
    deep = b'{"card": "1234", "n": %s}' % (b"[" * 5000 + b"]" * 5000)
    covered = digits.apply(record_of(rb'{"a": "123\u0034", "n": 1234}', key=b"")).value
    assert covered == b'{"a": "***", "n": ***}'
    for key in (long, deep):
        assert field.apply(record_of(b"{}", key=key)).key == b"***"
        escaped = key.replace(b"1234", rb"123\u0034")
        assert b"123" not in (digits.apply(record_of(b"{}", key=escaped)).key or b"")


def test_progress_of_a_pipeline_is_text() -> None:
    found = progress_from_json(
        rb'{"pipeline": "p\ud800", "flow": "f", "kind": "stream", "state": "failed"}'
    )
    assert found.pipeline == "p?"


def test_json_of_a_view_has_no_nan() -> None:
    assert plain([float("nan"), float("-inf"), 1.5]) == [None, None, 1.5]
    assert json.loads(utf8_of('"\ud800"')) == "\ud800"


# Changes


def _of(act: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a console in which the form of a new topic does something else."""
    [form] = [action for action in application.ACTIONS if action.page.path == "/create-topic"]
    monkeypatch.setattr(application, "ACTIONS", (replace(form, act=act),))
    options = ConsoleOptions("127.0.0.1:1", sample_interval_ms=0, history_interval_ms=0)
    return application.create_application(options)


def test_a_change_that_fails_unexpectedly_is_a_line_of_the_audit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def act(_services: Services, _arguments: Arguments) -> Outcome:
        raise ZeroDivisionError("a secret")

    client = TestClient(_of(act, monkeypatch), base_url=BASE)
    with audited() as lines:
        assert client.post("/api/create-topic", json={"name": "t"}).status_code == 500
    [line] = lines
    assert (line["on"]["name"], line["result"]) == ("t", "failed: The console has made a mistake")


def test_a_change_that_is_cancelled_is_a_line_of_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def act(_services: Services, _arguments: Arguments) -> Outcome:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b'{"name": "t"}'}

    async def send(_message: Any) -> None:
        raise AssertionError

    async def story() -> None:
        headers = {"host": "localhost", "content-type": "application/json", "content-length": "13"}
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/api/create-topic",
            "query_string": b"",
            "scheme": "http",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        answering = asyncio.create_task(_of(act, monkeypatch)(scope, receive, send))
        await begun.wait()
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)

    with audited() as lines:
        asyncio.run(story())
    [line] = lines
    assert line["on"]["name"] == "t"
    assert line["result"] == "cancelled: whether it was done is unknown"


def test_a_login_with_what_is_no_text_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    with browsers(cluster.bootstrap, access(tmp_path)) as opened:
        client = opened().client
        for body in (
            b'{"user": "\\ud800", "password": "x"}',
            b'{"user": "ada", "password": "\\udfff"}',
        ):
            assert client.post("/api/login", content=body, headers=JSON).status_code == 400
        form = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n+2AA-\r\n--x--\r\n'
        kind = "multipart/form-data; boundary=x; charset=utf-7"  # it can write half of a pair
        for name in (b"csrf_token", b"user"):
            sent = client.post(
                "/login", content=form % name, headers={"Content-Type": kind, "Origin": BASE}
            )
            assert (sent.status_code, "half of a character" in sent.text) == (400, True)


@pytest.mark.parametrize("password", ["\0", "\u202e", "\u06501", "\ufffe", " ", "x" * 19_999])
def test_any_password_of_a_user_has_an_answer(pages: TestClient, password: str) -> None:
    form = {"user": "u", "mechanism": "SCRAM-SHA-256", "password": password, "again": password}
    assert pages.post("/api/users/password", json=form).status_code != 500


def test_the_head_of_a_page_of_events_ends(pages: TestClient, topic: str) -> None:
    for path in (f"/topics/{topic}/tail", f"/api/topics/{topic}/tail", "/"):
        answer = pages.head(path, headers={"Accept": "text/event-stream"})
        assert (answer.status_code, answer.content) == (200, b"")
