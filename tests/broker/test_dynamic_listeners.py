"""Listeners are added and removed while a broker runs, with the security of their own settings (KIP-226)."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import AuthenticationFailed, ErrorCode
from kavka.net.clock import SystemRandom
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.net.peer_security import PLAINTEXT, PeerSecurity
from kavka.net.sasl_login import password_login
from kavka.wire.messages.metadata import MetadataRequest
from support.config_requests import BROKER, DELETE, SET, altered
from support.one_broker import Served
from support.tls import TlsFiles
from support.waiting import until

Run = Callable[..., None]
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = "listener.name.users.plain.sasl.jaas.config"
MAP = "PLAINTEXT:PLAINTEXT,MORE:PLAINTEXT,USERS:SASL_PLAINTEXT,SECURE:SSL"
SETTINGS = {
    "broker__id": "0",
    "listener__security__protocol__map": MAP,
    "inter__broker__listener__name": "PLAINTEXT",
    "password__encoder__secret": "a secret",
    "password__encoder__iterations": "1024",
    "sasl__enabled__mechanisms": "PLAIN",
}
OWN = "PLAINTEXT://127.0.0.1:0"


async def change(served: Served, *settings: tuple[str, int, str | None]) -> str:
    """Change settings of broker 0, and return why not."""
    (response,) = await altered(served, (BROKER, "0", list(settings)))
    assert response.error_code in (0, ErrorCode.INVALID_REQUEST)
    return response.error_message or ""


async def listen(served: Served, *more: str) -> str:
    return await change(served, ("listeners", SET, ",".join((OWN, *more))))


def advertised(served: Served) -> dict[str, int]:
    """Return the ports by listener, as all brokers know them."""
    own = served.broker.metadata.brokers[served.broker.broker_id]
    return {endpoint.name: endpoint.port for endpoint in own.endpoints}


async def until_advertised(served: Served, *names: str) -> dict[str, int]:
    await until(lambda: set(advertised(served)) == {"PLAINTEXT", *names})
    return advertised(served)


async def connect(port: int, security: PeerSecurity = PLAINTEXT) -> Peer:
    return await Peer.connect(TcpNetwork(), "127.0.0.1", port, security=security)


def login(password: str) -> PeerSecurity:
    return PeerSecurity(sasl=password_login("PLAIN", "alice", password, SystemRandom()))


async def shown_port(peer: Peer) -> int:
    response: Any = await peer.send(MetadataRequest(topics=[]))
    return int(response.brokers[0].port)


def test_a_listener_is_added_advertised_and_removed(run: Run) -> None:
    async def story(served: Served) -> None:
        assert await listen(served, "MORE://127.0.0.1:0") == ""
        ports = await until_advertised(served, "MORE")
        peer = await connect(ports["MORE"])
        assert await shown_port(peer) == ports["MORE"]  # each listener shows its own address
        assert await shown_port(served.peer) == ports["PLAINTEXT"] == served.port
        assert await listen(served) == ""
        await until_advertised(served)
        with pytest.raises(ConnectionError):
            await peer.send(MetadataRequest(topics=[]))
        with pytest.raises(ConnectionRefusedError):
            await connect(ports["MORE"])
        assert await shown_port(served.peer) == served.port

    run(story, **SETTINGS)


def test_the_response_to_the_removal_of_its_own_listener_arrives(run: Run) -> None:
    async def story(served: Served) -> None:
        assert await listen(served, "MORE://127.0.0.1:0") == ""
        ports = await until_advertised(served, "MORE")
        peer = await connect(ports["MORE"])
        assert await listen(Served(served.broker, peer, ports["MORE"])) == ""
        await until_advertised(served)

    run(story, **SETTINGS)


def test_a_listener_with_sasl_takes_the_settings_of_the_moment_when_it_is_added(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        users = "USERS://127.0.0.1:0"
        assert "PLAIN has no users" in await listen(served, users)
        assert await change(served, (USERS, SET, f'{PLAIN} user_alice="one";')) == ""
        assert "without effect" not in caplog.text
        assert await listen(served, users) == ""
        port = (await until_advertised(served, "USERS"))["USERS"]
        (await connect(port, login("one"))).close()
        assert await change(served, (USERS, SET, f'{PLAIN} user_alice="two";')) == ""
        assert f"without effect while the broker runs name={USERS}" in caplog.text
        with pytest.raises(AuthenticationFailed):
            await connect(port, login("two"))
        assert await listen(served) == ""
        await until_advertised(served)
        assert await listen(served, users) == ""
        port = (await until_advertised(served, "USERS"))["USERS"]
        (await connect(port, login("two"))).close()
        assert served.broker.security.authentications.succeeded["USERS"] == 2

    run(story, **SETTINGS, connection__failed__authentication__delay__ms="1")


def test_a_listener_with_tls_is_added_to_a_broker_without(run: Run, tmp_path: Path) -> None:
    files = TlsFiles(tmp_path)
    prefix = "listener.name.secure.ssl."

    async def story(served: Served) -> None:
        secure = "SECURE://127.0.0.1:0"
        assert "needs a key store" in await listen(served, secure)
        store = [(f"{prefix}keystore.type", SET, "PEM")]
        store.append((f"{prefix}keystore.location", SET, files.broker))
        assert await change(served, *store, ("listeners", SET, f"{OWN},{secure}")) == ""
        port = (await until_advertised(served, "SECURE"))["SECURE"]
        peer = await connect(port, files.security())
        assert await shown_port(peer) == port
        assert await listen(served) == ""
        await until_advertised(served)
        with pytest.raises(ConnectionError):
            await peer.send(MetadataRequest(topics=[]))

    run(story, **SETTINGS)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"listeners": "MORE://127.0.0.1:0"}, "inter-broker listener PLAINTEXT"),
        ({"listeners": f"{OWN},NEW://127.0.0.1:0"}, "No security protocol defined"),
        ({"listeners": f"{OWN},{OWN}"}, "must have a different name"),
        ({"listeners": "PLAINTEXT"}, "Expected NAME://host:port"),
        ({"advertised.listeners": f"{OWN},MORE://127.0.0.1:1"}, "must be among listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "nonroutable"),
        (
            {"listener.security.protocol.map": MAP.replace("T:PLAINTEXT", "T:SSL")},
            "Security protocol cannot be updated for existing listener PLAINTEXT",
        ),
    ],
)
def test_what_cannot_be_applied_is_refused(run: Run, settings: dict[str, str], reason: str) -> None:
    async def story(served: Served) -> None:
        changes = [(name, SET, text) for name, text in settings.items()]
        assert reason in await change(served, *changes)
        assert advertised(served) == {"PLAINTEXT": served.port}

    run(story, **SETTINGS)


def test_an_address_that_is_taken_is_reported_and_tried_again_at_the_next_change(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            more = f"MORE://127.0.0.1:{taken.getsockname()[1]}"
            assert await listen(served, more) == ""
            await until(lambda: f"listener not opened listener={more}" in caplog.text)
            assert advertised(served) == {"PLAINTEXT": served.port}
        assert await change(served, ("num.io.threads", SET, "3")) == ""
        await until_advertised(served, "MORE")

    run(story, **SETTINGS)


def test_what_is_stored_is_opened_at_the_next_start(run: Run) -> None:
    async def add(served: Served) -> None:
        assert await change(served, (USERS, SET, f'{PLAIN} user_alice="one";')) == ""
        assert await listen(served, "USERS://127.0.0.1:0") == ""

    async def see(served: Served) -> None:
        port = (await until_advertised(served, "USERS"))["USERS"]
        (await connect(port, login("one"))).close()

    run(add, **SETTINGS)
    run(see, **SETTINGS)


def test_another_address_of_a_listener_that_stays_is_advertised_and_opened_at_the_next_start(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        elsewhere = "PLAINTEXT://localhost:0"
        assert await change(served, ("listeners", SET, elsewhere)) == ""
        warning = "listener keeps its address until the next start"
        await until(lambda: warning in caplog.text)
        assert f"listener={OWN} stored={elsewhere}" in caplog.text
        shown = ("advertised.listeners", SET, "PLAINTEXT://kafka.example:19092")
        assert await change(served, shown) == ""
        await until(lambda: advertised(served) == {"PLAINTEXT": 19092})
        assert await change(served, (shown[0], DELETE, None)) == ""
        await until(lambda: advertised(served) == {"PLAINTEXT": served.port})

    run(story, **SETTINGS)
