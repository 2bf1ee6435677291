"""Other projects' clients authenticate to our broker, and ours to what they have written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokens
from confluent_kafka import admin as librdkafka
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from kavka.client.admin import Admin, ScramUpsertion
from kavka.core.sasl.unsecured_jwt import encode_unsecured
from kavka.errors import AuthenticationFailed
from kavka.net.event_loop import MeasuredEventLoop
from kavka.settings.declaration import InvalidSetting
from support.in_process import dotted
from support.sasl import Server, run_beside, served
from support.tls import TlsFiles

SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.clients.oauthbearer.sasl.jaas.config": "OAuthBearerLoginModule required;",
}
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
PASSWORD = {"PLAIN": "alice secret"}
Story = Callable[[Server], None]
Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return what runs a blocking story on a thread beside a broker with the users alice and bob."""

    def run_story(story: Story, **settings: str) -> None:
        async def with_users(server: Server) -> None:
            async with Admin(server.config("alice", "alice secret")) as admin:
                upsertions = [
                    ScramUpsertion("alice", mechanism, "scram secret", iterations=4096)
                    for mechanism in MECHANISMS[1:3]
                ]
                assert await admin.alter_user_scram_credentials(upsertions) == {"alice": None}
            await asyncio.to_thread(story, server)

        run_beside(tmp_path, with_users, **{**SETTINGS, **settings})

    return run_story


def token(lifetime_s: float = 60) -> str:
    return encode_unsecured({"sub": "alice", "iat": time.time(), "exp": time.time() + lifetime_s})


