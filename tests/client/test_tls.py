"""Our clients over TLS: by Java's names of settings and by librdkafka's, with typed errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.client import Admin, Consumer, Producer
from kavka.client.config import PRODUCER, Config
from kavka.client.security import peer_security
from kavka.net.clock import SystemClock, SystemRandom
from kavka.net.event_loop import MeasuredEventLoop
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.net.peer_security import TlsHandshakeFailed
from support.certificates import PASSWORD, Authority
from support.one_broker import Served, serve
from support.tls import TlsFiles

Settings = dict[str, Any]


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    return TlsFiles(tmp_path)


def run(
    files: TlsFiles, story: Callable[[Served, Settings], Awaitable[None]], **settings: str
) -> None:
    """Run a story against a broker that requires certificates; it gets `bootstrap.servers` as well."""

    async def with_servers(served: Served) -> None:
        await story(served, {"bootstrap.servers": f"localhost:{served.port}"})

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        given = files.broker_settings(client_auth="required", **settings)
        given["advertised__listeners"] = "SSL://localhost:0"
        runner.run(
            serve(
                files.directory / "data",
                with_servers,
                files.security(certificate=files.client),
                **given,
            )
        )


def librdkafkas(files: TlsFiles) -> Settings:
    signed = files.authority.sign("alice", hosts=())
    chain, key = files.directory / "alice.crt", files.directory / "alice.key"
    chain.write_bytes(signed.chain_pem)
    key.write_bytes(signed.key_pem(PASSWORD))
    return {
        "security.protocol": "ssl",
        "ssl.ca.location": files.trust,
        "ssl.certificate.location": str(chain),
        "ssl.key.location": str(key),
        "ssl.key.password": PASSWORD,
    }


def librdkafkas_texts(files: TlsFiles) -> Settings:
    signed = files.authority.sign("alice", hosts=())
    return {
        "security.protocol": "SSL",
        "ssl.ca.pem": Path(files.trust).read_text(),
        "ssl.certificate.pem": signed.chain_pem.decode(),
        "ssl.key.pem": signed.key_pem().decode(),
    }


def javas(files: TlsFiles) -> Settings:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.location": files.authority.write_jks(files.directory / "ca.jks"),
        "ssl.truststore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": files.authority.sign("alice", hosts=()).write_pkcs12(
            files.directory / "alice.p12"
        ),
        "ssl.keystore.password": PASSWORD,
    }


@pytest.mark.parametrize("given", [javas, librdkafkas, librdkafkas_texts])
def test_records_go_both_ways(files: TlsFiles, given: Callable[[TlsFiles], Settings]) -> None:
    async def story(served: Served, servers: Settings) -> None:
        settings = given(files) | servers
        async with Producer(settings) as producer:
            await producer.send("t", b"value")
        async with Consumer(
            settings | {"group.id": "g", "auto.offset.reset": "earliest"}
        ) as consumer:
            consumer.subscribe(["t"])
            values: list[bytes] = []
            while not values:
                batches = await consumer.poll(1000)
                values = [bytes(one.value) for batch in batches for one in batch.records()]
            assert values == [b"value"]
        async with Admin(settings) as admin:
            assert "t" in await admin.list_topics()

    run(files, story)


async def failing(
    settings: Settings, match: str, kind: type[Exception] = TlsHandshakeFailed
) -> None:
    with pytest.raises(kind, match=match):
        async with Admin(settings):
            raise AssertionError("connected")


def test_what_is_wrong_with_a_certificate_is_said_at_once(files: TlsFiles) -> None:
    stranger = Authority("Stranger").write_pem(files.directory / "stranger.pem")

    async def story(served: Served, servers: Settings) -> None:
        good = files.client_settings(certificate=files.client) | servers
        trusting_others = good | {"ssl.truststore.location": stranger}
        await failing(trusting_others, r"refused: self-signed.*ssl\.truststore\.location")
        await failing(files.client_settings() | servers, r"asks for a certificate of the client")
        elsewhere = {"bootstrap.servers": f"127.0.0.2:{served.port}"}
        await failing(good | elsewhere, r"127\.0\.0\.2.*ssl\.endpoint\.identification\.algorithm")
        async with Admin(good | elsewhere | {"ssl.endpoint.identification.algorithm": ""}):
            pass
        blind = {"enable.ssl.certificate.verification": False}
        async with Admin(trusting_others | elsewhere | blind):
            pass

    run(files, story, listeners="SSL://0.0.0.0:0")


def test_an_expired_certificate_of_the_broker_is_named(files: TlsFiles) -> None:
    files.write("broker.pem", files.authority.sign("broker", begin=-9, end=-2))

    async def story() -> None:
        async def never(_served: Served) -> None:
            raise AssertionError("connected")

        with pytest.raises(TlsHandshakeFailed, match="certificate has expired"):
            await serve(
                files.directory / "data", never, files.security(), **files.broker_settings()
            )

    asyncio.run(story())


def test_a_listener_without_tls_is_said_to_be_one(files: TlsFiles) -> None:
    async def story(served: Served) -> None:
        servers = {"bootstrap.servers": f"127.0.0.1:{served.port}"}
        settings = files.client_settings() | servers | {"default.api.timeout.ms": 1}
        said = r"closed the connection .* security.protocol=PLAINTEXT \(or SASL_PLAINTEXT\)"
        await failing(settings, said, ConnectionError)

    asyncio.run(serve(files.directory / "data", story))


def test_a_listener_with_tls_is_said_to_be_one(files: TlsFiles) -> None:
    async def story(served: Served, servers: Settings) -> None:
        reason = r"speaks TLS, and this connection is plain text: set security\.protocol=SSL"
        await failing(servers, reason, ConnectionError)

    run(files, story)


def test_a_clients_new_certificate_holds_for_its_next_connection(files: TlsFiles) -> None:
    tls = files.security(certificate=files.client).tls
    assert tls is not None
    before = asyncio.run(tls.context())
    assert asyncio.run(tls.context()) is before
    files.write("client.pem", files.authority.sign("alice again", hosts=()))
    assert asyncio.run(tls.context()) is not before


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"ssl.ca.location": "/nowhere"}, r"/nowhere for configuration ssl\.ca\.location: No such"),
        ({"ssl.ca.location": "/a", "ssl.truststore.location": "/b"}, "is given as well"),
        ({"ssl.key.pem": "x", "ssl.key.location": "/b"}, "is given as well"),
        ({"ssl.certificate.location": "/nowhere"}, r"ssl\.certificate\.location: No such"),
        ({"ssl.truststore.type": "BKS"}, "JKS, PKCS12, PEM"),
    ],
)
def test_a_store_that_cannot_be_used_is_named(given: Settings, reason: str) -> None:
    config = Config(PRODUCER, {"bootstrap.servers": "a:1", "security.protocol": "SSL"} | given)
    with pytest.raises(ValueError, match=reason):
        peer_security(config, SystemClock(), SystemRandom())


def test_without_a_trust_store_those_of_the_system_are_trusted() -> None:
    for given in ({}, {"ssl.ca.location": "probe"}):
        config = Config(PRODUCER, {"bootstrap.servers": "a:1", "security.protocol": "SSL"} | given)
        assert peer_security(config, SystemClock(), SystemRandom()).tls is not None


def test_a_connection_that_is_closed_twice_can_be_aborted(files: TlsFiles) -> None:
    """A client closes what it has closed already, and aborts it where the broker stands still."""

    async def story(served: Served, servers: Settings) -> None:
        security = files.security(certificate=files.client)
        peer = await Peer.connect(TcpNetwork(), "localhost", served.port, security=security)
        peer.close()
        peer.close()
        peer.abort()
        peer.abort()
        await peer.wait_closed()

    run(files, story)
