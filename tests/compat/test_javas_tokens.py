"""Tokens without a signature are accepted and refused by our broker as by Apache Kafka's, with the same responses."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kavka.wire.messages.sasl_handshake import SaslHandshakeRequest
from kavka_compat.apache import ApacheKafka
from kavka_compat.ours import launch_kavka
from kavka_compat.processes import free_port

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(400)]

_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
RULES = {
    "PLAINEST": "",
    "SCOPED": 'unsecuredValidatorRequiredScope="read write"',
    "SPACED": 'unsecuredValidatorRequiredScope="  read   write read "',
    "SKEWED": 'unsecuredValidatorAllowableClockSkewMs="600000"',
    "NAMED": 'unsecuredValidatorPrincipalClaimName="user" unsecuredValidatorScopeClaimName="scp" '
    'unsecuredValidatorRequiredScope="read"',
    "BLANK": 'unsecuredValidatorPrincipalClaimName=" " unsecuredValidatorScopeClaimName="" '
    'unsecuredValidatorRequiredScope=" " unsecuredValidatorAllowableClockSkewMs=" "',
    "PADDED": 'unsecuredValidatorPrincipalClaimName=" user " '
    'unsecuredValidatorAllowableClockSkewMs=" 600000 "',
}
"""The options of the login modules of listeners, by their names."""
_FAR_S = 30_000
"""Ends of sessions are compared by seconds, so they are hours away."""


class Response(NamedTuple):
    """The response of a broker to a token."""

    challenge: bytes
    error_code: int
    error_message: str | None
    session_s: int


CLOSED = Response(b"", -1, "the connection is closed", 0)


def text_of(claims: object) -> str:
    """Return a part of a token."""
    text = claims if isinstance(claims, str) else json.dumps(claims)
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def token(claims: object, header: object = None, signature: str = "") -> str:
    return f"{text_of({'alg': 'none'} if header is None else header)}.{text_of(claims)}.{signature}"


def message(text: str, begin: str = "n,,", extensions: str = "", kind: str = "Bearer") -> bytes:
    return f"{begin}\x01auth={kind} {text}\x01{extensions}\x01".encode()


_VALUES: tuple[object, ...] = (
    *(None, "", " ", 1, 0, -1, 1.5, True, [], ["read"], {}, {"a": 1}, " alice ", "läuft 中"),
)
_SCOPES: tuple[object, ...] = (
    *("read", "read write", " read ", "write", "READ", "read,write", ["read", "write"], ["read"]),
    *(["write", "read", "read"], [" read ", "write"], ["read write"], ["read", 1], [True]),
    *(["read", None, "write"], [["read"], "write"], ["", "read"]),
)
_HEADERS: tuple[object, ...] = (
    *({"alg": "NONE"}, {"alg": None}, {"alg": 1}, {"alg": "HS256"}, {"alg": ["none"]}, "{"),
    *({"alg": "none", "typ": "JWT"}, {"alg": "none", "crit": ["x"]}),
)
_NO_CLAIMS = (
    *("[]", "1", "null", '"x"', "{}", "", " ", "{", '{"sub":"alice"', "nonsense", '{"a":NaN}'),
)
_BEGINS = ("n,a=alice,", "n,a=bob,", "n,a=,", "y,,", "p=x,,", "n,", "", "N,,", "n,a=al=ice,")
_EXTENSIONS = (
    *("traceId=1\x01", "a=1\x01b=2\x01", "a=\x01", "a1=1\x01", "auth=x\x01", "=1\x01", "a\x01"),
    *("a=1", "a=1\x01a=2\x01", "a=ü\x01", "a=b=c\x01", "A=~ \t\x01", "\x01", "a b=1\x01"),
)


def claims_to_try(now: float) -> Iterable[dict[str, Any]]:
    """Return claims that brokers are asked about."""
    fine = {"sub": "alice", "iat": now, "exp": now + _FAR_S}
    yield fine
    yield {**fine, "user": "bob", "scp": ["read"]}
    yield {**fine, "user": "bob", "scope": "read", "scp": "read"}
    for name in ("sub", "user", "iat", "exp", "nbf", "scope", "scp", "aud", "jti"):
        yield {key: value for key, value in fine.items() if key != name}
        for value in _VALUES:
            if name in ("sub", "user") and (value is None or value is True):
                continue  # see refused_by_ours
            yield {**fine, "user": "bob", "scp": "read", "scope": ["read", "write"], name: value}
    for name in ("iat", "exp", "nbf"):
        for value in (now - 900, now - 300, now + 300, now + 900, str(now), -1e15, now * 1000):
            yield {**fine, name: value}
    yield {**fine, "iat": now - 200, "exp": now - 200}
    yield {**fine, "iat": now + 200, "exp": now + 100}
    yield {**fine, "iat": fine["exp"], "exp": fine["exp"]}
    for scope in _SCOPES:
        yield {**fine, "user": "bob", "scope": scope, "scp": scope}


def tokens_to_try(now: float) -> Iterable[str]:
    """Return tokens of other forms."""
    fine = {"sub": "alice", "user": "alice", "exp": now + _FAR_S, "scp": "read"}
    text = json.dumps(fine)
    for header in _HEADERS:
        yield from (token(fine, header), token(fine, header, "c2ln"))
    for raw in (
        *_NO_CLAIMS,
        *(text + " ", "\ufeff" + text, text.replace('"', "'")),
        *(
            f"{text[:-1]}, {more}}}"
            for more in (
                *('"sub": "bob", "user": "bob"', '"control": "a\tb"', '"half": "\\ud800"'),
                f'"deep": {"[" * 200}{"]" * 200}',
            )
        ),
    ):
        yield token(raw)
    head, body, _ = token({**fine, "scope": ["read", "write"]}).split(".")
    yield from (f"{head}.{body}", f"{head}.{body}..", f"{head}..", "..", "x", f"{head}.{body}.=")
    yield from (f"{head}=.{body}.", f"{head}.{body}==.", f"{head}.{body}.c2ln", f"{head}.{body}.a")
    yield from ("", f"{head}.{body}.!", f"{head}.{text_of(text).replace('A', '+', 1)}.")


def messages_to_try(good: str) -> Iterable[bytes]:
    """Return messages of other forms; the token in them holds everywhere."""
    for begin in _BEGINS:
        yield message(good, begin)
    for extensions in _EXTENSIONS:
        yield message(good, extensions=extensions)
    for kind in ("bearer", "BEARER", "Bearer ", "", "Bearer\t"):
        yield message(good, kind=kind)
    yield message(good).rstrip(b"\x01")
    yield message(good) + b"x"
    yield from (b"", b"\x01", b"\xff\xfe")


def refused_by_ours(now: float) -> Iterable[bytes]:
    """Return what only our broker refuses: Apache Kafka's accepts it by chance, or fails and closes the connection."""
    fine: dict[str, Any] = {"sub": "alice", "user": "alice", "exp": now + _FAR_S}
    fine |= {"scope": ["read", "write"], "scp": "read"}
    for value in (None, True):  # users `null` and `true`
        yield message(token({**fine, "sub": value, "user": value}))
    for times in ({"iat": -1e30}, {"exp": 1e18}, {"exp": 1e30}):
        yield message(token({**fine, **times}))
    for more in (" {}", "x"):
        yield message(token(json.dumps(fine) + more))
    headers: tuple[object, ...] = ({}, [], "null", "1", "")
    for header in headers:
        yield message(token(fine, header))
    yield message(token(fine), kind="Basic")


