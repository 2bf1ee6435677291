"""Alerts from a cluster to a webhook and to a mail server, through the pages of a console."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP
from starlette.testclient import TestClient

from kavka.console.alerts import records
from kavka.console.alerts.channels import Channel
from kavka.console.alerts.delivery import Deliveries
from kavka.console.alerts.outbox import Outbox
from kavka.console.alerts.records import NewDelivery, Result
from kavka.console.history.file import HistoryFile
from kavka.console.subject import Services
from kavka.spark.queries.flow_progress import FlowProgress
from kavka.spark.queries.topic import PROGRESS_TOPIC
from support.console import Cluster, console, with_services
from support.waiting import wait_until

RULES = """\
address: https://console.example.org
channels:
  - channel: hook
    webhook: {url}/hook
    retry_for: 1h
  - channel: post
    mail: {{server: "127.0.0.1:{port}", security: none, from: kavka@example.org, to: [ops@example.org]}}
rules:
  - {{alert: Late, watch: group_lag_records, groups: "late*", above: 1, clear: 0, severity: critical}}
"""


class Hook:
    """An HTTP server that keeps what it was sent; `answers` says what comes next, 200 when it is empty."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, dict[str, Any]]] = []
        self.answers: list[int] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.received.append((self.path, self.headers["Idempotency-Key"], body))
                self.send_response(hook.answers.pop(0) if hook.answers else 200)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Letters:
    """Mails that a server has taken; `answers` says what comes next, 250 when it is empty."""

    def __init__(self) -> None:
        self.taken: list[Message] = []
        self.answers: list[str] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.answers:
            return self.answers.pop(0)
        self.taken.append(message_from_bytes(envelope.content))
        return "250 taken"


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


@pytest.fixture
def letters() -> Iterator[tuple[Letters, int]]:
    handler = Letters()
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(
        loop.create_server(lambda: SMTP(handler, loop=loop), "127.0.0.1", 0)
    )
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield handler, server.sockets[0].getsockname()[1]
    loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="module", autouse=True)
def late(cluster: Cluster) -> None:
    cluster.create("orders")
    cluster.write("orders", [(None, b"v")] * 5, timestamp_ms=int(time.time() * 1000) - 600_000)
    cluster.commit("late", {("orders", 0): 2})
    cluster.commit("fine", {("orders", 0): 5})


def test_messages_are_sent_once_and_in_order_while_the_file_cannot_be_written(hook: Hook) -> None:
    async def use(services: Services) -> None:
        def query_only(value: str) -> Callable[[HistoryFile], object]:
            return lambda file: file.connection.execute(f"pragma query_only = {value}")

        def message(key: str) -> list[NewDelivery]:
            return [NewDelivery("hook", key, "{}")]

        outbox, run = Outbox(services.history), services.history.run
        deliveries = Deliveries(outbox)
        deliveries._channels = {"hook": Channel("hook", hook.url)}
        now_s = int(time.time())
        await outbox.keep(now_s, {}, [], message("before"))
        await run(query_only("on"))  # as on a full disk
        await outbox.keep(now_s, {}, [], message("meanwhile"))
        hook.answers = [200, 500]
        while await deliveries._send_next("hook"):
            pass
        assert [key for _, key, _ in hook.received] == ["before", "meanwhile"]
        waiting, newest = (await outbox.of_channels())["hook"]
        assert (waiting, newest and newest.reason, bool(outbox.fault)) == (
            1,
            "HTTP 500 Internal Server Error",
            True,
        )
        await run(query_only("off"))
        await outbox.keep(now_s, {}, [], message("after"))
        assert outbox.fault == ""
        kept = await run(lambda file: records.deliveries(file, 10))
        assert [(one.key, one.state, one.attempts) for one in reversed(kept)] == [
            ("before", records.DELIVERED, 1),
            ("meanwhile", records.WAITING, 1),
            ("after", records.WAITING, 0),
        ]

    with_services("127.0.0.1:1", use)


