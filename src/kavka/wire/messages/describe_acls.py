"""DescribeAcls (key 29)."""

from __future__ import annotations

from kavka.wire.schema import field, i8, i16, i32, message, string, struct


@message(api_key=29, versions="0-3", flexible="2+")
class DescribeAclsRequest:
    """The request of DescribeAcls."""

    resource_type_filter: i8 = field()
    resource_name_filter: string | None = field(nullable="0+", default=None)
    pattern_type_filter: i8 = field("1+", default=3)
    principal_filter: string | None = field(nullable="0+", default=None)
    host_filter: string | None = field(nullable="0+", default=None)
    operation: i8 = field()
    permission_type: i8 = field()


@struct
class DescribeAclsResponseAcl:
    """Part of DescribeAclsResponse."""

    principal: string = field()
    host: string = field()
    operation: i8 = field()
    permission_type: i8 = field()


@struct
class DescribeAclsResponseResource:
    """Part of DescribeAclsResponse."""

    resource_type: i8 = field()
    resource_name: string = field()
    pattern_type: i8 = field("1+", default=3)
    acls: list[DescribeAclsResponseAcl] = field()


@message(api_key=29, versions="0-3", flexible="2+")
class DescribeAclsResponse:
    """The response of DescribeAcls."""

    throttle_time_ms: i32 = field()
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    error_code: i16 = field()
    error_message: string | None = field(nullable="0+", default=None)
    resources: list[DescribeAclsResponseResource] = field()
