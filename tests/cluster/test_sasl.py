"""Brokers that authenticate to each other, and again before their sessions end."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from kavka.broker.broker import Broker
from kavka.broker.configs.entity_configs import edit_entity_config
from kavka.broker.security.sasl_sessions import SaslSessions
from kavka.client.admin import Admin, NewTopic
from kavka.client.consumer.consumer import Consumer
from kavka.client.producer.producer import Producer
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS, ScramCredential
from kavka.errors import KafkaError
from kavka.ids import TopicPartition
from kavka.registry.interface import ensure_paths
from kavka.wire.stored import znodes
from support.cluster import Cluster
from support.in_process import dotted, run_story
from support.tls import TlsFiles

MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
USER = 'username="broker" password="between us"'


def settings(mechanism: str, protocol: str = "SASL_PLAINTEXT") -> dict[str, str]:
    users = ' user_broker="between us"' if mechanism == "PLAIN" else ""
    prefix = f"listener.name.{protocol.lower()}.{mechanism.lower()}"
    return {
        "listeners": f"{protocol}://127.0.0.1:0",
        "security.inter.broker.protocol": protocol,
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        f"{prefix}.sasl.jaas.config": f"{MODULES[mechanism]} required {USER}{users};",
        f"{prefix}.connections.max.reauth.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "default.replication.factor": "3",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.num.partitions": "1",
    }


async def create_user(cluster: Cluster, mechanism: str) -> None:
    """Store the brokers' own credential before the first of them starts."""
    registry = cluster.open_session(0)
    await ensure_paths(registry, znodes.PERSISTENT_ROOTS)
    credential = ScramCredential.of_password(
        SCRAM_MECHANISMS[mechanism], b"salt", "between us", 4096
    )
    await edit_entity_config(
        registry, "users/broker", lambda config: {**config, mechanism: credential.encode()}
    )


def sessions_of(broker: Broker) -> SaslSessions:
    assert broker.security.sasl_sessions is not None
    return broker.security.sasl_sessions


def authentications(cluster: Cluster) -> int:
    """Return how many there were at all brokers: connections of brokers authenticate again and again."""
    return sum(sessions_of(broker).counts.total() for broker in cluster.brokers.values())


def has_more(cluster: Cluster, count: int) -> bool:
    return authentications(cluster) > count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "protocol"),
    [("PLAIN", "SASL_PLAINTEXT"), ("SCRAM-SHA-512", "SASL_PLAINTEXT"), ("PLAIN", "SASL_SSL")],
)
def test_brokers_replicate_coordinate_and_stop_over_authenticated_connections(
    tmp_path: Path, mechanism: str, protocol: str
) -> None:
    tls = TlsFiles(tmp_path) if protocol == "SASL_SSL" else None

    async def story(cluster: Cluster) -> None:
        if mechanism != "PLAIN":
            await create_user(cluster, mechanism)
        await cluster.start(1, 2, 3)
        config = {
            "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values()),
            **(tls.client_settings() if tls else {}),
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{MODULES[mechanism]} required {USER};",
        }
        async with Admin(config) as admin:
            assert await admin.create_topics([NewTopic("t", 3, 3)])
        partitions = [TopicPartition("t", number) for number in range(3)]
        async with Producer({**config, "transactional.id": "x"}) as producer:
            await producer.init_transactions()
            for round_ in range(3):
                producer.begin_transaction()
                for partition in range(3):
                    producer.append("t", b"%d" % round_, partition=partition)
                await producer.commit_transaction()
                before = authentications(cluster)
                await cluster.until(partial(has_more, cluster, before + 5))
        reading = {**config, "group.id": "g", "auto.offset.reset": "earliest"}
        async with Consumer({**reading, "isolation.level": "read_committed"}) as consumer:
            consumer.subscribe(["t"])
            found = [(await anext(consumer)).value for _ in range(9)]
        assert sorted(found) == [b"%d" % (n // 3) for n in range(9)]
        for each in partitions:
            assert cluster.in_sync(each) == {1, 2, 3}
        counts = [sessions_of(broker).counts for broker in cluster.brokers.values()]
        assert all(is_success for count in counts for (_, _, is_success) in count)
        stopped = next(n for n in cluster.brokers if n != cluster.controller)
        await cluster.stop(stopped)
        await cluster.until(lambda: all(cluster.leader(each) > 0 for each in partitions))

    encrypted = dotted(tls.broker_settings()) if tls else {}
    run_story(Cluster(tmp_path, {**encrypted, **settings(mechanism, protocol)}), story)


@pytest.mark.slow
def test_a_broker_with_another_password_stays_out_of_sync(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        own = settings("PLAIN")
        cluster.settings = {
            name: text.replace('password="between us"', 'password="a guess"')
            for name, text in own.items()
        }
        await cluster.start(3)
        failures = sessions_of(cluster.brokers[cluster.controller]).counts
        await cluster.until(lambda: failures["SASL_PLAINTEXT", "PLAIN", False] > 0)
        await cluster.until(lambda: "another broker refuses this one" in caplog.text)
        assert "look at user and password of this broker" in caplog.text
        config = {
            "bootstrap.servers": f"127.0.0.1:{cluster.ports[1]}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.jaas.config": f"{MODULES['PLAIN']} required {USER};",
        }
        async with Admin(config) as admin:
            created = await admin.create_topics([NewTopic("t", assignments={0: [1, 2, 3]})])
            assert not isinstance(created["t"], KafkaError)
        at = TopicPartition("t", 0)
        await cluster.until(lambda: 3 not in cluster.in_sync(at))

    run_story(Cluster(tmp_path, {**settings("PLAIN"), "replica.lag.time.max.ms": "500"}), story)
