"""Delegation tokens: Kafka's script and ours print alike, Java logs in, both brokers answer alike and share tokens."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kavka.client.admin import Admin
from kavka.client.admin.delegation_tokens import DelegationToken
from kavka.core.access.entries import Principal
from kavka.core.sasl.scram import ScramClient
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS
from kavka.errors import AuthenticationFailed, ErrorCode
from kavka.net.clock import SystemRandom
from kavka.net.event_loop import MeasuredEventLoop
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.net.peer_security import PeerSecurity
from kavka.net.sasl_login import password_login
from kavka.wire.messages.create_acls import CreateAclsRequest
from kavka.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestRenewer,
)
from kavka.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenRequestOwner,
)
from kavka.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kavka.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from kavka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kavka.wire.messages.sasl_handshake import SaslHandshakeRequest
from kavka_compat.apache import ApacheKafka
from kavka_compat.mixed import Kind, MixedCluster
from kavka_compat.our_tools import our_tool
from kavka_compat.processes import free_port
from kavka_compat.zookeeper import run_ensemble
from support.access import AUTHORIZER, acl, creation
from support.sasl import served
from support.waiting import eventually

pytestmark = [pytest.mark.compat, pytest.mark.timeout(400)]

_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_USERS = " ".join(f'user_{user}="p"' for user in ("alice", "bob", "carol"))
SETTINGS = {
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "delegation.token.secret.key": "secret",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_LOGIN} {_USERS};",
    "connection.failed.authentication.delay.ms": "1",
    **{
        f"listener.name.sasl_plaintext.{name.lower()}.sasl.jaas.config": f"{_SCRAM} required;"
        for name in SCRAM_MECHANISMS
    },
}
OURS = {
    **SETTINGS,
    "listener.name.clients.plain.sasl.jaas.config": None,
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "listener.security.protocol.map": None,
    "inter.broker.listener.name": "PLAINTEXT",
}


class Place(NamedTuple):
    """A broker: the port of its users, and that of its administrator without authentication."""

    port: int
    plain_port: int


@contextmanager
def apache_kafka(directory: Path) -> Iterator[Place]:
    at = Place(free_port(), free_port())
    listeners = f"PLAINTEXT://127.0.0.1:{at.plain_port},SASL_PLAINTEXT://127.0.0.1:{at.port}"
    settings = {**SETTINGS, "listeners": listeners}
    with ApacheKafka("3.9").run_broker(directory, mode="zookeeper", settings=settings):
        yield at


@asynccontextmanager
async def kavka(directory: Path) -> AsyncIterator[Place]:
    async with served(directory, **OURS) as server:
        yield Place(server.port, server.broker.listeners._listeners["PLAINTEXT"].port)


def run(story: Callable[[], Any]) -> None:
    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(story())


# -- tools


def properties(directory: Path, user: str) -> str:
    file = directory / f"{user}.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={_LOGIN} username="{user}" password="p";\n'
    )
    return str(file)


def token_properties(directory: Path, printed: str) -> str:
    """Write the settings of a client that logs in by the token that a tool has printed."""
    token_id, hmac = printed.splitlines()[-1].split()[:2]
    file = directory / "token.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config="
        f'{_SCRAM} required username="{token_id}" password="{hmac}" tokenauth="true";\n'
    )
    return str(file)


def hmac_in(printed: str) -> str:
    return printed.splitlines()[-1].split()[1]


def shape(text: str) -> str:
    """Return a tool's output without what differs each time: ids, secrets, times, and the order of tokens."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "<time>", text)
    text = re.sub(r"[A-Za-z0-9+/]{86}==", "<hmac>", text)
    text = re.sub(r"(?<![\w-])[\w-]{22}(?![\w-])", "<id>", text)
    lines = text.splitlines()
    return "\n".join([*lines[:3], *sorted(lines[3:])])


