"""Brokers that authenticate to each other by Kerberos, and again before their sessions end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kavka.broker.broker import Broker
from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.context import BrokerContext
from kavka.broker.environment import OsEnvironment
from kavka.broker.security.inter_broker_login import inter_broker_login
from kavka.client.admin import Admin, NewTopic
from kavka.client.producer.producer import Producer
from kavka.ids import TopicPartition
from kavka.settings.declaration import InvalidSetting
from support.cluster import Cluster
from support.in_process import run_story
from support.kerberos import MODULE, SERVICE, Site, jaas, site_in

JAAS = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_in(tmp_path_factory.mktemp("kerberos") / "realm") as made:
        yield made


def settings(site: Site, **changed: str) -> dict[str, str]:
    """Return the settings of brokers that have Kafka's default mechanism."""
    return {
        "listeners": "SASL_PLAINTEXT://localhost:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        JAAS: jaas(site.broker, SERVICE),
        "connections.max.reauth.ms": "1000",
        "offsets.topic.replication.factor": "2",
        **changed,
    }


def counts_of(broker: Broker) -> Counter[tuple[str, str, bool]]:
    assert broker.security.sasl_sessions is not None
    return broker.security.sasl_sessions.counts


def authentications(cluster: Cluster) -> int:
    return sum(counts_of(broker).total() for broker in cluster.brokers.values())


def are_in_sync(cluster: Cluster, partition: int) -> bool:
    return cluster.in_sync(TopicPartition("t", partition)) == {1, 2}


def has_more(cluster: Cluster, count: int) -> bool:
    return authentications(cluster) > count


def test_brokers_replicate_over_connections_with_kerberos(tmp_path: Path, site: Site) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        config = {
            "bootstrap.servers": f"localhost:{cluster.ports[1]}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.jaas.config": jaas(site.alice, "alice"),
        }
        async with Admin(config) as admin:
            assert await admin.create_topics([NewTopic("t", assignments={0: [1, 2], 1: [2, 1]})])
        async with Producer({**config, "acks": "all"}) as producer:
            for round_ in range(3):
                for partition in range(2):
                    await producer.send("t", b"%d" % round_, partition=partition)
                await cluster.until(partial(has_more, cluster, authentications(cluster) + 2))
        for partition in range(2):
            await cluster.until(partial(are_in_sync, cluster, partition))
        counts = [counts_of(broker) for broker in cluster.brokers.values()]
        assert all(is_success for count in counts for (_, _, is_success) in count)
        for broker in cluster.brokers.values():
            names = {
                each.session.principal.name
                for each in broker.dispatcher.connections.values()
                if each.session.is_authenticated
            }
            assert "kafka" in names

    run_story(Cluster(tmp_path, settings(site)), story)


@pytest.mark.long
def test_brokers_renew_their_tickets_and_connect_again_after_the_end_of_the_first(
    tmp_path: Path, site: Site
) -> None:
    log = site.realm.directory / "kdc.log"
    site.realm.admin(f'modprinc -maxlife "8 seconds" {SERVICE}')

    def first_tickets() -> int:
        lines = log.read_text().splitlines()
        return sum("AS_REQ" in line and "ISSUE" in line and "kafka/" in line for line in lines)

    def have_come(count: int) -> bool:
        return first_tickets() >= count

    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        config = {
            "bootstrap.servers": f"localhost:{cluster.ports[1]}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.jaas.config": jaas(site.alice, "alice"),
        }
        async with Admin(config) as admin:
            assert await admin.create_topics([NewTopic("t", assignments={0: [1, 2], 1: [2, 1]})])
        for partition in range(2):
            await cluster.until(partial(are_in_sync, cluster, partition))
        await cluster.until(partial(have_come, first_tickets() + 4))  # of two brokers
        # Connections are made again, by tickets that were got meanwhile.
        before = authentications(cluster)
        for broker in cluster.brokers.values():
            for connection in list(broker.dispatcher.connections):
                connection.abort()
        await cluster.until(partial(has_more, cluster, before + 1))
        async with Producer({**config, "acks": "all"}) as producer:
            for partition in range(2):
                await producer.send("t", b"value", partition=partition)
        for partition in range(2):
            await cluster.until(partial(are_in_sync, cluster, partition))
        failed = [
            n
            for broker in cluster.brokers.values()
            for key, n in counts_of(broker).items()
            if not key[2]
        ]
        assert not any(failed)

    renewing = {
        "connections.max.reauth.ms": "0",
        "sasl.kerberos.ticket.renew.window.factor": "0.6",
        "sasl.kerberos.min.time.before.relogin": "0",
    }
    try:
        run_story(Cluster(tmp_path, settings(site, **renewing)), story)
    finally:
        site.realm.admin(f'modprinc -maxlife "1 hour" {SERVICE}')


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({JAAS: ""}, "GSSAPI needs the login module|Expected: <login module>"),
        ({JAAS: f"{MODULE} required principal=a;"}, "set useTicketCache=true, or a key tab"),
        ({"sasl.kerberos.service.name": "kafka@host"}, "Expected the first component"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "must include it, or brokers cannot authenticate"),
    ],
)
def test_a_broker_that_could_not_authenticate_to_others_refuses_the_start(
    site: Site, changed: dict[str, str], message: str
) -> None:
    config = BrokerConfig(settings(site, **changed))
    context = BrokerContext(config, OsEnvironment(), has_own_registry=False)
    with pytest.raises(InvalidSetting, match=message):
        inter_broker_login(context)
