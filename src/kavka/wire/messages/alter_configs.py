"""Replace all settings of a resource (KIP-133); IncrementalAlterConfigs is the better choice."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i8, i16, i32, message, string, struct


@struct
class AlterConfigsRequestConfig:
    """A setting."""

    name: string = field()
    value: string | None = field(nullable="0+", default=None)


@struct
class AlterConfigsRequestResource:
    """The settings of one resource."""

    resource_type: i8 = field()
    """As in DescribeConfigs."""
    resource_name: string = field()
    configs: list[AlterConfigsRequestConfig] = field()


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """The settings that resources shall have; what is not named goes back to its default."""

    resources: list[AlterConfigsRequestResource] = field()
    validate_only: boolean = field()
    """Check everything, change nothing."""


@struct
class AlterConfigsResponseResource:
    """Result for one resource."""

    error_code: i16 = field()
    """INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, POLICY_VIOLATION,
    TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED.
    """
    error_message: string | None = field(nullable="0+", default=None)
    resource_type: i8 = field()
    resource_name: string = field()


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    """Result for each resource."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    responses: list[AlterConfigsResponseResource] = field()
