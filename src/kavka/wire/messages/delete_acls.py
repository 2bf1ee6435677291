"""Removal of access rules (KIP-140, KIP-290)."""

from __future__ import annotations

from kavka.wire.schema import field, i8, i16, i32, message, string, struct


@struct
class DeleteAclsRequestFilter:
    """A filter of rules to delete, as in `describe_acls`."""

    resource_type_filter: i8 = field()
    resource_name_filter: string | None = field(nullable="0+", default=None)
    pattern_type_filter: i8 = field("1+", default=3)
    principal_filter: string | None = field(nullable="0+", default=None)
    host_filter: string | None = field(nullable="0+", default=None)
    operation: i8 = field()
    permission_type: i8 = field()


@message(api_key=31, versions="0-3", flexible="2+")
class DeleteAclsRequest:
    """Filters."""

    filters: list[DeleteAclsRequestFilter] = field()


@struct
class DeleteAclsResponseMatchingAcl:
    """A rule that fits, and whether it is gone."""

    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)
    resource_type: i8 = field()
    resource_name: string = field()
    pattern_type: i8 = field("1+", default=3)
    principal: string = field()
    host: string = field()
    operation: i8 = field()
    permission_type: i8 = field()


@struct
class DeleteAclsResponseFilterResult:
    """The outcome of the rules that match one filter."""

    error_code: i16 = field()
    """SECURITY_DISABLED: the broker has no authorizer. INVALID_REQUEST,
    CLUSTER_AUTHORIZATION_FAILED.
    """
    error_message: string | None = field(nullable="0+", default=None)
    matching_acls: list[DeleteAclsResponseMatchingAcl] = field()


@message(api_key=31, versions="0-3", flexible="2+")
class DeleteAclsResponse:
    """The results, in the order of the request."""

    throttle_time_ms: i32 = field()
    """Milliseconds for which a quota delays the client."""
    filter_results: list[DeleteAclsResponseFilterResult] = field()
