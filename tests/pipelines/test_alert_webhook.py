"""Alerts go to a webhook at least once, in order, without a storm: a real broker, a real HTTP server that fails."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kavka.cli.json_lines.pipeline_shapes import INCIDENT
from kavka.client import Admin, Consumer
from kavka.client.dead_letters import dead_letter_of
from kavka.client.producer import Producer
from kavka.core.group_member.steps import GroupMetadata
from kavka.ids import TopicPartition
from kavka.net.webhook import (
    Endpoint,
    InvalidWebhook,
    Outcome,
    Verdict,
    check_url,
    read_headers,
    wait_s,
)
from kavka.pipelines.operations.delivery import AlertDelivery, Assignments, DeliveryOptions
from kavka.pipelines.testing.topics import create_topics, read_records
from kavka.testing.local_cluster import LocalCluster
from support.json_shapes import check
from support.waiting import until


class Webhook:
    """An HTTP server that keeps what it was sent; `responses` says what comes next, 200 when it is empty."""

    def __init__(self, port: int = 0) -> None:
        self.received: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.responses: list[object] = []
        self.failing: dict[str, int] = {}
        """Statuses for bodies that have a text."""
        self.before_response = lambda: None
        self.is_over = threading.Event()
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                webhook.received.append((self.headers["Idempotency-Key"], body))
                webhook.headers.append(dict(self.headers))
                webhook.before_response()
                response = webhook.responses.pop(0) if webhook.responses else 200
                for text, status in webhook.failing.items():
                    response = status if text in body else response
                if response == "hang":
                    webhook.is_over.wait(60)
                elif response == "dribble":
                    with suppress(OSError):
                        self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
                        while not webhook.is_over.wait(0.05):
                            self.wfile.write(b"x")
                            self.wfile.flush()
                elif response == "garbage":
                    self.wfile.write(b"no HTTP at all\r\n\r\n")
                else:
                    status, *headers = response if isinstance(response, tuple) else (response,)
                    self.send_response(status)
                    for header in headers:
                        self.send_header(*header)
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook?team=ops"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.is_over.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def webhook():
    made = Webhook()
    yield made
    made.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    quick = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
    folder = tmp_path_factory.mktemp("cluster")
    with LocalCluster(folder, brokers=1, settings=quick) as running:
        yield running.bootstrap_servers


@pytest.fixture
def topic(servers, request):
    """A topic of the test's own, and that of its dead letters."""
    name = f"alerts-{abs(hash(request.node.name))}"
    asyncio.run(create_topics(servers, {name: 1, f"{name}-dead-letters": 1}))
    return name


def alert(number, event="firing"):
    return json.dumps({"event": event, "incident": f"i{number}", "alert": "A", "since": "t"})


async def send(servers, topic, *values):
    async with Producer({"bootstrap.servers": servers}) as producer:
        for value in values:
            await producer.send(topic, value.encode(), b"k")


async def committed(servers, topic):
    topic_partition = TopicPartition(topic, 0)
    settings = {"bootstrap.servers": servers, "group.id": f"{topic}-webhook"}
    async with Consumer(settings) as consumer:
        found = (await consumer.committed([topic_partition]))[topic_partition]
        return None if found is None else found.offset


async def dead_letters(servers, topic):
    settings = {"bootstrap.servers": servers}
    return [one async for one in read_records(settings, f"{topic}-dead-letters")]


def delivery(servers, topic, url, timeout_s=5.0, settings=(), **options):
    given = {"first_wait_s": 0.01, "is_once": True, **options}
    chosen = DeliveryOptions(topic, f"{topic}-webhook", f"{topic}-dead-letters", **given)
    endpoint = Endpoint(url, {"X-Team": "ops"}, timeout_s)
    return AlertDelivery({"bootstrap.servers": servers, **dict(settings)}, chosen, endpoint)


def deliver(servers, topic, url, **options):
    made = delivery(servers, topic, url, **options)
    asyncio.run(asyncio.wait_for(made.run(asyncio.Event()), 60))
    return made.counts


def test_alerts_arrive_in_order_and_a_second_run_sends_none_again(servers, topic, webhook):
    values = [alert(1), alert(1, "resolved"), alert(2)]
    asyncio.run(send(servers, topic, *values))
    deliver(servers, topic, webhook.url)
    assert webhook.received == list(zip(["i1:firing", "i1:resolved", "i2:firing"], values, strict=True))  # fmt: skip
    assert webhook.headers[0]["X-Team"] == "ops"
    assert webhook.headers[0]["Content-Type"] == "application/json"
    assert asyncio.run(committed(servers, topic)) == 3

    asyncio.run(send(servers, topic, "no alert of ours"))
    deliver(servers, topic, webhook.url)
    assert webhook.received[3:] == [(f"{topic}-0-3", "no alert of ours")]


