"""Listeners with SASL: who may come in, by which mechanism, and for how long."""

from __future__ import annotations

import asyncio
import logging
import struct
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.context import BrokerContext
from kavka.broker.environment import OsEnvironment
from kavka.broker.requests.session import Session
from kavka.broker.security.inter_broker_login import inter_broker_login
from kavka.broker.security.sasl_connection import SaslConnection, SaslListener
from kavka.broker.security.sasl_mechanisms import Mechanism
from kavka.client.admin import DEFAULT_ENTITY, Admin, ClientQuotaEntity
from kavka.core.sasl.conversation import Offer, TokenReply
from kavka.core.sasl.exchange import Failure, Success
from kavka.core.sasl.plain import PlainServer
from kavka.errors import AuthenticationFailed, ErrorCode
from kavka.net.clock import SystemClock
from kavka.net.frame_share import FrameShare
from kavka.net.peer import Peer
from kavka.settings.declaration import InvalidSetting
from kavka.wire.apis import ApiKey
from kavka.wire.messages.api_versions import ApiVersionsRequest
from kavka.wire.messages.metadata import MetadataRequest
from kavka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kavka.wire.messages.sasl_handshake import SaslHandshakeRequest
from support.sasl import SETTINGS, Server, run_beside, served
from support.waiting import until


async def repeat(peer: Peer, request: Any, version: int) -> None:
    """Send a request again and again, until the broker closes the connection."""
    while True:
        await peer.send(request, version)


Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return partial(run_beside, tmp_path)


def test_a_client_with_the_right_password_is_served(run: Run) -> None:
    async def story(server: Server) -> None:
        for user, password in (("alice", "alice secret"), ("bob", "b,o=b")):
            peer = await server.connect(user, password)
            assert (await peer.send(MetadataRequest(topics=[]), 9)).brokers
            sessions = [s.session for s in server.broker.dispatcher.connections.values()]
            assert [s.principal for s in sessions] == [("User", user)]
            peer.close()
            await peer.wait_closed()

    run(story)


@pytest.mark.parametrize(("user", "password"), [("alice", "not hers"), ("mallory", "alice secret")])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(
    run: Run, caplog: pytest.LogCaptureFixture, mechanism: str, user: str, password: str
) -> None:
    async def story(server: Server) -> None:
        with pytest.raises(AuthenticationFailed) as refused:
            await server.connect(user, password, mechanism)
        assert refused.value.mechanism == mechanism
        assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        expected = {
            "PLAIN": "Authentication failed: Invalid username or password",
            "SCRAM-SHA-256": "Authentication failed during authentication due to invalid credentials "
            "with SASL mechanism SCRAM-SHA-256",
        }
        assert refused.value.reason == expected[mechanism]
        assert server.broker.security.sasl_sessions.counts == {("CLIENTS", mechanism, False): 1}

    with caplog.at_level(logging.DEBUG):
        run(story)
    (line,) = [r.getMessage() for r in caplog.records if "authentication failed" in r.getMessage()]
    assert repr(user) in line
    assert password not in caplog.text


def test_a_client_that_does_not_authenticate_is_disconnected(run: Run) -> None:
    async def story(server: Server) -> None:
        peer = await server.anonymous()
        with pytest.raises(ConnectionError):
            await peer.send(MetadataRequest(topics=[]), 9)

    run(story)


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(server: Server) -> None:
        peer = await server.anonymous()
        response = await peer.send(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert response.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
        await peer.wait_closed()
        with pytest.raises(AuthenticationFailed, match="offers PLAIN, SCRAM-SHA-256 only"):
            await server.connect("alice", "alice secret", "SCRAM-SHA-512")

    run(story, **{"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"})
    assert "mechanism='GSSAPI' offered=PLAIN,SCRAM-SHA-256" in caplog.text


def test_requests_out_of_order_are_refused(run: Run) -> None:
    async def story(server: Server) -> None:
        peer = await server.anonymous()
        token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice secret")
        response = await peer.send(token, 2)
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        await peer.wait_closed()
        peer = await server.anonymous()
        assert (await peer.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)).error_code == 0
        second = await peer.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert second.error_code == ErrorCode.ILLEGAL_SASL_STATE
        await peer.wait_closed()
        peer = await server.connect("alice", "alice secret")
        assert (await peer.send(token, 2)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await peer.send(MetadataRequest(topics=[]), 9)).brokers
        peer.close()

    run(story)


@pytest.mark.parametrize(("password", "is_right"), [(b"alice secret", True), (b"wrong", False)])
def test_a_client_of_the_first_handshake_sends_tokens_without_headers(
    run: Run, password: bytes, is_right: bool
) -> None:
    async def story(server: Server) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        handshake = struct.pack(">hhihh", 17, 0, 7, -1, 5) + b"PLAIN"
        writer.write(struct.pack(">i", len(handshake)) + handshake)
        response = await reader.readexactly(4 + 4 + 2 + 4 + 7 + 15 + 15)
        assert response[4:10] == struct.pack(">ih", 7, 0)
        token = b"\0alice\0" + password
        writer.write(struct.pack(">i", len(token)) + token)
        if is_right:
            assert await reader.readexactly(4) == b"\0\0\0\0"
            versions = struct.pack(">hhih", 18, 0, 8, -1)
            writer.write(struct.pack(">i", len(versions)) + versions)
            assert (await reader.readexactly(10))[4:] == struct.pack(">ih", 8, 0)
        else:
            assert await reader.read() == b""
        writer.close()

    run(story)


