"""Dynamic settings in a cluster of Apache Kafka's broker and ours: passwords of one are read by the other."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kavka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from kavka_compat.apache import ApacheKafka
from kavka_compat.mixed import Kind, MixedCluster, running
from kavka_compat.our_tools import our_tool
from kavka_compat.processes import free_port
from kavka_compat.zookeeper import run_ensemble
from support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(400)]

SECRET = "a secret of both"
USERS = "listener.name.users.plain.sasl.jaas.config"
_MODULE = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{}";'
_SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "offsets.topic.replication.factor": "1",
    "password.encoder.secret": SECRET,
}
CHANGES = [
    (USERS, _MODULE.format("x")),
    ("listener.name.users.sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256"),
    ("listener.name.users.ssl.client.auth", "required"),
    ("listener.name.users.plain.connections.max.reauth.ms", "1000"),
    ("listener.name.users.max.connections", "100"),
    ("listener.name.users.max.connection.creation.rate", "100"),
    ("listener.name.next.plain.sasl.jaas.config", _MODULE.format("x")),
    ("listener.name.next.ssl.keystore.password", "x"),
    ("listener.name.next.ssl.client.auth", "required"),
    ("sasl.jaas.config", _MODULE.format("x")),
    ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256"),
    ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
    ("ssl.keystore.password", "x"),
    ("ssl.keystore.location", "/x"),
    ("ssl.client.auth", "required"),
    ("ssl.enabled.protocols", "TLSv1.3"),
    ("connections.max.reauth.ms", "1000"),
    ("sasl.server.max.receive.size", "1000"),
    ("password.encoder.secret", "x"),
    ("zookeeper.ssl.keystore.password", "x"),
    ("max.connections", "100"),
    ("max.connections.per.ip", "100"),
    ("max.connections.per.ip.overrides", "127.0.0.1:100"),
    ("num.io.threads", "0"),
    ("listener.name.users.num.network.threads", "x"),
]


class _Cluster(MixedCluster):
    """Brokers with a second listener, at which users authenticate by PLAIN."""

    def __init__(self, directory: Path, zookeeper: str, kinds: dict[int, Kind]) -> None:
        super().__init__(directory, zookeeper, kinds, _SETTINGS)
        self.users = {number: f"127.0.0.1:{free_port()}" for number in kinds}

    def _command(self, number: int) -> Sequence[str]:
        users = self.users[number]
        self._settings["listeners"] = f"PLAINTEXT://{self.address(number)},USERS://{users}"
        return super()._command(number)

    def add_settings(self, settings: Mapping[str, str]) -> None:
        """Give the brokers more settings at their next start."""
        self._settings.update(settings)

    def log_in(self, number: int, password: str) -> bool:
        """Return whether a broker lets alice in."""
        admin = AdminClient(
            {
                "bootstrap.servers": self.users[number],
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": password,
            }
        )
        return bool(admin.list_topics(timeout=20).brokers)

    def refusal(
        self, number: int, name: str, value: str, *, default: bool, validate_only: bool = True
    ) -> int:
        """Return the error of a change, which by default is only checked."""
        config = IncrementalAlterConfigsRequestConfig(name=name, config_operation=0, value=value)
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=4, resource_name="" if default else str(number), configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        response: Any = self.ask(number, request, 1)
        return int(response.responses[0].error_code)


@contextmanager
def _running(directory: Path, before: Callable[[_Cluster], None]) -> Iterator[_Cluster]:
    """Run a broker of each kind; `before` is called when ZooKeeper runs."""
    with run_ensemble(directory) as ensemble:
        cluster = _Cluster(directory, ensemble.connect, {0: Kind.KAVKA, 1: Kind.APACHE})
        with running(cluster, before):
            yield cluster


def _store_users(cluster: _Cluster) -> None:
    """Have Kafka's tool store alice's password for our broker, and our tool for Kafka's."""

    def command(number: int) -> list[str]:
        jaas = _MODULE.format(f"secret of {number}")
        added = f"{USERS}=[{jaas}],password.encoder.secret={SECRET}"
        entity = ["--entity-type", "brokers", "--entity-name", str(number)]
        return ["--zookeeper", cluster.zookeeper, "--alter", *entity, "--add-config", added]

    theirs = ApacheKafka("3.9").tool("kafka-configs", *command(0))
    assert theirs.code == 0, theirs
    ours = our_tool("configs", *command(1))
    assert ours.code == 0, ours
    assert "Completed updating config for entity: brokers '1'." in ours.out
    assert "Completed updating config for entity: brokers '0'." in theirs.out
    for number in (0, 1):
        stored = cluster.node(f"/config/brokers/{number}")["config"][USERS]
        assert "encryptedPassword:" in stored
        assert "secret of" not in stored


