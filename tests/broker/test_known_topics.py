"""Logs that belong to no topic at a start."""

from __future__ import annotations

import pytest

from kavka.broker.metadata.known_topics import KnownTopics
from kavka.ids import NO_TOPIC_ID, TopicId, TopicPartition

ONE, OTHER = TopicId(b"1" * 16), TopicId(b"2" * 16)


@pytest.mark.parametrize(
    ("known", "found", "stray"),
    [
        ({"t": ONE}, ONE, False),
        ({"t": ONE}, OTHER, True),
        ({"t": ONE}, None, False),
        ({"t": NO_TOPIC_ID}, ONE, False),
        ({"t": ONE}, NO_TOPIC_ID, False),
        ({"u": ONE}, ONE, True),
        ({}, None, True),
        (None, ONE, False),
        (None, None, False),
    ],
)
def test_a_log_is_stray_when_its_topic_is_unknown_or_another(
    known: dict[str, TopicId] | None, found: TopicId | None, stray: bool
) -> None:
    assert KnownTopics(known).is_stray(TopicPartition("t", 0), found) is stray


def test_the_log_of_a_raft_cluster_is_left_alone() -> None:
    assert not KnownTopics({}).is_stray(TopicPartition("__cluster_metadata", 0), ONE)