@pytest.mark.slow
def test_a_connection_stays_beyond_its_session_by_authenticating_again(run: Run) -> None:
    async def story(server: Server) -> None:
        peer = await server.connect("alice", "alice secret")
        counts = server.broker.security.sasl_sessions.counts
        while counts["CLIENTS", "PLAIN", True] < 3:
            assert (await peer.send(MetadataRequest(topics=[]), 9)).brokers
            await asyncio.sleep(0.01)  # time: sessions end by the clock
        assert len(server.broker.dispatcher.connections) == 1
        peer.close()

    run(story, **{"connections.max.reauth.ms": "1500"})


def test_a_client_that_does_not_authenticate_again_is_disconnected(run: Run) -> None:
    async def story(server: Server) -> None:
        peer = await server.anonymous()
        await peer.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice secret")
        authenticated = await peer.send(token, 2)
        assert 0 < authenticated.session_lifetime_ms <= 50
        with pytest.raises(ConnectionError):
            await repeat(peer, MetadataRequest(topics=[]), 9)

    run(story, **{"listener.name.clients.plain.connections.max.reauth.ms": "50"})


@pytest.mark.parametrize(
    ("mechanism", "token", "code"),
    [
        ("SCRAM-SHA-256", b"", ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ("PLAIN", b"\0bob\0b,o=b", ErrorCode.SASL_AUTHENTICATION_FAILED),
        ("PLAIN", b"\0alice\0wrong", ErrorCode.SASL_AUTHENTICATION_FAILED),
    ],
)
def test_neither_user_nor_mechanism_changes_when_a_client_authenticates_again(
    run: Run, mechanism: str, token: bytes, code: ErrorCode
) -> None:
    async def story(server: Server) -> None:
        peer = await server.connect("alice", "alice secret")
        response = await peer.send(SaslHandshakeRequest(mechanism=mechanism), 1)
        if response.error_code == 0:
            response = await peer.send(SaslAuthenticateRequest(auth_bytes=token), 2)
        assert response.error_code == code
        await peer.wait_closed()

    run(story)


def test_other_requests_are_refused_while_a_client_authenticates_again(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(server: Server) -> None:
        peer = await server.connect("alice", "alice secret")
        await peer.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        with pytest.raises(ConnectionError):
            await peer.send(MetadataRequest(topics=[]), 9)
        assert "Metadata request while the client authenticates again" in caplog.text

    run(story)


def test_frames_before_authentication_are_few_and_small(run: Run) -> None:
    async def story(server: Server) -> None:
        peer = await server.anonymous()
        await peer.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        with pytest.raises(ConnectionError):
            await peer.send(SaslAuthenticateRequest(auth_bytes=bytes(524_288)), 2)
        peer = await server.anonymous()
        with pytest.raises(ConnectionError):
            await repeat(peer, ApiVersionsRequest(), 0)
        versions = server.broker.dispatcher.traffic()[ApiKey.API_VERSIONS].versions
        assert versions[0] == 32 - 1
        # A client that is authenticated sends what it likes.
        peer = await server.connect("alice", "alice secret")
        for _ in range(40):
            await peer.send(ApiVersionsRequest(), 0)
        peer.close()

    run(story)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"sasl.enabled.mechanisms": "PLAIN,KRB5"},
            "kavka does not support KRB5.*set sasl.enabled.mechanisms",
        ),
        ({"sasl.enabled.mechanisms": ""}, "names no mechanism"),
        (
            {"sasl.enabled.mechanisms": None},
            "GSSAPI needs the principal and the key tab of this broker: .* or set sasl.enabled.mechanisms",
        ),
        (
            {"listener.name.clients.plain.sasl.jaas.config": None},
            "listener.name.clients.plain.sasl.jaas.config: PLAIN has no users: set it to",
        ),
        (
            {
                "listener.name.clients.plain.sasl.jaas.config": 'PlainLoginModule required user_x="topsecret'
            },
            "a quote without its end",
        ),
        (
            {"listener.name.clients.plain.sasl.jaas.config": 'Other required user_x="topsecret";'},
            "PLAIN needs the login module",
        ),
        (
            {
                "listener.name.clients.scram-sha-256.sasl.jaas.config": 'ScramLoginModule required password="topsecret"'
            },
            "not terminated by semi-colon",
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "listener.name.clients.oauthbearer.sasl.jaas.config": "OAuthBearerLoginModule required "
                'unsecuredValidatorAllowableClockSkewMs="-1";',
            },
            "unsecuredValidatorAllowableClockSkewMs is no number",
        ),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN"}, "jwks.endpoint.url: OAUTHBEARER checks"),
        (
            {
                "listener.name.clients.plain.sasl.server.callback.handler.class": "org.example.Handler"
            },
            "Expected module:Class",
        ),
        (
            {"listener.name.clients.plain.sasl.server.callback.handler.class": "no_such_module:X"},
            "No module named",
        ),
        (
            {
                "listener.name.clients.plain.sasl.server.callback.handler.class": "fractions:Fraction"
            },
            "cannot be made",
        ),
    ],
)
def test_a_listener_that_no_client_could_use_refuses_the_start(
    tmp_path: Path, settings: dict[str, str | None], message: str
) -> None:
    async def start() -> None:
        async with served(tmp_path, **settings):
            pass

    with pytest.raises(InvalidSetting, match=message) as refused, asyncio.Runner() as runner:
        runner.run(start())
    assert "topsecret" not in str(refused.value)
    assert "alice secret" not in str(refused.value)


