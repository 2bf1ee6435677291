"""The steps of a transaction's dialogues, which their shell carries out one at a time, and their outcomes.

A dialogue is a generator: it yields a step, and is resumed with what the step gives, or with the exception that it
raised. Each class says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kavka.core.group_member.steps import GroupMetadata, OffsetAndMetadata
from kavka.core.transactional_producer.errors import Stage
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.values import frozen

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

# Requests; those of one group go to its coordinator, all others to the transaction's


@frozen
class InitProducerId:
    """Obtains a producer id, or with `raises_epoch` the next epoch of the present one (KIP-360)."""

    keeps_prepared: bool = False
    raises_epoch: bool = False
    stage = Stage.INIT


@frozen
class AddPartitions:
    """Adds partitions to the transaction."""

    partitions: list[TopicPartition]
    stage = Stage.ADD_PARTITIONS


@frozen
class AddOffsets:
    """Adds the offsets of a group to the transaction."""

    group_id: str
    stage = Stage.ADD_OFFSETS


@frozen
class CommitOffsets:
    """Hand offsets to the group's coordinator, to be valid when the transaction is committed."""

    group: GroupMetadata
    offsets: Offsets
    transaction_version: int
    stage = Stage.COMMIT_OFFSETS


@frozen
class EndTransaction:
    """Commit or abort."""

    commit: bool
    transaction_version: int
    stage = Stage.END


Request = InitProducerId | AddPartitions | AddOffsets | CommitOffsets | EndTransaction
Codes = dict[TopicPartition | None, ErrorCode]
"""Error codes of a response, by partition or, under None, of the whole."""


class RequestResult(NamedTuple):
    """The parts of a response that decide."""

    codes: Codes
    producer_id: int = -1
    epoch: int = -1
    ongoing_producer_id: int = -1
    """Of the transaction that was kept; -1 without one."""
    ongoing_epoch: int = -1


# Steps


@frozen
class Send:
    """Send the request to its coordinator, and give a RequestResult. It may raise KafkaError, OSError, CorruptFrame."""

    request: Request


@frozen
class BackOff:
    """Log why the request is repeated, and sleep before repeat number `attempt`. Nothing is given."""

    request: Request
    attempt: int
    reason: ErrorCode | str
    forgets_coordinator: bool
    is_short: bool
    """True if the last transaction is being completed, which is soon over."""


@frozen
class UseProducerId:
    """Number batches by this producer id and epoch from now on, from 0. Nothing is given."""

    producer_id: int
    epoch: int
    is_of_end: bool
    """True if the end of a transaction gave it (KIP-890)."""


@frozen
class DropUnsent:
    """Fail the records that are not on the wire, with `error`. Nothing is given."""

    error: Exception


@frozen
class WaitUntilWritten:
    """Wait until every record is written or has failed. Nothing is given."""


@frozen
class WaitUntilAdded:
    """Wait until no dialogue runs that adds to the transaction. Nothing is given."""


@frozen
class WaitUntilIdle:
    """Wait until no Produce request is on the wire. Nothing is given."""


Step = (
    Send | BackOff | UseProducerId | DropUnsent | WaitUntilWritten | WaitUntilAdded | WaitUntilIdle
)
