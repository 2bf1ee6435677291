"""Brokers that authenticate to each other by OAUTHBEARER: tokens without a signature, and those of an issuer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.broker.broker import Broker
from kavka.broker.security.sasl_sessions import SaslSessions
from kavka.client.admin import Admin, NewTopic
from kavka.client.producer.producer import Producer
from kavka.errors import KafkaError
from kavka.ids import TopicPartition
from kavka_compat.oidc_issuer import AUDIENCE, CLIENT, SCOPE, SECRET, Issuer, serve
from support.cluster import Cluster
from support.in_process import run_story

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PREFIX = "listener.name.sasl_plaintext.oauthbearer.sasl"
AT = TopicPartition("t", 0)
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with serve() as made:
        made.lifetime_s = 3
        yield made


def unsecured(lifetime_s: str = "3600") -> dict[str, str]:
    options = f'unsecuredLoginStringClaim_sub="broker" unsecuredLoginLifetimeSeconds="{lifetime_s}"'
    return {**SETTINGS, f"{PREFIX}.jaas.config": f"{MODULE} required {options};"}


def signed(issuer: Issuer, secret: str = SECRET) -> dict[str, str]:
    options = f'clientId="{CLIENT}" clientSecret="{secret}" scope="{SCOPE}"'
    return {
        **SETTINGS,
        f"{PREFIX}.jaas.config": f"{MODULE} required {options};",
        f"{PREFIX}.oauthbearer.token.endpoint.url": f"{issuer.url}/token",
        f"{PREFIX}.oauthbearer.jwks.endpoint.url": f"{issuer.url}/keys",
        f"{PREFIX}.oauthbearer.expected.audience": AUDIENCE,
        f"{PREFIX}.oauthbearer.expected.issuer": issuer.url,
        f"{PREFIX}.login.retry.backoff.max.ms": "200",
    }


def client(cluster: Cluster, settings: dict[str, str]) -> dict[str, str]:
    url = settings.get(f"{PREFIX}.oauthbearer.token.endpoint.url")
    return {
        "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values()),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": settings[f"{PREFIX}.jaas.config"],
        **({"sasl.oauthbearer.token.endpoint.url": url} if url else {}),
    }


def sessions_of(broker: Broker) -> SaslSessions:
    assert broker.security.sasl_sessions is not None
    return broker.security.sasl_sessions


def authentications(cluster: Cluster, *, is_success: bool) -> int:
    return sum(
        count
        for broker in cluster.brokers.values()
        for (_, _, succeeded), count in sessions_of(broker).counts.items()
        if succeeded is is_success
    )


async def replicate(cluster: Cluster, config: dict[str, str]) -> None:
    """Make a topic of three replicas, and write a record that all have."""
    async with Admin(config) as admin:
        created = await admin.create_topics([NewTopic("t", 1, 3)])
        assert not isinstance(created["t"], KafkaError)
    async with Producer({**config, "acks": "all"}) as producer:
        producer.append("t", b"one", partition=0)
        await producer.flush()
    assert cluster.in_sync(AT) == {1, 2, 3}


def users(cluster: Cluster) -> set[str]:
    return {
        connected.session.principal.name
        for broker in cluster.brokers.values()
        for connected in broker.dispatcher.connections.values()
    }


@pytest.mark.slow
def test_brokers_replicate_by_tokens_without_a_signature(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await replicate(cluster, client(cluster, unsecured()))
        assert users(cluster) == {"broker"}
        assert authentications(cluster, is_success=False) == 0

    run_story(Cluster(tmp_path, unsecured()), story)


@pytest.mark.long
def test_brokers_replicate_by_tokens_of_an_issuer_beyond_the_end_of_each(
    tmp_path: Path, issuer: Issuer
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        config = client(cluster, signed(issuer))
        await replicate(cluster, config)
        assert users(cluster) == {CLIENT}
        tokens = issuer.granted_tokens
        before = authentications(cluster, is_success=True)
        # Each broker has had three more, so that the first has ended: sessions were renewed by the next.
        await cluster.until(lambda: issuer.granted_tokens >= tokens + 9)
        assert authentications(cluster, is_success=True) > before
        assert authentications(cluster, is_success=False) == 0
        async with Producer({**config, "acks": "all"}) as producer:
            producer.append("t", b"two", partition=0)
            await producer.flush()
        assert cluster.in_sync(AT) == {1, 2, 3}

    run_story(Cluster(tmp_path, signed(issuer)), story)


@pytest.mark.long
def test_a_broker_with_a_wrong_secret_says_so_and_stays_out_of_sync(
    tmp_path: Path, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        cluster.settings = signed(issuer, "not-the-secret")
        await cluster.start(3)
        what = f"bearer token of this broker not got origin={issuer.url}/token reason=the token endpoint answered 400"
        await cluster.until(lambda: what in caplog.text)
        assert "Bad Request: invalid_client" in caplog.text
        assert "not-the-secret" not in caplog.text
        async with Admin(client(cluster, signed(issuer))) as admin:
            created = await admin.create_topics([NewTopic("t", assignments={0: [1, 2, 3]})])
            assert not isinstance(created["t"], KafkaError)
        await cluster.until(lambda: cluster.in_sync(AT) == {1, 2})

    run_story(Cluster(tmp_path, {**signed(issuer), "replica.lag.time.max.ms": "500"}), story)


@pytest.mark.long
def test_an_endpoint_that_gives_no_tokens_for_a_while_stops_nothing_before_the_last_has_ended(
    tmp_path: Path,
    issuer: Issuer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    granted = issuer.granted

    def refuse(*_given: object) -> dict[str, object]:
        raise PermissionError("temporarily_unavailable")

    async def story(cluster: Cluster) -> None:
        caplog.set_level("INFO")
        await cluster.start(1, 2, 3)
        await replicate(cluster, client(cluster, signed(issuer)))
        monkeypatch.setattr(issuer, "granted", refuse)
        await cluster.until(lambda: "temporarily_unavailable old_token_valid_s" in caplog.text)
        assert cluster.in_sync(AT) == {1, 2, 3}
        assert "reason=no bearer token" not in caplog.text
        await cluster.until(lambda: "reason=no bearer token" in caplog.text)
        monkeypatch.setattr(issuer, "granted", granted)
        async with Producer({**client(cluster, signed(issuer)), "acks": "all"}) as producer:
            producer.append("t", b"two", partition=0)
            await producer.flush()
        await cluster.until(lambda: cluster.in_sync(AT) == {1, 2, 3})
        assert "bearer token got again" in caplog.text

    run_story(Cluster(tmp_path, signed(issuer)), story)
