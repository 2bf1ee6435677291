"""Delegation tokens: a user's own, limited credentials for programs that act in its name (KIP-48, KIP-373)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any, NamedTuple

from kavka.client import arguments
from kavka.client.admin.router import Router, plain, refusal
from kavka.core.access.entries import Principal
from kavka.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestRenewer,
    CreateDelegationTokenResponse,
)
from kavka.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenRequestOwner,
    DescribeDelegationTokenResponse,
)
from kavka.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kavka.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


class DelegationToken(NamedTuple):
    """A token with its secret, which its text does not show. Times are milliseconds since 1970."""

    token_id: str
    """The user of a login with it."""
    hmac: bytes
    owner: Principal
    requester: Principal
    """The client that had it made; before Kafka 3.3 the owner."""
    renewers: tuple[Principal, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int
    """Beyond this time it cannot be renewed."""

    @property
    def password(self) -> str:
        """The password of a login with it: the HMAC in base64."""
        return b64encode(self.hmac).decode()

    def __repr__(self) -> str:
        """Show all but the secret."""
        return f"DelegationToken({self.token_id}, owner={self.owner}, expiry_ms={self.expiry_ms})"


async def create(
    router: Router,
    renewers: Iterable[Principal | str],
    owner: Principal | str | None,
    max_lifetime_ms: int,
    timeout_ms: int | None,
) -> DelegationToken:
    """See `Admin.create_delegation_token`."""
    renewing = tuple(_principal(r) for r in arguments.each("renewers", renewers, str, Principal))
    of = None if owner is None else _principal(owner)
    request = CreateDelegationTokenRequest(
        owner_principal_type=None if of is None else of.type,
        owner_principal_name=None if of is None else of.name,
        renewers=[
            CreateDelegationTokenRequestRenewer(principal_type=r.type, principal_name=r.name)
            for r in renewing
        ],
        max_lifetime_ms=max_lifetime_ms,
    )
    response: CreateDelegationTokenResponse = await _send(router, request, timeout_ms)
    found = Principal(response.principal_type, response.principal_name)
    return DelegationToken(
        response.token_id,
        bytes(response.hmac),
        found,
        _requester(response, found),
        renewing,
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
    )


async def renew(router: Router, hmac: bytes, period_ms: int, timeout_ms: int | None) -> int:
    """See `Admin.renew_delegation_token`."""
    arguments.one("hmac", hmac, bytes)
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    response: RenewDelegationTokenResponse = await _send(router, request, timeout_ms)
    return response.expiry_timestamp_ms


async def expire(router: Router, hmac: bytes, period_ms: int, timeout_ms: int | None) -> int:
    """See `Admin.expire_delegation_token`."""
    arguments.one("hmac", hmac, bytes)
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    response: ExpireDelegationTokenResponse = await _send(router, request, timeout_ms)
    return response.expiry_timestamp_ms


async def describe(
    router: Router, owners: Iterable[Principal | str] | None, timeout_ms: int | None
) -> list[DelegationToken]:
    """See `Admin.describe_delegation_tokens`."""
    asked = None
    if owners is not None:
        asked = [
            DescribeDelegationTokenRequestOwner(principal_type=o.type, principal_name=o.name)
            for o in map(_principal, arguments.each("owners", owners, str, Principal))
        ]
    request = DescribeDelegationTokenRequest(owners=asked)
    response: DescribeDelegationTokenResponse = await _send(router, request, timeout_ms)
    found = []
    for row in response.tokens:
        owner = Principal(row.principal_type, row.principal_name)
        token = DelegationToken(
            row.token_id,
            bytes(row.hmac),
            owner,
            _requester(row, owner),
            tuple(Principal(r.principal_type, r.principal_name) for r in row.renewers),
            row.issue_timestamp,
            row.expiry_timestamp,
            row.max_timestamp,
        )
        found.append(token)
    return found


async def _send(router: Router, request: Any, timeout_ms: int | None) -> Any:
    response = await router.any(plain(request), lambda a: (a.error_code,), timeout_ms)
    refused = refusal(response.error_code)
    if refused is not None:
        raise refused
    return response


def _principal(given: Principal | str) -> Principal:
    if isinstance(given, Principal):
        return given
    return Principal.parse(arguments.one("a principal", given, str, Principal))


def _requester(row: Any, owner: Principal) -> Principal:
    """Return the requester of a token; versions below 3 do not have it."""
    name = row.token_requester_principal_name
    return Principal(row.token_requester_principal_type, name) if name else owner
