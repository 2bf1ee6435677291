"""AlterConfigs (key 33)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i8, i16, i32, message, string, struct


@struct
class AlterConfigsRequestConfig:
    """Part of AlterConfigsRequest."""

    name: string = field()
    value: string | None = field(nullable="0+", default=None)


@struct
class AlterConfigsRequestResource:
    """Part of AlterConfigsRequest."""

    resource_type: i8 = field()
    resource_name: string = field()
    configs: list[AlterConfigsRequestConfig] = field()


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """The request of AlterConfigs."""

    resources: list[AlterConfigsRequestResource] = field()
    validate_only: boolean = field()


@struct
class AlterConfigsResponseResource:
    """Part of AlterConfigsResponse."""

    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)
    resource_type: i8 = field()
    resource_name: string = field()


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    """The response of AlterConfigs."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    responses: list[AlterConfigsResponseResource] = field()