def test_messages_in_memory_are_bounded_and_those_that_wait_are_dropped_last() -> None:
    async def use(services: Services) -> None:
        outbox = Outbox(services.history)
        await services.history.run(lambda file: file.connection.execute("pragma query_only = on"))

        async def held(*new: NewDelivery) -> list[str]:
            await outbox.keep(0, {}, [], new)
            return [one.key for one in outbox._held]

        await held(NewDelivery("a", "first", "{}"), NewDelivery("b", "second", "{}"))
        assert await outbox.due("b", 0)
        await outbox.note("b", Result(records.DELIVERED, 1, 0, ""))
        many = [NewDelivery("a", str(number), "{}") for number in range(9_999)]
        assert (await held(*many))[:2] == ["first", "0"]
        assert (await held(NewDelivery("a", "last", "{}")))[:1] == ["0"]
        large = "x" * 16_000_000
        assert await held(*(NewDelivery("a", key, large) for key in "xyz")) == ["y", "z"]

    with_services("127.0.0.1:1", use)


def test_what_was_kept_is_not_decided_again_where_old_events_cannot_be_removed() -> None:
    async def use(services: Services) -> None:
        outbox, run = Outbox(services.history), services.history.run
        refuse = (
            "create trigger full before delete on silences begin select raise(abort, 'full'); end"
        )
        await run(lambda file: file.connection.execute("insert into silences values ('a', '', 0)"))
        await run(lambda file: file.connection.execute(refuse))
        now_s = int(time.time())
        await outbox.keep(now_s, {}, [], [NewDelivery("hook", "once", "{}")])
        kept = await run(lambda file: records.deliveries(file, 10))
        assert ([one.key for one in kept], outbox._held, outbox.fault) == (["once"], [], "full")

    with_services("127.0.0.1:1", use)


def look(pages: TestClient) -> None:
    """Look at the cluster once, as the console does every some seconds."""
    services = pages.app.state.services
    assert pages.portal is not None
    pages.portal.call(services.history.look)


def test_an_alert_goes_from_a_lag_to_a_webhook_and_a_mail(
    cluster: Cluster, tmp_path: Path, hook: Hook, letters: tuple[Letters, int]
) -> None:
    handler, port = letters
    rules, history = tmp_path / "rules.yml", tmp_path / "history.sqlite"
    rules.write_text(RULES.format(url=hook.url, port=port))
    with console(cluster.bootstrap, rules=rules, history=history) as pages:
        look(pages)
        look(pages)
        wait_until(lambda: len(hook.received) == 1 and len(handler.taken) == 1)
        path, key, body = hook.received[0]
        [alert] = body["alerts"]
        assert (path, body["event"]) == ("/hook", "firing")
        assert key == f"{alert['incident']}:firing"
        assert alert["sentence"] == "Group late has 3 records to read."
        assert alert["link"] == "https://console.example.org/group?id=late"
        assert "Add members" in alert["advice"]
        letter = handler.taken[0]
        assert letter["Subject"] == "[CRITICAL] Late: late"
        assert "What to do:" in letter.get_payload()
        listed = pages.get("/api/alerts").json()
        assert [(one["alert"], one["subject"], one["phase"]) for one in listed["alerts"]] == [
            ("Late", "late", "firing")
        ]
        assert "Group late has 3 records to read." in pages.get("/alerts").text
    # Another console goes on: the alert is not sent again, and its end is.
    with console(cluster.bootstrap, rules=rules, history=history) as pages:
        look(pages)
        cluster.commit("late", {("orders", 0): 5})
        look(pages)
        wait_until(lambda: len(hook.received) == 2 and len(handler.taken) == 2)
        assert hook.received[1][1] == f"{alert['incident']}:resolved"
        assert handler.taken[1]["Subject"] == "[RESOLVED] Late: late"
        cluster.commit("late", {("orders", 0): 2})
        past = pages.get("/api/alerts/history").json()
        assert [one["event"] for one in past["events"]] == ["resolved", "firing"]
        assert {one["state"] for one in past["deliveries"]} == {"delivered"}
        one = pages.get(f"/api/alerts/history?incident={alert['incident']}&page=9").json()
        assert len(one["events"]) == 2


