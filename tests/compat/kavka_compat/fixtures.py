"""The pytest fixtures `apache_kafka`, `kavka_broker`, `any_broker` and what tests of both need."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path

import pytest

from kavka_compat.apache import ApacheKafka
from kavka_compat.brokers import Broker
from kavka_compat.ours import run_kavka

_APACHE_TEST_SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_KAVKA_TEST_SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
}
_names = count()


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One Apache Kafka 4.1 broker (KRaft) for the whole session, started by its first user."""
    directory = tmp_path_factory.mktemp("apache-kafka")
    with ApacheKafka("4.1").run_broker(directory, settings=_APACHE_TEST_SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="session")
def kavka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker of ours as a process for the whole session; it must be alive and well at the end."""
    with run_kavka(tmp_path_factory.mktemp("kavka"), _KAVKA_TEST_SETTINGS) as broker:
        yield broker
        assert broker.process.alive(), broker.process.text()


def _brokers_under_test() -> list[str]:
    """Return which brokers `any_broker` stands for; KAVKA_COMPAT_BROKERS narrows it while developing."""
    return os.environ.get("KAVKA_COMPAT_BROKERS", "apache,kavka").split(",")


@pytest.fixture(scope="session", params=_brokers_under_test())
def any_broker(request: pytest.FixtureRequest) -> Broker:
    """Apache Kafka, which validates the test, then ours."""
    fixture = {"apache": "apache_kafka", "kavka": "kavka_broker"}[request.param]
    broker: Broker = request.getfixturevalue(fixture)
    return broker


StartBroker = Callable[..., AbstractContextManager[Broker]]
"""`start_broker(settings)` in a `with`: a broker of the test's own, stopped at the end of the body."""


@pytest.fixture(params=_brokers_under_test())
def start_broker(request: pytest.FixtureRequest, tmp_path: Path) -> StartBroker:
    """Apache Kafka 3.9 and ours in turn, for tests that need other settings or stop the broker."""

    def start(settings: Mapping[str, str] | None = None) -> AbstractContextManager[Broker]:
        directory = tmp_path / f"broker-{next(_names)}"
        directory.mkdir()
        if request.param == "kavka":
            return run_kavka(directory, {**_KAVKA_TEST_SETTINGS, **(settings or {})})
        chosen = {**_APACHE_TEST_SETTINGS, **(settings or {})}
        return ApacheKafka("3.9").run_broker(directory, settings=chosen)

    return start


@pytest.fixture(scope="session", params=["3.9", "4.1"])
def kafka_tools(request: pytest.FixtureRequest) -> ApacheKafka:
    """Apache Kafka's command-line tools, in both releases."""
    return ApacheKafka(request.param)


@pytest.fixture
def fresh_name() -> str:
    """A name for a topic or a group that no other test uses."""
    return f"fresh-{os.getpid()}-{next(_names)}"
