"""Refused connections to a broker as evidence, and control requests that cannot be sent."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.control.broker_channel import BrokerChannel
from kavka.broker.control.control_request_builder import ControlRequestBuilder
from kavka.broker.control.controlled_shutdown import request_controlled_shutdown
from kavka.broker.control.refusals_by_brokers import RefusalsByBrokers
from kavka.broker.control.remote_link import RemoteLink
from kavka.core.controller.broker_updates import BrokerUpdate
from kavka.core.controller.events import Snapshot
from kavka.core.controller.machine import ControllerMachine
from kavka.core.controller.settings import ControllerSettings
from kavka.core.controller.state import Endpoint, TopicRead
from kavka.errors import AuthenticationFailed, ErrorCode, KafkaError
from kavka.ids import BrokerId, TopicId, TopicPartition
from kavka.net.network import TcpNetwork
from kavka.net.peer_security import TlsHandshakeFailed
from kavka.wire.apis import ApiKey
from kavka.wire.frame import decode_request_header, encode_response
from kavka.wire.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApi
from kavka.wire.messages.update_metadata import UpdateMetadataResponse
from kavka.wire.stored.znodes import StateNode, TopicNode
from support.waiting import until

NOWHERE = Endpoint("PLAINTEXT", "127.0.0.1", 1, "PLAINTEXT")


class Refusing:
    """A network without listeners, or one whose certificates this broker does not trust."""

    def __init__(self, error: Exception | None = None) -> None:
        self.attempts = 0
        self._error = error or ConnectionRefusedError()

    async def connect(
        self, host: str, port: int, factory: Callable[[], Any], tls: Any = None
    ) -> Any:
        self.attempts += 1
        raise self._error

    async def listen(
        self, host: str, port: int, factory: Callable[[], Any], tls: Any = None
    ) -> Any:
        raise NotImplementedError


async def respond_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Negotiate versions, and break the connection."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    header = decode_request_header(await reader.readexactly(size))
    row = ApiVersionsResponseApi(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=3)
    response = ApiVersionsResponse(api_keys=[row])
    for part in encode_response(response, header.api_version, header.correlation_id):
        assert isinstance(part, bytes | bytearray | memoryview)
        writer.write(part)
    writer.close()


async def notified_after(network: Any, starting_s: float) -> float:
    """Return after how many seconds the refusal was reported."""
    notified = asyncio.Event()
    loop = asyncio.get_running_loop()
    began = loop.time()
    link = RemoteLink(network, NOWHERE, 1000, notified.set, lambda: None, starting_s)
    try:
        async with asyncio.timeout(30):
            await notified.wait()
        return loop.time() - began
    finally:
        await link.stop()


def test_a_broker_that_was_there_before_is_dead_when_its_port_refuses() -> None:
    network = Refusing()
    asyncio.run(notified_after(network, 0))
    assert network.attempts == 1


def test_a_broker_that_the_controller_refuses_stops_without_asking_it() -> None:
    async def run() -> None:
        network: Any = Refusing(TlsHandshakeFailed("the certificate is refused"))
        link = RemoteLink(network, NOWHERE, 1000, lambda: None, lambda: None)
        await until(lambda: link.refusal is not None)
        controller: Any = SimpleNamespace(refusal=link.refusal)
        context: Any = SimpleNamespace(config=BrokerConfig({}))
        assert not await request_controlled_shutdown(context, controller)
        await link.stop()
        assert link.refusal == "the certificate is refused"

    asyncio.run(run())


def test_a_broker_that_has_just_registered_gets_time_to_listen() -> None:
    network = Refusing()
    assert asyncio.run(notified_after(network, 0.25)) >= 0.25
    assert network.attempts > 1


def test_a_broker_that_listened_is_dead_as_soon_as_its_port_refuses() -> None:
    async def run() -> None:
        async def serve_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """Take one connection, until it is used."""
            server.close()
            await respond_once(reader, writer)

        server = await asyncio.start_server(serve_once, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", port, "PLAINTEXT")
        connected, refused = asyncio.Event(), asyncio.Event()
        link = RemoteLink(TcpNetwork(), endpoint, 1000, refused.set, connected.set, 60)
        try:
            async with asyncio.timeout(30):
                await connected.wait()
                await refused.wait()
        finally:
            await link.stop()

    asyncio.run(run())


class Fleeting:
    """A network whose other side answers one request, and breaks."""

    def __init__(self) -> None:
        self.attempts = 0

    async def connect(
        self, host: str, port: int, factory: Callable[[], Any], tls: Any = None
    ) -> Any:
        self.attempts += 1
        return await TcpNetwork().connect(host, port, factory)

    async def listen(
        self, host: str, port: int, factory: Callable[[], Any], tls: Any = None
    ) -> Any:
        raise NotImplementedError


def test_a_broker_that_breaks_each_connection_at_once_is_not_asked_without_a_pause() -> None:
    async def run() -> None:
        server = await asyncio.start_server(respond_once, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", port, "PLAINTEXT")
        network, connected = Fleeting(), asyncio.Event()
        link = RemoteLink(network, endpoint, 1000, lambda: None, connected.set, 60)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(30):
                while network.attempts < 4:
                    connected.clear()
                    await connected.wait()
            assert loop.time() - began >= 0.3
        finally:
            await link.stop()
            server.close()

    asyncio.run(run())


class Picky:
    """A broker that cannot be sent some partitions, and notes those that it was sent."""

    def __init__(self, fails: Callable[[str], None]) -> None:
        self.fails = fails
        self.wait_until_published: list[str] = []

    async def send(self, request: Any) -> Any:
        for topic in request.topic_states:
            self.fails(topic.topic_name)
        self.wait_until_published += [topic.topic_name for topic in request.topic_states]
        return UpdateMetadataResponse(error_code=ErrorCode.NONE)

    async def stop(self) -> None:
        """Nothing is held."""


class Refusal(Picky):
    """One that refuses requests as a whole."""

    async def send(self, request: Any) -> Any:
        try:
            return await super().send(request)
        except ValueError:
            return UpdateMetadataResponse(error_code=ErrorCode.INVALID_REQUEST)


def _not_bad(topic: str) -> None:
    if topic == "bad":
        raise ValueError("not an integer")


@pytest.mark.parametrize("kind", [Picky, Refusal])
def test_a_request_that_cannot_be_sent_does_not_delay_the_rest(kind: type[Picky]) -> None:
    async def run() -> None:
        link = kind(_not_bad)
        names = ["a", "b", "bad", "c", "d"]
        topics = {
            name: TopicRead(
                TopicNode(TopicId(name.encode().ljust(16)), {0: [1]}),
                0,
                {0: (StateNode(1, 0, 1, [1]), 0)},
            )
            for name in names
        }
        machine = ControllerMachine(1, Snapshot((), topics), ControllerSettings())
        outbox = machine.outbox
        outbox.add(BrokerUpdate((1,), metadata=tuple(TopicPartition(name, 0) for name in names)))
        renderer = ControlRequestBuilder(machine, BrokerId(1), "PLAINTEXT", 1)
        channel = BrokerChannel(1, 1, outbox, link, renderer, lambda _event: None)
        try:
            async with asyncio.timeout(30):
                await channel.flushed()
                assert link.wait_until_published == ["a", "b", "c", "d"]
                outbox.add(BrokerUpdate((1,), metadata=(TopicPartition("a", 0),)))
                await channel.flushed()
                assert link.wait_until_published[4:] == ["a"]
                link.fails = lambda _topic: None  # what it says is mended
                await channel.flushed()
                assert link.wait_until_published[5:] == ["bad"]
        finally:
            await channel.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (AuthenticationFailed("PLAIN", "Invalid username or password"), "user and password of this broker"),
        (TlsHandshakeFailed("TLS handshake with b:1 failed: certificate has expired"), "ssl.keystore"),
        (KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), "super.users of that broker"),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT), None),
        (OSError("connection lost"), None),
    ],
)  # fmt: skip
def test_what_waiting_does_not_mend_is_one_warning_a_minute(
    caplog: pytest.LogCaptureFixture, error: Exception, said: str | None
) -> None:
    async def story() -> None:
        refusals = RefusalsByBrokers()
        assert [refusals.is_refusal(2, error) for _ in range(3)] == [said is not None] * 3

    asyncio.run(story())
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(lines) == (said is not None)
    for line in lines:
        assert said is not None
        reason = str(error).rstrip(".")
        assert line.startswith(f"another broker refuses this one broker=2 reason={reason}: ")
        assert said in line
