"""The scripted broker, and settings for its clients; tests import what is beside them."""

import importlib
import warnings

import pytest

from support.scripted_broker import ScriptedBroker

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    for name in (
        "kafka.partitioner.default",
        "kafka.coordinator.assignors.sticky.sticky_assignor",
        "kafka.protocol.consumer.group",
        "kafka.protocol.consumer.metadata",
    ):
        importlib.import_module(name)


@pytest.fixture
def broker():
    """A scripted broker with the topic `t` of one partition."""
    made = ScriptedBroker()
    made.create("t")
    return made


@pytest.fixture
def settings():
    """Settings that lose no time."""
    return {
        "bootstrap.servers": "broker:9092",
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 5,
        "reconnect.backoff.ms": 1,
        "reconnect.backoff.max.ms": 5,
    }
