"""Delegation tokens: made, used, renewed, ended and seen by whom; how they are stored; and no secret anywhere."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.security.delegation_tokens import DelegationTokens
from kavka.client.admin import Admin, ConfigResource, ResourceType
from kavka.client.admin.delegation_tokens import DelegationToken
from kavka.client.consumer.consumer import Consumer
from kavka.client.producer.producer import Producer
from kavka.core.access.entries import Principal
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS
from kavka.errors import AuthenticationFailed, ErrorCode, KafkaError
from kavka.net.clock import SystemRandom
from kavka.net.event_loop import MeasuredEventLoop
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.net.peer_security import PeerSecurity
from kavka.net.sasl_login import password_login
from kavka.settings.declaration import InvalidSetting
from kavka.values import replace
from kavka.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from kavka.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kavka.wire.messages.metadata import MetadataRequest
from kavka.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from kavka.wire.stored import token_znodes
from support.access import AUTHORIZER, create_acls
from support.sasl import Server, served
from support.waiting import eventually, until

SECRET = "the cluster's secret key"
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
_E = ErrorCode
Story = Callable[[Server, Admin, Admin], Awaitable[None]]
Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a story beside a broker, with the admin clients of alice and of bob."""

    def run_story(story: Story, **settings: str | None) -> None:
        async def with_broker() -> None:
            given = {"delegation.token.secret.key": SECRET, **settings}
            async with (
                served(tmp_path, **given) as server,
                Admin(server.config("alice", "alice secret")) as alice,
                Admin(server.config("bob", "b,o=b")) as bob,
            ):
                await story(server, alice, bob)

        with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
            runner.run(with_broker())

    return run_story


async def connect(
    server: Server, token_id: str, password: str, mechanism: str = "SCRAM-SHA-256"
) -> Peer:
    login = password_login(mechanism, token_id, password, SystemRandom(), token_auth=True)
    return await Peer.connect(
        TcpNetwork(), "127.0.0.1", server.port, security=PeerSecurity(sasl=login)
    )


@asynccontextmanager
async def refused(code: ErrorCode) -> Any:
    with pytest.raises(KafkaError) as error:
        yield
    assert error.value.code is code


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_logs_in_as_its_owner_until_it_is_removed(run: Run, mechanism: str) -> None:
    async def story(server: Server, alice: Admin, _bob: Admin) -> None:
        token = await alice.create_delegation_token(["User:bob"])
        assert (token.owner, token.requester, token.renewers) == (ALICE, ALICE, (BOB,))
        assert (token.expiry_ms - token.issue_ms, token.max_ms - token.issue_ms) == (
            86_400_000,
            604_800_000,
        )
        for _ in range(2):
            peer = await connect(server, token.token_id, token.password, mechanism)
            assert (await peer.send(MetadataRequest(topics=[]), 9)).brokers
            session = list(server.broker.dispatcher.connections.values())[-1].session
            assert (session.principal, session.token_id) == (ALICE, token.token_id)
            peer.close()
        for token_id, password in (
            (token.token_id, token.password.swapcase()),
            ("nonexistent", token.password),
            ("alice", "alice secret"),
        ):
            with pytest.raises(AuthenticationFailed, match="invalid credentials"):
                await connect(server, token_id, password, mechanism)
        with pytest.raises(AuthenticationFailed):  # the id is no user
            await server.connect(token.token_id, token.password, mechanism)
        await alice.expire_delegation_token(token.hmac)
        with pytest.raises(AuthenticationFailed):
            await connect(server, token.token_id, token.password, mechanism)

    run(story)


