"""The page over HTTP: what Prometheus asks is answered, everything else is refused, nothing is served unasked."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from kavka.broker.broker import Broker
from kavka.broker.environment import OsEnvironment
from support.one_broker import Served

ON = {"kavka.metrics.port": "0"}
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def test_without_the_setting_no_metrics_are_served(run: Any) -> None:
    async def story(served: Served) -> None:
        assert served.broker.exposition is None

    run(story)


@pytest.mark.slow
def test_a_broker_without_metrics_does_not_import_them() -> None:
    code = (
        "import sys, kavka.broker.broker, kavka.broker.environment; print(*sys.modules, sep='\\n')"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = out.stdout.split()
    assert "kavka.broker.requests.dispatcher" in names
    assert not [name for name in names if name.startswith("kavka.broker.metrics")]
    assert "kavka.metrics.families" not in names


def test_one_connection_asks_as_often_as_it_likes(run: Any, scraper: Any) -> None:
    async def story(served: Served) -> None:
        one = await scraper.of(served.broker)
        for _ in range(3):
            status, headers, body = await one.ask(GET)
            assert (status, headers["connection"]) == (200, "keep-alive")
            assert b"kafka_server_replicamanager_leadercount 0\n" in body
        one.close()

    run(story, **ON)


def test_requests_sent_ahead_are_answered_in_turn(run: Any, scraper: Any) -> None:
    async def story(served: Served) -> None:
        one = await scraper.of(served.broker)
        status, _, body = await one.ask(GET + b"GET /nowhere HTTP/1.1\r\n\r\n")
        assert (status, len(body) > 1000) == (200, True)
        assert (await one.ask(b""))[0] == 404
        one.close()

    run(story, **ON)


def test_a_request_may_come_in_pieces(run: Any, scraper: Any) -> None:
    async def story(served: Served) -> None:
        one = await scraper.of(served.broker)
        one.writer.write(GET[:9])
        await one.writer.drain()
        await asyncio.sleep(0)
        assert (await one.ask(GET[9:]))[0] == 200
        one.close()

    run(story, **ON)


def test_head_returns_the_length_without_the_page(run: Any, scraper: Any) -> None:
    async def story(served: Served) -> None:
        one = await scraper.of(served.broker)
        status, headers, _ = await one.ask(GET.replace(b"GET", b"HEAD"), has_body=False)
        assert (status, int(headers["content-length"]) > 1000) == (200, True)
        assert (await one.ask(GET))[0] == 200  # nothing was between them
        one.close()

    run(story, **ON)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"GET /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 400),
        (b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"\x16\x03\x01 hello there\r\n\r\n", 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000, 431),
    ],
)
def test_what_is_not_a_plain_question_is_refused_and_closed(
    run: Any, scraper: Any, request_bytes: bytes, status: int
) -> None:
    async def story(served: Served) -> None:
        one = await scraper.of(served.broker)
        assert (await one.ask(request_bytes))[0] == status
        assert await one.is_closed()
        one.close()
        assert (await served.fetch("nowhere")).error_code == 3  # clients are served as before

    run(story, **ON)


def test_a_scraper_that_asks_for_the_end_gets_it(run: Any, scraper: Any) -> None:
    async def story(served: Served) -> None:
        for end in (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"):
            one = await scraper.of(served.broker)
            assert (await one.ask(end))[0] == 200
            assert await one.is_closed()
            one.close()

    run(story, **ON)


def test_of_too_many_connections_the_oldest_that_ask_nothing_are_closed_with_one_line(
    run: Any, scraper: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        some = [await scraper.of(served.broker) for _ in range(20)]
        for closed in some[:4]:
            assert await closed.is_closed()
        assert caplog.text.count("metrics connection refused") == 1
        assert (await some[-1].ask(GET))[0] == 200
        for each in some:
            each.close()

    run(story, **ON)


def test_a_stop_closes_the_port_and_its_connections(run: Any, scraper: Any) -> None:
    async def story(served: Served) -> None:
        port = served.broker.exposition.port
        one = await scraper.of(served.broker)
        await one.ask(GET)
        await served.broker.exposition.stop()
        assert await one.is_closed()
        one.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    run(story, **ON)


def test_a_port_that_is_taken_fails_the_start(tmp_path: Any) -> None:
    async def story() -> None:
        server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(tmp_path / "data"),
            "kavka.metrics.port": str(port),
        }
        with pytest.raises(OSError, match="in use") as caught:
            await Broker(settings, OsEnvironment()).start()
        assert str(port) in str(caught.value.filename)
        server.close()
        await server.wait_closed()
        broker = Broker(settings, OsEnvironment())  # the first one left nothing behind
        await broker.start()
        await broker.stop()

    asyncio.run(story())