class Tools:
    """Kafka's script and our command, in turn for the same arguments."""

    def __init__(self, directory: Path, port: int) -> None:
        self.apache = ApacheKafka("3.9")
        self.directory = directory
        self.at = ("--bootstrap-server", f"127.0.0.1:{port}", "--command-config")
        self.different: list[str] = []

    def both(self, user: str, make: Callable[[], Sequence[str]], code: int = 0) -> str:
        """Run both, each with arguments of its own; return what ours printed."""
        file = properties(self.directory, user)
        arguments = make()
        theirs = self.apache.tool("kafka-delegation-tokens", *self.at, file, *arguments)
        ours = our_tool("delegation-tokens", *self.at, file, *make(), code=code)
        assert theirs.code == code, theirs
        if shape(theirs.out) != shape(ours.out):
            self.different.append(f"{arguments}\n{theirs.out}\n{ours.out}")
        if code and theirs.err.splitlines()[:1] != ours.err.splitlines():
            self.different.append(f"{arguments}\n{theirs.err}\n{ours.err}")
        return ours.out

    def new(self, *renewers: str) -> str:
        """Return the HMAC of a new token of alice."""
        file = properties(self.directory, "alice")
        more = [word for renewer in renewers for word in ("--renewer-principal", renewer)]
        made = our_tool(
            "delegation-tokens", *self.at, file, "--create", "--max-life-time-period", "-1", *more
        )
        return hmac_in(made.out)


def compare_tools(tools: Tools) -> None:
    """Compare all but `--describe` without an owner, where Kafka's script asks for the tokens of nobody."""
    create = ("--create", "--max-life-time-period")
    renewers = ("--renewer-principal", "User:bob", "--renewer-principal", "User:carol")
    tools.both("alice", lambda: (*create, "-1", *renewers))
    tools.both("alice", lambda: (*create, "60000", "--owner-principal", "User:alice"))
    tools.both("alice", lambda: (*create, "-1", "--owner-principal", "User:bob"), code=1)
    tools.both("bob", lambda: ("--describe", "--owner-principal", "User:bob"))
    tools.both("alice", lambda: ("--describe", "--owner-principal", "User:nobody"))
    renew = ("--renew", "--renew-time-period")
    tools.both("alice", lambda: (*renew, "-1", "--hmac", tools.new()))
    tools.both("bob", lambda: (*renew, "5000", "--hmac", tools.new("User:bob")))
    tools.both("bob", lambda: (*renew, "5000", "--hmac", tools.new()), code=1)
    tools.both("bob", lambda: (*renew, "5000", "--hmac", "bm9uZQ=="), code=1)
    expire = ("--expire", "--expiry-time-period")
    tools.both("alice", lambda: (*expire, "5000", "--hmac", tools.new()))
    tools.both("alice", lambda: (*expire, "-1", "--hmac", tools.new()))
    tools.both("alice", lambda: (*expire, "-1", "--hmac", "bm9uZQ=="), code=1)
    assert not tools.different, "\n".join(tools.different)


def test_kafkas_script_makes_a_token_by_which_java_logs_in(tmp_path: Path) -> None:
    async def story() -> None:
        async with kavka(tmp_path) as at:
            await asyncio.to_thread(logs_in, at)
            async with Admin({"bootstrap.servers": f"127.0.0.1:{at.plain_port}"}) as admin:
                assert await admin.list_topics() == ["made-by-alice"]

    def logs_in(at: Place) -> None:
        apache, where = ApacheKafka("3.9"), ("--bootstrap-server", f"127.0.0.1:{at.port}")
        tokens = ("kafka-delegation-tokens", *where, "--command-config")
        alice = properties(tmp_path, "alice")
        made = apache.check(*tokens, alice, "--create", "--max-life-time-period", "-1")
        allowed = CreateAclsRequest(creations=[creation(acl("User:alice All Topic:*"))])
        asyncio.run(administer(at, allowed))
        file = token_properties(tmp_path, made.out)
        topics = ("kafka-topics", *where, "--command-config", file)
        apache.check(*topics, "--create", "--topic", "made-by-alice")
        described = our_tool("delegation-tokens", *where, "--command-config", alice, "--describe")
        assert made.out.splitlines()[-1] in described.out.splitlines()

    run(story)