def test_owners_and_renewers_change_a_token_and_nobody_else(run: Run) -> None:
    async def story(_server: Server, alice: Admin, bob: Admin) -> None:
        token = await alice.create_delegation_token()
        async with refused(_E.DELEGATION_TOKEN_OWNER_MISMATCH):
            await bob.renew_delegation_token(token.hmac)
        async with refused(_E.DELEGATION_TOKEN_OWNER_MISMATCH):
            await bob.expire_delegation_token(token.hmac)
        async with refused(_E.DELEGATION_TOKEN_NOT_FOUND):
            await alice.renew_delegation_token(b"no token's")
        assert await alice.renew_delegation_token(token.hmac, period_ms=1 << 62) == token.max_ms
        (shown,) = await alice.describe_delegation_tokens()
        assert shown == token._replace(expiry_ms=token.max_ms)
        shared = await alice.create_delegation_token([BOB], max_lifetime_ms=60_000)
        assert shared.expiry_ms == shared.max_ms == shared.issue_ms + 60_000
        assert await bob.renew_delegation_token(shared.hmac, period_ms=1000) < shared.max_ms
        assert {t.token_id for t in await bob.describe_delegation_tokens()} == {shared.token_id}
        assert await alice.describe_delegation_tokens([BOB]) == await alice_s(alice, shared)
        assert await bob.describe_delegation_tokens([]) == []
        await bob.expire_delegation_token(shared.hmac)
        assert {t.token_id for t in await alice.describe_delegation_tokens()} == {token.token_id}
        async with refused(_E.DELEGATION_TOKEN_NOT_FOUND):
            await alice.expire_delegation_token(shared.hmac)
        async with refused(_E.INVALID_PRINCIPAL_TYPE):
            await alice.create_delegation_token(["Group:g"])
        async with refused(_E.INVALID_REQUEST):
            await alice.create_delegation_token(f"User:{'r' * 100}{n}" for n in range(5000))
        async with refused(_E.INVALID_REQUEST):
            await alice.create_delegation_token(["User:r"] * 10_001)
        many = await alice.create_delegation_token(["User:r"] * 10_000)
        await alice.expire_delegation_token(many.hmac)

    async def alice_s(alice: Admin, token: DelegationToken) -> list[DelegationToken]:
        return [t for t in await alice.describe_delegation_tokens() if t.token_id == token.token_id]

    run(story, **{"authorizer.class.name": AUTHORIZER})


def test_a_client_that_logged_in_by_a_token_may_not_ask_about_tokens(run: Run) -> None:
    async def story(server: Server, alice: Admin, _bob: Admin) -> None:
        token = await alice.create_delegation_token()
        peer = await connect(server, token.token_id, token.password)
        for request in (
            CreateDelegationTokenRequest(max_lifetime_ms=-1),
            RenewDelegationTokenRequest(hmac=token.hmac),
            DescribeDelegationTokenRequest(),
        ):
            response = await peer.send(request)
            assert response.error_code == _E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        peer.close()

    run(story)


def test_without_a_secret_key_there_are_no_tokens(run: Run) -> None:
    async def story(server: Server, alice: Admin, _bob: Admin) -> None:
        async with refused(_E.DELEGATION_TOKEN_AUTH_DISABLED):
            await alice.create_delegation_token()
        for change in (alice.renew_delegation_token, alice.expire_delegation_token):
            async with refused(_E.DELEGATION_TOKEN_AUTH_DISABLED):
                await change(b"hmac")
        async with refused(_E.DELEGATION_TOKEN_AUTH_DISABLED):
            await alice.describe_delegation_tokens()
        with pytest.raises(AuthenticationFailed):
            await connect(server, "alice", "alice secret")
        assert await server.broker.registry.stat("/delegation_token") is None

    run(story, **{"delegation.token.secret.key": None})


def test_through_a_plaintext_listener_no_token_is_given(run: Run, tmp_path: Path) -> None:
    async def story(server: Server, _alice: Admin, _bob: Admin) -> None:
        plain = server.broker.listeners._listeners["PLAIN"].port
        peer = await Peer.connect(TcpNetwork(), "127.0.0.1", plain)
        for request in (
            CreateDelegationTokenRequest(max_lifetime_ms=-1),
            DescribeDelegationTokenRequest(),
        ):
            response = await peer.send(request)
            assert response.error_code == _E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        peer.close()

    run(
        story,
        **{
            "listeners": "CLIENTS://127.0.0.1:0,PLAIN://127.0.0.1:0",
            "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,PLAIN:PLAINTEXT",
        },
    )