def of_librdkafka(server: Server, mechanism: str, **changed: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{server.port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": mechanism,
        **(
            {
                "enable.sasl.oauthbearer.unsecure.jwt": True,
                "sasl.oauthbearer.config": "principal=alice",
            }
            if mechanism == "OAUTHBEARER"
            else {
                "sasl.username": "alice",
                "sasl.password": PASSWORD.get(mechanism, "scram secret"),
            }
        ),
        **changed,
    }


def produce_by_librdkafka(config: dict[str, Any]) -> None:
    """Produce one record; raise KafkaException with what the client says of its authentication."""
    failures: list[Any] = []
    producer = confluent_kafka.Producer(
        {**config, "error_cb": failures.append, "message.timeout.ms": 20_000}
    )
    delivered: list[Any] = []
    producer.produce("t", b"value", on_delivery=lambda error, message: delivered.append(error))
    deadline = time.monotonic() + 20
    while not delivered and not any(_is_refusal(f) for f in failures):
        assert time.monotonic() < deadline
        producer.poll(0.05)
    for failure in failures:
        if _is_refusal(failure):
            producer.purge()
            producer.poll(0)
            raise confluent_kafka.KafkaException(failure)
    assert delivered == [None]


def _is_refusal(failure: Any) -> bool:
    return failure.code() == confluent_kafka.KafkaError._AUTHENTICATION


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_authenticates(run: Run, mechanism: str) -> None:
    def story(server: Server) -> None:
        config = of_librdkafka(server, mechanism)
        produce_by_librdkafka(config)
        consumer = confluent_kafka.Consumer(
            {**config, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["t"])
        message = None
        while message is None:
            message = consumer.poll(1)
        assert (message.error(), message.value()) == (None, b"value")
        sessions = [s.session for s in server.broker.dispatcher.connections.values()]
        assert {s.principal.name for s in sessions if s.is_authenticated} == {"alice"}
        consumer.close()

    run(story)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_librdkafka_is_told_why_it_is_refused(run: Run, mechanism: str) -> None:
    def story(server: Server) -> None:
        config = of_librdkafka(server, mechanism, **{"sasl.password": "wrong"})
        with pytest.raises(confluent_kafka.KafkaException, match="Authentication failed"):
            produce_by_librdkafka(config)

    run(story)


@pytest.mark.parametrize(
    "mechanism",
    [
        "OAUTHBEARER",
        pytest.param("PLAIN", marks=pytest.mark.long),
        pytest.param("SCRAM-SHA-512", marks=pytest.mark.long),
    ],
)
def test_librdkafka_authenticates_again_on_the_same_connections(run: Run, mechanism: str) -> None:
    def story(server: Server) -> None:
        counts = server.broker.security.sasl_sessions.counts
        producer = confluent_kafka.Producer(of_librdkafka(server, mechanism))
        failures: list[Any] = []
        while counts["CLIENTS", mechanism, True] < 5:
            producer.produce("t", b"v", on_delivery=lambda error, _: failures.append(error))
            producer.flush(10)
        assert set(failures) == {None}
        assert len(server.broker.dispatcher.connections) <= 3

    run(story, **{"connections.max.reauth.ms": "1000"})


def test_librdkafkas_config_of_unsecured_tokens_means_the_same_to_our_client(run: Run) -> None:
    rules = (
        'OAuthBearerLoginModule required unsecuredValidatorPrincipalClaimName="user" '
        'unsecuredValidatorScopeClaimName="scp" unsecuredValidatorRequiredScope="a b";'
    )
    named = "principalClaimName=user principal=alice scopeClaimName=scp scope=a,b lifeSeconds=60 extension_t=x"

    def config(server: Server, text: str) -> dict[str, Any]:
        return of_librdkafka(server, "OAUTHBEARER", **{"sasl.oauthbearer.config": text})

    def listed(settings: dict[str, Any]) -> list[str]:
        async def ask() -> list[str]:
            async with Admin(settings) as admin:
                return sorted(await admin.list_topics())

        return asyncio.run(ask())

    def story(server: Server) -> None:
        produce_by_librdkafka(config(server, named))
        assert listed(config(server, named)) == ["t"]
        too_few = config(server, named.replace("a,b", "a"))
        with pytest.raises(confluent_kafka.KafkaException, match="insufficient_scope"):
            produce_by_librdkafka(too_few)
        with pytest.raises(AuthenticationFailed, match="insufficient_scope"):
            listed(too_few)
        wrong = config(server, named.replace("principal=", "princpal="))
        with pytest.raises(InvalidSetting, match="princpal is not known"):
            listed(wrong)

    run(story, **{"listener.name.clients.oauthbearer.sasl.jaas.config": rules})


def test_librdkafka_changes_credentials_and_ours_use_them(run: Run) -> None:
    def story(server: Server) -> None:
        admin = librdkafka.AdminClient(of_librdkafka(server, "PLAIN"))
        info = librdkafka.ScramCredentialInfo(librdkafka.ScramMechanism.SCRAM_SHA_512, 10_000)
        upsertion = librdkafka.UserScramCredentialUpsertion("dora", info, b"dora secret")
        for done in admin.alter_user_scram_credentials([upsertion]).values():
            assert done.result(20) is None
        described = admin.describe_user_scram_credentials(["dora"])["dora"].result(20)
        (found,) = described.scram_credential_infos
        assert (found.mechanism, found.iterations) == (info.mechanism, 10_000)
        produce_by_librdkafka(
            of_librdkafka(
                server,
                "SCRAM-SHA-512",
                **{"sasl.username": "dora", "sasl.password": "dora secret"},
            )
        )
        deletion = librdkafka.UserScramCredentialDeletion("dora", info.mechanism)
        for done in admin.alter_user_scram_credentials([deletion]).values():
            assert done.result(20) is None
        failed = admin.alter_user_scram_credentials([deletion])["dora"]
        with pytest.raises(confluent_kafka.KafkaException, match="does not exist"):
            failed.result(20)

    run(story)


class Tokens(AbstractTokenProvider):
    """Of kafka-python."""

    def token(self) -> str:
        return token()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_authenticates(run: Run, mechanism: str) -> None:
    def story(server: Server) -> None:
        config: dict[str, Any] = {
            "bootstrap_servers": f"127.0.0.1:{server.port}",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            config["sasl_oauth_token_provider"] = Tokens()
        else:
            config["sasl_plain_username"] = "alice"
            config["sasl_plain_password"] = PASSWORD.get(mechanism, "scram secret")
        producer = KafkaProducer(**config)
        producer.send("t", b"value").get(20)
        producer.close()
        consumer = KafkaConsumer("t", auto_offset_reset="earliest", **config)
        assert next(iter(consumer)).value == b"value"
        consumer.close()

    run(story)


def test_aiokafka_authenticates(run: Run) -> None:
    class Provider(AioTokens):
        async def token(self) -> str:
            return token()

    async def exchange(server: Server, mechanism: str) -> None:
        config: dict[str, Any] = {
            "bootstrap_servers": f"127.0.0.1:{server.port}",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            config["sasl_oauth_token_provider"] = Provider()
        else:
            config["sasl_plain_username"] = "alice"
            config["sasl_plain_password"] = PASSWORD.get(mechanism, "scram secret")
        async with aiokafka.AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait("t", mechanism.encode())
        consumer = aiokafka.AIOKafkaConsumer("t", auto_offset_reset="earliest", **config)
        async with consumer:
            async for message in consumer:
                if message.value == mechanism.encode():
                    break

    def story(server: Server) -> None:
        for mechanism in MECHANISMS:
            asyncio.run(exchange(server, mechanism))

    run(story)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_and_ours_authenticate_over_tls(tmp_path: Path, mechanism: str) -> None:
    tls = TlsFiles(tmp_path)
    listener = {
        **dotted(tls.broker_settings()),
        "listeners": "CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL",
    }
    del listener["security.inter.broker.protocol"]

    def by_librdkafka(server: Server) -> None:
        before = server.counts["CLIENTS", mechanism, True]
        produce_by_librdkafka(
            of_librdkafka(
                server,
                mechanism,
                **{"security.protocol": "SASL_SSL", "ssl.ca.location": tls.trust},
            )
        )
        assert server.counts["CLIENTS", mechanism, True] > before

    async def story() -> None:
        async with served(tmp_path, **SETTINGS, **listener) as server:
            ours = {
                **server.config("alice", "alice secret"),
                **tls.client_settings(),
                "security.protocol": "SASL_SSL",
            }
            async with Admin(ours) as admin:
                for name in MECHANISMS[1:3]:
                    upsertion = ScramUpsertion("alice", name, "scram secret", iterations=4096)
                    assert await admin.alter_user_scram_credentials([upsertion]) == {"alice": None}
            await asyncio.to_thread(by_librdkafka, server)

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(story())