@pytest.mark.long
def test_kafkas_script_and_our_command_print_alike_at_our_broker(tmp_path: Path) -> None:
    async def story() -> None:
        async with kavka(tmp_path) as at:
            await asyncio.to_thread(compare_tools, Tools(tmp_path, at.port))

    run(story)


@pytest.mark.long
def test_both_brokers_answer_alike_and_tools_print_alike_at_apache_kafkas(tmp_path: Path) -> None:
    async def story() -> None:
        async with kavka(tmp_path / "ours") as ours:
            found = await responses(ours)
            assert found == await responses(theirs)

    (tmp_path / "ours").mkdir()
    with apache_kafka(tmp_path) as theirs:
        run(story)
        compare_tools(Tools(tmp_path, theirs.port))


# -- requests


async def administer(at: Place, request: Any) -> None:
    peer = await Peer.connect(TcpNetwork(), "127.0.0.1", at.plain_port)
    assert [row.error_code for row in (await peer.send(request)).results] == [0]
    peer.close()


async def connect(at: Place, user: str) -> Peer:
    login = password_login("PLAIN", user, "p", SystemRandom())
    security = PeerSecurity(sasl=login)
    return await Peer.connect(TcpNetwork(), "127.0.0.1", at.port, security=security)


def facts(response: Any, names: Mapping[str, str]) -> Any:
    """Return what is in a response, without what differs each time: ids by names, times by their distances."""
    if isinstance(response, list):
        return sorted((facts(each, names) for each in response), key=repr)
    if isinstance(response, bytes | memoryview):
        return len(response)
    if not hasattr(response, "__slots__"):
        return names.get(response, response)
    found = {name: getattr(response, name) for name in response.__slots__}
    issued = found.get("issue_timestamp_ms", found.get("issue_timestamp"))
    for name, value in found.items():
        if "timestamp" not in name or value < 0:
            found[name] = facts(value, names)
        elif issued is None or name.startswith("issue"):
            found[name] = "a time"
        else:
            found[name] = round((value - issued) / 60_000)
    return found


async def responses(at: Place) -> list[Any]:
    """Return the responses of a broker to many requests about tokens, and to logins by them."""
    found: list[Any] = []
    names: dict[str, str] = {}
    alice, bob = await connect(at, "alice"), await connect(at, "bob")

    async def sent(peer: Peer, request: Any, version: int | None = None) -> Any:
        response = await peer.send(request, version)
        if getattr(response, "token_id", ""):
            names[response.token_id] = f"token {len(names)}"
        found.append((type(request).__name__, version, facts(response, names)))
        return response

    (owned, shared) = await _create(alice, sent)
    await _change(alice, bob, sent, owned, shared)
    await _describe(at, alice, bob, sent)
    found.append(await _logins(at, shared, sent))
    plain = await Peer.connect(TcpNetwork(), "127.0.0.1", at.plain_port)
    for request in _all(shared.hmac):
        await sent(plain, request)
    for peer in (alice, bob, plain):
        peer.close()
    return found


