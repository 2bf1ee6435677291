"""A `server.properties` of Apache Kafka 4: one node alone works, a quorum of several is refused with advice."""

from __future__ import annotations

import socket

import pytest

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.settings.declaration import InvalidSetting

SHIPPED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}
QUORUMS = [
    {"controller.quorum.voters": "1@localhost:9093"},
    {"controller.quorum.bootstrap.servers": "localhost:9093"},
    {},
]


@pytest.mark.parametrize("quorum", QUORUMS)
def test_a_file_of_one_node_gives_one_broker_without_the_controllers_listener(
    quorum: dict[str, str],
) -> None:
    config = BrokerConfig(SHIPPED | quorum)
    assert config.integer("broker.id") == 1
    assert [str(endpoint) for endpoint in config.listeners] == ["PLAINTEXT://:9092"]
    assert [str(endpoint) for endpoint in config.advertised] == ["PLAINTEXT://localhost:9092"]


@pytest.mark.parametrize(
    "more",
    [
        {"controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093"},
        {"controller.quorum.voters": "2@b:9093"},
        {"controller.quorum.bootstrap.servers": "a:9093,b:9093"},
        {"controller.quorum.voters": "b:9093"},
        {"controller.quorum.voters": "2@localhost:9093"},
        {"process.roles": "broker", "controller.quorum.voters": "1@a:9093"},
        {"process.roles": "controller", "controller.quorum.voters": "1@a:9093"},
    ],
)
def test_any_other_quorum_is_refused_with_what_to_change(more: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting, match=r"no KRaft quorum.*zookeeper\.connect"):
        BrokerConfig(SHIPPED | more)


BOOTSTRAP = "controller.quorum.bootstrap.servers"
ONE_MACHINE = {
    "listeners": "PLAINTEXT://:19092,CONTROLLER://:19093",
    "advertised.listeners": "PLAINTEXT://localhost:19092",
}


@pytest.mark.parametrize(
    "more",
    [
        {BOOTSTRAP: "host1:9093"},
        {BOOTSTRAP: "host1.example.com:9093"},
        {BOOTSTRAP: "10.0.0.7:9093"},
        {BOOTSTRAP: "localhost:9093", **ONE_MACHINE},
        {BOOTSTRAP: "localhost:9094"},
        {BOOTSTRAP: "localhost"},
        {BOOTSTRAP: "localhost:9092"},
        {BOOTSTRAP: ":9093", **ONE_MACHINE},
        {BOOTSTRAP: "localhost:9093", "controller.listener.names": ""},
    ],
    ids=str,
)
def test_a_bootstrap_server_that_may_be_another_node_is_refused(more: dict[str, str]) -> None:
    """Three files with one server, legal for a quorum of three, made three clusters."""
    with pytest.raises(InvalidSetting) as refused:
        BrokerConfig(SHIPPED | more)
    text = str(refused.value)
    assert BOOTSTRAP in text
    assert "may be another node's" in text
    assert "set zookeeper.connect" in text


@pytest.mark.parametrize(
    "more",
    [
        {BOOTSTRAP: "LOCALHOST:9093"},
        {BOOTSTRAP: "127.0.0.1:9093"},
        {BOOTSTRAP: "[::1]:9093"},
        {BOOTSTRAP: "localhost:19093", **ONE_MACHINE},
        {BOOTSTRAP: f"{socket.gethostname()}:9093"},
        {BOOTSTRAP: f"{socket.getfqdn()}:9093"},
        {
            BOOTSTRAP: "host1:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://host1:9093",
        },
        {
            BOOTSTRAP: "[fd00::1]:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://[fd00::1]:9093",
        },
        {
            BOOTSTRAP: "10.0.0.7:9093",
            "advertised.listeners": "PLAINTEXT://10.0.0.7:9092,CONTROLLER://10.0.0.7:9093",
        },
    ],
    ids=str,
)
def test_a_bootstrap_server_that_is_the_nodes_own_gives_one_broker(more: dict[str, str]) -> None:
    config = BrokerConfig(SHIPPED | more)
    assert config.integer("broker.id") == 1
    assert [endpoint.name for endpoint in config.listeners] == ["PLAINTEXT"]


def test_three_files_of_one_quorum_make_one_broker_at_most() -> None:
    started = []
    for node in ("1", "2", "3"):
        host = f"host{node}"
        own = {
            "node.id": node,
            "listeners": f"PLAINTEXT://{host}:9092,CONTROLLER://{host}:9093",
            "advertised.listeners": f"PLAINTEXT://{host}:9092",
            BOOTSTRAP: "host1:9093",
        }
        try:
            BrokerConfig(SHIPPED | own)
        except InvalidSetting:
            continue
        started.append(node)
    assert started == ["1"]


def test_node_id_is_another_name_of_broker_id() -> None:
    assert BrokerConfig({"node.id": "7"}).integer("broker.id") == 7
    assert BrokerConfig({"node.id": "7", "broker.id": "7"}).integer("broker.id") == 7
    with pytest.raises(InvalidSetting, match=r"same value as broker\.id"):
        BrokerConfig({"node.id": "7", "broker.id": "8"})


def test_a_role_beside_zookeeper_and_an_unknown_role_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="remove one of them"):
        BrokerConfig(SHIPPED | {"zookeeper.connect": "localhost:2181"})
    with pytest.raises(InvalidSetting, match="'broker' and 'controller'"):
        BrokerConfig(SHIPPED | {"process.roles": "worker"})
