"""Listeners with GSSAPI beside a real KDC: our clients, other projects' clients, and what is refused."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from kafka import KafkaConsumer, KafkaProducer

from kavka.client import Consumer, Producer
from kavka.client.admin import Admin, ConfigResource, ResourceType
from kavka.errors import AuthenticationFailed, ErrorCode, KafkaError
from kavka.net import bounded_log
from kavka.net.clock import SystemRandom
from kavka.net.kerberos.contexts import Initiator
from kavka.net.kerberos.login import Identity, KerberosLogin, kerberos_login
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.net.peer_security import PeerSecurity
from kavka.settings.declaration import InvalidSetting
from kavka.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kavka.wire.messages.sasl_handshake import SaslHandshakeRequest
from support.kerberos import MODULE, REALM, SERVICE, Site, jaas, site_in
from support.sasl import Server, run_beside, served
from support.tls import TlsFiles
from support.waiting import until

Run = Callable[..., None]
Story = Callable[[Server], Awaitable[None]]
SENTENCE = (
    "Authentication failed during authentication due to invalid credentials "
    "with SASL mechanism GSSAPI"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_in(tmp_path_factory.mktemp("kerberos") / "realm") as made:
        yield made


@pytest.fixture
def run(tmp_path: Path, site: Site) -> Run:
    """Return what runs a story beside a broker with GSSAPI."""

    def run_story(story: Story, **settings: str) -> None:
        run_beside(tmp_path, story, **site.broker_settings(**settings))

    return run_story


def of_clients(server: Server, **settings: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"localhost:{server.port}",
        "security.protocol": "SASL_PLAINTEXT",
        **settings,
    }


def by_keytab(server: Server, keytab: Path, principal: str = "alice") -> dict[str, Any]:
    return of_clients(server, **{"sasl.jaas.config": jaas(keytab, principal)})


def users(server: Server) -> set[str]:
    sessions = [s.session for s in server.broker.dispatcher.connections.values()]
    return {s.principal.name for s in sessions if s.is_authenticated}


async def round_trip(config: dict[str, Any]) -> None:
    async with Producer(config) as producer:
        await producer.send("t", b"value")
    reading = {**config, "group.id": "g", "auto.offset.reset": "earliest"}
    async with Consumer(reading) as consumer:
        consumer.subscribe(["t"])
        assert (await anext(consumer)).value == b"value"


async def listed(config: dict[str, Any]) -> None:
    async with Admin(config) as admin:
        assert "t" in await admin.list_topics()


# Our clients


def test_our_clients_authenticate_by_a_key_tab_or_the_tickets_of_kinit(
    run: Run, site: Site
) -> None:
    async def story(server: Server) -> None:
        await round_trip(by_keytab(server, site.alice))
        assert server.counts["CLIENTS", "GSSAPI", True] > 1
        librdkafkas = {
            "sasl.mechanisms": "GSSAPI",
            "sasl.kerberos.keytab": str(site.alice),
            "sasl.kerberos.principal": f"alice@{REALM}",
            "sasl.kerberos.service.name": "kafka",
        }
        await listed(of_clients(server, **librdkafkas))
        mine = f"FILE:{site.realm.directory}/of-alice"
        site.realm.run("kinit", "-c", mine, "-k", "-t", str(site.alice), "alice")
        tickets = f'{MODULE} required useTicketCache=true ticketCache="{mine}";'
        await listed(of_clients(server, **{"sasl.jaas.config": tickets}))
        # Without a file the cache is the library's, which is empty.
        none = of_clients(server, **{"sasl.mechanism": "GSSAPI"})
        with pytest.raises(
            AuthenticationFailed, match="cache, which kinit fills: No Kerberos credent"
        ):
            await Admin(none).start()
        site.realm.run("kinit", "-k", "-t", str(site.alice), "alice")
        await listed(none)
        site.realm.run("kdestroy")
        assert not any(n for (_, _, is_success), n in server.counts.items() if not is_success)

    run(story)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl.kerberos.service.name": "nope"}, "Server nope/localhost@KAVKA.TEST not found"),
        ({"sasl.kerberos.principal": "mallory"}, "No key table entry found for mallory"),
        ({"sasl.kerberos.keytab": "/nowhere"}, "file '/nowhere' not found"),
    ],
)
def test_a_client_without_a_ticket_says_why_and_asks_no_broker(
    run: Run, site: Site, settings: dict[str, str], message: str
) -> None:
    async def story(server: Server) -> None:
        config = of_clients(
            server,
            **{
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.keytab": str(site.alice),
                "sasl.kerberos.principal": "alice",
                **settings,
            },
        )
        with pytest.raises(AuthenticationFailed, match=message) as refused:
            await Admin(config).start()
        assert (refused.value.mechanism, refused.value.retriable) == ("GSSAPI", False)
        assert not server.counts

    run(story)


def test_a_kdc_that_is_away_is_no_refused_credential(run: Run, site: Site) -> None:
    bob = site.realm.keytab("bob")

    async def story(server: Server) -> None:
        login = kerberos_login(Identity("bob", str(bob), None), "kafka", SystemRandom())
        site.realm.stop()
        with pytest.raises(ConnectionError, match=r"^Kerberos: Cannot contact any KDC for realm"):
            await connect(server, login)
        site.realm.start()
        peer = await connect(server, login)
        assert users(server) == {"bob"}
        peer.close()

    run(story)


def test_a_kdc_that_is_silent_does_not_hold_a_connection_longer_than_its_time(
    run: Run, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    erin = site.realm.keytab("erin")

    async def story(server: Server) -> None:
        waiting: list[asyncio.StreamWriter] = []
        silent = await asyncio.start_server(
            lambda _reader, writer: waiting.append(writer), "127.0.0.1", 0
        )
        port = silent.sockets[0].getsockname()[1]
        other = site.realm.directory / "silent.conf"
        text = site.realm.krb5_conf.read_text()
        other.write_text(text.replace(f"127.0.0.1:{site.realm.port}", f"127.0.0.1:{port}"))
        with monkeypatch.context() as patched:
            patched.setenv("KRB5_CONFIG", str(other))
            with pytest.raises(ConnectionError, match="Kerberos: the KDC does not answer"):
                await connect(server, login_of(erin, "erin"), timeout_ms=500)
        # One that has tickets does not wait for the other.
        (await connect(server, login_of(site.alice, "alice"))).close()
        silent.close()
        for writer in waiting:
            writer.transport.abort()
        (await connect(server, login_of(erin, "erin"))).close()

    run(story)


def test_tickets_that_end_are_got_again_and_connections_authenticate_again(
    run: Run, site: Site
) -> None:
    carol = site.realm.keytab("carol", options=["-maxlife", '"2 seconds"'])
    log = site.realm.directory / "kdc.log"

    def first_tickets() -> int:
        lines = log.read_text().splitlines()
        return sum("AS_REQ" in line and "ISSUE" in line and "carol" in line for line in lines)

    async def story(server: Server) -> None:
        async with Producer(by_keytab(server, carol, "carol")) as producer:
            await producer.send("t", b"first")
            connections = set(server.broker.dispatcher.connections)
            before = first_tickets()
            assert before > 0
            while first_tickets() < before + 2:
                await producer.send("t", b"value")
                await asyncio.sleep(0.05)  # time: tickets end by the clock
            assert set(server.broker.dispatcher.connections) == connections
        assert not any(n for (_, _, is_success), n in server.counts.items() if not is_success)

    run(story, **{"connections.max.reauth.ms": "1000"})


# Other projects' clients


@pytest.fixture
def tickets(site: Site) -> Iterator[None]:
    """Let the library's ticket cache have alice's, as after kinit."""
    site.realm.run("kinit", "-k", "-t", str(site.alice), "alice")
    yield
    site.realm.run("kdestroy")


@pytest.mark.usefixtures("tickets")
def test_kafka_python_authenticates(run: Run) -> None:
    def exchange(server: Server) -> None:
        config: dict[str, Any] = {
            "bootstrap_servers": f"localhost:{server.port}",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "GSSAPI",
            "sasl_kerberos_service_name": "kafka",
        }
        producer = KafkaProducer(**config)
        producer.send("t", b"value").get(20)
        assert users(server) == {"alice"}
        producer.close()
        consumer = KafkaConsumer("t", auto_offset_reset="earliest", **config)
        assert next(iter(consumer)).value == b"value"
        consumer.close()

    run(on_a_thread(exchange))


@pytest.mark.usefixtures("tickets")
def test_aiokafka_authenticates(run: Run) -> None:
    async def exchange(server: Server) -> None:
        config: dict[str, Any] = {
            "bootstrap_servers": f"localhost:{server.port}",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "GSSAPI",
            "sasl_kerberos_service_name": "kafka",
        }
        async with aiokafka.AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait("t", b"value")
            assert users(server) == {"alice"}
        consumer = aiokafka.AIOKafkaConsumer("t", auto_offset_reset="earliest", **config)
        async with consumer:
            assert (await anext(consumer)).value == b"value"

    run(on_a_thread(lambda server: asyncio.run(exchange(server))))


def test_kcat_authenticates_by_its_key_tab(run: Run, site: Site) -> None:
    """Its librdkafka is Debian's, with Cyrus SASL; that of confluent-kafka's wheel has no Kerberos."""

    def exchange(server: Server) -> None:
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.keytab": str(site.alice),
            "sasl.kerberos.principal": f"alice@{REALM}",
        }
        options = [word for name, text in settings.items() for word in ("-X", f"{name}={text}")]
        at = ("kcat", "-b", f"localhost:{server.port}", *options, "-t", "t")
        site.realm.run(*at, "-P", given="one\ntwo\n")
        read = site.realm.run(*at, "-C", "-e", "-q", "-o", "beginning")
        assert read == "one\ntwo\n"
        assert not any(n for (_, _, is_success), n in server.counts.items() if not is_success)

    run(on_a_thread(exchange))


@pytest.mark.long
@pytest.mark.usefixtures("tickets")
def test_over_tls_our_clients_kafka_python_and_kcat_authenticate(
    run: Run, site: Site, tmp_path: Path
) -> None:
    """The service is the broker's host in both: that of the ticket, and that of the certificate."""
    files = TlsFiles(tmp_path)

    async def story(server: Server) -> None:
        own = {"security.protocol": "SASL_SSL", "ssl.truststore.location": files.trust}
        await round_trip({**by_keytab(server, site.alice), **own, "ssl.truststore.type": "PEM"})
        await asyncio.to_thread(kafka_python, server)
        await asyncio.to_thread(kcat, server)
        assert server.counts["CLIENTS", "GSSAPI", True] > 3
        assert not any(n for (_, _, is_success), n in server.counts.items() if not is_success)

    def kafka_python(server: Server) -> None:
        consumer = KafkaConsumer(
            "t",
            bootstrap_servers=f"localhost:{server.port}",
            security_protocol="SASL_SSL",
            ssl_cafile=files.trust,
            sasl_mechanism="GSSAPI",
            sasl_kerberos_service_name="kafka",
            auto_offset_reset="earliest",
        )
        assert next(iter(consumer)).value == b"value"
        assert users(server) == {"alice"}
        consumer.close()

    def kcat(server: Server) -> None:
        settings = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": files.trust,
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.keytab": str(site.alice),
            "sasl.kerberos.principal": f"alice@{REALM}",
        }
        options = [word for name, text in settings.items() for word in ("-X", f"{name}={text}")]
        at = ("kcat", "-b", f"localhost:{server.port}", *options, "-t", "t")
        assert site.realm.run(*at, "-C", "-e", "-q", "-o", "beginning") == "value\n"

    tls = {name.replace("__", "."): text for name, text in files.broker_settings().items()}
    stores = {name: text for name, text in tls.items() if "store" in name}
    run(story, **stores, **{"listener.security.protocol.map": "CLIENTS:SASL_SSL"})