async def _create(alice: Peer, sent: Any) -> tuple[Any, Any]:
    def renewer(kind: str, name: str) -> CreateDelegationTokenRequestRenewer:
        return CreateDelegationTokenRequestRenewer(principal_type=kind, principal_name=name)

    for version in range(4):
        owned = await sent(alice, CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
    bob = renewer("User", "bob")
    for lifetime_ms in (0, 120_000, 1 << 62):
        request = CreateDelegationTokenRequest(renewers=[bob, bob], max_lifetime_ms=lifetime_ms)
        shared = await sent(alice, request)
    for owner in (("User", "carol"), ("User", ""), ("", "alice"), ("Group", "alice")):
        request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
        request.owner_principal_type, request.owner_principal_name = owner
        await sent(alice, request)
    group = CreateDelegationTokenRequest(renewers=[bob, renewer("Group", "g")], max_lifetime_ms=1)
    await sent(alice, group)
    return owned, shared


async def _change(alice: Peer, bob: Peer, sent: Any, owned: Any, shared: Any) -> None:
    for peer, hmac, period_ms in (
        (alice, owned.hmac, -1),
        (alice, owned.hmac, 1 << 40),
        (bob, owned.hmac, 5000),
        (bob, shared.hmac, 700_000),
        (bob, b"none", 5000),
        (bob, b"", -1),
    ):
        for version in range(3):
            await sent(
                peer, RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), version
            )
    for peer, hmac, period_ms in (
        (bob, owned.hmac, -1),
        (bob, shared.hmac, 1 << 40),
        (alice, b"none", -1),
        (alice, owned.hmac, 0),
    ):
        await sent(peer, ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms))
    await asyncio.sleep(0.05)  # time: a token that ends now has ended later
    await sent(alice, RenewDelegationTokenRequest(hmac=owned.hmac, renew_period_ms=5000))
    await sent(alice, ExpireDelegationTokenRequest(hmac=owned.hmac, expiry_time_period_ms=5))
    await sent(alice, DescribeDelegationTokenRequest())
    await sent(alice, ExpireDelegationTokenRequest(hmac=owned.hmac, expiry_time_period_ms=-1))
    await sent(alice, ExpireDelegationTokenRequest(hmac=owned.hmac, expiry_time_period_ms=-1))


async def _describe(at: Place, alice: Peer, bob: Peer, sent: Any) -> None:
    def owners(*names: str) -> DescribeDelegationTokenRequest:
        asked = [
            DescribeDelegationTokenRequestOwner(principal_type="User", principal_name=name)
            for name in names
        ]
        return DescribeDelegationTokenRequest(owners=asked)

    carol = await connect(at, "carol")
    for rule in (None, "User:carol DescribeTokens User:User:alice"):
        if rule is not None:
            await administer(at, CreateAclsRequest(creations=[creation(acl(rule))]))
        for peer in (alice, bob, carol):
            for version in range(4):
                await sent(peer, DescribeDelegationTokenRequest(), version)
            for asked in ((), ("bob",), ("alice", "alice"), ("carol", "nobody")):
                await sent(peer, owners(*asked))
    rule = "User:bob Describe DelegationToken:*"
    await administer(at, CreateAclsRequest(creations=[creation(acl(rule))]))
    await sent(bob, DescribeDelegationTokenRequest())
    carol.close()


def _all(hmac: bytes) -> list[Any]:
    return [
        CreateDelegationTokenRequest(max_lifetime_ms=-1),
        RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=-1),
        DescribeDelegationTokenRequest(),
        ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1),
    ]


async def _logins(at: Place, token: Any, sent: Any) -> list[Any]:
    """Log in by a token, as a client does and wrongly; return what the broker answers."""
    found: list[Any] = []
    made = _of(token)
    for mechanism in SCRAM_MECHANISMS:
        peer = await Peer.connect(TcpNetwork(), "127.0.0.1", at.port)
        lifetime_ms = await _authenticate(peer, mechanism, made.token_id, made.password)
        found.append(round(lifetime_ms / 60_000))
        for request in _all(token.hmac):
            await sent(peer, request)
        peer.close()
    for token_id, password in ((made.token_id, "guess"), ("alice", "p"), ("none", made.password)):
        login = password_login("SCRAM-SHA-256", token_id, password, SystemRandom(), token_auth=True)
        security = PeerSecurity(sasl=login)
        with pytest.raises(AuthenticationFailed) as refused:
            await Peer.connect(TcpNetwork(), "127.0.0.1", at.port, security=security)
        found.append((refused.value.code, refused.value.reason))
    return found


