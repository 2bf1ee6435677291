"""DescribeConfigs (key 32)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i8, i16, i32, message, string, struct


@struct
class DescribeConfigsRequestResource:
    """Part of DescribeConfigsRequest."""

    resource_type: i8 = field()
    resource_name: string = field()
    configuration_keys: list[string] | None = field(nullable="0+", default=None)


@message(api_key=32, versions="0-4", flexible="4+")
class DescribeConfigsRequest:
    """The request of DescribeConfigs."""

    resources: list[DescribeConfigsRequestResource] = field()
    include_synonyms: boolean = field("1+")
    include_documentation: boolean = field("3+")


@struct
class DescribeConfigsResponseSynonym:
    """Part of DescribeConfigsResponse."""

    name: string = field()
    value: string | None = field(nullable="0+", default=None)
    source: i8 = field()


@struct
class DescribeConfigsResponseConfig:
    """Part of DescribeConfigsResponse."""

    name: string = field()
    value: string | None = field(nullable="0+", default=None)
    read_only: boolean = field()
    is_default: boolean = field("0")
    config_source: i8 = field("1+", default=-1, ignorable=True)
    is_sensitive: boolean = field()
    synonyms: list[DescribeConfigsResponseSynonym] = field("1+", ignorable=True)
    config_type: i8 = field("3+", ignorable=True)
    documentation: string | None = field("3+", nullable="3+", default=None, ignorable=True)


@struct
class DescribeConfigsResponseResource:
    """Part of DescribeConfigsResponse."""

    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)
    resource_type: i8 = field()
    resource_name: string = field()
    configs: list[DescribeConfigsResponseConfig] = field()


@message(api_key=32, versions="0-4", flexible="4+")
class DescribeConfigsResponse:
    """The response of DescribeConfigs."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    results: list[DescribeConfigsResponseResource] = field()
