"""A `server.properties` of Apache Kafka 4: one node alone works, a quorum of several is refused with advice."""

from __future__ import annotations

import pytest

from kavka.broker.config import BrokerConfig
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
        {"process.roles": "broker", "controller.quorum.voters": "1@a:9093"},
        {"process.roles": "controller", "controller.quorum.voters": "1@a:9093"},
    ],
)
def test_any_other_quorum_is_refused_with_what_to_change(more: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting, match=r"no KRaft quorum.*zookeeper\.connect"):
        BrokerConfig(SHIPPED | more)


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