@pytest.mark.slow
def test_an_endpoint_that_fails_hangs_and_talks_nonsense_gets_each_alert_when_it_is_back(
    servers, topic, webhook
):
    asyncio.run(send(servers, topic, alert(1), alert(2)))
    webhook.responses = [503, "hang", 500, "dribble", "garbage", 302, (429, ("Retry-After", "0"))]
    counts = deliver(servers, topic, webhook.url, timeout_s=0.3)
    assert [key for key, _ in webhook.received] == ["i1:firing"] * 8 + ["i2:firing"]
    assert (counts.delivered, counts.attempts, counts.dead_letters) == (2, 9, 0)
    assert asyncio.run(committed(servers, topic)) == 2


@pytest.mark.slow
def test_an_endpoint_that_is_down_is_waited_for_without_a_storm(servers, topic):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    values = [alert(number) for number in range(50)]
    asyncio.run(send(servers, topic, *values))
    made = delivery(
        servers, topic, f"http://127.0.0.1:{port}/", retry_for_s=0.001, first_wait_s=0.1
    )

    async def main():
        running = asyncio.ensure_future(made.run(asyncio.Event()))
        await until(lambda: running.done() or made.counts.attempts >= 4)
        assert not running.done()
        assert await committed(servers, topic) is None
        webhook = Webhook(port)
        try:
            await asyncio.wait_for(running, 60)
        finally:
            webhook.close()
        return webhook.received

    received = asyncio.run(main())
    assert [body for _, body in received] == values
    assert made.counts.dead_letters == 0


def test_an_alert_that_is_refused_is_a_dead_letter_and_does_not_hold_up_others(
    servers, topic, webhook
):
    asyncio.run(send(servers, topic, alert(1), alert(2), alert(3)))
    webhook.failing = {"i1": 400, "i2": 500}
    counts = deliver(servers, topic, webhook.url, retry_for_s=0.2)
    keys = [key for key, _ in webhook.received]
    assert keys.count("i1:firing") == 1
    # Pauses of at least 5, 10, 20, 40, 80, 160 ms in 200 ms.
    assert 2 <= keys.count("i2:firing") <= 7
    assert keys[-1] == "i3:firing"
    assert counts.dead_letters == 2
    first, second = asyncio.run(dead_letters(servers, topic))
    assert (first.text, second.text) == (alert(1), alert(2))
    letter = dead_letter_of(first.headers)
    assert (letter.topic, letter.partition, letter.offset) == (topic, 0, 0)
    assert letter.timestamp_ms is not None
    assert 0 < letter.timestamp_ms <= first.timestamp_ms
    assert letter.reason == "webhook HTTP 400 Bad Request"
    assert re.fullmatch(
        r"webhook HTTP 500 Internal Server Error after \d attempts",
        dead_letter_of(second.headers).reason,
    )

    # They are alerts still: the same command on their topic gives them once more.
    dead = f"{topic}-dead-letters"
    asyncio.run(create_topics(servers, {f"{dead}-dead-letters": 1}))
    webhook.failing, webhook.received = {}, []
    deliver(servers, dead, webhook.url)
    assert [body for _, body in webhook.received] == [alert(1), alert(2)]


@pytest.mark.slow
def test_dead_letters_are_redriven_to_their_topic_and_delivered_then(servers, topic, webhook):
    asyncio.run(send(servers, topic, alert(1), alert(1, "resolved"), alert(2)))
    webhook.failing = {"firing": 400, "resolved": 422}
    assert deliver(servers, topic, webhook.url).dead_letters == 3
    webhook.failing, webhook.received = {}, []
    command = ["redrive", f"{topic}-dead-letters", "--bootstrap-server", servers]
    command += ["--reason", "webhook HTTP 400"]
    code, said = run_kavka(*command)
    assert code == 0, said
    assert f"2 records sent to {topic}" in said
    assert deliver(servers, topic, webhook.url).delivered == 2
    assert [key for key, _ in webhook.received] == ["i1:firing", "i2:firing"]
    # The beginning of an incident that stands behind its end opens it not again.
    code, said = run_command("--bootstrap-server", servers, "--topic", topic)
    assert [line.split()[-1] for line in said.splitlines()] == ["INCIDENT", "i2"]


MEMBER = {
    "group.instance.id": "first",
    "session.timeout.ms": 5_000,
    "heartbeat.interval.ms": 50,
}
"""A static member, which an administrator can remove from its group."""


