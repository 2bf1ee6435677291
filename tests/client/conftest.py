"""The scripted broker, and settings for its clients."""

import pytest

from support.scripted_broker import ScriptedBroker


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