# Users


def test_rules_make_users_of_principals_and_others_are_refused(
    run: Run, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    admin = site.realm.keytab("alice/admin")
    strange = site.realm.keytab("eve/strange")

    async def story(server: Server) -> None:
        for keytab, principal in ((site.alice, "alice"), (admin, "alice/admin")):
            peer = await connect(server, login_of(keytab, principal))
            assert users(server) == {principal.replace("/", "-")}
            peer.close()
            await until(lambda: not server.broker.dispatcher.connections)
        with pytest.raises(AuthenticationFailed) as refused:
            await connect(server, login_of(strange, "eve/strange"))
        assert refused.value.reason == SENTENCE

    rules = "RULE:[2:$1-$2](.*-admin),RULE:[1:$1]"
    run(story, **{"sasl.kerberos.principal.to.local.rules": rules})
    assert "No rules apply to 'eve/strange@KAVKA.TEST'" in caplog.text


# What is refused


class Attacker:
    """Sends tokens over connections of its own, and says how the broker answers the last."""

    def __init__(self, server: Server, site: Site) -> None:
        self.server = server
        self._alice = Initiator("alice", str(site.alice), None)

    def token(self, service: str = "kafka") -> bytes:
        return self._alice.initiate(service, "localhost")[1]

    async def answer(self, *tokens: bytes) -> SaslAuthenticateResponse:
        peer = await self.server.anonymous()
        assert (await peer.send(SaslHandshakeRequest(mechanism="GSSAPI"), 1)).error_code == 0
        for token in tokens:
            response = await peer.send(SaslAuthenticateRequest(auth_bytes=token), 2)
            assert isinstance(response, SaslAuthenticateResponse)
        if response.error_code:
            assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert (response.error_message, response.auth_bytes) == (SENTENCE, b"")
            await peer.wait_closed()
        peer.close()
        return response


def test_hostile_tokens_are_refused_with_one_sentence_and_a_reason_in_the_log(
    run: Run, site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_log, "LINES", 1000)
    other = site.realm.keytab(f"HTTP/localhost@{REALM}", name="other")
    assert other.exists()

    async def story(server: Server) -> None:
        attacker = Attacker(server, site)
        good = attacker.token()
        accepted = await attacker.answer(good)
        assert accepted.error_code == 0
        unreadable = attacker.token("HTTP").replace(b"HTTP", b"\xff\xfe\n\x1b")
        forged = bytearray(attacker.token())
        forged[-20] ^= 1
        reasons = [
            ("Request is a replay", (good,)),
            ("HTTP/localhost", (attacker.token("HTTP"),)),
            ("integrity", (bytes(forged),)),
            ("can't decode byte 0xff", (unreadable,)),
            ("HT?P/localhost", (attacker.token("HTTP").replace(b"HTTP", b"HT\x1bP"),)),
            ("an empty token", (b"",)),
            ("Invalid token", (b"\x60" + b"\xff" * 70,)),
            ("Invalid token", (os.urandom(500_000),)),
            ("where none is expected", (attacker.token(), b"more")),
            ("Token header is malformed", (attacker.token(), b"", b"in clear")),
            (
                "Token header is malformed",
                (attacker.token(), b"", attacker.token()),
            ),
        ]
        for reason, tokens in reasons:
            caplog.clear()
            assert (await attacker.answer(*tokens)).error_code, reason
            (line,) = [r.getMessage() for r in caplog.records if "failed peer=" in r.getMessage()]
            assert reason in line
            assert line.isprintable()
        for length in range(1, len(good) - 1, 40):
            assert (await attacker.answer(attacker.token()[:length])).error_code, length
        chance = random.Random(5)
        for _ in range(100):
            flipped = bytearray(attacker.token())
            flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
            # What the key does not protect may be another: then it is alice's ticket all the same.
            await attacker.answer(bytes(flipped))
            assert users(server) <= {"alice"}
        peer = await server.anonymous()
        await peer.send(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        with pytest.raises(ConnectionError):
            await peer.send(SaslAuthenticateRequest(auth_bytes=bytes(524_288)), 2)
        await until(lambda: not server.broker.dispatcher.connections)
        # It serves others as before.
        (await connect(server, login_of(site.alice, "alice"))).close()

    with caplog.at_level(logging.DEBUG):
        run(story)


@pytest.fixture
def answered_with_skew(site: Site, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what sends a token while clocks may differ by so many seconds; below 0 all tokens are of another time."""

    async def answered(attacker: Attacker, token: bytes, skew: int) -> SaslAuthenticateResponse:
        text = site.realm.krb5_conf.read_text()
        other = site.realm.directory / f"skew{skew}.conf"
        other.write_text(text.replace("[libdefaults]", f"[libdefaults]\n  clockskew = {skew}"))
        with monkeypatch.context() as patched:
            patched.setenv("KRB5_CONFIG", str(other))
            return await attacker.answer(token)

    return answered


def test_clocks_that_differ_are_refused_by_name(
    run: Run, site: Site, caplog: pytest.LogCaptureFixture, answered_with_skew: Any
) -> None:
    async def story(server: Server) -> None:
        attacker = Attacker(server, site)
        assert (await answered_with_skew(attacker, attacker.token(), -1)).error_code
        assert "reason=Clock skew too great" in caplog.text
        assert (await attacker.answer(attacker.token())).error_code == 0

    run(story)


@pytest.mark.long
def test_tickets_that_ended_are_refused_by_name(
    run: Run, site: Site, caplog: pytest.LogCaptureFixture, answered_with_skew: Any
) -> None:
    dave = site.realm.keytab("dave", options=["-maxlife", '"2 seconds"'])

    async def story(server: Server) -> None:
        token = Initiator("dave", str(dave), None).initiate("kafka", "localhost")[1]
        await asyncio.sleep(3)  # time: tickets end by the clock
        assert (await answered_with_skew(Attacker(server, site), token, 0)).error_code
        assert "reason=Ticket expired" in caplog.text

    run(story)


def test_neither_tokens_nor_keys_are_in_a_log_or_a_setting_that_is_shown(
    run: Run, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(server: Server) -> None:
        login = login_of(site.alice, "alice")
        assert repr(login) == "KerberosLogin(kafka)"
        (await connect(server, login)).close()
        async with Admin(server.config("alice", "alice secret")) as admin:
            broker = ConfigResource(ResourceType.BROKER, "0")
            described = await admin.describe_configs([broker])
        entries = described[broker]
        assert not isinstance(entries, KafkaError)
        assert any(entry.name.endswith("sasl.jaas.config") for entry in entries)
        assert not any("keyTab" in (entry.value or "") for entry in entries)

    with caplog.at_level(logging.DEBUG):
        run(story)
    assert "keytab" not in caplog.text.lower()


# Settings


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"listener.name.clients.gssapi.sasl.jaas.config": f"{MODULE} required;"},
            "GSSAPI needs the principal and the key tab of this broker: set it to: com.sun",
        ),
        (
            {"listener.name.clients.gssapi.sasl.jaas.config": jaas(Path("/nowhere"), SERVICE)},
            "Key table file '/nowhere' not found",
        ),
        (
            {"listener.name.clients.gssapi.sasl.server.callback.handler.class": "x:Y"},
            "it takes no callback",
        ),
        (
            {"sasl.kerberos.principal.to.local.rules": "RULE:[1:$2]"},
            r"sasl.kerberos.principal.to.local.rules: Invalid rule: 'RULE:\[1:\$2\]'",
        ),
    ],
)
def test_settings_that_no_client_could_use_refuse_the_start(
    tmp_path: Path, site: Site, changed: dict[str, str], message: str
) -> None:
    async def start() -> None:
        async with served(tmp_path, **site.broker_settings(**changed)):
            pass

    with pytest.raises(InvalidSetting, match=message):
        asyncio.run(start())


def test_a_key_tab_without_the_principal_refuses_the_start(tmp_path: Path, site: Site) -> None:
    name = "listener.name.clients.gssapi.sasl.jaas.config"
    settings = site.broker_settings(**{name: jaas(site.broker, f"kafka/other@{REALM}")})

    async def start() -> None:
        async with served(tmp_path, **settings):
            pass

    with pytest.raises(InvalidSetting, match="No key table entry found for kafka/other"):
        asyncio.run(start())


def login_of(keytab: Path, principal: str) -> KerberosLogin:
    return kerberos_login(Identity(principal, str(keytab), None), "kafka", SystemRandom())


async def connect(server: Server, login: KerberosLogin, timeout_ms: int = 30_000) -> Peer:
    security = PeerSecurity(sasl=login)
    return await Peer.connect(
        *(TcpNetwork(), "localhost", server.port), security=security, timeout_ms=timeout_ms
    )


def on_a_thread(exchange: Callable[[Server], None]) -> Story:
    async def story(server: Server) -> None:
        await asyncio.to_thread(exchange, server)

    return story
