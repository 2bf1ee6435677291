"""The demo's topics on its broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kavka.demo.broker import EmbeddedBroker
from kavka.demo.topics import create_topics
from kavka.errors import ErrorCode, KafkaError

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with EmbeddedBroker(tmp_path_factory.mktemp("demo") / "broker") as broker:
        yield broker.bootstrap


def test_a_topic_that_is_refused_stops_the_demo(bootstrap: str) -> None:
    create_topics(bootstrap, ["there"])
    with pytest.raises(KafkaError) as caught:
        create_topics(bootstrap, ["new", "there"])
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
