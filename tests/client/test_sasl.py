"""Clients of listeners with SASL: settings of Kafka's Java clients and of librdkafka, and refused credentials."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kavka.client import blocking
from kavka.client.admin import Admin, NewTopic, ScramDeletion, ScramUpsertion
from kavka.client.cluster import Cluster
from kavka.client.config import ADMIN, Config
from kavka.client.consumer.consumer import Consumer
from kavka.client.producer.producer import Producer
from kavka.errors import AuthenticationFailed, ErrorCode
from kavka.net.clock import SystemClock, SystemRandom
from kavka.net.network import TcpNetwork
from kavka.settings.declaration import InvalidSetting
from support.sasl import Server, run_beside
from support.waiting import until

Run = Callable[..., None]
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return partial(run_beside, tmp_path)


async def create_user(server: Server, user: str, password: str, mechanism: str) -> None:
    async with Admin(server.config("alice", "alice secret")) as admin:
        upsertion = ScramUpsertion(user, mechanism, password, iterations=4096)
        assert await admin.alter_user_scram_credentials([upsertion]) == {user: None}


async def round_trip(config: dict[str, Any]) -> None:
    """Produce a record and read it in a group."""
    async with Producer(config) as producer:
        await producer.send("t", b"value")
    reading = {**config, "group.id": "g", "auto.offset.reset": "earliest"}
    async with Consumer(reading) as consumer:
        consumer.subscribe(["t"])
        async for record in consumer:
            assert record.value == b"value"
            break


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "bob", "sasl.password": 's"3;'},
        {"sasl.mechanisms": "SCRAM-SHA-256", "sasl.username": "bob", "sasl.password": 's"3;'},
        {
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f'{SCRAM_MODULE} required username="bob" password="s\\"3;";',
        },
        {
            "sasl.jaas.config": f'{PLAIN_MODULE} required username="alice" password="alice secret";',
        },
    ],
)
def test_a_client_authenticates_by_the_settings_of_other_clients(
    run: Run, settings: dict[str, str]
) -> None:
    async def story(server: Server) -> None:
        await create_user(server, "bob", 's"3;', "SCRAM-SHA-256")
        common = {
            "bootstrap.servers": f"127.0.0.1:{server.port}",
            "security.protocol": "SASL_PLAINTEXT",
        }
        await round_trip({**common, **settings})

    run(story)


@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_client_with_a_wrong_password_does_not_start(
    run: Run, client: Any, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(server: Server) -> None:
        made = client(server.config("alice", "topsecret", mechanism))
        with pytest.raises(AuthenticationFailed) as refused:
            await made.start()
        assert (refused.value.mechanism, refused.value.retriable) == (mechanism, False)
        assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert sum(server.broker.security.sasl_sessions.counts.values()) == 1
        assert "topsecret" not in repr(vars(made))
        again = pickle.loads(pickle.dumps(refused.value))
        assert (str(again), again.reason) == (str(refused.value), refused.value.reason)

    with caplog.at_level(logging.DEBUG):
        run(story)
    assert "topsecret" not in caplog.text


def test_the_blocking_clients_authenticate_and_say_why_they_cannot(run: Run) -> None:
    def without_asyncio(server: Server) -> None:
        config = server.config("alice", "alice secret")
        with blocking.Producer(config) as producer:
            producer.send("t", b"value")
        reading = {**config, "group.id": "g", "auto.offset.reset": "earliest"}
        with blocking.Consumer(reading) as consumer:
            consumer.subscribe(["t"])
            assert next(iter(consumer)).value == b"value"
        with pytest.raises(AuthenticationFailed):
            blocking.Producer(server.config("a", "b"))

    async def story(server: Server) -> None:
        await asyncio.to_thread(without_asyncio, server)

    run(story)


def test_a_consumer_and_a_producer_whose_credential_is_deleted_raise_it(run: Run) -> None:
    async def story(server: Server) -> None:
        await create_user(server, "bob", "secret", "SCRAM-SHA-256")
        config = server.config("bob", "secret", "SCRAM-SHA-256")
        async with (
            Admin(server.config("alice", "alice secret")) as admin,
            Producer(config) as producer,
            Consumer({**config, "group.id": "g"}) as consumer,
        ):
            await admin.create_topics([NewTopic("t", 1, 1)])
            await producer.send("t", b"1")
            consumer.subscribe(["t"])
            await consumer.poll(timeout_ms=100)
            deletion = ScramDeletion("bob", "SCRAM-SHA-256")
            assert await admin.alter_user_scram_credentials([deletion]) == {"bob": None}
            for connection in list(server.broker.dispatcher.connections):
                connection.abort()
            with pytest.raises(AuthenticationFailed, match="SCRAM-SHA-256"):
                await producer.send("t", b"2")
            with pytest.raises(AuthenticationFailed, match="SCRAM-SHA-256"):
                await poll_on(consumer)
            # With the credential back, the same clients continue.
            await create_user(server, "bob", "secret", "SCRAM-SHA-256")
            await until(lambda: server.broker.security.sasl_sessions.credentials)
            await producer.send("t", b"3")

    run(story)


def test_a_cluster_without_a_client_is_as_secure_as_its_settings(run: Run) -> None:
    async def story(server: Server) -> None:
        cluster = Cluster(
            Config(ADMIN, server.config("alice", "alice secret")),
            network=TcpNetwork(),
            clock=SystemClock(),
            random=SystemRandom(),
        )
        await cluster.start()
        assert cluster.metadata.brokers
        await cluster.close()

    run(story)


async def poll_on(consumer: Consumer) -> None:
    while True:
        await consumer.poll(timeout_ms=100)


@pytest.mark.slow
def test_a_client_authenticates_again_while_it_works(run: Run) -> None:
    async def story(server: Server) -> None:
        config = server.config("alice", "alice secret")
        counts = server.broker.security.sasl_sessions.counts
        async with Producer({**config, "linger.ms": 1}) as producer:
            await producer.send("t", b"first")
            connections = set(server.broker.dispatcher.connections)
            sent = []
            while counts["CLIENTS", "PLAIN", True] < 3 * len(connections):
                future = producer.append("t", b"value", want_future=True)
                assert future is not None
                sent.append(future)
                await asyncio.sleep(0.005)  # time: sessions end by the clock
            offsets = [(await each).offset for each in sent]
            assert offsets == list(range(1, 1 + len(sent)))
            assert set(server.broker.dispatcher.connections) == connections

    run(story, **{"connections.max.reauth.ms": "1500"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "sasl.mechanism: Set it to one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        ({"sasl.mechanism": "KRB5"}, "kavka supports PLAIN"),
        (
            {"sasl.mechanism": "GSSAPI", "sasl.kerberos.keytab": "/alice.keytab"},
            "sasl.kerberos.principal: .* needs the principal whose keys it has",
        ),
        (
            {"sasl.jaas.config": f"{KERBEROS_MODULE} required;"},
            "set useTicketCache=true, or a key tab: ",
        ),
        (
            {"sasl.jaas.config": f"{KERBEROS_MODULE} required useKeyTab=true keyTab=a;"},
            "useKeyTab needs the option principal: ",
        ),
        (
            {
                "sasl.jaas.config": f"{KERBEROS_MODULE} required useTicketCache=true serviceName=a;",
                "sasl.kerberos.service.name": "b",
            },
            "Conflicting serviceName values: the login module has a",
        ),
        (
            {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka/broker1"},
            "Expected the first component of a principal: kafka",
        ),
        ({"sasl.mechanism": "PLAIN"}, "sasl.username: PLAIN needs sasl.username and sasl.password"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a"}, "configuration sasl.password"),
        ({"sasl.jaas.config": 'Other required password="topsecret";'}, "login module is none of"),
        ({"sasl.jaas.config": f'{PLAIN_MODULE} required password="topsecret'}, "without its end"),
        ({"sasl.jaas.config": f'{PLAIN_MODULE} required password="topsecret";'}, "username and"),
        (
            {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f'{PLAIN_MODULE} required username=a password="topsecret";',
            },
            "the login module is PlainLoginModule",
        ),
        ({"sasl.mechanism": "OAUTHBEARER"}, "token.endpoint.url: OAUTHBEARER needs it"),
        (
            {"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "no_module:x"},
            "No module named",
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1/token",
                "sasl.oauthbearer.client.id": "id",
            },
            "configuration sasl.oauthbearer.client.secret",
        ),
    ],
)
def test_settings_that_cannot_authenticate_are_refused_without_their_secrets(
    settings: dict[str, str], message: str
) -> None:
    common = {"bootstrap.servers": "127.0.0.1:9092", "security.protocol": "SASL_PLAINTEXT"}
    with pytest.raises(InvalidSetting, match=message) as refused:
        Producer({**common, **settings})
    assert "topsecret" not in str(refused.value)
