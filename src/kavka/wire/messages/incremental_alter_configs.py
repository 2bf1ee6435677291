"""Change single settings of resources (KIP-339)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i8, i16, i32, message, string, struct


@struct
class IncrementalAlterConfigsRequestConfig:
    """A change of one setting."""

    name: string = field()
    config_operation: i8 = field()
    """0: set. 1: delete, back to the default. 2: append to a list. 3: subtract from a list."""
    value: string | None = field(nullable="0+", default=None)
    """None when the setting is deleted."""


@struct
class IncrementalAlterConfigsRequestResource:
    """Changes of one resource."""

    resource_type: i8 = field()
    """As in DescribeConfigs."""
    resource_name: string = field()
    configs: list[IncrementalAlterConfigsRequestConfig] = field()


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """Changes of settings."""

    resources: list[IncrementalAlterConfigsRequestResource] = field()
    validate_only: boolean = field()
    """Check everything, change nothing."""


@struct
class IncrementalAlterConfigsResponseResource:
    """Result for one resource; its changes are made all or none."""

    error_code: i16 = field()
    """INVALID_CONFIG, INVALID_REQUEST (a setting named twice, or no value),
    UNKNOWN_TOPIC_OR_PARTITION, POLICY_VIOLATION, TOPIC_AUTHORIZATION_FAILED,
    CLUSTER_AUTHORIZATION_FAILED.
    """
    error_message: string | None = field(nullable="0+", default=None)
    resource_type: i8 = field()
    resource_name: string = field()


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """Result for each resource."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    responses: list[IncrementalAlterConfigsResponseResource] = field()
