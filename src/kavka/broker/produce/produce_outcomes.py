"""The outcomes of a Produce's batches, and its response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.broker.partitions.replica import ACKS_ALL, AppendOutcome, Replica
from kavka.broker.produce.delayed_produce import Append
from kavka.errors import ErrorCode
from kavka.values import mutable
from kavka.wire.messages.produce import (
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)
from kavka.wire.produce_response import Written, encode_written

if TYPE_CHECKING:
    from kavka.broker.lazy import Lazy
    from kavka.broker.partitions.current_leaders import CurrentLeaders
    from kavka.broker.requests.context import RequestContext
    from kavka.wire.frame import EncodedResponse

_NONE = ErrorCode.NONE


@mutable
class PartitionOutcome:
    """The outcome of the batch of one partition."""

    partition: int
    replica: Replica | None
    append: AppendOutcome
    """Invariant: one without error is of one partition only."""


@mutable
class TopicOutcomes:
    """The outcomes of the batches of one topic."""

    name: str
    partitions: list[PartitionOutcome]


def appended(topics: list[TopicOutcomes]) -> list[Append]:
    """Return the batches without error."""
    return [
        Append(outcome.replica, outcome.append)
        for topic in topics
        for outcome in topic.partitions
        if outcome.replica is not None and outcome.append.error is _NONE
    ]


def waiting(acks: int, topics: list[TopicOutcomes]) -> list[Append]:
    """Return the batches without error that wait for the disk, or for the replicas.

    To be asked in the iteration of their append: later a high watermark may have passed them with others' records, of
    another leader.
    """
    found: list[Append] = []
    for topic in topics:
        for outcome in topic.partitions:
            replica, append = outcome.replica, outcome.append
            if replica is None or append.error is not _NONE:
                continue
            lacks_replicas = (
                acks == ACKS_ALL and replica.partition.high_watermark < append.end_offset
            )
            if lacks_replicas or append.written is not None:
                found.append(Append(replica, append))
    return found


def has_errors(topics: list[TopicOutcomes]) -> bool:
    """Return whether any batch was refused."""
    return any(
        outcome.append.error is not _NONE for topic in topics for outcome in topic.partitions
    )


def with_codes(
    topics: list[TopicOutcomes], appends: list[Append], codes: list[ErrorCode]
) -> list[TopicOutcomes]:
    """Replace what was appended by the errors of what was not acknowledged."""
    refused = {
        id(append.outcome): AppendOutcome(code, message=code.message)
        for append, code in zip(appends, codes, strict=True)
        if code is not _NONE
    }
    if not refused:
        return topics
    return [
        TopicOutcomes(
            topic.name,
            [
                PartitionOutcome(
                    outcome.partition,
                    outcome.replica,
                    refused.get(id(outcome.append), outcome.append),
                )
                for outcome in topic.partitions
            ],
        )
        for topic in topics
    ]


def respond(
    current_leaders: Lazy[CurrentLeaders], context: RequestContext, topics: list[TopicOutcomes]
) -> ProduceResponse | EncodedResponse:
    """Return the response of a request of which no append waits: encoded, unless it has an error."""
    rows: list[tuple[str, list[Written]]] = []
    for topic in topics:
        written: list[Written] = []
        for outcome in topic.partitions:
            append = outcome.append
            if append.error is not _NONE or append.base_offset < 0:
                return respond_with_errors(current_leaders, context, topics)
            written.append(
                (
                    outcome.partition,
                    append.base_offset,
                    append.log_append_time_ms,
                    append.log_start_offset,
                )
            )
        rows.append((topic.name, written))
    return encode_written(context.version, context.header.correlation_id, rows)


def respond_with_errors(
    current_leaders: Lazy[CurrentLeaders], context: RequestContext, topics: list[TopicOutcomes]
) -> ProduceResponse:
    """Return the response as a message, with the current leaders of partitions that are led elsewhere."""
    response = ProduceResponse(
        responses=[
            ProduceResponseTopic(
                name=topic.name, partition_responses=[_row(outcome) for outcome in topic.partitions]
            )
            for topic in topics
        ]
    )
    return current_leaders.get().add_to_produce(context.listener_name, context.version, response)


def _row(outcome: PartitionOutcome) -> ProduceResponsePartition:
    append = outcome.append
    error, message = append.error, append.message
    if error is _NONE and append.base_offset < 0:
        error = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        message = error.message
    if error is _NONE:
        return ProduceResponsePartition(
            index=outcome.partition,
            base_offset=append.base_offset,
            log_append_time_ms=append.log_append_time_ms,
            log_start_offset=append.log_start_offset,
        )
    return ProduceResponsePartition(
        index=outcome.partition,
        error_code=error,
        base_offset=-1,
        error_message=message,
        record_errors=[
            ProduceResponseRecordError(batch_index=at, batch_index_error_message=message)
            for at, message in append.record_errors
        ],
    )
