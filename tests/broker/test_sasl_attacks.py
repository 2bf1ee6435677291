"""Attacks on SASL through the port: what was recorded is played again, mechanisms are mixed, tokens are too large."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.client.admin import Admin, ScramUpsertion
from kavka.core.sasl.scram import ScramClient
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS
from kavka.errors import ErrorCode
from kavka.net.bounded_log import LINES
from kavka.net.peer import Peer
from kavka.wire.messages.metadata import MetadataRequest
from kavka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kavka.wire.messages.sasl_handshake import SaslHandshakeRequest
from support.sasl import Server, run_beside

Run = Callable[..., None]
_SCRAM = "SCRAM-SHA-512"
_LARGEST = 524_288 - 100
"""A token that is just not too large for a frame before authentication."""
LARGE = [
    ("PLAIN", b"\0" + b"a" * _LARGEST + b"\0guess"),
    ("PLAIN", b"\0alice\0" + b"a" * _LARGEST),
    ("PLAIN", b"\0" * _LARGEST),
    ("PLAIN", "\0\N{PILE OF POO}".encode() * (_LARGEST // 5)),
    (_SCRAM, b"n,,n=" + b"a" * _LARGEST + b",r=nonce"),
    (_SCRAM, b"n,,n=" + b"=2C" * (_LARGEST // 3) + b",r=nonce"),
    (_SCRAM, b"n,,n=alice,r=nonce" + b",x=y" * (_LARGEST // 4 - 5)),
    (_SCRAM, b"n,,n=alice,r=" + b"n" * _LARGEST),
]
"""Mechanisms, and a first token of each."""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return what runs a story beside a broker with alice's SCRAM credential."""

    def run_story(story: Callable[[Server], Awaitable[None]]) -> None:
        async def with_user(server: Server) -> None:
            async with Admin(server.config("alice", "alice secret")) as admin:
                upsertion = ScramUpsertion("alice", _SCRAM, "scram secret", iterations=4096)
                assert await admin.alter_user_scram_credentials([upsertion]) == {"alice": None}
            await story(server)

        run_beside(tmp_path, with_user)

    return run_story


async def begun(server: Server, mechanism: str) -> Peer:
    """Return a connection that has chosen a mechanism."""
    peer = await server.anonymous()
    response = await peer.send(SaslHandshakeRequest(mechanism=mechanism), 1)
    assert response.error_code == 0
    return peer


async def sent(peer: Peer, token: bytes) -> Any:
    return await peer.send(SaslAuthenticateRequest(auth_bytes=token), 2)


def client(nonce: str = "recorded") -> ScramClient:
    return ScramClient(SCRAM_MECHANISMS[_SCRAM], "alice", "scram secret", nonce)


async def recorded(server: Server) -> tuple[bytes, bytes]:
    """Authenticate; return the client's two tokens, as one sees them who listens."""
    alice, peer = client(), await begun(server, _SCRAM)
    first = alice.first()
    final = alice.respond((await sent(peer, first)).auth_bytes)
    assert final is not None
    assert (await sent(peer, final)).error_code == 0
    peer.close()
    return first, final


async def assert_anonymous(peer: Peer) -> None:
    """Insist that a connection is not, or no longer, served."""
    with pytest.raises(ConnectionError):
        await peer.send(MetadataRequest(topics=[]), 9)


def test_a_recorded_exchange_is_of_no_use_on_another_connection(run: Run) -> None:
    async def story(server: Server) -> None:
        first, final = await recorded(server)
        for tokens in ((first, final), (final,), (first, first)):
            peer = await begun(server, _SCRAM)
            codes = [(await sent(peer, token)).error_code for token in tokens]
            assert codes[:-1] == [0] * (len(tokens) - 1)
            assert codes[-1] == ErrorCode.SASL_AUTHENTICATION_FAILED
            await assert_anonymous(peer)
        assert server.counts["CLIENTS", _SCRAM, True] == 1

    run(story)


def test_two_exchanges_at_once_cannot_be_crossed(run: Run) -> None:
    async def story(server: Server) -> None:
        peers = [await begun(server, _SCRAM) for _ in range(2)]
        clients = [client(), client()]
        challenges = [
            (await sent(peer, alice.first())).auth_bytes
            for peer, alice in zip(peers, clients, strict=True)
        ]
        assert challenges[0] != challenges[1]
        finals = [c.respond(t) for c, t in zip(clients, challenges, strict=True)]
        for peer, final in zip(peers, reversed(finals), strict=True):
            assert final is not None
            response = await sent(peer, final)
            assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            await assert_anonymous(peer)

    run(story)


def test_a_mechanism_is_not_changed_in_the_middle(run: Run) -> None:
    async def story(server: Server) -> None:
        for other in ("PLAIN", "SCRAM-SHA-256", _SCRAM):
            peer = await begun(server, _SCRAM)
            await sent(peer, client().first())
            response = await peer.send(SaslHandshakeRequest(mechanism=other), 1)
            assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
            await assert_anonymous(peer)

    run(story)


def test_a_token_of_one_mechanism_is_none_of_another(run: Run) -> None:
    async def story(server: Server) -> None:
        for mechanism, token in (
            (_SCRAM, b"\0alice\0alice secret"),
            ("PLAIN", client().first()),
            ("PLAIN", b""),
        ):
            peer = await begun(server, mechanism)
            response = await sent(peer, token)
            assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            await assert_anonymous(peer)

    run(story)


def test_a_broker_is_not_made_to_prove_a_password_for_the_client(run: Run) -> None:
    """A client that echoes what the broker says, its signature even, proves nothing."""

    async def story(server: Server) -> None:
        peer = await begun(server, _SCRAM)
        challenge = (await sent(peer, client().first())).auth_bytes
        nonce = challenge.decode().partition(",")[0]
        response = await sent(peer, f"c=biws,{nonce},p={'A' * 86}==".encode())
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert response.auth_bytes == b""
        await assert_anonymous(peer)

    run(story)


def test_tokens_of_half_a_megabyte_are_refused_and_fill_no_log(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(server: Server) -> None:
        for mechanism, token in LARGE:
            peer = await begun(server, mechanism)
            response = await sent(peer, token)
            if response.error_code == 0:  # a challenge: the exchange has begun, for a long name say
                response = await sent(peer, b"c=biws,r=nonce,p=AAAA")
            assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            await assert_anonymous(peer)
        failed = [n for (_, _, is_success), n in server.counts.items() if not is_success]
        assert sum(failed) == len(LARGE)
        (await server.connect("alice", "alice secret")).close()

    with caplog.at_level(logging.DEBUG):
        run(story)
    lines = [record.getMessage() for record in caplog.records]
    assert sum("authentication failed" in line for line in lines) == LINES < len(LARGE)
    # Of half a megabyte each they would fill the disk of a broker without one authenticated client.
    assert max(map(len, lines)) < 2000


def test_many_refused_at_once_are_all_delayed_and_nobody_else_waits(run: Run) -> None:
    async def story(server: Server) -> None:
        async def refused(number: int) -> None:
            peer = await begun(server, "PLAIN")
            response = await sent(peer, b"\0user %d\0guess" % number)
            assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            await peer.wait_closed()

        await asyncio.gather(*(refused(number) for number in range(50)))
        assert server.counts["CLIENTS", "PLAIN", False] == 50

    run(story)
