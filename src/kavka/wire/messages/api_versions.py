"""The APIs of a broker and their versions: the first request on a connection (KIP-35, KIP-482, KIP-511, KIP-584)."""

from __future__ import annotations

from kavka.wire.schema import boolean, field, i16, i32, i64, message, string, struct


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    """Asks for the broker's versions. Answered before authentication, and in any version."""

    client_software_name: string = field("3+", ignorable=True)
    """Letters, digits, `-` and `.`, not at the ends; anything else is INVALID_REQUEST."""
    client_software_version: string = field("3+", ignorable=True)
    """As the name."""


@struct
class ApiVersionsResponseApi:
    """The versions of one API, both ends included."""

    api_key: i16 = field()
    min_version: i16 = field()
    max_version: i16 = field()


@struct
class ApiVersionsResponseSupportedFeature:
    """The levels of a feature that this broker can take part in."""

    name: string = field()
    min_version: i16 = field()
    max_version: i16 = field()


@struct
class ApiVersionsResponseFinalizedFeature:
    """The levels of a feature that the cluster uses."""

    name: string = field()
    max_version_level: i16 = field()
    min_version_level: i16 = field()


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    """The broker's versions. Its header never has tagged fields, because its reader does not know the broker yet."""

    error_code: i16 = field()
    """UNSUPPORTED_VERSION when the version of the request is not known: then the body is in
    version 0 and names the range of ApiVersions only. INVALID_REQUEST for a malformed client
    software name or version.
    """
    api_keys: list[ApiVersionsResponseApi] = field()
    throttle_time_ms: i32 = field("1+", ignorable=True)
    """Duration in milliseconds for which the request was throttled due to a quota violation, or 0."""
    supported_features: list[ApiVersionsResponseSupportedFeature] = field(
        "3+", tag=0, ignorable=True
    )
    """Features that this broker supports. Below version 4 features from level 0 on are left out."""
    finalized_features_epoch: i64 = field("3+", default=-1, tag=1, ignorable=True)
    """Grows with every change of the finalized features; -1 where the cluster has none."""
    finalized_features: list[ApiVersionsResponseFinalizedFeature] = field(
        "3+", tag=2, ignorable=True
    )
    """Feature levels that the cluster has finalised; all brokers act by them."""
    zk_migration_ready: boolean = field("3+", tag=3, ignorable=True)
    """True if a KRaft controller may migrate the cluster from ZooKeeper; always false here."""
