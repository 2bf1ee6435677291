"""The files in `config/`: a broker alone, three of one machine and their registry, one of several machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.registry.registry_server_config import RegistryServerConfig
from kavka.registry.zookeeper_connection import parse_connect
from kavka.settings.broker import BROKER_SETTINGS
from kavka.settings.properties import parse_properties
from kavka.settings.registry import REGISTRY_SETTINGS
from kavka_compat.our_tools import our_tool
from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running

_DIRECTORY = Path(__file__).parents[2] / "config"
_THREE = ("server.properties", "server-1.properties", "server-2.properties")
_BROKERS = ("one-broker.properties", *_THREE, "production.properties")


def _read(name: str) -> dict[str, str]:
    return parse_properties((_DIRECTORY / name).read_text())


def test_every_file_is_held_against_the_settings() -> None:
    assert {path.name for path in _DIRECTORY.iterdir()} == {*_BROKERS, "zookeeper.properties"}


@pytest.mark.parametrize("name", _BROKERS)
def test_each_name_has_an_effect(name: str) -> None:
    BrokerConfig(texts := _read(name))
    assert [name for name in texts if not BROKER_SETTINGS[name].effective] == []


def test_the_three_brokers_share_nothing_but_the_registry() -> None:
    configs = [BrokerConfig(_read(name)) for name in _THREE]
    assert [config.integer("broker.id") for config in configs] == [0, 1, 2]
    assert [config.listeners[0].port for config in configs] == [9092, 9093, 9094]
    assert len({path for config in configs for path in config.log_directories}) == 3
    own = {"broker.id", "listeners", "log.dirs"}
    shared = [
        {name: text for name, text in config.texts.items() if name not in own} for config in configs
    ]
    assert shared[0] == shared[1] == shared[2]


def test_the_registry_is_where_the_brokers_look_for_it() -> None:
    texts = _read("zookeeper.properties")
    assert [name for name in texts if name not in REGISTRY_SETTINGS] == []
    config = RegistryServerConfig.parse(texts)
    assert (config.host, config.port) == ("127.0.0.1", 2181)
    assert BrokerConfig(_read(_THREE[0])).optional("zookeeper.connect") == "localhost:2181"


@pytest.mark.slow
def test_the_lone_broker_serves_groups_and_keeps_its_registry_itself(tmp_path: Path) -> None:
    file, logs = _DIRECTORY / "one-broker.properties", tmp_path / "logs"
    overrides = ("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={logs}")
    words = [word for setting in overrides for word in ("--override", setting)]
    broker = Running(kavka_command("server-start", str(file), *words), tmp_path / "server.out")
    try:
        line = broker.wait_for("kavka broker 0 ready: ", 60)
        at = ("--bootstrap-server", line.rpartition("//")[2].split()[0], "--topic", "t")
        our_tool("console-producer", *at, stdin="a record\n")
        read = ("--group", "readers", "--from-beginning", "--max-messages", "1")
        assert our_tool("console-consumer", *at, *read).lines == ["a record"]
        assert (logs / "kavka-registry.journal").exists()
        assert broker.stop() == 0
    finally:
        broker.kill()


def test_in_production_no_one_machine_has_the_only_copy() -> None:
    config = BrokerConfig(_read("production.properties"))
    factors = ("default", "offsets.topic", "transaction.state.log")
    assert {config.integer(f"{what}.replication.factor") for what in factors} == {3}
    least = ("min.insync.replicas", "transaction.state.log.min.isr")
    assert {config.integer(name) for name in least} == {2}
    assert not config.flag("unclean.leader.election.enable")
    assert config.optional("broker.rack")
    assert len(config.log_directories) > 1


def test_in_production_brokers_are_found_by_name_and_their_registry_is_an_ensemble() -> None:
    config = BrokerConfig(_read("production.properties"))
    members, chroot = parse_connect(config.text("zookeeper.connect"))
    assert len(members) == 3
    assert chroot == "/kafka"
    (listener,), (advertised,) = config.listeners, config.advertised
    assert listener.host == ""
    assert advertised.host.endswith(".example.com")