def test_passwords_that_one_has_encrypted_are_read_by_the_other(tmp_path: Path) -> None:
    with _running(tmp_path, _store_users) as cluster:
        for number in (0, 1):
            assert cluster.log_in(number, f"secret of {number}")


def test_the_same_settings_may_be_changed_while_a_broker_runs(tmp_path: Path) -> None:
    def before(cluster: _Cluster) -> None:
        cluster.add_settings({USERS: _MODULE.format("secret")})

    with _running(tmp_path, before) as cluster:
        differing = {}
        for name, value in CHANGES:
            for default in (False, True):
                responses = [cluster.refusal(n, name, value, default=default) for n in (0, 1)]
                if responses[0] != responses[1]:
                    differing[name, default] = responses
        assert not differing, str(differing)


_OWN = "PLAINTEXT://{plain},USERS://{users}"
LISTENERS = [
    ("listeners", f"{_OWN},MORE://{{more}}"),
    ("listeners", "USERS://{users}"),
    ("listeners", "PLAINTEXT://{plain}"),
    ("listeners", f"{_OWN},NEW://{{more}}"),
    ("listeners", "{plain}"),
    ("listeners", "PLAINTEXT://{plain},PLAINTEXT://{more}"),
    ("listeners", "PLAINTEXT://{more},USERS://{users}"),
    ("advertised.listeners", "PLAINTEXT://{plain},MORE://{more}"),
    ("advertised.listeners", "PLAINTEXT://{more}"),
    ("advertised.listeners", "USERS://{users}"),
    ("advertised.listeners", "PLAINTEXT://0.0.0.0:1"),
    ("listener.security.protocol.map", "PLAINTEXT:SASL_PLAINTEXT,USERS:SASL_PLAINTEXT"),
    ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,USERS:PLAINTEXT"),
    ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT"),
]


def test_listeners_are_added_and_removed_alike(tmp_path: Path) -> None:
    def before(cluster: _Cluster) -> None:
        cluster.add_settings(
            {
                USERS: _MODULE.format("secret"),
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,MORE:PLAINTEXT",
            }
        )

    with _running(tmp_path, before) as cluster:
        more = {number: f"127.0.0.1:{free_port()}" for number in (0, 1)}

        def asked(number: int, name: str, value: str, *, default: bool = False) -> int:
            text = value.format(
                plain=cluster.address(number), users=cluster.users[number], more=more[number]
            )
            return cluster.refusal(number, name, text, default=default)

        differing = {}
        for name, value in LISTENERS:
            for default in (False, True):
                responses = [asked(number, name, value, default=default) for number in (0, 1)]
                if responses[0] != responses[1]:
                    differing[name, value, default] = responses
        assert not differing, str(differing)
        for number in (0, 1):
            own = f"PLAINTEXT://{cluster.address(number)},USERS://{cluster.users[number]}"
            assert _change(cluster, number, f"{own},MORE://{more[number]}") == 0
        wait_until(lambda: all(_shown(at) == set(more.values()) for at in more.values()), 60)
        for number in (0, 1):
            own = f"PLAINTEXT://{cluster.address(number)},USERS://{cluster.users[number]}"
            assert _change(cluster, number, own) == 0
        wait_until(lambda: not any(_is_listening(at) for at in more.values()), 60)
        assert _shown(cluster.address(0)) == {cluster.address(0), cluster.address(1)}


def _change(cluster: _Cluster, number: int, listeners: str) -> int:
    return cluster.refusal(number, "listeners", listeners, default=False, validate_only=False)


def _shown(address: str) -> set[str]:
    """Return the addresses of brokers that the broker at an address shows to clients that came by its listener."""
    if not _is_listening(address):
        return set()
    found = AdminClient({"bootstrap.servers": address}).list_topics(timeout=20).brokers.values()
    return {f"{broker.host}:{broker.port}" for broker in found}


def _is_listening(address: str) -> bool:
    host, _colon, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True
