"""A Metadata request whose partitions are led by a broker that was lost a moment ago."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.api.metadata import has_unreachable_leaders
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


class Topic:
    """A topic that counts how often its partitions are checked."""

    def __init__(self, *leaders: int) -> None:
        self._partitions = [SimpleNamespace(leader=leader) for leader in leaders]
        self.reads = 0

    @property
    def partitions(self) -> list[SimpleNamespace]:
        self.reads += 1
        return self._partitions


ANYBODY: Any = SimpleNamespace(allows=lambda *_asked, **_how: True)
"""The context of a client that may do everything."""


def metadata(topics: dict[str, Topic]) -> Any:
    return SimpleNamespace(
        topics=topics,
        is_unreachable=lambda leader, now_ms: leader == 2,
        name_of={b"\x05" * 16: "other"}.get,
    )


@pytest.mark.parametrize("unreachable", [True, False])
def test_a_topic_that_is_named_many_times_is_looked_at_once(unreachable: bool) -> None:
    topic = Topic(1, 2 if unreachable else 3, 1)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")] * 20_000)
    assert has_unreachable_leaders(metadata({"t": topic}), 0, ANYBODY, request) is unreachable
    assert topic.reads == 1


def test_topics_are_found_by_name_and_by_id() -> None:
    topics = {"t": Topic(1), "other": Topic(2)}
    by_id = MetadataRequestTopic(name=None, topic_id=b"\x05" * 16)
    by_name = MetadataRequestTopic(name="t")
    found = metadata(topics)
    assert not has_unreachable_leaders(found, 0, ANYBODY, MetadataRequest(topics=[by_name]))
    assert has_unreachable_leaders(found, 0, ANYBODY, MetadataRequest(topics=[by_name, by_id]))
    assert has_unreachable_leaders(found, 0, ANYBODY, MetadataRequest(topics=None))
    assert not has_unreachable_leaders(
        found, 0, ANYBODY, MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    )