def _of(made: Any) -> DelegationToken:
    """Return the token of a response."""
    owner = Principal(made.principal_type, made.principal_name)
    times = (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms)
    return DelegationToken(made.token_id, bytes(made.hmac), owner, owner, (), *times)


async def _authenticate(peer: Peer, mechanism: str, user: str, password: str) -> int:
    """Log in by a token; return for how long."""
    assert (await peer.send(SaslHandshakeRequest(mechanism=mechanism), 1)).error_code == 0
    client = ScramClient(SCRAM_MECHANISMS[mechanism], user, password, "c" * 20, token_auth=True)
    token: bytes | None = client.first()
    while token is not None:
        response = await peer.send(SaslAuthenticateRequest(auth_bytes=token), 2)
        assert response.error_code == 0, response.error_message
        token = client.respond(response.auth_bytes)
    lifetime_ms: int = response.session_lifetime_ms
    return lifetime_ms


# -- a cluster of both


class TokenCluster(MixedCluster):
    """Brokers with another listener, where users authenticate."""

    ports: dict[int, int]

    def _command(self, number: int) -> Sequence[str]:
        ports = self.__dict__.setdefault("ports", {})
        port = ports.setdefault(number, free_port())
        listeners = f"PLAINTEXT://{self.address(number)},SASL_PLAINTEXT://127.0.0.1:{port}"
        self._settings = {**self._settings, **SETTINGS, "listeners": listeners}
        return super()._command(number)


async def works(port: int, token: DelegationToken, mechanism: str) -> bool:
    """Return whether a token logs in."""
    login = password_login(
        mechanism, token.token_id, token.password, SystemRandom(), token_auth=True
    )
    security = PeerSecurity(sasl=login)
    try:
        peer = await Peer.connect(TcpNetwork(), "127.0.0.1", port, security=security)
    except AuthenticationFailed:
        return False
    peer.close()
    return True


async def shown(port: int) -> dict[str, tuple[bytes, int, int]]:
    """Return the tokens that alice sees, with their secrets and ends."""
    peer = await connect(Place(port, 0), "alice")
    response = await peer.send(DescribeDelegationTokenRequest())
    peer.close()
    assert response.error_code == ErrorCode.NONE
    return {
        t.token_id: (bytes(t.hmac), t.expiry_timestamp, t.max_timestamp) for t in response.tokens
    }


async def shared(author: int, other: int) -> None:
    """Make a token at one broker; use, renew and remove it at the other."""
    peer, changing = (
        await connect(Place(author, 0), "alice"),
        await connect(Place(other, 0), "alice"),
    )
    made = await peer.send(CreateDelegationTokenRequest(max_lifetime_ms=-1))
    token = _of(made)
    for mechanism in SCRAM_MECHANISMS:
        await eventually(partial(works, other, token, mechanism), bool)
    request = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=1 << 40)
    renewed = await changing.send(request)
    assert renewed.expiry_timestamp_ms == made.max_timestamp_ms
    wanted = {token.token_id: (token.hmac, made.max_timestamp_ms, made.max_timestamp_ms)}
    for port in (author, other):
        await eventually(partial(shown, port), lambda found: found == wanted)
    gone = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
    assert (await changing.send(gone)).error_code == 0
    for port in (author, other):
        await eventually(partial(shown, port), lambda found: not found)
        assert not await works(port, token, "SCRAM-SHA-256")
    peer.close()
    changing.close()


@pytest.mark.long
def test_tokens_of_one_broker_are_accepted_by_the_other(tmp_path: Path) -> None:
    kinds = {0: Kind.APACHE, 1: Kind.KAVKA}
    with run_ensemble(tmp_path) as ensemble:
        cluster = TokenCluster(tmp_path, ensemble.connect, kinds)
        try:
            cluster.open_registry()
            cluster.start()
            for author, other in ((0, 1), (1, 0)):
                asyncio.run(shared(cluster.ports[author], cluster.ports[other]))
        finally:
            cluster.abandon()
            cluster.close_registry()
