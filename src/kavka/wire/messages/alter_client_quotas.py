"""Changes of the quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from kavka.wire.schema import boolean, f64, field, i16, i32, message, string, struct


@struct
class AlterClientQuotasRequestEntity:
    """A component of an entity."""

    entity_type: string = field()
    """user, client-id or ip."""
    entity_name: string | None = field(nullable="0+", default=None)
    """None is the default."""


@struct
class AlterClientQuotasRequestOp:
    """A change of one quota."""

    key: string = field()
    """Such as producer_byte_rate."""
    value: f64 = field()
    remove: boolean = field()
    """True to remove the quota; `value` is ignored then."""


@struct
class AlterClientQuotasRequestEntry:
    """The changes of one entity."""

    entity: list[AlterClientQuotasRequestEntity] = field()
    ops: list[AlterClientQuotasRequestOp] = field()


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    """Changes of quotas."""

    entries: list[AlterClientQuotasRequestEntry] = field()
    validate_only: boolean = field()


@struct
class AlterClientQuotasResponseEntity:
    """A component of an entity."""

    entity_type: string = field()
    entity_name: string | None = field(nullable="0+", default=None)


@struct
class AlterClientQuotasResponseEntry:
    """The outcome of the changes of one entity."""

    error_code: i16 = field()
    """UNSUPPORTED_VERSION: this broker has no quotas. INVALID_REQUEST,
    CLUSTER_AUTHORIZATION_FAILED.
    """
    error_message: string | None = field(nullable="0+", default=None)
    entity: list[AlterClientQuotasResponseEntity] = field()


@message(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    """The results, in the order of the request."""

    throttle_time_ms: i32 = field()
    """Milliseconds for which a quota delays the client."""
    entries: list[AlterClientQuotasResponseEntry] = field()