def test_tokens_are_stored_as_apache_kafkas_and_changes_of_others_are_followed(run: Run) -> None:
    async def story(server: Server, alice: Admin, _bob: Admin) -> None:
        registry = server.broker.registry
        token = await alice.create_delegation_token(["User:b ob"])
        data, _stat = await registry.get(f"/delegation_token/tokens/{token.token_id}")
        assert json.loads(data) == {
            "version": 3,
            "owner": "User%3Aalice",
            "tokenRequester": "User%3Aalice",
            "renewers": ["User%3Ab%20ob"],
            "issueTimestamp": token.issue_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expiry_ms,
            "tokenId": token.token_id,
        }
        (change,) = await registry.children("/delegation_token/token_changes")
        assert change == "token_change_0000000000"
        notified, _stat = await registry.get(f"/delegation_token/token_changes/{change}")
        assert notified == token.token_id.encode()
        # Another broker makes one, in the first version of the format, and removes ours.
        other = {
            "version": 1,
            "owner": "User%3Abob",
            "renewers": ["User%3Aalice"],
            "issueTimestamp": 1,
            "maxTimestamp": 1 << 60,
            "expiryTimestamp": 1 << 60,
            "tokenId": "other",
        }
        await registry.create(token_znodes.token_path("other"), json.dumps(other).encode())
        await registry.delete(token_znodes.token_path(token.token_id))
        for name in ("other", token.token_id):
            await registry.create(token_znodes.CHANGE, name.encode(), sequence=True)
        (theirs,) = await eventually(
            alice.describe_delegation_tokens, lambda found: [t.token_id for t in found] == ["other"]
        )
        assert (theirs.owner, theirs.requester) == (BOB, BOB)
        assert await alice.renew_delegation_token(theirs.hmac, period_ms=1 << 61) == 1 << 60
        peer = await connect(server, "other", theirs.password)
        peer.close()

    run(story)


def test_znodes_that_cannot_be_read_are_passed_over_and_tokens_outlive_the_broker(run: Run) -> None:
    made: list[DelegationToken] = []

    async def before(server: Server, alice: Admin, _bob: Admin) -> None:
        made.append(await alice.create_delegation_token())
        registry = server.broker.registry
        for name, data in (("no-json", b"{"), ("another", b'{"version": 4}'), ("empty", b"")):
            await registry.create(token_znodes.token_path(name), data)
        copied, _stat = await registry.get(token_znodes.token_path(made[0].token_id))
        await registry.create(token_znodes.token_path("copied"), copied)

    async def after(server: Server, alice: Admin, _bob: Admin) -> None:
        assert await alice.describe_delegation_tokens() == made
        peer = await connect(server, made[0].token_id, made[0].password)
        peer.close()

    run(before)
    run(after)
    # The old name of the setting counts where the new one is not set.
    run(after, **{"delegation.token.secret.key": None, "delegation.token.master.key": SECRET})


