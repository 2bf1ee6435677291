"""Changes of users' SCRAM credentials (KIP-554)."""

from __future__ import annotations

from kavka.wire.schema import binary, field, i8, i16, i32, message, string, struct


@struct
class AlterUserScramCredentialsRequestScramCredentialDeletion:
    """A credential that goes."""

    name: string = field()
    mechanism: i8 = field()
    """1: SCRAM-SHA-256. 2: SCRAM-SHA-512."""


@struct
class AlterUserScramCredentialsRequestScramCredentialUpsertion:
    """A credential that is made, or replaced."""

    name: string = field()
    mechanism: i8 = field()
    iterations: i32 = field()
    salt: binary = field()
    salted_password: binary = field()


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    """Changes of credentials."""

    deletions: list[AlterUserScramCredentialsRequestScramCredentialDeletion] = field()
    upsertions: list[AlterUserScramCredentialsRequestScramCredentialUpsertion] = field()


@struct
class AlterUserScramCredentialsResponseResult:
    """The outcome of the changes of one user."""

    user: string = field()
    error_code: i16 = field()
    """NOT_CONTROLLER, RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE,
    UNSUPPORTED_SASL_MECHANISM, UNACCEPTABLE_CREDENTIAL, CLUSTER_AUTHORIZATION_FAILED.
    """
    error_message: string | None = field(nullable="0+", default=None)


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    """The results, one for each user."""

    throttle_time_ms: i32 = field()
    """Milliseconds for which a quota delays the client."""
    results: list[AlterUserScramCredentialsResponseResult] = field()
