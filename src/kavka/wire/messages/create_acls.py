"""New access rules (KIP-140, KIP-290)."""

from __future__ import annotations

from kavka.wire.schema import field, i8, i16, i32, message, string, struct


@struct
class CreateAclsRequestCreation:
    """A rule. The numbers are those of `describe_acls`, without those that stand for any."""

    resource_type: i8 = field()
    resource_name: string = field()
    resource_pattern_type: i8 = field("1+", default=3)
    """3: literal. 4: prefixed."""
    principal: string = field()
    """Such as `User:alice`, or `User:*` for all users."""
    host: string = field()
    """An address, or `*` for all."""
    operation: i8 = field()
    permission_type: i8 = field()


@message(api_key=30, versions="0-3", flexible="2+")
class CreateAclsRequest:
    """The rules that are to be."""

    creations: list[CreateAclsRequestCreation] = field()


@struct
class CreateAclsResponseResult:
    """The outcome of one rule."""

    error_code: i16 = field()
    """SECURITY_DISABLED: the broker has no authorizer. INVALID_REQUEST,
    CLUSTER_AUTHORIZATION_FAILED.
    """
    error_message: string | None = field(nullable="0+", default=None)


@message(api_key=30, versions="0-3", flexible="2+")
class CreateAclsResponse:
    """The results, in the order of the request."""

    throttle_time_ms: i32 = field()
    """Milliseconds for which a quota delays the client."""
    results: list[CreateAclsResponseResult] = field()
