"""Authentications, access and the audit on the page, under Kafka's names where it has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kavka.broker.broker import Broker
from kavka.broker.metrics.connections import families as of_connections
from kavka.broker.metrics.connections import totals
from kavka.broker.metrics.page import families
from kavka.client.admin import Admin
from kavka.errors import AuthenticationFailed
from kavka.metrics.families import lines
from kavka.metrics.rates import Rates
from kavka.net.peer import Peer
from kavka.wire.messages.metadata import MetadataRequest
from kavka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kavka.wire.messages.sasl_handshake import SaslHandshakeRequest
from support.access import SETTINGS, connected_as
from support.one_broker import Served
from support.sasl import Server, run_beside
from support.waiting import until

SOCKETS = "kafka_server_socket_server_metrics_"


def shown(broker: Broker) -> dict[str, float]:
    """Return the series of a broker's page."""
    found = families(broker.metrics_sources(), 1.0, Rates(broker.clock.tick_ms()))
    series = (line.rpartition(" ") for each in found for line in lines(each) if line[0] != "#")
    return {name: float(value) for name, _, value in series}


def of_listener(broker: Broker, name: str, listener: str = "CLIENTS") -> float:
    return shown(broker)[f'{SOCKETS}{name}{{listener="{listener}",networkProcessor="0"}}']


async def repeat(peer: Peer) -> None:
    """Send a request again and again, until the broker closes the connection."""
    while True:
        await peer.send(MetadataRequest(topics=[]), 9)


def test_authentications_are_counted_by_their_outcome(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        peer = await server.connect("alice", "alice secret")
        for _ in range(2):
            with pytest.raises(AuthenticationFailed):
                await server.connect("alice", "wrong")
        names = ("successful_authentication_total", "failed_authentication_total")
        assert [of_listener(server.broker, name) for name in names] == [1, 2]
        # Again on the same connection (KIP-368), then with another password.
        other = await server.connect("alice", "alice secret")
        for client, password in ((peer, b"alice secret"), (other, b"wrong")):
            await client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + password)
            await client.send(token, 2)
        names = ("successful_reauthentication_total", "failed_reauthentication_total")
        assert [of_listener(server.broker, name) for name in names] == [1, 1]
        assert of_listener(server.broker, "successful_authentication_total") == 2
        with pytest.raises(AuthenticationFailed):
            await server.connect("alice", "wrong", "SCRAM-SHA-256")
        logins = 'kavka_sasl_authentications_total{listener="CLIENTS",mechanism="%s",result="%s"}'
        found = shown(server.broker)
        assert found[logins % ("PLAIN", "failed")] == 3
        assert found[logins % ("SCRAM-SHA-256", "failed")] == 1
        assert found[logins % ("PLAIN", "succeeded")] >= 2
        peer.close()

    run_beside(tmp_path, story)


def test_delegation_tokens_are_counted(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        assert shown(server.broker)["kavka_delegation_tokens"] == 0
        async with Admin(server.config("alice", "alice secret")) as admin:
            await admin.create_delegation_token()
        assert shown(server.broker)["kavka_delegation_tokens"] == 1

    run_beside(tmp_path, story, **{"delegation.token.secret.key": "a secret"})


def test_expired_sessions_are_counted(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        peer = await server.anonymous()
        await peer.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        await peer.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice secret"), 2)
        with pytest.raises(ConnectionError):
            await repeat(peer)
        assert of_listener(server.broker, "expired_connections_killed_count") == 1
        found = shown(server.broker)
        assert found["kafka_network_socketserver_expiredconnectionskilledcount"] == 1

    run_beside(tmp_path, story, **{"connections.max.reauth.ms": "20"})


def test_decisions_and_lines_of_the_audit_are_counted(run: Any, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        await served.create("t")
        alice = await connected_as(served, "alice")
        await alice.fetch("t")
        audit = served.broker.security.access_control.audit
        await until(lambda: audit.written == 2 and audit.topic.written == 2)
        found = shown(served.broker)
        assert found['kavka_authorizer_decisions_total{result="allowed"}'] >= 1
        assert found['kavka_authorizer_decisions_total{result="denied"}'] >= 1
        assert found["kavka_authorizer_acls"] == 0
        for to in ("file", "topic"):
            assert found[f'kavka_audit_lines_written_total{{to="{to}"}}'] == 2
            assert found[f'kavka_audit_lines_dropped_total{{to="{to}"}}'] == 0
        assert found["kavka_audit_lines_waiting"] == 0

    path = str(tmp_path / "audit.json")
    run(story, kavka__audit__log=path, kavka__audit__topic="audit", **SETTINGS)


def test_rates_are_those_of_the_last_half_minute(run: Any) -> None:
    async def story(served: Served) -> None:
        sources = served.broker.metrics_sources()
        now_ms = served.broker.clock.tick_ms()
        rates = Rates(now_ms - 60_000)
        rates.turn(now_ms - 10_000, {})
        found = {f.name: list(f.samples) for f in of_connections(sources, rates)}
        ((_labels, rate),) = found[f"{SOCKETS}connection_creation_rate"]
        assert 0 < rate <= 1 / 60
        rates.turn(now_ms, totals(sources))
        rates.turn(now_ms, totals(sources))
        rates.turn(now_ms, totals(sources))
        found = {f.name: list(f.samples) for f in of_connections(sources, rates)}
        assert [rate for _labels, rate in found[f"{SOCKETS}connection_creation_rate"]] == [0]

    run(story)
