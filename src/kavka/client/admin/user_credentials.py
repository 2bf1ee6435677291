"""SCRAM credentials of users: which there are, and changes of them (KIP-554)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.client import arguments
from kavka.client.admin.router import Router, plain, refusal
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS, SCRAM_NUMBERS
from kavka.errors import KafkaError
from kavka.net.peer import Peer
from kavka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialDeletion,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
    AlterUserScramCredentialsResponse,
)
from kavka.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUserName,
    DescribeUserScramCredentialsResponse,
)

SALT_BYTES: Final = 26
DEFAULT_ITERATIONS: Final = 8192


class ScramCredentialInfo(NamedTuple):
    """A credential, without what it is made of."""

    mechanism: str
    iterations: int


class ScramUpsertion:
    """A credential that a user gets, or has replaced. Its text does not show the password."""

    def __init__(
        self, user: str, mechanism: str, password: str, *, iterations: int = DEFAULT_ITERATIONS
    ) -> None:
        """`mechanism` is SCRAM-SHA-256 or SCRAM-SHA-512. Raise ValueError for another one, or an empty password."""
        _require_mechanism(mechanism)
        if not password:
            raise ValueError("the password is empty")
        self.user = user
        self.mechanism = mechanism
        self.password = password
        self.iterations = iterations

    def __repr__(self) -> str:
        """Show all but the password."""
        return f"ScramUpsertion({self.user!r}, {self.mechanism}, iterations={self.iterations})"


class ScramDeletion:
    """A credential that a user loses."""

    def __init__(self, user: str, mechanism: str) -> None:
        """`mechanism` is SCRAM-SHA-256 or SCRAM-SHA-512. Raise ValueError for another one."""
        _require_mechanism(mechanism)
        self.user = user
        self.mechanism = mechanism


def _require_mechanism(name: str) -> None:
    if name not in SCRAM_MECHANISMS:
        raise ValueError(f"{name!r} is none of {', '.join(SCRAM_MECHANISMS)}")


async def describe(
    router: Router, users: Iterable[str] | None, timeout_ms: int | None
) -> dict[str, list[ScramCredentialInfo] | KafkaError]:
    """See `Admin.describe_user_scram_credentials`."""
    names = None
    if users is not None:
        names = [
            DescribeUserScramCredentialsRequestUserName(name=user)
            for user in arguments.names("users", users)
        ]
        if not names:
            return {}
    response: DescribeUserScramCredentialsResponse = await router.any(
        plain(DescribeUserScramCredentialsRequest(users=names)),
        lambda a: (a.error_code,),
        timeout_ms,
    )
    refused = refusal(response.error_code, response.error_message)
    if refused is not None:
        raise refused
    return {
        result.user: refusal(result.error_code, result.error_message)
        or [
            ScramCredentialInfo(_name_of(info.mechanism), info.iterations)
            for info in result.credential_infos
        ]
        for result in response.results
    }


def _name_of(number: int) -> str:
    mechanism = SCRAM_NUMBERS.get(number)
    return f"unknown mechanism {number}" if mechanism is None else mechanism.name


async def alter(
    router: Router,
    changes: Sequence[ScramUpsertion | ScramDeletion],
    random_bytes: Callable[[int], bytes],
    timeout_ms: int | None,
) -> dict[str, KafkaError | None]:
    """See `Admin.alter_user_scram_credentials`."""
    changes = arguments.each("changes", changes, ScramUpsertion, ScramDeletion)
    # Once, also where the controller is asked again; off the loop, because each takes milliseconds.
    rows = {
        id(change): await asyncio.to_thread(_upsertion, change, random_bytes(SALT_BYTES))
        for change in changes
        if isinstance(change, ScramUpsertion)
    }

    def build(peer: Peer, users: list[str]) -> tuple[AlterUserScramCredentialsRequest, int | None]:
        wanted = [change for change in changes if change.user in users]
        request = AlterUserScramCredentialsRequest(
            deletions=[
                AlterUserScramCredentialsRequestScramCredentialDeletion(
                    name=change.user, mechanism=SCRAM_MECHANISMS[change.mechanism].number
                )
                for change in wanted
                if isinstance(change, ScramDeletion)
            ],
            upsertions=[rows[id(change)] for change in wanted if id(change) in rows],
        )
        return request, None

    def outcomes(
        response: AlterUserScramCredentialsResponse,
    ) -> Mapping[str, tuple[int, KafkaError | None]]:
        return {
            result.user: (result.error_code, refusal(result.error_code, result.error_message))
            for result in response.results
        }

    users = dict.fromkeys(change.user for change in changes)
    return await router.controller_each(users, build, outcomes, timeout_ms)


def _upsertion(
    change: ScramUpsertion, salt: bytes
) -> AlterUserScramCredentialsRequestScramCredentialUpsertion:
    mechanism = SCRAM_MECHANISMS[change.mechanism]
    # What the broker would refuse must not be computed.
    is_possible = 0 < change.iterations <= 1 << 20
    return AlterUserScramCredentialsRequestScramCredentialUpsertion(
        name=change.user,
        mechanism=mechanism.number,
        iterations=change.iterations,
        salt=salt,
        salted_password=mechanism.salted_password(change.password, salt, change.iterations)
        if is_possible
        else b"",
    )
