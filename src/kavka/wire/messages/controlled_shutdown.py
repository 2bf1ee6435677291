"""A broker that is about to stop asks the controller to move its leaderships (KIP-380).

The header of a request of version 0 has no client id.
"""

from __future__ import annotations

from kavka.wire.schema import field, i16, i32, i64, message, string, struct


@message(api_key=7, versions="0-3", flexible="3+")
class ControlledShutdownRequest:
    """The broker that is about to stop. The controller takes it."""

    broker_id: i32 = field()
    broker_epoch: i64 = field("2+", default=-1, ignorable=True)
    """-1 is not checked."""


@struct
class ControlledShutdownResponsePartition:
    """A partition that the broker still leads."""

    topic_name: string = field()
    partition_index: i32 = field()


@message(api_key=7, versions="0-3", flexible="3+")
class ControlledShutdownResponse:
    """The partitions that still keep the broker from stopping."""

    error_code: i16 = field()
    """NOT_CONTROLLER, STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE,
    CLUSTER_AUTHORIZATION_FAILED.
    """
    remaining_partitions: list[ControlledShutdownResponsePartition] = field()
    """Empty when the broker may stop."""