def test_a_silence_and_a_test_are_made_in_the_page(
    cluster: Cluster, tmp_path: Path, hook: Hook, letters: tuple[Letters, int]
) -> None:
    handler, port = letters
    rules = tmp_path / "rules.yml"
    rules.write_text(RULES.format(url=hook.url, port=port))
    with console(cluster.bootstrap, rules=rules) as pages:
        made = pages.post(
            "/api/alerts/silence", json={"alert": "La*", "for": "1h", "comment": "known"}
        )
        assert made.json()["message"] == "Alerts La* of * are silenced for 1h."
        for length in ("", "soon", "1s", "400d"):
            refused = pages.post("/api/alerts/silence", json={"alert": "La*", "for": length})
            assert refused.status_code == 400
        look(pages)
        listed = pages.get("/api/alerts").json()
        assert listed["alerts"][0]["muted"] == "silenced: known"
        [silence] = listed["silences"]
        assert pages.post("/api/alerts/end-silence", json={"id": silence["id"]}).status_code == 200
        assert pages.post("/api/alerts/end-silence", json={"id": silence["id"]}).status_code == 404
        assert hook.received == []
        look(pages)
        wait_until(lambda: len(hook.received) == 1)
        tested = pages.post("/api/alerts/test", json={"channel": "hook"})
        assert tested.json()["message"] == "The channel hook took the test: HTTP 200 OK."
        assert pages.post("/api/alerts/test", json={"channel": "none"}).status_code == 404
        # A redirect is not followed: it would lead where the rules do not.
        hook.answers = [302]
        refused = pages.post("/api/alerts/test", json={"channel": "hook"})
        assert refused.status_code == 422
        assert "HTTP 302" in refused.json()["detail"]
        assert {path for path, _, _ in hook.received} == {"/hook"}
        wait_until(lambda: len(handler.taken) == 1)
        handler.answers = ["554 no"]
        refused = pages.post("/api/alerts/test", json={"channel": "post"})
        assert "554 no" in refused.json()["detail"]


def test_changed_rules_are_taken_and_wrong_ones_are_not(
    cluster: Cluster, tmp_path: Path, hook: Hook
) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(RULES.format(url=hook.url, port=1))
    with console(cluster.bootstrap, rules=rules) as pages:
        look(pages)
        rules.write_text("rules:\n  - {alert: Late, watch: nothing}\n")
        look(pages)
        listed = pages.get("/api/alerts").json()
        assert listed["firing"] == 1
        assert listed["problems"][0].startswith("line 2: the rule Late: watch is one of")
        assert "is not taken" in pages.get("/alerts").text
        rules.write_text("rules:\n  - {alert: Other, watch: offline}\n")
        look(pages)
        listed = pages.get("/api/alerts").json()
        assert (listed["firing"], listed["problems"], listed["channels"]) == (0, [], [])
        assert pages.get("/api/alerts/rules").json()["rules"][0]["name"] == "Other"


def test_charts_come_from_the_looks(cluster: Cluster, tmp_path: Path) -> None:
    with console(cluster.bootstrap, history=tmp_path / "h.sqlite") as pages:
        look(pages)
        look(pages)
        shown = pages.get("/api/history?kind=group&name=late&range=1h").json()
        found = {chart["metric"]: chart["latest"] for chart in shown["charts"]}
        assert found["lag_records"] == 3
        assert 590 < found["lag_seconds"] < 900
        known = [v for v in shown["charts"][0]["values"] if v is not None]
        assert known == [found["lag_seconds"]]
        assert pages.get("/api/history?kind=group&name=none").json()["charts"] == []
        assert "Lag in time" in pages.get("/history?kind=group&name=late").text
        overall = pages.get("/api/history").json()
        assert {chart["metric"] for chart in overall["charts"]} >= {"brokers", "under_replicated"}
        assert pages.get("/history?kind=topic").status_code == 400
        for path in ("/", "/group?id=late", "/topics/orders", "/brokers/1"):
            assert 'hx-get="/history?kind=' in pages.get(path).text, path


