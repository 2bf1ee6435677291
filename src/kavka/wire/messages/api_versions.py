"""ApiVersions (key 18)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, i64, message, string, struct


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    """The request of ApiVersions."""

    client_software_name: string = field("3+", ignorable=True)
    client_software_version: string = field("3+", ignorable=True)


@struct
class ApiVersionsResponseApi:
    """Part of ApiVersionsResponse."""

    api_key: i16 = field()
    min_version: i16 = field()
    max_version: i16 = field()


@struct
class ApiVersionsResponseSupportedFeature:
    """Part of ApiVersionsResponse."""

    name: string = field()
    min_version: i16 = field()
    max_version: i16 = field()


@struct
class ApiVersionsResponseFinalizedFeature:
    """Part of ApiVersionsResponse."""

    name: string = field()
    max_version_level: i16 = field()
    min_version_level: i16 = field()


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    """The response of ApiVersions."""

    error_code: i16 = field()
    api_keys: list[ApiVersionsResponseApi] = field()
    throttle_time_ms: i32 = field("1+", ignorable=True)
    """How long the broker held the answer or will ignore the connection because of a quota, milliseconds."""
    supported_features: list[ApiVersionsResponseSupportedFeature] = field(
        "3+", tag=0, ignorable=True
    )
    finalized_features_epoch: i64 = field("3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[ApiVersionsResponseFinalizedFeature] = field(
        "3+", tag=2, ignorable=True
    )
    zk_migration_ready: boolean = field("3+", tag=3, ignorable=True)
