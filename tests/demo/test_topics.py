"""The demo's topics on its broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kavka.client.dead_letters import MESSAGE, OFFSET, PARTITION
from kavka.client.producer import Producer
from kavka.demo.broker import EmbeddedBroker
from kavka.demo.topics import TopicReader, create_topics
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


def test_dead_letters_are_known_by_where_they_came_from(bootstrap: str) -> None:
    create_topics(bootstrap, ["letters", "bare", "none"])

    async def write() -> None:
        async with Producer({"bootstrap.servers": bootstrap}) as producer:
            for offset in (b"7", b"8", b"8"):
                origin = [(MESSAGE, b"odd"), (PARTITION, b"1"), (OFFSET, offset)]
                producer.append("letters", b"x", headers=origin)
            producer.append("bare", b"x", headers=[(PARTITION, b"1")])

    asyncio.run(write())
    reader = TopicReader(bootstrap)
    try:
        assert sorted(reader.origins("letters")) == [(1, 7), (1, 8), (1, 8)]
        assert reader.origins("none") == []
        with pytest.raises(ValueError, match="does not say from which partition"):
            reader.origins("bare")
    finally:
        reader.close()
