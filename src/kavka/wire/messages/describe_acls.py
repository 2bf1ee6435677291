"""List access control entries (KIP-140, KIP-290)."""

from __future__ import annotations

from kavka.wire.schema import field, i8, i16, i32, message, string, struct


@message(api_key=29, versions="0-3", flexible="2+")
class DescribeAclsRequest:
    """A filter; what is None or 1 (any) fits everything."""

    resource_type_filter: i8 = field()
    """1: any. 2: topic. 3: group. 4: cluster. 5: transactional id. 6: delegation token. 7: user."""
    resource_name_filter: string | None = field(nullable="0+", default=None)
    pattern_type_filter: i8 = field("1+", default=3)
    """1: any. 2: those that would match the name. 3: literal. 4: prefixed."""
    principal_filter: string | None = field(nullable="0+", default=None)
    host_filter: string | None = field(nullable="0+", default=None)
    operation: i8 = field()
    """1: any. 2: all. 3: read. 4: write. 5: create. 6: delete. 7: alter. 8: describe. 9: cluster
    action. 10: describe configs. 11: alter configs. 12: idempotent write. 13: create tokens.
    14: describe tokens. 15: two-phase commit.
    """
    permission_type: i8 = field()
    """1: any. 2: deny. 3: allow."""


@struct
class DescribeAclsResponseAcl:
    """An access control entry: principal, host, operation and permission."""

    principal: string = field()
    """Such as `User:alice`, or `User:*` for all users."""
    host: string = field()
    """An address, or `*` for all."""
    operation: i8 = field()
    permission_type: i8 = field()


@struct
class DescribeAclsResponseResource:
    """A resource or a prefix of names, and its access control entries."""

    resource_type: i8 = field()
    resource_name: string = field()
    pattern_type: i8 = field("1+", default=3)
    acls: list[DescribeAclsResponseAcl] = field()


@message(api_key=29, versions="0-3", flexible="2+")
class DescribeAclsResponse:
    """The access control entries that match the filter."""

    throttle_time_ms: i32 = field()
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    error_code: i16 = field()
    """SECURITY_DISABLED: the broker has no authorizer. INVALID_REQUEST,
    CLUSTER_AUTHORIZATION_FAILED.
    """
    error_message: string | None = field(nullable="0+", default=None)
    resources: list[DescribeAclsResponseResource] = field()
