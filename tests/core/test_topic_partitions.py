"""Partitions grouped by topic."""

from __future__ import annotations

import json

from kavka.core.topic_partitions import group_by_topic, nest_by_topic, partitions_by_topic
from kavka.ids import TopicPartition

PARTITIONS = [TopicPartition("u", 2), TopicPartition("t", 10), TopicPartition("u", 0)]


def test_partitions_and_values_keep_the_order_in_which_they_come() -> None:
    assert list(partitions_by_topic(PARTITIONS).items()) == [("u", [2, 0]), ("t", [10])]
    assert group_by_topic(zip(PARTITIONS, "abc", strict=True)) == {"u": ["a", "c"], "t": ["b"]}


def test_nested_values_are_in_the_order_of_topics_and_numbers() -> None:
    offsets = {("t", 10): 1, ("u", 0): 2, ("t", 9): 3}
    assert json.dumps(nest_by_topic(offsets.items())) == '{"t": {"9": 3, "10": 1}, "u": {"0": 2}}'
