"""OAUTHBEARER: tokens without a signature, of callbacks, and of an issuer with an endpoint and published keys."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs
from urllib.request import Request

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kavka.broker.security.callbacks import CallbackCheck
from kavka.broker.security.signed_tokens import SafeRedirects, _get, signed_token_check
from kavka.client.admin import Admin
from kavka.core.sasl.exchange import CheckPassword, Success
from kavka.core.sasl.oauthbearer import OAuthBearerClient
from kavka.core.sasl.unsecured_jwt import encode_unsecured
from kavka.errors import AuthenticationFailed
from kavka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kavka.wire.messages.sasl_handshake import SaslHandshakeRequest
from support.sasl import Server, run_beside
from support.waiting import until

Run = Callable[..., None]
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
JAAS = "listener.name.clients.oauthbearer.sasl.jaas.config"
CALLBACK = "listener.name.clients.oauthbearer.sasl.server.callback.handler.class"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run_story(story: Callable[[Server], Awaitable[None]], **settings: str | None) -> None:
        run_beside(tmp_path, story, **{"sasl.enabled.mechanisms": "OAUTHBEARER", **settings})

    return run_story


async def connect(server: Server, settings: dict[str, Any]) -> list[str]:
    """Connect a client; return the users that the broker knows it by."""
    config = {
        "bootstrap.servers": f"127.0.0.1:{server.port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        **settings,
    }
    async with Admin(config) as admin:
        assert (await admin.describe_cluster()).brokers
        sessions = [s.session for s in server.broker.dispatcher.connections.values()]
        return sorted({session.principal.name for session in sessions})


async def refusal(server: Server, settings: dict[str, Any]) -> str:
    with pytest.raises(AuthenticationFailed) as refused:
        await connect(server, settings)
    return refused.value.reason


def bearing(token: str) -> dict[str, Any]:
    """Return the settings of a client with one token."""
    return {"sasl.login.callback.handler.class": lambda: (token, int(time.time() * 1000) + 60_000)}


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl.jaas.config": f'{MODULE} required unsecuredLoginStringClaim_sub="carol";'},
        {
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": "principal=carol scope=a",
        },
        {
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": "extension_tenant=x principal=carol lifeSeconds=60",
        },
        {
            "enable.sasl.oauthbearer.unsecure.jwt": True,  # without effect where a callback gives tokens
            "sasl.login.callback.handler.class": lambda: (
                encode_unsecured({"sub": "carol", "exp": time.time() + 60}),
                int(time.time() * 1000) + 60_000,
            ),
        },
    ],
)
def test_a_token_without_signature_is_accepted_where_that_is_set(
    run: Run, settings: dict[str, Any]
) -> None:
    async def story(server: Server) -> None:
        assert await connect(server, settings) == ["carol"]
        late = encode_unsecured({"sub": "carol", "exp": time.time() - 1})
        assert await refusal(server, bearing(late)) == '{"status":"invalid_token"}'
        assert late not in await refusal(server, bearing(late))

    run(story, **{JAAS: f"{MODULE} required;"})


class Tokens:
    """A callback of the broker's settings."""

    def __init__(self, options: dict[str, str]) -> None:
        self._prefix = options["prefix"]

    async def validate(self, token: str, extensions: dict[str, str]) -> tuple[str, int]:
        if not token.startswith(self._prefix):
            raise ValueError(f"not one of ours: {token}")
        user = token.removeprefix(self._prefix) + extensions.get("tenant", "")
        return user, int(time.time() * 1000) + 60_000


class Passwords:
    """A callback of the broker's settings."""

    def __init__(self, options: dict[str, str]) -> None:
        self._suffix = options["suffix"]

    def authenticate(self, user: str, password: str) -> bool:
        return password == user + self._suffix


