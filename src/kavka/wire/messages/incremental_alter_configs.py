"""IncrementalAlterConfigs (key 44)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i8, i16, i32, message, string, struct


@struct
class IncrementalAlterConfigsRequestConfig:
    """Part of IncrementalAlterConfigsRequest."""

    name: string = field()
    config_operation: i8 = field()
    value: string | None = field(nullable="0+", default=None)


@struct
class IncrementalAlterConfigsRequestResource:
    """Part of IncrementalAlterConfigsRequest."""

    resource_type: i8 = field()
    resource_name: string = field()
    configs: list[IncrementalAlterConfigsRequestConfig] = field()


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """The request of IncrementalAlterConfigs."""

    resources: list[IncrementalAlterConfigsRequestResource] = field()
    validate_only: boolean = field()


@struct
class IncrementalAlterConfigsResponseResource:
    """Part of IncrementalAlterConfigsResponse."""

    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)
    resource_type: i8 = field()
    resource_name: string = field()


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """The response of IncrementalAlterConfigs."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    responses: list[IncrementalAlterConfigsResponseResource] = field()