def test_options_of_a_login_module_without_effect_are_warned_of(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(server: Server) -> None:
        (await server.connect("alice", "alice secret")).close()

    given = {
        "listener.name.clients.plain.sasl.jaas.config": 'PlainLoginModule required user_alice="alice secret" '
        'user_bob="" usr_carol="topsecret";',
        "listener.name.clients.scram-sha-512.sasl.jaas.config": "ScramLoginModule required usernam=admin;",
    }
    run(story, **given)
    what = "login module has an option without effect name=listener.name.clients"
    assert [m for m in caplog.messages if "without effect" in m] == [
        f"{what}.plain.sasl.jaas.config reason=the option user_bob has no password, so the user cannot authenticate",
        f"{what}.plain.sasl.jaas.config reason=the option usr_carol is not known: is it user_?",
        f"{what}.scram-sha-512.sasl.jaas.config reason=the option usernam is not known: is it username?",
    ]
    assert "topsecret" not in caplog.text


def test_gssapi_without_its_extra_refuses_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    monkeypatch.delitem(sys.modules, "kavka.net.kerberos.contexts", raising=False)
    module = "Krb5LoginModule required useKeyTab=true keyTab=a principal=b;"

    async def start() -> None:
        settings = {"sasl.enabled.mechanisms": "GSSAPI", "gssapi.sasl.jaas.config": module}
        async with served(tmp_path, **settings):
            pass

    with pytest.raises(InvalidSetting, match=r"pip install 'kavka\[kerberos\]'"):
        asyncio.run(start())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"sasl.mechanism.inter.broker.protocol": "CRAM-MD5"},
            "kavka does not support CRAM-MD5 between brokers",
        ),
        ({"sasl.jaas.config": None}, "brokers authenticate to each other by PLAIN: set it"),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "must include it"),
        (
            {"sasl.enabled.mechanisms": "GSSAPI", "sasl.mechanism.inter.broker.protocol": "GSSAPI"},
            "GSSAPI needs the login module com.sun.security.auth.module.Krb5LoginModule",
        ),
    ],
)
def test_a_broker_that_could_not_authenticate_to_others_refuses_the_start(
    settings: dict[str, str | None], message: str
) -> None:
    texts = {name: text for name, text in {**SETTINGS, **settings}.items() if text is not None}
    context = BrokerContext(BrokerConfig(texts), OsEnvironment(), has_own_registry=False)
    with pytest.raises(InvalidSetting, match=message):
        inter_broker_login(context)


def test_a_check_that_fails_refuses_its_client_and_shows_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def failing(question: Any) -> Success | Failure:
        raise RuntimeError(question.password)

    mechanisms = {"PLAIN": Mechanism(Offer(PlainServer), failing)}
    ended: list[str | None] = []
    listener = SaslListener(
        mechanisms,
        SystemClock(),
        1000,
        FrameShare(1000),
        0,
        lambda _session, _mechanism, why: ended.append(why),
    )
    session = Session("CLIENTS", "SASL_PLAINTEXT", "10.0.0.1", is_authenticated=False)
    connection: Any = SimpleNamespace(limit_frames=lambda _most, _share: None)
    sasl = SaslConnection(listener, session, connection)
    sasl.handshake("PLAIN", 1)

    async def answered() -> TokenReply:
        reply = sasl.token(b"\0alice\0alice secret")
        return reply if isinstance(reply, TokenReply) else await reply

    assert asyncio.run(answered()).closes
    assert not session.is_authenticated
    assert ended == ["the check failed"]
    assert "alice secret" not in caplog.text


def test_requests_before_authentication_are_charged_to_nobody(run: Run) -> None:
    """All clients would share that rate: one could keep the others from authenticating."""

    async def story(server: Server) -> None:
        async with Admin(server.config("alice", "alice secret")) as admin:
            everyone = ClientQuotaEntity(user=DEFAULT_ENTITY)
            await admin.alter_client_quotas({everyone: {"request_percentage": 0.000_1}})
            await until(lambda: server.broker.quotas.client_quotas is not None)
        for _ in range(3):
            peer = await server.anonymous()
            assert peer.features.throttle_time_ms == 0
            peer.close()

    run(story)
