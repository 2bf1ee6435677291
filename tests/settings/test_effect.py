"""A setting that claims an effect is read somewhere; one that is not says so when it is set."""

from __future__ import annotations

from pathlib import Path

import pytest

import kavka
from kavka.settings.access import PASSWORD_SETTINGS
from kavka.settings.broker import EFFECTIVE_SETTINGS
from kavka.settings.cluster import CLUSTER_SETTINGS
from kavka.settings.connections import CONNECTION_SETTINGS
from kavka.settings.groups import GROUP_SETTINGS
from kavka.settings.log import LOG_SETTINGS
from kavka.settings.replication import REPLICATION_SETTINGS
from kavka.settings.sasl import SASL_SETTINGS
from kavka.settings.tls import TLS_SETTINGS, ZOOKEEPER_TLS_SETTINGS
from kavka.settings.topic import TOPIC_SETTINGS
from kavka.settings.transactions import TRANSACTION_SETTINGS

ROOT = Path(kavka.__file__).parent
SERVER = [
    ROOT / "cli" / "commands" / "server_start.py",
    ROOT / "net" / "tls" / "settings.py",
    ROOT / "registry" / "zookeeper_tls.py",
    *(ROOT / "broker").rglob("*.py"),
]
SOURCE = "".join(path.read_text() for path in SERVER)
# Which codec's level is read depends on another setting.
LEVELS = {f"compression.{codec}.level" for codec in ("gzip", "lz4", "zstd")}


def is_read(name: str) -> bool:
    return f'"{name}"' in SOURCE


@pytest.mark.parametrize("name", [s.name for s in TOPIC_SETTINGS if s.effective])
def test_an_effective_topic_setting_is_read(name: str) -> None:
    assert is_read(name) or name in LEVELS


@pytest.mark.parametrize("name", [s.name for s in TOPIC_SETTINGS if not s.effective])
def test_a_topic_setting_without_effect_has_a_value_that_is_not_read(name: str) -> None:
    assert f'["{name}"]' not in SOURCE


BROKER_SETTINGS = [
    *EFFECTIVE_SETTINGS,
    *LOG_SETTINGS,
    *GROUP_SETTINGS,
    *CONNECTION_SETTINGS,
    *REPLICATION_SETTINGS,
    *SASL_SETTINGS,
    *CLUSTER_SETTINGS,
    *PASSWORD_SETTINGS,
    *TLS_SETTINGS,
    *(one for one in ZOOKEEPER_TLS_SETTINGS if one.check is None),
    *TRANSACTION_SETTINGS,
]


@pytest.mark.parametrize("name", [setting.name for setting in BROKER_SETTINGS])
def test_an_effective_broker_setting_is_read(name: str) -> None:
    resolved = f'values["{name}"]' in (ROOT / "settings" / "broker.py").read_text()
    gives_default = any(s.synonym == name and s.effective for s in TOPIC_SETTINGS)
    assert is_read(name) or resolved or gives_default


@pytest.mark.parametrize("level", ["0", "10", "-2"])
def test_levels_that_gzip_does_not_have_are_refused(level: str) -> None:
    with pytest.raises(ValueError, match="between 1 and 9 or equal to -1"):
        TOPIC_SETTINGS["compression.gzip.level"].parse(level)
