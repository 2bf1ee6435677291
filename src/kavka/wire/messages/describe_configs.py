"""The settings of topics, brokers and loggers (KIP-133, KIP-226, KIP-569)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i8, i16, i32, message, string, struct


@struct
class DescribeConfigsRequestResource:
    """A resource and the names of its settings to describe."""

    resource_type: i8 = field()
    """2: topic. 4: broker. 8: loggers of a broker. 16: client metrics. 32: group."""
    resource_name: string = field()
    """A topic, or a broker id as text; empty for the default of all brokers."""
    configuration_keys: list[string] | None = field(nullable="0+", default=None)
    """None asks for all settings."""


@message(api_key=32, versions="0-4", flexible="4+")
class DescribeConfigsRequest:
    """Asks for settings; those of a broker are asked of that broker."""

    resources: list[DescribeConfigsRequestResource] = field()
    include_synonyms: boolean = field("1+")
    """True to list all synonyms that could provide the value."""
    include_documentation: boolean = field("3+")


@struct
class DescribeConfigsResponseSynonym:
    """A value from one source, under the name that it has there."""

    name: string = field()
    value: string | None = field(nullable="0+", default=None)
    source: i8 = field()
    """As `config_source`."""


@struct
class DescribeConfigsResponseConfig:
    """A setting as it is in force."""

    name: string = field()
    value: string | None = field(nullable="0+", default=None)
    """None for a sensitive one and where nothing is set."""
    read_only: boolean = field()
    is_default: boolean = field("0")
    """Version 0 only, in place of the source."""
    config_source: i8 = field("1+", default=-1, ignorable=True)
    """1: topic. 2: broker, dynamic. 3: default of all brokers, dynamic. 4: the broker's file. 5:
    default. 6: logger. 7: client metrics. 8: group. -1 is unknown.
    """
    is_sensitive: boolean = field()
    synonyms: list[DescribeConfigsResponseSynonym] = field("1+", ignorable=True)
    """All sources that have a value, the one in force first."""
    config_type: i8 = field("3+", ignorable=True)
    """1: boolean. 2: string. 3: int. 4: short. 5: long. 6: double. 7: list. 8: class. 9:
    password.
    """
    documentation: string | None = field("3+", nullable="3+", default=None, ignorable=True)


@struct
class DescribeConfigsResponseResource:
    """The settings of one resource."""

    error_code: i16 = field()
    """UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST (another broker's, or
    a type not known), TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED.
    """
    error_message: string | None = field(nullable="0+", default=None)
    resource_type: i8 = field()
    resource_name: string = field()
    configs: list[DescribeConfigsResponseConfig] = field()


@message(api_key=32, versions="0-4", flexible="4+")
class DescribeConfigsResponse:
    """Settings."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    results: list[DescribeConfigsResponseResource] = field()