async def remove_member(servers, topic):
    async with Admin({"bootstrap.servers": servers}) as admin:
        assert await admin.remove_members(f"{topic}-webhook", ["first"]) == {"first": None}


async def commit_from_outside(servers, topic, offset):
    """Move the group on, as another member does that has the partition for a while."""
    settings = {"bootstrap.servers": servers, "transactional.id": f"{topic}-outside"}
    async with Producer(settings) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        offsets = {TopicPartition(topic, 0): offset}
        await producer.send_offsets_to_transaction(offsets, GroupMetadata(f"{topic}-webhook"))
        await producer.commit_transaction()


@pytest.mark.slow
def test_an_alert_is_left_that_another_member_delivered_during_its_pause(servers, topic, webhook):
    asyncio.run(send(servers, topic, alert(1), alert(2), alert(3)))
    webhook.responses = [503]
    # Both within one poll of the pause, which lasts half a minute or longer.
    made = delivery(servers, topic, webhook.url, settings=MEMBER, first_wait_s=60.0)

    async def main():
        running = asyncio.ensure_future(made.run(asyncio.Event()))
        await until(lambda: made.counts.attempts == 1 or running.done())
        await commit_from_outside(servers, topic, 2)
        await remove_member(servers, topic)
        await asyncio.wait_for(running, 25)

    asyncio.run(main())
    assert [key for key, _ in webhook.received] == ["i1:firing", "i3:firing"]
    assert asyncio.run(committed(servers, topic)) == 3


def test_a_member_that_is_removed_while_it_delivers_goes_on(servers, topic, webhook):
    asyncio.run(send(servers, topic, alert(1), alert(2)))
    webhook.before_response = lambda: (
        asyncio.run(remove_member(servers, topic)) if len(webhook.received) == 1 else None
    )
    made = delivery(servers, topic, webhook.url, settings=MEMBER)
    asyncio.run(asyncio.wait_for(made.run(asyncio.Event()), 60))
    # The first alert's offset was refused: it comes again, with its key.
    assert [key for key, _ in webhook.received] == ["i1:firing", "i1:firing", "i2:firing"]
    assert asyncio.run(committed(servers, topic)) == 2


def test_alerts_of_aborted_transactions_are_not_delivered(servers, topic, webhook):
    async def write():
        async with Producer({"bootstrap.servers": servers, "transactional.id": topic}) as producer:
            await producer.init_transactions()
            for number, commits in ((1, False), (2, True), (3, False)):
                producer.begin_transaction()
                await producer.send(topic, alert(number).encode())
                await (producer.commit_transaction() if commits else producer.abort_transaction())

    asyncio.run(write())
    deliver(servers, topic, webhook.url)
    assert [key for key, _ in webhook.received] == ["i2:firing"]


@pytest.mark.slow
def test_a_process_that_dies_before_the_commit_sends_the_same_key_again(
    servers, topic, webhook, tmp_path
):
    (tmp_path / "quick").write_text("session.timeout.ms=1000\nheartbeat.interval.ms=200\n")
    asyncio.run(send(servers, topic, alert(1), alert(2)))
    process: list[subprocess.Popen[bytes]] = []

    def die():
        if len(webhook.received) == 2:
            process[0].kill()

    webhook.before_response = die
    command = [sys.executable, "-m", "kavka", "pipelines", "alerts", "--bootstrap-server", servers]
    command += ["--topic", topic, "--webhook", webhook.url]
    command += ["--command-config", str(tmp_path / "quick")]
    process.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
    assert process[0].wait(60) == -signal.SIGKILL
    again = subprocess.run([*command, "--once"], capture_output=True, text=True, timeout=100, check=False)  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert "delivered=1 attempts=1 dead_letters=0" in again.stderr
    assert [key for key, _ in webhook.received] == ["i1:firing", "i2:firing", "i2:firing"]


