"""The files in `config/`: three brokers of one machine and their registry, as the tutorial starts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.broker.config import BrokerConfig
from kavka.registry.served import ServedConfig
from kavka.settings.broker import BROKER_SETTINGS
from kavka.settings.properties import parse_properties
from kavka.settings.registry import REGISTRY_SETTINGS

_DIRECTORY = Path(__file__).parents[2] / "config"
_BROKERS = ("server.properties", "server-1.properties", "server-2.properties")


def _read(name: str) -> dict[str, str]:
    return parse_properties((_DIRECTORY / name).read_text())


@pytest.mark.parametrize("name", _BROKERS)
def test_each_name_has_an_effect(name: str) -> None:
    BrokerConfig(texts := _read(name))
    assert [name for name in texts if not BROKER_SETTINGS[name].effective] == []


def test_the_three_brokers_share_nothing_but_the_registry() -> None:
    configs = [BrokerConfig(_read(name)) for name in _BROKERS]
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
    config = ServedConfig.parse(texts)
    assert (config.host, config.port) == ("127.0.0.1", 2181)
    assert BrokerConfig(_read(_BROKERS[0])).optional("zookeeper.connect") == "localhost:2181"
