"""List users with SCRAM credentials (KIP-554)."""

from __future__ import annotations

from kavka.wire.schema import field, i8, i16, i32, message, string, struct


@struct
class DescribeUserScramCredentialsRequestUserName:
    """A user."""

    name: string = field()


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    """Asks for users, or for all of them."""

    users: list[DescribeUserScramCredentialsRequestUserName] | None = field(
        nullable="0+", default=None
    )
    """None or an empty list: all."""


@struct
class DescribeUserScramCredentialsResponseCredentialInfo:
    """A credential, without what it is made of."""

    mechanism: i8 = field()
    """1: SCRAM-SHA-256. 2: SCRAM-SHA-512."""
    iterations: i32 = field()


@struct
class DescribeUserScramCredentialsResponseResult:
    """The credentials of a user."""

    user: string = field()
    error_code: i16 = field()
    """RESOURCE_NOT_FOUND: the user has none. DUPLICATE_RESOURCE: the user was named twice."""
    error_message: string | None = field(nullable="0+", default=None)
    credential_infos: list[DescribeUserScramCredentialsResponseCredentialInfo] = field()


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    """Credentials."""

    throttle_time_ms: i32 = field()
    """Milliseconds for which a quota delays the client."""
    error_code: i16 = field()
    """CLUSTER_AUTHORIZATION_FAILED."""
    error_message: string | None = field(nullable="0+", default=None)
    results: list[DescribeUserScramCredentialsResponseResult] = field()
