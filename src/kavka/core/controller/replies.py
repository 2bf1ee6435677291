"""Replies of the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kavka.errors import ErrorCode
from kavka.ids import TopicId, TopicPartition
from kavka.wire.stored.znodes import StateNode


class Verdict(NamedTuple):
    """An error and what Kafka says with it."""

    code: ErrorCode
    message: str | None = None


DONE = Verdict(ErrorCode.NONE)


class TopicReply(NamedTuple):
    """Result of creating, growing or deleting a topic."""

    verdict: Verdict


class PartitionsReply(NamedTuple):
    """Result for each partition of an election or a reassignment."""

    verdicts: Mapping[TopicPartition, Verdict]


class OngoingReassignment(NamedTuple):
    """A partition on its way."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReassignmentsReply(NamedTuple):
    """The moves in progress."""

    reassignments: Mapping[TopicPartition, OngoingReassignment]


class IsrOutcome(NamedTuple):
    """The state of a partition after AlterPartition, or why there is none."""

    topic: str
    topic_id: TopicId
    partition: int
    error: ErrorCode
    node: StateNode | None = None
    partition_epoch: int = -1


class IsrReply(NamedTuple):
    """Result for each change, in the order of the request; empty on an error of the whole request."""

    error: ErrorCode
    outcomes: tuple[IsrOutcome, ...] = ()


class ShutdownReply(NamedTuple):
    """The partitions that the broker still leads: it may stop when there are none."""

    error: ErrorCode
    remaining: tuple[TopicPartition, ...] = ()


Reply = TopicReply | PartitionsReply | ReassignmentsReply | IsrReply | ShutdownReply


def refused(reply: Reply, error: ErrorCode, reason: str) -> Reply:
    """Return the reply that says `error` in place of one that is not true."""
    verdict = Verdict(error, reason)
    match reply:
        case TopicReply():
            return TopicReply(verdict)
        case PartitionsReply(verdicts):
            return PartitionsReply({w: verdict if v is DONE else v for w, v in verdicts.items()})
        case IsrReply():
            return IsrReply(error)
        case ShutdownReply():
            return ShutdownReply(error)
        case ReassignmentsReply():
            return reply
