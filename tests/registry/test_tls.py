"""A served registry behind TLS, and brokers and clients that reach it so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.broker import Broker
from kavka.broker.environment import OsEnvironment
from kavka.registry.registry_server import RegistryServer
from kavka.registry.registry_server_config import RegistryServerConfig
from kavka.registry.znode_server import ZnodeServer
from kavka.settings.declaration import InvalidSetting
from support.certificates import PASSWORD
from support.tls import TlsFiles

Story = Callable[[RegistryServer], Awaitable[None]]


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    return TlsFiles(tmp_path)


def settings(files: TlsFiles, **more: str) -> dict[str, str]:
    return {
        "dataDir": str(files.directory),
        "secureClientPort": "0",
        "secureClientPortAddress": "127.0.0.1",
        "ssl.keyStore.location": files.broker,
        "ssl.trustStore.location": files.trust,
        **more,
    }


def run(files: TlsFiles, story: Story, **more: str) -> None:
    """Run a story beside a registry that asks for certificates."""

    async def served() -> None:
        environment = OsEnvironment()
        znodes = ZnodeServer(environment.clock, environment.random)
        config = RegistryServerConfig.parse(settings(files, **more))
        server = RegistryServer(znodes, config, environment.network)
        await server.start()
        try:
            await story(server)
        finally:
            await server.stop()
            await znodes.close()

    asyncio.run(served())


def broker(files: TlsFiles, server: RegistryServer, **more: str) -> Broker:
    store = files.authority.sign("broker as a client", hosts=())
    return Broker(
        {
            "broker.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(files.directory / "data"),
            "zookeeper.connect": f"localhost:{server.secure_port}",
            "zookeeper.connection.timeout.ms": "2000",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": files.trust,
            "zookeeper.ssl.keystore.location": store.write_pkcs12(files.directory / "own.p12"),
            "zookeeper.ssl.keystore.password": PASSWORD,
            **more,
        },
        OsEnvironment(),
    )


def test_a_broker_begins_its_session_over_mutual_tls(files: TlsFiles) -> None:
    async def story(server: RegistryServer) -> None:
        made = broker(files, server)
        await made.start()
        assert len(server.connections) == 1
        await made.stop()

    run(files, story)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {"zookeeper.ssl.keystore.location": ""},
        {"zookeeper.ssl.client.enable": "false"},
        {"zookeeper.connect": "127.0.0.2"},
    ],
)
def test_a_broker_without_what_the_registry_asks_for_does_not_start(
    files: TlsFiles, more: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(server: RegistryServer) -> None:
        if "zookeeper.connect" in more:
            more["zookeeper.connect"] = f"127.0.0.2:{server.secure_port}"
        with pytest.raises(ConnectionError):
            await broker(files, server, **more).start()
        assert not server.connections

    run(files, story, secureClientPortAddress="0.0.0.0")


def test_there_is_no_port_in_plain_text_unless_it_is_named(files: TlsFiles) -> None:
    async def story(server: RegistryServer) -> None:
        assert server.port == server.secure_port

    run(files, story)

    async def both(server: RegistryServer) -> None:
        assert server.port != server.secure_port

    run(files, both, clientPort="0", clientPortAddress="127.0.0.1")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"ssl.keyStore.location": "/nowhere.pem"}, "No such file"),
        ({"ssl.clientAuth": "perhaps"}, "need, want, none"),
        ({"ssl.keyStore.location": ""}, "needs a key store"),
    ],
)
def test_a_store_that_cannot_be_used_is_named(
    files: TlsFiles, given: dict[str, str], reason: str
) -> None:
    async def story(_server: Any) -> None:
        raise AssertionError("it started")

    with pytest.raises(InvalidSetting, match=reason):
        run(files, story, **given)


def test_a_class_without_tls_is_refused_beside_tls(files: TlsFiles) -> None:
    async def story(server: RegistryServer) -> None:
        nio = "org.apache.zookeeper.ClientCnxnSocketNIO"
        with pytest.raises(InvalidSetting, match="ClientCnxnSocketNetty"):
            await broker(files, server, **{"zookeeper.clientCnxnSocket": nio}).start()

    run(files, story)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"zookeeper.ssl.keystore.location": ""}, r"\(?zookeeper.ssl.keystore.location"),
        ({"zookeeper.connect": "127.0.0.2"}, "zookeeper.ssl.endpoint.identification.algorithm"),
    ],
)
def test_a_broker_says_which_setting_keeps_it_from_the_registry(
    files: TlsFiles, more: dict[str, str], reason: str
) -> None:
    async def story(server: RegistryServer) -> None:
        if "zookeeper.connect" in more:
            more["zookeeper.connect"] = f"127.0.0.2:{server.secure_port}"
        with pytest.raises(ConnectionError, match=reason):
            await broker(files, server, **more).start()

    run(files, story, secureClientPortAddress="0.0.0.0")