def test_alerts_are_decided_and_sent_while_the_file_refuses_and_are_kept_afterwards(
    cluster: Cluster, tmp_path: Path, hook: Hook
) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(RULES.format(url=hook.url, port=1))
    with console(cluster.bootstrap, rules=rules, history=tmp_path / "h.sqlite") as pages:
        keep_nothing(pages, True)
        look(pages)
        wait_until(lambda: len(hook.received) == 1)
        listed = pages.get("/api/alerts").json()
        assert [one["alert"] for one in listed["alerts"]] == ["Late"]
        assert "readonly" in listed["note"]
        overview = pages.get("/api/overview").json()["findings"]
        assert "The history cannot be written: " in overview[-1]["sentence"]
        look(pages)  # it is neither begun nor sent again
        keep_nothing(pages, False)
        look(pages)
        assert pages.get("/api/alerts").json()["note"] == ""
        past = pages.get("/api/alerts/history").json()
        assert [one["event"] for one in past["events"]] == ["firing"]
        sent = {one["channel"]: (one["state"], one["attempts"]) for one in past["deliveries"]}
        assert sent["hook"] == ("delivered", 1)
        assert len(hook.received) == 1


def keep_nothing(pages: TestClient, wanted: bool) -> None:
    """Let the history's file refuse every change, as on a full disk, or take them again."""
    history = pages.app.state.services.history
    assert pages.portal is not None
    pages.portal.call(
        history.run, lambda file: file.connection.execute(f"pragma query_only = {int(wanted)}")
    )


def test_a_history_of_another_cluster_is_left_alone(cluster: Cluster, tmp_path: Path) -> None:
    history = tmp_path / "h.sqlite"
    file = HistoryFile(history, 1 << 30, 10)
    assert file.is_of_cluster("another")
    file.close()
    with console(cluster.bootstrap, history=history) as pages:
        look(pages)
        shown = pages.get("/api/history").json()
        assert "has the history of another cluster" in shown["note"]
        assert shown["charts"] == []


def test_a_cluster_that_cannot_be_reached_is_an_alert_and_ends_none(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text("rules:\n  - {alert: Away, watch: cluster_unreachable}\n")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{closed.getsockname()[1]}"
        with console(servers, rules=rules, timeout_ms=300) as pages:
            look(pages)
            [alert] = pages.get("/api/alerts").json()["alerts"]
            assert (alert["alert"], alert["phase"]) == ("Away", "firing")
            assert alert["sentence"].startswith("The console cannot look at the cluster: ")
            assert "The last look at the cluster failed" in pages.get("/history").text


def test_a_pipeline_that_fails_is_seen_in_its_topic_of_progress(
    cluster: Cluster, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(
        "rules:\n  - {alert: Failing, watch: pipeline_failing}\n"
        "  - {alert: Silent, watch: pipeline_silent, above: 10s}\n"
    )
    cluster.create(PROGRESS_TOPIC)
    now_ms = int(time.time() * 1000)
    for flow, state, error, at_ms in (
        ("bad", "failed", "no leader", now_ms),
        ("good", "running", "", now_ms),
        ("dead", "running", "", now_ms - 60_000),
        ("over", "done", "", now_ms - 60_000),
    ):
        value = FlowProgress("shop", flow, state=state, last_error=error).to_json().encode()
        cluster.write(PROGRESS_TOPIC, [(f"shop/{flow}".encode(), value)], timestamp_ms=at_ms)
    with console(cluster.bootstrap, rules=rules) as pages:
        look(pages)
        listed = pages.get("/api/alerts").json()["alerts"]
        assert {(one["alert"], one["subject"]) for one in listed} >= {
            ("Failing", "shop/bad"),
            ("Silent", "shop/dead"),
        }
        assert "Flow shop/bad is failed: no leader" in [one["sentence"] for one in listed]
        assert not [one for one in listed if one["subject"] == "shop/over"]
