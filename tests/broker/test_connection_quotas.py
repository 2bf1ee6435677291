"""Limits of accepted connections: how many of a broker and of a listener, and how many in a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.quotas.quota_manager import _address
from kavka.net.event_loop import MeasuredEventLoop
from kavka.net.listener import SocketListener
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.wire.messages.api_versions import ApiVersionsRequest
from support.config_requests import BROKER, SET, altered
from support.one_broker import Run, Served, serve
from support.quotas import StandingClock, alter
from support.tls import TlsFiles
from support.waiting import until

_TWO = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
}
"""The connection of the test's own is by INSIDE."""


@pytest.fixture
def tls_run(tmp_path: Path) -> Run:
    """Return a function that runs a story against a broker whose listener has TLS."""
    files = TlsFiles(tmp_path)

    def run_story(story: Callable[[Any], Any], **settings: str) -> None:
        texts = files.broker_settings(**settings)
        with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
            runner.run(serve(tmp_path / "data", story, files.security(), **texts))

    return run_story


def socket_listener(served: Served, name: str) -> SocketListener:
    listener = served.broker.listeners._listeners[name]
    assert isinstance(listener, SocketListener)
    return listener


def accepts(served: Served, listener: str = "PLAINTEXT") -> bool:
    return not socket_listener(served, listener)._is_paused


def opened(served: Served, listener: str = "PLAINTEXT") -> int:
    counts = served.broker.dispatcher.connection_counts.get(listener)
    return 0 if counts is None else counts.opened


async def connect(served: Served, listener: str) -> Peer:
    port = served.broker.listeners._listeners[listener].port
    peer = await Peer.connect(TcpNetwork(), "127.0.0.1", port, client_id="c")
    served.peers.append(peer)
    return peer


def test_a_connection_above_the_limit_waits_until_another_one_is_closed(run: Run) -> None:
    async def story(served: Served) -> None:
        second = await served.another()
        assert not accepts(served)
        _reader, writer = await asyncio.open_connection("127.0.0.1", served.port)  # by the kernel
        assert opened(served) == 2
        second.peer.close()
        await until(lambda: opened(served) == 3)
        assert not accepts(served)
        writer.close()
        await until(lambda: accepts(served))

    run(story, **{"max.connections": "2"})


def test_a_limit_that_is_raised_lets_waiting_connections_in(run: Run) -> None:
    async def story(served: Served) -> None:
        waiting = asyncio.ensure_future(served.another())
        (response,) = await altered(served, (BROKER, "", [("max.connections", SET, "2")]))
        assert response.error_code == 0
        assert (await (await waiting).send(ApiVersionsRequest(), 0)).error_code == 0

    run(story, **{"max.connections": "1"})


def test_a_listener_has_a_limit_of_its_own(run: Run) -> None:
    async def story(served: Served) -> None:
        await connect(served, "OUTSIDE")
        assert (accepts(served, "OUTSIDE"), accepts(served, "INSIDE")) == (False, True)
        limit = ("listener.name.outside.max.connections", SET, "2")
        (response,) = await altered(served, (BROKER, "", [limit]))
        assert response.error_code == 0
        assert accepts(served, "OUTSIDE")

    run(story, **_TWO, **{"listener.name.outside.max.connections": "1"})