def test_callbacks_of_both_sides_give_and_check_tokens(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(server: Server) -> None:
        settings = {**bearing("ours-carol"), "sasl.oauthbearer.extensions": "tenant=x"}
        assert await connect(server, settings) == ["carolx"]
        assert await refusal(server, bearing("theirs-carol")) == '{"status":"invalid_token"}'

    handler = f"{__name__}:Tokens"
    run(story, **{JAAS: f'{MODULE} required prefix="ours-";', CALLBACK: handler})
    assert "theirs-carol" not in caplog.text


def test_a_callback_checks_passwords(run: Run) -> None:
    async def story(server: Server) -> None:
        (await server.connect("carol", "carol!")).close()
        with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
            await server.connect("carol", "carol?")

    plain = "listener.name.clients.plain.sasl"
    run(
        story,
        **{
            "sasl.enabled.mechanisms": "PLAIN",
            f"{plain}.jaas.config": 'PlainLoginModule required suffix="!";',
            f"{plain}.server.callback.handler.class": f"{__name__}:Passwords",
        },
    )


def test_callbacks_that_block_leave_the_threads_of_the_loop_to_others() -> None:
    class Directory:
        answers = threading.Event()

        def authenticate(self, user: str, password: str) -> bool:
            return self.answers.wait(60)

    async def story() -> None:
        check = CallbackCheck(Directory())
        asked = [asyncio.create_task(check(CheckPassword("a", "b"))) for _ in range(100)]
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(30):
                assert await asyncio.to_thread(int) == 0
        finally:
            Directory.answers.set()
        assert await asyncio.gather(*asked) == [Success("a")] * 100

    asyncio.run(story())


class Issuer:
    """An issuer of tokens: an endpoint for clients, and the keys for brokers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.key: Any = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.kid = "first"
        self.grants: list[dict[str, list[str]]] = []
        self.others: list[dict[str, Any]] = []
        """Keys in the published set that are not to be used."""
        self.reads = 0
        self.fails = False
        self.answers = threading.Event()
        self.answers.set()

    def rotate(self) -> None:
        self.key, self.kid = ec.generate_private_key(ec.SECP256R1()), "second"

    def token(self, **changed: Any) -> str:
        claims = {
            "iss": self.url,
            "aud": ["kafka", "other"],
            "sub": "carol",
            "iat": int(time.time()),
            "exp": int(time.time()) + 60,
            **changed,
        }
        algorithm = "RS256" if self.kid == "first" else "ES256"
        return jwt.encode(claims, self.key, algorithm, headers={"kid": self.kid})

    def keys(self) -> dict[str, Any]:
        self.reads += 1
        self.answers.wait(60)
        if self.kid == "first":
            key = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        else:
            key = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {"keys": [*self.others, {**key, "kid": self.kid, "use": "sig"}]}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def respond(self, status: int, content: dict[str, Any]) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            keys = made.keys()
            self.respond(500 if made.fails else 200, keys)

        def do_POST(self) -> None:
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", f"{made.url}/token")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            scheme, _, encoded = self.headers["Authorization"].partition(" ")
            if (scheme, b64decode(encoded)) != ("Basic", b"carol:s%20cret"):
                self.respond(401, {"error": "invalid_client"})
                return
            made.grants.append(parse_qs(form))
            self.respond(200, {"access_token": made.token(), "expires_in": 60})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Issuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def trusting(issuer: Issuer) -> dict[str, str]:
    return {
        "sasl.oauthbearer.jwks.endpoint.url": f"{issuer.url}/keys",
        "sasl.oauthbearer.expected.issuer": issuer.url,
        "listener.name.clients.oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
    }


def test_a_client_gets_its_token_from_the_issuer_that_the_broker_trusts(
    run: Run, issuer: Issuer
) -> None:
    async def story(server: Server) -> None:
        endpoint = {
            "sasl.oauthbearer.token.endpoint.url": f"{issuer.url}/token",
            "sasl.oauthbearer.client.id": "carol",
            "sasl.oauthbearer.client.secret": "s cret",
            "sasl.oauthbearer.scope": "produce",
        }
        assert await connect(server, endpoint) == ["carol"]
        assert issuer.grants == [{"grant_type": ["client_credentials"], "scope": ["produce"]}]
        wrong = {**endpoint, "sasl.oauthbearer.client.secret": "topsecret"}
        reason = await refusal(server, wrong)
        assert reason == "the token endpoint answered 401 Unauthorized: invalid_client"
        java = f'{MODULE} required clientId="carol" clientSecret="s cret" scope="produce";'
        del endpoint["sasl.oauthbearer.client.id"], endpoint["sasl.oauthbearer.client.secret"]
        assert await connect(server, {**endpoint, "sasl.jaas.config": java}) == ["carol"]

    run(story, **trusting(issuer))


def test_only_tokens_that_the_issuer_has_signed_for_this_audience_are_accepted(
    run: Run, issuer: Issuer
) -> None:
    async def story(server: Server) -> None:
        assert await connect(server, bearing(issuer.token())) == ["carol"]
        forger = Issuer(issuer.url)
        now = int(time.time())
        for token in (
            forger.token(),
            issuer.token(exp=now - 60),
            issuer.token(nbf=now + 60),
            issuer.token(iss="https://elsewhere"),
            issuer.token(aud="other"),
            issuer.token(sub=""),
            issuer.token()[:-4] + "AAAA",
            encode_unsecured({"sub": "carol", "exp": now + 60, "iss": issuer.url, "aud": "kafka"}),
            jwt.encode({"sub": "carol", "exp": now + 60}, "k" * 32, "HS256"),
            "no.token",
        ):
            assert await refusal(server, bearing(token)) == '{"status":"invalid_token"}'
        assert issuer.reads == 1

    run(story, **trusting(issuer))


def test_keys_that_the_issuer_publishes_later_are_read_but_not_for_each_unknown_one(
    run: Run, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(server: Server) -> None:
        assert await connect(server, bearing(issuer.token())) == ["carol"]
        issuer.rotate()
        assert await refusal(server, bearing(issuer.token())) == '{"status":"invalid_token"}'
        assert issuer.reads == 1
        monkeypatch.setattr("kavka.broker.security.signed_tokens._MIN_INTERVAL_MS", 0)
        assert await connect(server, bearing(issuer.token())) == ["carol"]
        assert issuer.reads == 2

    run(story, **trusting(issuer))


@pytest.mark.slow
def test_keys_that_cannot_be_read_are_read_again_after_a_growing_time(
    run: Run, issuer: Issuer
) -> None:
    name = "sasl.oauthbearer.jwks.endpoint.retry.backoff"

    async def story(server: Server) -> None:
        issuer.fails = True
        for _ in range(3):
            assert await refusal(server, bearing(issuer.token())) == '{"status":"invalid_token"}'
        assert issuer.reads == 1
        issuer.fails = False
        before_ms = server.broker.clock.tick_ms()
        while not server.counts["CLIENTS", "OAUTHBEARER", True]:
            with suppress(AuthenticationFailed):
                assert await connect(server, bearing(issuer.token())) == ["carol"]
        assert server.broker.clock.tick_ms() - before_ms < 60_000
        assert issuer.reads == 2

    run(story, **trusting(issuer), **{f"{name}.ms": "1000", f"{name}.max.ms": "4000"})


def test_an_address_of_keys_that_does_not_speak_http_is_a_failure_as_any_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.listen()

        def answer() -> None:
            client, _address = server.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(b"nonsense\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(OSError, match="the response is not HTTP"):
            _get(f"http://127.0.0.1:{server.getsockname()[1]}/keys")
        answering.join()


def test_each_failure_doubles_the_time_up_to_the_longest(run: Run) -> None:
    waited: list[int] = []

    async def story(server: Server) -> None:
        now = [0]
        clock: Any = SimpleNamespace(tick_ms=lambda: now[0], now_ms=lambda: 0)
        settings = server.broker.context.effective_configs.listener("CLIENTS")
        check = signed_token_check(settings, "file:/nowhere", clock)
        for _ in range(6):
            await check._read()
            tried = now[0]
            while not check._must_read(None, 0):
                now[0] += 50
            waited.append(now[0] - tried)

    name = "sasl.oauthbearer.jwks.endpoint.retry.backoff"
    run(story, **{JAAS: f"{MODULE} required;", f"{name}.ms": "100", f"{name}.max.ms": "1000"})
    assert waited == [100, 200, 400, 800, 1000, 1000]


def test_a_session_does_not_outlive_its_token(run: Run) -> None:
    async def story(server: Server) -> None:
        peer = await server.anonymous()
        await peer.send(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        token = encode_unsecured({"sub": "carol", "exp": time.time() + 5})
        first = OAuthBearerClient(token, {}).first()
        response = await peer.send(SaslAuthenticateRequest(auth_bytes=first), 2)
        assert 0 < response.session_lifetime_ms <= 5000
        peer.close()

    run(story, **{JAAS: f"{MODULE} required;", "connections.max.reauth.ms": "3600000"})


def test_published_keys_that_are_no_keys_for_signatures_are_not_used(
    run: Run, issuer: Issuer
) -> None:
    async def story(server: Server) -> None:
        for kid in ("secret", "other"):
            algorithm, key = ("HS256", "k" * 32) if kid == "secret" else ("RS256", issuer.key)
            now = int(time.time())
            claims = {"sub": "carol", "iat": now, "exp": now + 60, "iss": issuer.url}
            token = jwt.encode({**claims, "aud": "kafka"}, key, algorithm, headers={"kid": kid})
            assert await refusal(server, bearing(token)) == '{"status":"invalid_token"}'
        assert await connect(server, bearing(issuer.token())) == ["carol"]

    public = jwt.algorithms.RSAAlgorithm.to_jwk(issuer.key.public_key(), as_dict=True)
    secret = {"kty": "oct", "k": "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s"}
    issuer.others = [{**secret, "kid": "secret"}, {**public, "kid": "other", "use": "enc"}]
    run(story, **trusting(issuer))


def test_a_token_that_is_nested_too_deeply_is_refused(run: Run, issuer: Issuer) -> None:
    async def story(server: Server) -> None:
        deep = urlsafe_b64encode(b"[" * 99_999).decode()
        assert await refusal(server, bearing(f"{deep}.e30.AAAA")) == '{"status":"invalid_token"}'

    run(story, **trusting(issuer))


def test_the_secret_of_a_client_is_not_sent_to_another_address(run: Run, issuer: Issuer) -> None:
    async def story(server: Server) -> None:
        endpoint = {
            "sasl.oauthbearer.token.endpoint.url": f"{issuer.url}/moved",
            "sasl.oauthbearer.client.id": "carol",
            "sasl.oauthbearer.client.secret": "s cret",
        }
        assert await refusal(server, endpoint) == "the token endpoint answered 302 Found"

    run(story, **trusting(issuer))


def test_keys_are_not_read_from_an_address_without_tls_instead_of_one_with_it() -> None:
    redirects, old = SafeRedirects(), Request("https://issuer/keys")

    def redirected(url: str) -> Any:
        return redirects.redirect_request(old, BytesIO(), 302, "Found", {}, url)

    assert redirected("https://elsewhere/keys").full_url == "https://elsewhere/keys"
    with pytest.raises(OSError, match="without TLS"):
        redirected("http://issuer/keys")


def test_tokens_of_known_keys_do_not_wait_for_an_issuer_that_does_not_answer(
    run: Run, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(server: Server) -> None:
        assert await connect(server, bearing(issuer.token())) == ["carol"]
        monkeypatch.setattr("kavka.broker.security.signed_tokens._MIN_INTERVAL_MS", 0)
        monkeypatch.setattr("kavka.broker.security.signed_tokens._TIMEOUT_S", 600)
        issuer.answers.clear()
        unknown = jwt.encode({"sub": "eve"}, issuer.key, "RS256", headers={"kid": "unknown"})
        waiting = asyncio.create_task(refusal(server, bearing(unknown)))
        await until(lambda: issuer.reads == 2)
        assert "carol" in await connect(server, bearing(issuer.token()))
        issuer.answers.set()
        assert await waiting == '{"status":"invalid_token"}'

    run(story, **trusting(issuer))
