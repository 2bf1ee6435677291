"""Access to a served registry: logins, access lists, and what those without them cannot do."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.broker import Broker
from kavka.broker.environment import OsEnvironment
from kavka.core.znode_access import ALL, OPEN, READ, AclEntry, digest_id
from kavka.core.znodes import Check, Create, Event, SetData, ZnodeError
from kavka.net import bounded_log
from kavka.registry.interface import RegistryRefused
from kavka.registry.jaas_files import login_of_file
from kavka.registry.registry_server import RegistryServer
from kavka.registry.registry_server_config import RegistryServerConfig
from kavka.registry.znode_server import ZnodeServer
from kavka.registry.zookeeper import ZooKeeperRegistry
from kavka.registry.zookeeper_access import (
    AccessDenied,
    ZooKeeperAccess,
    ZooKeeperLoginRefused,
    kafkas_access_list,
    open_access_list,
)
from kavka.settings.declaration import InvalidSetting
from support.served_registry import jaas_file
from support.tls import TlsFiles
from support.waiting import eventually, until

Story = Callable[[RegistryServer], Awaitable[None]]
CREATOR = (AclEntry(ALL, "auth", ""),)


def run(story: Story, **settings: str) -> None:
    """Run a story beside a registry; names of settings have `__` for dots."""

    async def served() -> None:
        environment = OsEnvironment()
        znodes = ZnodeServer(environment.clock, environment.random)
        named = {name.replace("__", "."): text for name, text in settings.items()}
        chosen = {"clientPort": "0", "clientPortAddress": "127.0.0.1", **named}
        server = RegistryServer(znodes, RegistryServerConfig.parse(chosen), environment.network)
        await server.start()
        try:
            async with asyncio.timeout(60):
                await story(server)
        finally:
            await server.stop()
            await znodes.close()

    asyncio.run(served())


@asynccontextmanager
async def client(
    server: RegistryServer,
    jaas: Path | None = None,
    *,
    secures: bool = False,
    digest: bytes | None = None,
) -> AsyncIterator[ZooKeeperRegistry]:
    environment = OsEnvironment()
    read_login = partial(login_of_file, None if jaas is None else str(jaas), "Client")
    registry = await ZooKeeperRegistry.open(
        environment.network,
        environment.random,
        f"127.0.0.1:{server.port}",
        session_timeout_ms=6000,
        connection_timeout_ms=20_000,
        access=ZooKeeperAccess(read_login, kafkas_access_list if secures else open_access_list),
    )
    try:
        if digest is not None:
            await registry.add_identity("digest", digest)
        yield registry
    finally:
        await registry.close()


def test_another_identity_reads_writes_and_removes_nothing_that_is_protected(
    tmp_path: Path,
) -> None:
    async def story(server: RegistryServer) -> None:
        async with (
            client(server, jaas_file(tmp_path), secures=True) as owner,
            client(server, jaas_file(tmp_path, "alice")) as alice,
            client(server, digest=b"kafka:kafka-secret") as digest,
            client(server) as anybody,
        ):
            await owner.multi([Create("/config"), Create("/config/users", b"1")])
            await owner.create("/config/users/u", b"salt")
            await owner.create("/controller", b"me", ephemeral=True)
            for other in (alice, digest, anybody):
                await denied(other, "/config/users")
                assert (await other.get("/controller"))[0] == b"me"
                for call in (
                    partial(other.set, "/controller", b"it"),
                    partial(other.delete, "/config/users"),
                    partial(other.create, "/config/topics"),
                    partial(other.create, "/config/users/u"),
                    partial(other.set_access, "/controller", OPEN),
                    partial(other.multi, [Create("/mine"), SetData("/controller", b"it")]),
                    partial(other.multi, [Check("/config/users", 0)]),
                ):
                    with pytest.raises(AccessDenied):
                        await call()
                assert await other.stat("/mine") is None
            assert (await owner.get("/config/users/u"))[0] == b"salt"
            await owner.delete("/config/users/u")

    run(story, kavka__jaas__file=str(jaas_file(tmp_path)))


async def denied(other: ZooKeeperRegistry, path: str) -> None:
    for call in (other.get, other.children, other.acl):
        with pytest.raises(AccessDenied, match=path):
            await call(path)


def test_watches_tell_nothing_about_what_may_not_be_read(tmp_path: Path) -> None:
    async def story(server: RegistryServer) -> None:
        async with (
            client(server, jaas_file(tmp_path), secures=True) as owner,
            client(server) as anybody,
        ):
            seen: list[Event] = []
            for path in ("/config/users", "/controller", "/config/users/u"):
                assert await anybody.stat(path, seen.append) is None
            await owner.create("/config")
            await owner.create("/config/users")
            await owner.create("/config/users/u")
            await owner.create("/controller")
            await owner.delete("/config/users/u")
            await until(lambda: seen)
            await anybody.stat("/")
            assert [event.path for event in seen] == ["/controller"]

    run(story, kavka__jaas__file=str(jaas_file(tmp_path)))


def test_hashes_are_shown_only_to_who_may_change_the_list() -> None:
    async def story(server: RegistryServer) -> None:
        async with client(server, digest=b"me:secret") as owner, client(server) as other:
            await owner.create("/a", access=(*CREATOR, AclEntry(READ, "world", "anyone")))
            hashed = digest_id(b"me:secret")
            assert [entry.id for entry in (await owner.acl("/a"))[0]] == [hashed, "anyone"]
            assert [entry.id for entry in (await other.acl("/a"))[0]] == ["me:x", "anyone"]
            assert [one.user for one in await owner.identities()] == ["127.0.0.1", "me"]

    run(story)


@pytest.mark.parametrize(
    "access", [(), (AclEntry(ALL, "auth", ""),), (AclEntry(ALL, "moon", "x"),)]
)
def test_a_list_that_protects_for_nobody_is_refused(access: tuple[AclEntry, ...]) -> None:
    async def story(server: RegistryServer) -> None:
        async with client(server) as anybody:
            await anybody.create("/a")
            for call in (
                partial(anybody.create, "/b", access=access),
                partial(anybody.set_access, "/a", access),
            ):
                with pytest.raises(RegistryRefused) as refused:
                    await call()
                assert refused.value.error is ZnodeError.INVALID_ACL

    run(story)


def test_super_users_do_everything(tmp_path: Path) -> None:
    closed = (AclEntry(ALL, "digest", digest_id(b"nobody:else")),)

    async def story(server: RegistryServer) -> None:
        async with client(server) as anybody:
            await anybody.create("/a", b"x", access=closed)
            await denied(anybody, "/a")
        async with client(server, digest=b"root:pass") as root:
            assert (await root.get("/a"))[0] == b"x"
        async with client(server, jaas_file(tmp_path, "alice")) as alice:
            await alice.set_access("/a", OPEN)

    run(
        story,
        kavka__jaas__file=str(jaas_file(tmp_path)),
        superUser="alice",
        DigestAuthenticationProvider__superDigest=digest_id(b"root:pass"),
    )


def test_skipping_lists_keeps_them(tmp_path: Path) -> None:
    closed = (AclEntry(ALL, "digest", digest_id(b"nobody:else")),)

    async def story(server: RegistryServer) -> None:
        async with client(server) as anybody:
            await anybody.create("/a", b"x", access=closed)
            assert (await anybody.get("/a"))[0] == b"x"
            assert server.znode_server.tree.access("/a") == closed

    run(story, skipACL="yes")


@pytest.mark.parametrize(
    ("login", "reason"),
    [
        ({"password": "guess"}, "unknown user or wrong password"),
        ({"user": "mallory", "password": "x"}, "unknown user or wrong password"),
    ],
)
def test_a_login_that_is_refused_ends_the_connection_and_names_the_file(
    login: dict[str, str], reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(server: RegistryServer) -> None:
        wrong = jaas_file(tmp_path, **login)
        with pytest.raises(ZooKeeperLoginRefused, match=reason) as refused:
            async with client(server, wrong):
                pass
        assert str(wrong) in str(refused.value)
        await until(lambda: not server.connections)

    run(story, kavka__jaas__file=str(jaas_file(tmp_path)))
    assert login["password"] not in caplog.text
    assert "registry login failed peer=127.0.0.1 scheme=sasl" in caplog.text


def test_a_server_without_sasl_is_not_taken_for_one_that_took_the_login(tmp_path: Path) -> None:
    async def story(server: RegistryServer) -> None:
        with pytest.raises(ZooKeeperLoginRefused, match="offers no SASL"):
            async with client(server, jaas_file(tmp_path)):
                pass

    run(story)


def test_where_a_login_is_required_nothing_else_is_answered(tmp_path: Path) -> None:
    async def story(server: RegistryServer) -> None:
        async with client(server, jaas_file(tmp_path)) as owner:
            await owner.create("/a")
        for digest in (None, b"me:secret"):
            with pytest.raises(ConnectionError):
                async with asyncio.timeout(5), client(server, digest=digest) as anybody:
                    await anybody.get("/a")

    run(
        story,
        kavka__jaas__file=str(jaas_file(tmp_path)),
        enforce__auth__enabled="true",
        enforce__auth__schemes="sasl",
    )


def test_a_broken_connection_proves_its_identities_again(tmp_path: Path) -> None:
    async def story(server: RegistryServer) -> None:
        jaas = jaas_file(tmp_path)
        async with client(server, jaas, secures=True, digest=b"me:secret") as owner:
            await owner.create("/a", b"x", access=CREATOR)
            for connection in list(server.connections):
                connection.abort()
            assert (await owner.get("/a"))[0] == b"x"
            assert [one.auth_scheme for one in await owner.identities()] == ["ip", "sasl", "digest"]

    run(story, kavka__jaas__file=str(jaas_file(tmp_path)))


def test_a_changed_jaas_file_counts_from_the_next_connection_on(tmp_path: Path) -> None:
    async def story(server: RegistryServer) -> None:
        jaas = jaas_file(tmp_path)
        async with client(server, jaas) as registry:
            os.replace(jaas_file(tmp_path, "alice"), jaas)
            assert (await registry.identities())[1].user == "kafka"
            for connection in list(server.connections):
                connection.abort()
            assert (await registry.identities())[1].user == "alice"

    run(story, kavka__jaas__file=str(jaas_file(tmp_path)))


def test_identities_of_a_connection_are_bounded() -> None:
    async def story(server: RegistryServer) -> None:
        async with client(server) as anybody:
            for number in range(63):
                await anybody.add_identity("digest", b"user%d:x" % number)
            with pytest.raises(ZooKeeperLoginRefused):
                await anybody.add_identity("digest", b"one more:x")

    run(story)


def test_many_wrong_logins_are_logged_in_part_and_harm_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(server: RegistryServer) -> None:
        wrong = jaas_file(tmp_path, password="guess")
        async with client(server, jaas_file(tmp_path, "alice")) as alice:
            for _ in range(60):
                with pytest.raises(ZooKeeperLoginRefused):
                    async with client(server, wrong):
                        pass
            assert await alice.children("/") == []
        await until(lambda: not server.connections)

    run(story, kavka__jaas__file=str(jaas_file(tmp_path)), maxClientCnxns="0")
    failed = [one for one in caplog.messages if one.startswith("registry login failed")]
    assert len(failed) == bounded_log.LINES


def broker_settings(server: RegistryServer, directory: Path, **more: str) -> dict[str, str]:
    return {
        "broker.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(directory / "data"),
        "zookeeper.connect": f"127.0.0.1:{server.port}/k",
        "zookeeper.set.acl": "true",
        **{name.replace("__", "."): text for name, text in more.items()},
    }


def test_a_broker_protects_the_znodes_that_it_makes(tmp_path: Path) -> None:
    jaas = str(jaas_file(tmp_path))
    owner, readers = AclEntry(ALL, "sasl", "kafka"), AclEntry(READ, "world", "anyone")

    async def story(server: RegistryServer) -> None:
        broker = Broker(
            broker_settings(server, tmp_path, kavka__zookeeper__jaas__file=jaas), OsEnvironment()
        )
        await broker.start()
        lists = {node.path: node.access for node in server.znode_server.tree.dump()}
        await broker.stop()
        assert lists.pop("/") == lists.pop("/k/consumers") == OPEN
        for secret in ("/k/config/users", "/k/config/brokers"):
            assert lists.pop(secret) == (owner,)
        assert set(lists.values()) == {(owner, readers)}
        assert {"/k", "/k/brokers/ids/1", "/k/controller", "/k/cluster/id"} <= lists.keys()

    run(story, kavka__jaas__file=jaas)


def test_a_broker_with_a_refused_login_does_not_start(tmp_path: Path) -> None:
    async def story(server: RegistryServer) -> None:
        wrong = str(jaas_file(tmp_path, "alice", "guess"))
        settings = broker_settings(server, tmp_path, kavka__zookeeper__jaas__file=wrong)
        with pytest.raises(ZooKeeperLoginRefused, match="login of user alice"):
            await Broker(settings, OsEnvironment()).start()
        settings = broker_settings(server, tmp_path, kavka__zookeeper__jaas__file="/none.conf")
        with pytest.raises(InvalidSetting, match="No such file"):
            await Broker(settings, OsEnvironment()).start()

    run(story, kavka__jaas__file=str(jaas_file(tmp_path)))


def test_certificates_of_the_registrys_port_are_read_again_when_they_change(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path)

    async def serial(server: RegistryServer) -> Any:
        context = ssl.create_default_context(cafile=files.trust)
        _, writer = await asyncio.open_connection("127.0.0.1", server.secure_port, ssl=context)
        found = writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
        writer.close()
        return found

    async def story(server: RegistryServer) -> None:
        before = await serial(server)
        os.replace(files.write("renewed.pem", files.authority.sign("broker")), files.broker)
        await eventually(partial(serial, server), lambda found: found != before)

    run(
        story,
        secureClientPort="0",
        secureClientPortAddress="127.0.0.1",
        ssl__keyStore__location=files.broker,
        ssl__clientAuth="none",
        kavka__ssl__reload__interval__ms="20",
    )


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"kavka__jaas__file": "none.conf"}, "No such file"),
        ({"enforce__auth__enabled": "true"}, "name one or more of sasl"),
        ({"enforce__auth__enabled": "true", "enforce__auth__schemes": "ip"}, "Expected some of"),
        ({"sessionRequireClientSASLAuth": "true"}, "there are no users"),
        ({"authProvider__1": "org.acme.Provider"}, "classes of Java do not run here"),
        ({"skipACL": "perhaps"}, "skipACL"),
    ],
)
def test_settings_that_would_not_protect_are_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        RegistryServerConfig.parse({name.replace("__", "."): text for name, text in given.items()})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('Server { org.acme.Login required user_a="b"; };', "login module org.acme.Login"),
        ('Client { DigestLoginModule required username="a"; };', "it has no section Server"),
        ("Server { DigestLoginModule required; };", "names no user"),
        ('Server { DigestLoginModule required user_a="b"; ', "has no closing brace"),
        ('Server { DigestLoginModule required user_a="b"; }', "not terminated by semi-colon"),
        ("what is this", "Expected the name of a section"),
    ],
)
def test_a_jaas_file_that_cannot_be_used_is_named(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "jaas.conf"
    path.write_text(text)
    with pytest.raises(InvalidSetting, match=reason):
        RegistryServerConfig.parse({"kavka.jaas.file": str(path)})
