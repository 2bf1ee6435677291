"""Validation of topic creation, growth and deletion, with the codes and messages of Kafka's controller."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kavka.errors import ErrorCode

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_MAX_NAME = 249
MAX_PARTITIONS = 10_000
"""Maximum of partitions that one request may create."""
_MAX_REPLICAS = 32_767
"""Maximum of replicas of a partition: a replication factor is an int16 (CreateTopics)."""
_SHOWN_BROKERS = 10
"""Maximum of broker ids in a message: a request may name as many as a partition may have replicas."""
USE_DEFAULT = -1


class TopicRefusal(NamedTuple):
    """The reason why a topic is not created, grown or deleted."""

    code: ErrorCode
    message: str


class NewTopic(NamedTuple):
    """A topic as it is asked for: with numbers, or with an assignment and both numbers -1."""

    name: str
    partitions: int
    replication_factor: int
    assignment: Mapping[int, Sequence[int]]
    """Replicas of each partition, preferred leader first; empty when the controller chooses."""
    config: Mapping[str, str | None]


class Shape(NamedTuple):
    """The shape of a new topic: number of partitions and replicas, or the given assignment."""

    partitions: int
    replication_factor: int
    assignment: dict[int, list[int]]


def bad_name(name: str) -> str | None:
    """Return what is wrong with a topic name, or None."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > _MAX_NAME:
        return f"the length of '{name}' is longer than the max allowed length {_MAX_NAME}"
    if not _LEGAL.fullmatch(name):
        allowed = "ASCII alphanumerics, '.', '_' and '-'"
        return f"'{name}' contains one or more characters other than {allowed}"
    return None


def check_new_name(name: str, existing: Collection[str]) -> TopicRefusal | None:
    """Return why no topic of that name may be created, or None.

    Metrics replace dots by underscores, so two names that differ only there collide.
    """
    reason = bad_name(name)
    if reason is not None:
        return TopicRefusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
    if name in existing:
        return TopicRefusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if "." in name or "_" in name:
        folded = name.replace(".", "_")
        same = [other for other in existing if other.replace(".", "_") == folded]
        if same:
            message = f"Topic '{name}' collides with existing topics: {', '.join(sorted(same))}"
            return TopicRefusal(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
    return None


def check_new_topic(
    topic: NewTopic,
    existing: Collection[str],
    brokers: Collection[int],
    default_partitions: int,
    default_replication_factor: int,
) -> Shape | TopicRefusal:
    """Return the shape that the topic gets, or why it is refused."""
    refusal = check_new_name(topic.name, existing)
    if refusal is not None:
        return refusal
    if topic.assignment:
        if (topic.partitions, topic.replication_factor) != (USE_DEFAULT, USE_DEFAULT):
            return TopicRefusal(
                ErrorCode.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time.",
            )
        return _check_assignment(topic.assignment, range(len(topic.assignment)), brokers)
    partitions = default_partitions if topic.partitions == USE_DEFAULT else topic.partitions
    factor = topic.replication_factor
    factor = default_replication_factor if factor == USE_DEFAULT else factor
    if partitions <= 0:
        message = "Number of partitions must be larger than 0."
        return TopicRefusal(ErrorCode.INVALID_PARTITIONS, message)
    return (
        _check_count(partitions) or _check_factor(factor, brokers) or Shape(partitions, factor, {})
    )


def check_growth(
    topic: str,
    present: Mapping[int, Sequence[int]],
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    brokers: Collection[int],
) -> Shape | TopicRefusal:
    """Return the shape of the partitions that are added to reach `count`, or why that is refused."""
    if count < len(present):
        message = f"Topic currently has {len(present)} partitions, which is higher than the requested {count}."
        return TopicRefusal(ErrorCode.INVALID_PARTITIONS, message)
    if count == len(present):
        message = f"Topic already has {count} partitions."
        return TopicRefusal(ErrorCode.INVALID_PARTITIONS, message)
    added = count - len(present)
    factor = len(present[0])
    if assignments is None:
        return _check_count(added) or _check_factor(factor, brokers) or Shape(added, factor, {})
    if len(assignments) != added:
        message = f"Increasing the number of partitions by {added} but {len(assignments)} assignments provided."
        return TopicRefusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    given = {len(present) + at: replicas for at, replicas in enumerate(assignments)}
    shape = _check_assignment(given, range(len(present), count), brokers)
    if isinstance(shape, Shape) and shape.replication_factor != factor:
        message = (
            f"Existing topic {topic} has {factor} replicas a partition, the assignments have "
            f"{shape.replication_factor}."
        )
        return TopicRefusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return shape


def _check_count(partitions: int) -> TopicRefusal | None:
    """Refuse what would take the broker's memory in one request, as Kafka's KRaft controller does."""
    if partitions > MAX_PARTITIONS:
        message = f"Excessively large number of partitions per request: {partitions}."
        return TopicRefusal(ErrorCode.POLICY_VIOLATION, message)
    return None


def too_many_replicas(replicas: Sequence[int]) -> str | None:
    """Return the refusal of a list that is longer than any partition's, before its brokers are looked at."""
    if len(replicas) > _MAX_REPLICAS:
        return f"{len(replicas)} replicas are more than a partition can have: {_MAX_REPLICAS}."
    return None


def shown_brokers(brokers: Sequence[int]) -> str:
    """Return broker ids for a message, of a long list the first ones: `[1, 2, 3, 3]`, `[1, 2, ... 90 more]`."""
    left = len(brokers) - _SHOWN_BROKERS
    if left <= 0:
        return str(list(brokers))
    return f"[{', '.join(map(str, brokers[:_SHOWN_BROKERS]))}, ... {left} more]"


def _check_factor(factor: int, brokers: Collection[int]) -> TopicRefusal | None:
    code = ErrorCode.INVALID_REPLICATION_FACTOR
    if factor <= 0:
        return TopicRefusal(code, "Replication factor must be larger than 0.")
    if factor > len(brokers):
        available = f"larger than available brokers: {len(brokers)}."
        return TopicRefusal(code, f"Replication factor: {factor} {available}")
    return None


def _check_assignment(
    assignment: Mapping[int, Sequence[int]], expected: range, brokers: Collection[int]
) -> Shape | TopicRefusal:
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if sorted(assignment) != list(expected):
        wanted = f"{expected.start} to {expected.stop - 1}"
        return TopicRefusal(
            code, f"Partitions should be a consecutive 0-based integer sequence: {wanted}"
        )
    factors = {len(replicas) for replicas in assignment.values()}
    if len(factors) != 1 or 0 in factors:
        return TopicRefusal(
            code, "All partitions should have the same number of replicas, at least one."
        )
    for partition, replicas in assignment.items():
        problem = too_many_replicas(replicas)
        if problem is not None:
            return TopicRefusal(code, problem)
        if len(set(replicas)) != len(replicas):
            shown = shown_brokers(replicas)
            return TopicRefusal(
                code, f"Duplicate brokers not allowed in replica assignment: {shown}"
            )
        unknown = sorted(set(replicas).difference(brokers))
        if unknown:
            message = (
                f"Unknown broker(s) {shown_brokers(unknown)} in the replica assignment of partition "
                f"{partition}."
            )
            return TopicRefusal(code, message)
    chosen = {partition: list(assignment[partition]) for partition in expected}
    return Shape(len(expected), factors.pop(), chosen)
