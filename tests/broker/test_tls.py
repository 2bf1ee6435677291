"""A broker with TLS: clients are served, certificates decide, and what is no handshake ends."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.configs.listener_settings import ListenerSettings
from kavka.broker.requests.session import SessionRefused
from kavka.broker.security.certificate_sessions import CertificateSessions
from kavka.errors import ErrorCode
from kavka.net.event_loop import MeasuredEventLoop
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.net.peer_security import PeerSecurity, TlsHandshakeFailed
from kavka.settings.declaration import Value
from support.certificates import Authority
from support.config_requests import BROKER, SET, altered
from support.one_broker import Served, serve
from support.tls import TlsFiles
from support.waiting import until

Story = Callable[[Served], Awaitable[None]]


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    return TlsFiles(tmp_path)


def run(files: TlsFiles, story: Story, *, certificate: str | None = None, **settings: str) -> None:
    """Run a story against a broker with TLS; the connection of `served` has this certificate of a client."""
    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(
            serve(
                files.directory / "data",
                story,
                files.security(certificate=certificate),
                **files.broker_settings(**settings),
            )
        )


async def connect(served: Served, security: PeerSecurity) -> Peer:
    peer = await Peer.connect(TcpNetwork(), "127.0.0.1", served.port, security=security)
    served.peers.append(peer)
    return peer


def principals(served: Served) -> list[str]:
    return [
        str(one.attachment.session.principal.name) for one in served.broker.dispatcher.connections
    ]


@pytest.mark.parametrize("size", [1, 100, 20_000, 3_000_000])
def test_what_was_produced_is_read(files: TlsFiles, size: int) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        values = [bytes([65 + number]) * size for number in range(3)]
        for value in values:
            assert (await served.produce("t", value)).error_code == 0
        read: list[bytes] = []
        while len(read) < len(values):
            read += [bytes(record.value or b"") for record in await served.read("t", len(read))]
        assert read == values

    run(files, story, message__max__bytes="4000000")


def test_many_requests_at_once_are_answered_in_order(files: TlsFiles) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"x" * 300_000)
        found = await asyncio.gather(*(served.fetch("t") for _ in range(50)))
        assert {len(bytes(one.records)) for one in found} == {len(bytes(found[0].records))}
        assert len(bytes(found[0].records)) > 300_000

    run(files, story)


@pytest.mark.parametrize("client_auth", ["required", "requested"])
def test_the_owner_of_a_certificate_is_the_principal(files: TlsFiles, client_auth: str) -> None:
    async def story(served: Served) -> None:
        assert principals(served) == ["CN=alice,O=Acme"]

    run(files, story, certificate=files.client, client_auth=client_auth)


def test_rules_make_the_name_and_a_listeners_own_come_first(files: TlsFiles) -> None:
    async def story(served: Served) -> None:
        assert principals(served) == ["ALICE"]

    run(
        files,
        story,
        certificate=files.client,
        client_auth="none",
        listener__name__ssl__ssl__client__auth="required",
        listener__name__ssl__ssl__principal__mapping__rules="RULE:^CN=(.*?),.*$/$1/U , DEFAULT",
        ssl__principal__mapping__rules="DEFAULT",
    )


def test_a_client_without_a_certificate_is_anonymous_where_none_is_required(
    files: TlsFiles,
) -> None:
    async def story(served: Served) -> None:
        assert principals(served) == ["ANONYMOUS"]

    run(files, story, client_auth="requested")


def test_a_name_for_which_there_is_no_rule_closes_the_connection(files: TlsFiles) -> None:
    async def story(served: Served) -> None:
        with pytest.raises(ConnectionError):
            await connect(served, files.security(certificate=files.client))

    run(
        files, story, client_auth="requested", ssl__principal__mapping__rules="RULE:^CN=bob.*$/bob/"
    )


def test_the_owners_of_certificates_are_in_the_audit(files: TlsFiles) -> None:
    path = files.directory / "audit.json"

    async def story(served: Served) -> None:
        with pytest.raises(ConnectionError):
            await connect(served, files.security(certificate=files.client))

    settings = {
        "client_auth": "requested",
        "kavka__audit__log": str(path),
        "ssl__principal__mapping__rules": "RULE:^CN=bob.*$/bob/",
    }
    run(files, story, **settings)
    run(
        files,
        nothing,
        certificate=files.client,
        kavka__audit__log=str(path),
        client_auth="required",
    )
    refused, accepted = [json.loads(line) for line in path.read_text().splitlines()]
    assert (refused["event"], refused["mechanism"]) == ("authentication_failed", "SSL")
    assert "No rule of ssl.principal.mapping.rules" in refused["reason"]
    assert (accepted["event"], accepted["principal"]) == ("authenticated", "User:CN=alice,O=Acme")


async def nothing(_served: Served) -> None:
    """Connect only."""


def test_a_client_without_a_required_certificate_learns_why(
    files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        with pytest.raises(TlsHandshakeFailed, match=r"set ssl\.keystore\.location"):
            await connect(served, files.security())

    run(files, story, certificate=files.client, client_auth="required")
    assert "the client sent no certificate, and ssl.client.auth is required" in caplog.text


def _expired(files: TlsFiles) -> str:
    return files.write("x.pem", files.authority.sign("x", begin=-9, end=-2))


def _not_yet(files: TlsFiles) -> str:
    return files.write("x.pem", files.authority.sign("x", begin=2, end=9))


def _strange(files: TlsFiles) -> str:
    return files.write("x.pem", Authority("Stranger").sign("x"))


def _long_chain(files: TlsFiles) -> str:
    above = files.authority
    for number in range(100):
        above = Authority(f"Between {number}", above)
    return files.write("x.pem", above.sign("x"))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_expired, "certificate has expired"),
        (_not_yet, "certificate is not yet valid"),
        (_strange, "unable to get local issuer certificate"),
        (_long_chain, "sent more than 32768 bytes"),
    ],
)
def test_a_certificate_that_is_not_valid_is_refused(
    files: TlsFiles,
    make: Callable[[TlsFiles], str],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = make(files)

    async def story(served: Served) -> None:
        with pytest.raises(ConnectionError):
            await connect(served, files.security(certificate=bad))

    run(files, story, certificate=files.client, client_auth="required")
    lines = [one.getMessage() for one in caplog.records if "handshake failed" in one.getMessage()]
    assert len(lines) == 1
    assert reason in lines[0]


async def said(port: int, data: bytes) -> bytes:
    """Send bytes and return what comes until the broker closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    "data", [b"\0\0\0\x10\0\x12\0\0", b"GET / HTTP/1.0\r\n\r\n", b"\0", b"\x80\x2e\x01"]
)
def test_plain_text_is_closed_with_a_line_that_says_so(
    files: TlsFiles, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        await said(served.port, data)

    run(files, story)
    assert "the client speaks plain text: it needs security.protocol=SSL" in caplog.text


@pytest.mark.parametrize(
    ("length", "said"),
    [(0, "connection at once"), (50, "does it trust the issuer of this certificate")],
)
def test_of_a_client_that_closes_without_a_reason_the_log_says_where_to_look(
    files: TlsFiles, length: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        _reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(client_hello()[:length])
        writer.close()
        await until(lambda: "TLS handshake failed" in caplog.text)

    run(files, story)
    assert said in caplog.text


def test_a_handshake_that_ends_early_or_is_garbage_is_closed(
    files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        hello = client_hello()
        for data in (
            hello[:100] + bytes(len(hello) - 100),
            b"\x16\x03\x01\xff\xff" + bytes(70_000),
        ):
            await said(served.port, data)
        for length in (1, 5, 50, len(hello) - 1):
            _reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(hello[:length])
            writer.close()
            await writer.wait_closed()
        await served.topic("t")

    run(files, story)
    assert len([one for one in caplog.records if "handshake failed" in one.getMessage()]) >= 2


def client_hello() -> bytes:
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_a_handshake_that_stands_still_is_closed(
    files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        assert await said(served.port, b"") == b""
        await said(served.port, client_hello())

    run(files, story, kavka__ssl__handshake__timeout__ms="50")
    assert "the client sent nothing in 50 ms" in caplog.text
    assert "the client did not finish in 50 ms" in caplog.text


def test_half_open_handshakes_are_bounded_and_others_get_through(files: TlsFiles) -> None:
    async def story(served: Served) -> None:
        sockets = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(30)]
        for _ in range(30):
            await connect(served, files.security())
        tls = served.broker.security.tls
        assert tls is not None
        assert tls._listeners["SSL"].failures >= 10
        for each in sockets:
            each.close()

    run(files, story, kavka__ssl__max__handshakes="10", kavka__ssl__handshake__timeout__ms="600000")


def test_a_new_certificate_holds_for_new_connections_and_none_is_lost(files: TlsFiles) -> None:
    def subject(peer: Peer) -> bytes:
        return peer._transport.get_extra_info("ssl_object").getpeercert(True)

    async def story(served: Served) -> None:
        before = subject(served.peer)
        (files.directory / "broker.pem").write_bytes(b"-----BEGIN broken")
        await served.broker.security.tls.reload_files()
        assert subject(await connect(served, files.security())) == before
        files.write("broker.pem", files.authority.sign("broker"))
        await served.broker.security.tls.reload_files()
        assert subject(await connect(served, files.security())) != before
        await served.topic("t")
        assert subject(served.peer) == before

    run(files, story)


def test_a_key_store_is_changed_by_a_dynamic_setting(files: TlsFiles) -> None:
    other = files.write("other.pem", files.authority.sign("other"))

    async def story(served: Served) -> None:
        name = "listener.name.ssl.ssl.keystore.location"
        for location, expected in (
            (other, "other"),
            ("/nowhere", "other"),
            (files.broker, "broker"),
        ):
            overrides = {name: location}
            await served.broker.dynamic_configs.configure_broker(overrides.copy, default=False)
            peer = await connect(served, files.security())
            subject = peer._transport.get_extra_info("ssl_object").getpeercert()["subject"]
            assert (("commonName", expected),) in subject

    run(files, story, ssl__allow__dn__changes="true")


def test_a_key_store_that_cannot_be_used_is_refused_before_it_is_stored(files: TlsFiles) -> None:
    renewed = files.write("renewed.pem", files.authority.sign("broker"))
    elsewhere = files.write("elsewhere.pem", files.authority.sign("broker", hosts=("elsewhere",)))
    another = files.write("another.pem", files.authority.sign("another"))

    async def story(served: Served) -> None:
        name = "listener.name.ssl.ssl.keystore.location"
        for location, reason in (
            ("/nowhere", "No such file"),
            (another, "its distinguished name is CN=another,O=Acme"),
            (elsewhere, "it lacks subject alternative names"),
            (renewed, None),
        ):
            (response,) = await altered(served, (BROKER, "0", [(name, SET, location)]))
            if reason is None:
                assert response.error_code == 0
            else:
                assert response.error_code == ErrorCode.INVALID_REQUEST
                assert reason in response.error_message
        assert served.broker.context.effective_configs.broker_overrides(default=False) == {
            name: renewed
        }

    run(files, story, broker__id="0")


def test_the_file_of_another_broker_does_not_replace_a_certificate_while_it_runs(
    files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        tls = served.broker.security.tls
        for name in ("another", "another"):  # the second time for the first key store still
            files.write("broker.pem", files.authority.sign(name))
            await tls.reload_files()
            await connect(served, files.security())
            assert caplog.text.count("TLS reload failed, certificates kept") == 1
            assert "CN=another,O=Acme, that of the key store in use CN=broker,O=Acme" in caplog.text
            caplog.clear()

    run(files, story)


def test_metrics_are_served_over_https(files: TlsFiles) -> None:
    async def story(served: Served) -> None:
        assert served.broker.exposition is not None
        url = f"https://localhost:{served.broker.exposition.port}/metrics"

        def get(*certificate: str) -> bytes:
            context = ssl.create_default_context(cafile=files.trust)
            for path in certificate:
                context.load_cert_chain(path)
            with urllib.request.urlopen(url, context=context, timeout=60) as response:
                found: bytes = response.read()
                return found

        assert b"kavka_" in await asyncio.to_thread(get, files.client)
        with pytest.raises(OSError, match=r"(?i)certificate required|reset|EOF"):
            await asyncio.to_thread(get)

    run(
        files,
        story,
        kavka__metrics__port="0",
        kavka__metrics__security__protocol="SSL",
        listener__name__metrics__ssl__client__auth="required",
    )


def test_versions_that_are_not_enabled_are_refused(files: TlsFiles) -> None:
    async def story(served: Served) -> None:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.create_default_context(cafile=files.trust)
            context.minimum_version = context.maximum_version = version

            def shake(context: ssl.SSLContext = context) -> str | None:
                plain = socket.create_connection(("127.0.0.1", served.port))
                with context.wrap_socket(plain, server_hostname="localhost") as secured:
                    return secured.version()

            if version is ssl.TLSVersion.TLSv1_3:
                assert await asyncio.to_thread(shake) == "TLSv1.3"
            else:
                with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
                    await asyncio.to_thread(shake)

    run(files, story, ssl__enabled__protocols="TLSv1.3")


def test_a_broker_with_a_store_that_cannot_be_used_does_not_start(files: TlsFiles) -> None:
    async def story(served: Served) -> None:
        raise AssertionError("it started")

    with pytest.raises(
        ValueError, match=r"/nowhere for configuration ssl.keystore.location: No such"
    ):
        run(files, story, ssl__keystore__location="/nowhere")
    with pytest.raises(ValueError, match=r"ssl.principal.mapping.rules: Expected DEFAULT or RULE"):
        run(files, story, ssl__principal__mapping__rules="RULE:x")


def test_nothing_is_logged_of_a_client_that_connects_and_leaves(
    files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Served) -> None:
        caplog.set_level(logging.WARNING)
        caplog.clear()
        (await connect(served, files.security())).close()
        await served.topic("t")
        assert not caplog.records

    run(files, story)


def test_a_name_that_cannot_be_read_closes_the_connection() -> None:
    """An OID of more digits than Python prints; OpenSSL takes it."""

    def der(tag: int, *parts: bytes) -> bytes:
        content = b"".join(parts)
        return bytes([tag, 0x82]) + len(content).to_bytes(2, "big") + content

    attribute = der(0x30, der(0x06, b"\x55" + b"\xff" * 3000 + b"\x7f"), der(0x0C, b"alice"))
    name = der(0x30, der(0x31, attribute))
    fields = [der(0x02, b"\x01"), der(0x30), der(0x30), der(0x30), name]
    endpoint = SimpleNamespace(name="SSL", protocol="SSL")
    rules: dict[str, Value] = {"ssl.principal.mapping.rules": "DEFAULT"}
    context: Any = SimpleNamespace(
        endpoints=SimpleNamespace(listeners=[endpoint]),
        effective_configs=SimpleNamespace(listener=lambda name: ListenerSettings(name, rules, {})),
    )
    certificate = der(0x30, der(0x30, *fields))
    connection: Any = SimpleNamespace(
        listener_name="SSL", peer_certificate=certificate, peer_host="127.0.0.1"
    )
    sessions = CertificateSessions(context)
    sessions.configure()
    with pytest.raises(SessionRefused):
        sessions.open(connection)


def test_half_open_handshakes_of_one_address_do_not_crowd_out_another(files: TlsFiles) -> None:
    async def story(served: Served) -> None:
        tls = served.broker.security.tls
        assert tls is not None
        other = socket.create_connection(
            ("127.0.0.1", served.port), source_address=("127.0.0.2", 0)
        )
        sockets = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(30)]
        await until(lambda: tls._listeners["SSL"].failures >= 28)
        context = ssl.create_default_context(cafile=files.trust)
        secured = await asyncio.to_thread(context.wrap_socket, other, server_hostname="127.0.0.1")
        assert secured.version()
        for each in (*sockets, secured):
            each.close()

    run(files, story, kavka__ssl__max__handshakes="3", kavka__ssl__handshake__timeout__ms="600000")