async def response_to(port: int, first: bytes) -> Response:
    """Send a token, and the confirmation of a refusal."""
    peer = await Peer.connect(TcpNetwork(), "127.0.0.1", port)
    try:
        found = await peer.send(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        assert found.error_code == 0
        found = await peer.send(SaslAuthenticateRequest(auth_bytes=first), 2)
        challenge = found.auth_bytes
        if challenge:
            found = await peer.send(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
        seconds = -(-found.session_lifetime_ms // 100_000)
        # To a success Apache Kafka adds an empty message, we none.
        return Response(challenge, found.error_code, found.error_message or None, seconds)
    except ConnectionError:
        return CLOSED
    finally:
        peer.close()
        await peer.wait_closed()


def settings_of(ports: dict[str, int]) -> dict[str, str]:
    """Return the settings of a broker with a listener for each of RULES."""
    inner = f"PLAINTEXT://127.0.0.1:{free_port()}"
    return {
        "listeners": ",".join([inner, *(f"{n}://127.0.0.1:{port}" for n, port in ports.items())]),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,"
        + ",".join(f"{name}:SASL_PLAINTEXT" for name in ports),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connection.failed.authentication.delay.ms": "0",
        **{
            # Apache Kafka's broker makes a token for itself where there are any options.
            f"listener.name.{name.lower()}.oauthbearer.sasl.jaas.config": f"{_MODULE} {options} "
            + ('unsecuredLoginStringClaim_sub="broker" ' if options else "")
            + ('unsecuredLoginStringClaim_user="broker";' if options else ";")
            for name, options in RULES.items()
        },
    }


def all_responses(
    ports: dict[str, int], messages: list[bytes]
) -> dict[tuple[str, bytes], Response]:
    async def ask() -> dict[tuple[str, bytes], Response]:
        return {(n, m): await response_to(port, m) for n, port in ports.items() for m in messages}

    return asyncio.run(ask())


def test_the_same_tokens_are_accepted_and_refused(tmp_path: Path) -> None:
    now = time.time()
    tokens = [*(token(claims) for claims in claims_to_try(now)), *tokens_to_try(now)]
    fine = {"sub": "alice", "user": "alice", "exp": now + _FAR_S}
    good = token({**fine, "scope": ["read", "write"], "scp": "read"})
    messages = [*(message(each) for each in tokens), *messages_to_try(good)]
    only_theirs = list(refused_by_ours(now))
    messages += only_theirs
    ports = {name: free_port() for name in RULES}
    with ApacheKafka("3.9").run_broker(tmp_path / "apache", "zookeeper", settings_of(ports)):
        theirs = all_responses(ports, messages)
    broker = launch_kavka(tmp_path / "kavka", settings_of(ports), 0)
    try:
        broker.process.wait_for("ready: ", 60)
        ours = all_responses(ports, messages)
    finally:
        broker.process.stop()
    differing = {each: (theirs[each], ours[each]) for each in theirs if ours[each] != theirs[each]}
    assert {text for _, text in differing} == set(only_theirs)
    assert all(ours[each].error_code for each in differing)
    accepted = sum(not each.error_code for each in ours.values())
    assert min(accepted, len(ours) - accepted) > 300
