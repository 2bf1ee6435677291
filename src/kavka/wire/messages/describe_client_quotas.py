"""DescribeClientQuotas (key 48)."""

from __future__ import annotations

from kavka.wire.schema import boolean, f64, field, i8, i16, i32, message, string, struct


@struct
class DescribeClientQuotasRequestComponent:
    """Part of DescribeClientQuotasRequest."""

    entity_type: string = field()
    match_type: i8 = field()
    match: string | None = field(nullable="0+", default=None)


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """The request of DescribeClientQuotas."""

    components: list[DescribeClientQuotasRequestComponent] = field()
    strict: boolean = field()


@struct
class DescribeClientQuotasResponseEntity:
    """Part of DescribeClientQuotasResponse."""

    entity_type: string = field()
    entity_name: string | None = field(nullable="0+", default=None)


@struct
class DescribeClientQuotasResponseValue:
    """Part of DescribeClientQuotasResponse."""

    key: string = field()
    value: f64 = field()


@struct
class DescribeClientQuotasResponseEntry:
    """Part of DescribeClientQuotasResponse."""

    entity: list[DescribeClientQuotasResponseEntity] = field()
    values: list[DescribeClientQuotasResponseValue] = field()


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    """The response of DescribeClientQuotas."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)
    entries: list[DescribeClientQuotasResponseEntry] | None = field(nullable="0+")