class LateReplies:
    """A registry whose responses to reads come an iteration later, as over a network."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registry, name)

    async def get(self, *arguments: Any) -> Any:
        found = await self._registry.get(*arguments)
        await asyncio.sleep(0)
        return found


def test_no_change_is_lost_between_two_brokers(run: Run) -> None:
    def has_one(store: DelegationTokens, max_ms: int) -> bool:
        return [token.max_ms for token in store] == [max_ms]

    async def story(server: Server, alice: Admin, _bob: Admin) -> None:
        tokens = server.broker.security.tokens
        assert tokens is not None
        token = await alice.create_delegation_token()
        context = copy(server.broker.context)
        context.registry = LateReplies(server.broker.registry)
        other = DelegationTokens(context, SECRET)  # of another broker
        await other.start()

        def shorter(stored: Any) -> Any:
            return replace(stored, max_ms=stored.max_ms - 1)

        await asyncio.gather(
            *(store.change(token.token_id, shorter) for store in (tokens, other) * 10)
        )
        for store in (tokens, other):
            await until(partial(has_one, store, token.max_ms - 20))
        ends = await asyncio.gather(
            *(store.change(token.token_id, lambda _token: None) for store in (tokens, other))
        )
        assert set(ends) == {None, _E.DELEGATION_TOKEN_NOT_FOUND}
        await other.stop()

    run(story)


def test_a_lost_session_has_all_tokens_read_again(run: Run) -> None:
    async def story(server: Server, alice: Admin, _bob: Admin) -> None:
        tokens, registry = server.broker.security.tokens, server.broker.registry
        assert tokens is not None
        gone, kept = [await alice.create_delegation_token() for _ in range(2)]
        path = token_znodes.token_path(kept.token_id)
        data, _stat = await registry.get(path)
        # Without notifications: they have come and gone.
        await registry.set(path, data.replace(b"User%3Aalice", b"User%3Abob"))
        await registry.delete(token_znodes.token_path(gone.token_id))
        tokens.session_renewed()
        await until(lambda: [(t.token_id, t.owner) for t in tokens] == [(kept.token_id, BOB)])

    run(story)


def test_a_token_that_is_removed_while_its_credential_is_made_lets_nobody_in(run: Run) -> None:
    async def story(server: Server, alice: Admin, _bob: Admin) -> None:
        tokens = server.broker.security.tokens
        assert tokens is not None
        token = await alice.create_delegation_token()
        response = tokens.login(SCRAM_MECHANISMS["SCRAM-SHA-256"], token.token_id)
        assert isinstance(response, Awaitable)  # made on a thread
        await alice.expire_delegation_token(token.hmac)
        credential = await response
        assert credential.fault is not None
        assert credential.fault.startswith("unknown delegation token")

    run(story)


def test_another_secret_key_makes_other_secrets(run: Run) -> None:
    made: list[DelegationToken] = []

    async def before(_server: Server, alice: Admin, _bob: Admin) -> None:
        made.append(await alice.create_delegation_token())

    async def after(server: Server, alice: Admin, _bob: Admin) -> None:
        (token,) = await alice.describe_delegation_tokens()
        assert token.token_id == made[0].token_id
        assert token.hmac != made[0].hmac
        with pytest.raises(AuthenticationFailed):
            await connect(server, token.token_id, made[0].password)

    run(before)
    run(after, **{"delegation.token.secret.key": "another"})


def test_an_expired_token_is_refused_and_the_controller_removes_it(run: Run) -> None:
    async def kept(server: Server, alice: Admin, _bob: Admin) -> None:
        token = await alice.create_delegation_token()
        await alice.expire_delegation_token(token.hmac, period_ms=0)
        await until(lambda: server.broker.clock.now_ms() > token.issue_ms + 100)
        with pytest.raises(AuthenticationFailed):
            await connect(server, token.token_id, token.password)
        async with refused(_E.DELEGATION_TOKEN_EXPIRED):
            await alice.renew_delegation_token(token.hmac)
        assert [t.token_id for t in await alice.describe_delegation_tokens()] == [token.token_id]

    async def removed(_server: Server, alice: Admin, _bob: Admin) -> None:
        lasting = await alice.create_delegation_token(max_lifetime_ms=600_000)
        await alice.create_delegation_token(max_lifetime_ms=1)
        await eventually(alice.describe_delegation_tokens, lambda found: found == [lasting])

    run(kept)
    run(removed, **{"delegation.token.expiry.check.interval.ms": "10"})


def test_a_session_ends_with_its_token(run: Run) -> None:
    async def story(server: Server, alice: Admin, _bob: Admin) -> None:
        token = await alice.create_delegation_token(max_lifetime_ms=20_000)
        peer = await connect(server, token.token_id, token.password)
        sasl = list(server.broker.dispatcher.connections.values())[-1].session.sasl
        assert not sasl.is_expired(server.broker.clock.tick_ms())
        assert sasl.is_expired(server.broker.clock.tick_ms() + 20_001)
        peer.close()

    run(story)
    run(story, **{"connections.max.reauth.ms": "3600000"})


def test_acls_let_a_user_make_and_see_tokens_of_others(run: Run) -> None:
    async def story(server: Server, alice: Admin, bob: Admin) -> None:
        token = await alice.create_delegation_token(owner="User:carol")
        assert (token.owner, token.requester) == (Principal("User", "carol"), ALICE)
        async with refused(_E.DELEGATION_TOKEN_OWNER_MISMATCH):
            await alice.renew_delegation_token(token.hmac)
        async with refused(_E.DELEGATION_TOKEN_AUTHORIZATION_FAILED):
            await bob.create_delegation_token(owner="User:carol")
        assert await bob.describe_delegation_tokens() == []
        other = await alice.create_delegation_token()
        peer = await server.connect("alice", "alice secret")
        assert await create_acls(
            peer,
            "User:bob CreateTokens User:User:carol",
            f"User:bob Describe DelegationToken:{other.token_id}",
        ) == [0, 0]
        assert await bob.describe_delegation_tokens() == [other]
        assert (await bob.create_delegation_token(owner="User:carol")).requester == BOB
        await create_acls(peer, "User:bob DescribeTokens User:User:carol")
        peer.close()
        assert len(await bob.describe_delegation_tokens()) == 3
        assert len(await bob.describe_delegation_tokens(["User:carol"])) == 2

    run(story, **{"authorizer.class.name": AUTHORIZER, "super.users": "User:alice"})


def test_without_an_authorizer_the_start_warns(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def story(_server: Server, alice: Admin, bob: Admin) -> None:
        token = await alice.create_delegation_token(owner="User:bob")
        assert await bob.describe_delegation_tokens() == [token]
        async with refused(_E.INVALID_PRINCIPAL_TYPE):
            await alice.create_delegation_token(owner="Group:bob")

    run(story)
    assert "delegation tokens without an authorizer" in caplog.text


def test_secrets_are_in_no_log_audit_or_setting(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.json"
    tokens: list[DelegationToken] = []

    async def story(server: Server, alice: Admin, bob: Admin) -> None:
        token = await alice.create_delegation_token([BOB])
        tokens.append(token)
        await bob.renew_delegation_token(token.hmac)
        (read,) = await bob.describe_delegation_tokens(["User:alice"])
        assert read.hmac == token.hmac
        peer = await connect(server, token.token_id, token.password)
        peer.close()
        with pytest.raises(AuthenticationFailed):
            await connect(server, token.token_id, "guess")
        await alice.expire_delegation_token(token.hmac)
        async with refused(_E.DELEGATION_TOKEN_NOT_FOUND):
            await alice.expire_delegation_token(token.hmac)
        broker = ConfigResource(ResourceType.BROKER, str(server.broker.broker_id))
        entries = (await alice.describe_configs([broker]))[broker]
        assert not isinstance(entries, KafkaError)
        (key,) = (e for e in entries if e.name == "delegation.token.secret.key")
        assert (key.value, key.is_sensitive) == (None, True)

    with caplog.at_level(logging.DEBUG):
        run(story, **{"kavka.audit.log": str(path)})
    (token,) = tokens
    text = path.read_text() + caplog.text + repr(token)
    for secret in (SECRET, token.password, token.hmac.hex(), repr(token.hmac)):
        assert secret not in text
    assert b64encode(token.hmac).decode() == token.password
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    about, made = f"token {token.token_id}", ("token of the client", "renewer User:bob")
    assert [
        (line["api"], line["subjects"], line["principal"], line["result"])
        for line in lines
        if line["event"] == "administrative"
    ] == [
        ("CreateDelegationToken", [about, *made], "User:alice", "done"),
        ("RenewDelegationToken", [about], "User:bob", "done"),
        ("DescribeDelegationToken", [about, "tokens of User:alice"], "User:bob", "done"),
        ("ExpireDelegationToken", [about], "User:alice", "done"),
        ("ExpireDelegationToken", ["unknown token"], "User:alice", "failed"),
    ]
    (by_token,) = [line for line in lines if "delegation_token" in line]
    assert (by_token["event"], by_token["principal"]) == ("authenticated", "User:alice")
    (failed,) = [line for line in lines if line["event"] == "authentication_failed"]
    assert failed["reason"] == f"wrong HMAC of delegation token={token.token_id!r}"


def test_producers_and_consumers_log_in_by_a_token(run: Run) -> None:
    async def story(server: Server, alice: Admin, _bob: Admin) -> None:
        token = await alice.create_delegation_token()
        at = {
            "bootstrap.servers": f"127.0.0.1:{server.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
        }
        jaas = (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{token.token_id}" password="{token.password}" tokenauth="true";'
        )
        async with Producer({**at, "sasl.jaas.config": jaas}) as producer:
            await producer.send("t", b"v")
        by_name = {
            "sasl.username": token.token_id,
            "sasl.password": token.password,
            "kavka.sasl.tokenauth": "true",
        }
        options = {"group.id": "g", "auto.offset.reset": "earliest"}
        async with Consumer({**at, **by_name, **options}) as consumer:
            consumer.subscribe(["t"])
            async for record in consumer:
                assert record.value == b"v"
                break
        with pytest.raises(InvalidSetting, match="delegation tokens log in by SCRAM"):
            Producer({**at, **by_name, "sasl.mechanism": "PLAIN"})

    run(story)