@pytest.mark.slow
def test_sigterm_ends_it_while_the_endpoint_hangs(servers, topic, webhook):
    asyncio.run(send(servers, topic, alert(1)))
    webhook.responses = ["hang"]
    arrived = threading.Event()
    webhook.before_response = arrived.set
    command = [sys.executable, "-m", "kavka", "pipelines", "alerts", "--bootstrap-server", servers]
    command += ["--topic", topic, "--webhook", webhook.url, "--timeout", "100"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert arrived.wait(60)
    os.kill(process.pid, signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0, said
    assert "delivered=0" in said
    assert asyncio.run(committed(servers, topic)) is None


# The command


def run_command(*arguments):
    return run_kavka("alerts", *arguments)


def run_kavka(*arguments):
    command = [sys.executable, "-m", "kavka", "pipelines", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_open_incidents_are_listed(servers, topic):
    asyncio.run(send(servers, topic, alert(1), alert(2), "nonsense", alert(1, "resolved")))
    here = ("--bootstrap-server", servers, "--topic", topic)
    code, said = run_command(*here)
    assert code == 0, said
    assert [line.split()[-1] for line in said.splitlines()] == ["INCIDENT", "i2"]
    code, said = run_command(*here, "--json")
    shown, sent = json.loads(said), json.loads(alert(2))
    check(shown, INCIDENT.fields, INCIDENT.parts)
    assert {name: shown[name] for name in sent if name in shown} == {
        name: value for name, value in sent.items() if name in shown
    }
    asyncio.run(send(servers, topic, alert(2, "resolved")))
    assert run_command(*here) == (0, "no open incidents\n")


@pytest.mark.slow
def test_what_is_wrong_is_said_in_a_sentence(servers, topic):
    url = ("--webhook", "http://127.0.0.1:1/")
    code, said = run_command("--bootstrap-server", servers, "--topic", "none", *url)
    assert code == 1
    assert f"kavka topics --bootstrap-server {servers} --create --topic none`" in said
    code, said = run_command(
        "--bootstrap-server", servers, "--topic", topic, "--webhook", "ftp://x"
    )
    assert code == 1
    assert "this is not a URL of a webhook" in said


# Decisions


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (None, Verdict.UNAVAILABLE), (503, Verdict.UNAVAILABLE), (429, Verdict.UNAVAILABLE),
        (200, Verdict.DELIVERED), (204, Verdict.DELIVERED), (202, Verdict.DELIVERED),
        (400, Verdict.REFUSED), (422, Verdict.REFUSED),
        (302, Verdict.FAILED), (401, Verdict.FAILED), (404, Verdict.FAILED), (500, Verdict.FAILED),
        (100, Verdict.FAILED),
    ],
)  # fmt: skip
def test_a_status_means_one_thing(status, verdict):
    assert Outcome(status, "").verdict is verdict


def test_pauses_grow_to_a_minute_and_an_endpoint_may_ask_for_ten():
    quiet = Outcome(None, "")
    longest = [wait_s(1.0, attempts, quiet, 1.0) for attempts in range(1, 10)]
    assert longest == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert [wait_s(1.0, attempts, quiet, 0.0) for attempts in (1, 7, 10**6)] == [0.5, 30, 30]
    assert wait_s(1.0, 1, Outcome(429, "", 90), 0.5) == 90
    assert wait_s(1.0, 1, Outcome(429, "", 10**9), 0.5) == 600


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "ftp://x/",
        "http://",
        "http://a:b/",
        "http://x:99999/",
        "http://x/a b",
        "http://x/\u00e4",
        "htps://x/secret",
    ],
)
def test_what_is_no_url_is_refused(url):
    with pytest.raises(InvalidWebhook, match="is not a URL of a webhook") as caught:
        check_url(url)
    assert "secret" not in str(caught.value)


def test_a_user_in_the_url_is_refused_without_showing_it():
    with pytest.raises(InvalidWebhook, match="Authorization: Basic") as caught:
        check_url("https://u:secret@example.org/")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "line", ["no colon", ": x", "a b: c", "A: b\r\nC: d", "Ä: x", "Host: x", "idempotency-key: 1"]
)
def test_what_is_no_header_is_refused_without_showing_its_value(line):
    with pytest.raises(InvalidWebhook) as caught:
        read_headers([line])
    assert line.partition(":")[2].strip() not in str(caught.value) or ":" not in line


def test_a_name_of_the_endpoint_has_no_secrets():
    assert (
        Endpoint("https://hooks.example:8443/T0/SECRET?token=x", {}, 1).name
        == "https://hooks.example:8443"
    )


def test_a_header_that_is_none_is_not_repeated() -> None:
    with pytest.raises(InvalidWebhook, match="header 2 is not `Name: value`") as caught:
        read_headers(["X: 1", "Bearer secret"])
    assert "secret" not in str(caught.value)


def test_a_partition_that_is_given_again_is_another_assignment():
    at, other = TopicPartition("alerts", 0), TopicPartition("alerts", 1)
    assignments = Assignments()
    assert assignments.current(at) is None
    assignments.on_assigned([at, other])
    first, kept = assignments.current(at), assignments.current(other)
    assignments.on_lost([at])
    assert assignments.current(at) is None
    assignments.on_assigned([at])
    assert assignments.current(at) not in (None, first, kept)
    assert assignments.current(other) == kept
