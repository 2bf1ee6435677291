"""SQL in a process of its own, and pages that come as events."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from kavka.console.application import create_application
from kavka.console.options import ConsoleOptions
from kavka.console.pages import sql
from kavka.console.sql_worker import answer_of, session_for
from kavka.sql.errors import SqlError
from kavka.sql.session import Session
from support.console import Cluster
from support.console_access import access, audited, browsers
from support.waiting import eventually

Message = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def numbers(cluster: Cluster) -> None:
    cluster.create("numbers")
    rows: list[tuple[bytes | None, bytes | None]] = [
        (b"k%d" % (n % 2), json.dumps({"n": n}).encode()) for n in range(10)
    ]
    cluster.write("numbers", rows)


def test_a_statement_has_its_rows_and_says_how_far_it_looked(pages: TestClient) -> None:
    statement = "select key, sum(n) s from numbers group by key order by key"
    page = pages.get("/api/sql", params={"statement": statement, "rows": 1})
    found = page.json()
    assert (found["names"], found["rows"]) == (["key", "s"], [["k0", "20"]])
    assert found["note"].startswith("Read 10 of 10 offsets in ")
    assert found["note"].endswith("It ended at its bound of rows.")


def test_each_statement_is_a_line_of_the_audit(
    cluster: Cluster, pages: TestClient, tmp_path: Path
) -> None:
    statement = "select key from numbers\nwhere n < 3"
    with audited() as lines:
        assert pages.get("/sql").status_code == 200
        assert pages.get("/sql", params={"statement": " "}).status_code == 200
        assert pages.get("/sql", params={"statement": statement}).status_code == 200
        wrong = f"/*{'x' * 19_000}*/ select key::int from numbers"
        answer = pages.get("/api/sql", params={"statement": wrong})
        assert answer.status_code == 400
        assert "'k0'" in answer.json()["detail"]
    [good, bad] = lines
    assert (good["source"], good["action"]) == ("none", "GET /sql")
    assert good["on"] == {"statement": statement, "rows": "200", "seconds": "10"}
    assert good["result"] == "ok: 3 rows, end"
    assert (bad["action"], bad["result"]) == ("GET /api/sql", "failed: The statement failed")
    assert bad["on"]["statement"] == wrong
    masks = [{"topics": ["num"], "field": "$.n", "unmasked-for": "administrator"}, {"header": "h"}]
    with browsers(cluster.bootstrap, access(tmp_path, masks=masks)) as opened:
        ada, vera = opened(user="ada"), opened(user="vera")
        with audited() as lines:
            for browser in (ada, vera):
                answer = browser.get("/api/sql?statement=select+1")
                assert answer.status_code == 403
    assert [(one["user"], one["result"].partition(":")[0]) for one in lines] == [
        ("ada", "refused"),
        ("vera", "refused"),
    ]
    assert lines[0]["on"]["statement"] == "select 1"


def test_a_statement_that_cannot_be_run_says_why(cluster: Cluster) -> None:
    # As the process does it, in this one.
    question = {"settings": cluster.settings, "registry": {}, "rows": 9, "memory": "100MB"}
    with session_for(question) as session:
        check_refusals(session, {**question, "seconds": 60})
        slow = "select count(*) from range(1000000) a, range(1000000) b"
        late = answer_of(session, {**question, "seconds": 0.2, "statement": slow})
        assert late["ended"] == "time"
        session.engine.interrupt()


def check_refusals(session: Session, question: dict[str, Any]) -> None:
    for statement, sentence in (
        ("select * from number", "did you mean numbers?"),
        ("select 1; select 2", "These are 2 statements"),
        ("copy (select 1) to '/tmp/of-the-console'", "disabled by configuration"),
        ("select * from read_csv('/etc/passwd')", "disabled by configuration"),
        ("set enable_external_access = true", "has been locked"),
    ):
        with pytest.raises(SqlError, match=re.escape(sentence)):
            answer_of(session, {**question, "statement": statement})
    made = answer_of(session, {**question, "statement": "create table t (n int)"})
    assert made["names"] == []


async def application_answers(
    cluster: Cluster, path: str, query: str, headers: dict[str, str], leave: asyncio.Event
) -> list[Message]:
    """Return what the console sends to a browser that leaves when the event is set."""
    application = create_application(ConsoleOptions(cluster.bootstrap, sample_interval_ms=0))
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [
            (k.lower().encode(), v.encode()) for k, v in {"Host": "127.0.0.1", **headers}.items()
        ],
        "http_version": "1.1",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
        "root_path": "",
        "app": application,
    }
    sent: list[Message] = []
    asked = False

    async def receive() -> Message:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await leave.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)
        if message.get("body", b"").startswith(b"event:"):
            leave.set()

    async with application.router.lifespan_context(application):
        await application(scope, receive, send)
    return sent


def test_a_statement_ends_when_its_reader_has_left(cluster: Cluster) -> None:
    # Longer than the test may take: 10^12 rows.
    statement = "statement=select+count(*)+from+range(1000000)+a,+range(1000000)+b&seconds=60"

    async def running() -> list[asyncio.subprocess.Process]:
        return list(sql._running)

    async def story() -> None:
        leave = asyncio.Event()
        answering = asyncio.create_task(application_answers(cluster, "/sql", statement, {}, leave))
        [process] = await eventually(running, bool)
        leave.set()
        with audited() as lines:
            await answering
        [line] = lines
        assert line["result"] == "failed: Stopped"
        assert process.returncode is not None
        assert not sql._running

    asyncio.run(story())


def test_the_overview_comes_as_events(cluster: Cluster) -> None:
    async def story(path: str) -> tuple[bytes, bytes]:
        accept = {"Accept": "text/event-stream"}
        sent = await application_answers(cluster, path, "", accept, asyncio.Event())
        headers = dict(sent[0]["headers"])
        return headers[b"content-type"], sent[1]["body"]

    kind, event = asyncio.run(story("/"))
    assert kind.startswith(b"text/event-stream")
    name, data = event.decode().strip().split("\n")
    assert name == "event: page"
    assert '<div id="live"' in json.loads(data.removeprefix("data: "))["html"]
    _, event = asyncio.run(story("/api/overview"))
    name, data = event.decode().strip().split("\n")
    assert name == "event: view"
    assert json.loads(data.removeprefix("data: "))["state"] == "ok"
