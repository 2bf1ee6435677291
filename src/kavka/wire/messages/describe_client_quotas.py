"""The quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from kavka.wire.schema import boolean, f64, field, i8, i16, i32, message, string, struct


@struct
class DescribeClientQuotasRequestComponent:
    """The filter for one component of an entity."""

    entity_type: string = field()
    """user, client-id or ip."""
    match_type: i8 = field()
    """0: the name `match`. 1: the default. 2: any name."""
    match: string | None = field(nullable="0+", default=None)


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """A filter of quota entities."""

    components: list[DescribeClientQuotasRequestComponent] = field()
    """All must fit."""
    strict: boolean = field()
    """True if an entity may have no other components than those named."""


@struct
class DescribeClientQuotasResponseEntity:
    """A component of an entity."""

    entity_type: string = field()
    entity_name: string | None = field(nullable="0+", default=None)
    """None is the default."""


@struct
class DescribeClientQuotasResponseValue:
    """A quota, such as producer_byte_rate."""

    key: string = field()
    value: f64 = field()


@struct
class DescribeClientQuotasResponseEntry:
    """The quotas of one entity."""

    entity: list[DescribeClientQuotasResponseEntity] = field()
    values: list[DescribeClientQuotasResponseValue] = field()


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    """Quotas."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """INVALID_REQUEST, CLUSTER_AUTHORIZATION_FAILED."""
    error_message: string | None = field(nullable="0+", default=None)
    entries: list[DescribeClientQuotasResponseEntry] | None = field(nullable="0+")
    """None on error."""
