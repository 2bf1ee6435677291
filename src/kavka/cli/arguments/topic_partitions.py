"""`--topic name` and `--topic name:0,1,2` of `kavka consumer-groups`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kavka.cli.arguments.options import BadUsage, whole_number


class TopicArgument(NamedTuple):
    """A topic with some of its partitions; None means all."""

    topic: str
    partitions: tuple[int, ...] | None


def topic_arguments(texts: Iterable[str]) -> list[TopicArgument]:
    """Parse the values of `--topic`. Raise BadUsage on a partition that is not a number."""
    return [_one(text) for text in texts]


def _one(text: str) -> TopicArgument:
    topic, colon, listed = text.partition(":")
    if not colon:
        return TopicArgument(text, None)
    listed = listed.rstrip(":")  # as Java's split leaves out what is empty at the end
    if not topic or not listed or ":" in listed:
        raise BadUsage(f"Invalid topic arg '{text}', expected topic name and partitions")
    numbers = []
    for number in listed.split(","):
        try:
            numbers.append(whole_number(number, 32))
        except ValueError:
            raise BadUsage(
                f"Invalid partition '{number}' specified in topic arg '{text}''"
            ) from None
    return TopicArgument(topic, tuple(numbers))