def test_brokers_are_let_in_above_the_limit_and_the_least_used_connection_goes(run: Run) -> None:
    async def story(served: Served) -> None:
        first, second = await connect(served, "OUTSIDE"), await connect(served, "OUTSIDE")
        await second.send(ApiVersionsRequest(), 0)
        await asyncio.sleep(0.01)  # real time: the later one must be later by the broker's clock
        await first.send(ApiVersionsRequest(), 0)
        assert (accepts(served, "OUTSIDE"), accepts(served, "INSIDE")) == (False, True)
        broker = await connect(served, "INSIDE")
        with pytest.raises(ConnectionError):
            await second.send(ApiVersionsRequest(), 0)
        for each in (first, broker):
            assert (await each.send(ApiVersionsRequest(), 0)).error_code == 0

    run(story, **_TWO, **{"max.connections": "3"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    ["max.connection.creation.rate", "listener.name.plaintext.max.connection.creation.rate"],
)
def test_connections_above_the_rate_wait_for_a_window_at_most(run: Run, setting: str) -> None:
    async def story(served: Served) -> None:
        quotas = served.broker.connection_quotas
        counted = quotas.rates.of_listeners["PLAINTEXT"]
        # The first connection is the one of `served`: the next two come in the same millisecond.
        quotas._clock = StandingClock(counted.rate.rate._samples[0].begin_ms)
        before_ms = served.broker.clock.tick_ms()
        await served.another()
        await served.another()
        assert served.broker.clock.tick_ms() - before_ms >= 999  # the loop's timers round
        assert counted.throttle_ms.measure(quotas._clock.tick_ms()) == 1000

    run(story, **{setting: "1", "quota.window.num": "2"})


@pytest.mark.slow
def test_connections_above_the_rate_of_their_address_are_closed_after_a_while(run: Run) -> None:
    async def story(served: Served) -> None:
        await alter(served, {"ip": "127.0.0.1"}, {"connection_creation_rate": 1})
        await until(lambda: bool(served.broker.quotas.ip_rates))
        served.broker.connection_quotas._clock = StandingClock()
        await served.another()
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"\0\0\0\1x")
        with pytest.raises(ConnectionResetError):  # what was sent has not been read
            await reader.read()
        writer.close()
        refused = served.broker.dispatcher.refusals.connections
        assert refused == {"connection_creation_rate": 1}
        rate = served.broker.connection_quotas.rates._of_addresses.find("127.0.0.1")
        assert rate.rate.total == 1  # what is refused does not count

    run(story, **{"quota.window.num": "2"})


def test_an_address_goes_by_the_default_unless_it_has_a_rate(run: Run) -> None:
    async def story(served: Served) -> None:
        await alter(served, {"ip": None}, {"connection_creation_rate": 0})
        await until(lambda: served.broker.quotas.ip_rates == {None: 0.0})
        _reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        await until(lambda: len(served.broker.connection_quotas._held) == 1)  # the stop closes it
        await alter(served, {"ip": "127.0.0.1"}, {"connection_creation_rate": 1000})
        await until(lambda: len(served.broker.quotas.ip_rates) == 2)
        await served.another()
        writer.close()

    run(story)


@pytest.mark.parametrize("text", ["10.0.0.7", "::ffff:10.0.0.7", "::ffff:a00:7"])
def test_an_address_in_the_form_of_ipv6_is_that_of_its_connections(text: str) -> None:
    assert _address(text) == "10.0.0.7"


# Before a TLS handshake


def handshakes(served: Served) -> int:
    return len(socket_listener(served, "SSL")._handshakes.open)


async def is_closed(served: Served) -> bool:
    """Return whether a connection that sends nothing is closed by the broker."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    try:
        return await reader.read(1) == b""
    finally:
        writer.close()


def test_an_address_above_its_number_costs_no_handshake(
    tls_run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        for _ in range(20):
            assert await is_closed(served)
        assert served.broker.security.tls._listeners["SSL"].failures == 0
        assert served.broker.dispatcher.refusals.connections == {"max.connections.per.ip": 20}

    tls_run(story, max__connections__per__ip="1")
    refused = [r for r in caplog.records if "connection refused" in r.getMessage()]
    assert len(refused) == 5


@pytest.mark.slow
def test_an_address_above_its_rate_costs_no_handshake(tls_run: Run) -> None:
    async def story(served: Served) -> None:
        await alter(served, {"ip": "127.0.0.1"}, {"connection_creation_rate": 0})
        await until(lambda: bool(served.broker.quotas.ip_rates))
        assert await is_closed(served)
        assert served.broker.security.tls._listeners["SSL"].failures == 0
        assert served.broker.dispatcher.refusals.connections == {"connection_creation_rate": 1}

    tls_run(story, quota__window__num="2")


def test_handshakes_in_progress_count_as_connections(tls_run: Run) -> None:
    async def story(served: Served) -> None:
        _reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        await until(lambda: handshakes(served) == 1)
        assert not accepts(served, "SSL")
        writer.close()
        await until(lambda: handshakes(served) == 0)
        assert accepts(served, "SSL")

    tls_run(story, max__connections="2")


def test_handshakes_count_in_the_rate_of_connections(tls_run: Run) -> None:
    async def story(served: Served) -> None:
        _reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        await until(lambda: handshakes(served) == 1)
        assert not accepts(served, "SSL")
        writer.close()

    tls_run(story, max__connection__creation__rate="1", quota__window__num="2")
