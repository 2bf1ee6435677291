"""Delegation tokens: whose they are, for how long they hold, and what their secrets are; pure.

    issued ------------- expiry ------------------ maximum
           may log in           renew moves the expiry, never beyond the maximum

A token is an id, which everybody may know, and an HMAC of it, which is the password. Brokers with the same secret key
compute it; it is never stored. Source: KIP-48, KIP-373; Apache Kafka 3.9's `DelegationTokenManager`.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Collection, Set
from hmac import digest
from typing import Final

from kavka.core.access.entries import ANONYMOUS, Principal
from kavka.core.sasl.scram_credential import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    imitation,
)
from kavka.errors import ErrorCode
from kavka.values import frozen, replace

_USER: Final = "User"
_HMAC: Final = "sha512"
_E = ErrorCode


@frozen
class DelegationToken:
    """A token without its secret. Times are milliseconds since 1970."""

    token_id: str
    owner: Principal
    requester: Principal
    """The client that had it made."""
    renewers: tuple[Principal, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    def is_expired(self, now_ms: int) -> bool:
        """Return whether it held before now, and no longer does."""
        return self.expiry_ms < now_ms or self.max_ms < now_ms

    def login_fault(self, now_ms: int) -> str | None:
        """Return why it admits no login; None if its owner may log in."""
        if self.is_expired(now_ms):
            return "expired"
        # A login makes the client a user: with another type of owner it would be the user of that name.
        return None if self.owner.type == _USER else "not a user's"

    def is_of(self, principal: Principal) -> bool:
        """Return whether a principal is its owner or one of its renewers."""
        return principal == self.owner or principal in self.renewers


@frozen
class TokenLimits:
    """The settings: `delegation.token.max.lifetime.ms` and `delegation.token.expiry.time.ms`."""

    max_lifetime_ms: int
    expiry_time_ms: int


class TokenSecret:
    """The secret key of the cluster, and what is derived from it. Its text shows none of it."""

    def __init__(self, key: str) -> None:
        """Take `delegation.token.secret.key`, which is the same on all brokers."""
        self._key = key.encode()
        # Another key than that of the HMACs: salts are shown to clients that are not authenticated.
        self._salt_key = digest(self._key, b"SCRAM salts of delegation tokens", _HMAC)

    def hmac(self, token_id: str) -> bytes:
        """Return the secret of a token, its password in base64."""
        return digest(self._key, token_id.encode(), _HMAC)

    def credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        """Return by what a login with a token is checked. It takes milliseconds: PBKDF2."""
        password = b64encode(self.hmac(token_id)).decode()
        salt = self.imitated(mechanism, token_id).salt
        return ScramCredential.of_password(mechanism, salt, password, MIN_ITERATIONS)

    def imitated(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        """Return what a token that does not exist is answered with, at once: it looks as if it did."""
        return imitation(mechanism, token_id, self._salt_key, None)

    def __repr__(self) -> str:
        """Show a digest's first bytes, by which brokers can be compared."""
        return f"TokenSecret({hashlib.sha256(self._salt_key).hexdigest()[:8]})"


# -- requests


def may_send_requests(protocol: str, principal: Principal, token_id: str | None) -> bool:
    """Return whether a client may ask about tokens.

    Not without authentication, nor through PLAINTEXT, where the response could be read on the way, nor by a token: who
    has stolen one could live on others.
    """
    if token_id is not None or protocol == "PLAINTEXT":
        return False
    return protocol != "SSL" or principal != ANONYMOUS


def refusal_of_creation(
    owner: Principal,
    requester: Principal,
    renewers: Collection[Principal],
    may_create_for: Callable[[Principal], bool],
) -> ErrorCode:
    """Return why a client that may ask about tokens gets none; NONE if it does."""
    if owner != requester and not may_create_for(owner):
        return _E.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if owner.type != _USER or any(r.type != _USER or not r.name for r in renewers):
        return _E.INVALID_PRINCIPAL_TYPE
    return _E.NONE


def created(
    token_id: str,
    owner: Principal,
    requester: Principal,
    renewers: Collection[Principal],
    *,
    max_lifetime_ms: int,
    now_ms: int,
    limits: TokenLimits,
) -> DelegationToken:
    """Return a new token; a lifetime that is not positive is the longest one."""
    longest = limits.max_lifetime_ms
    lifetime_ms = longest if max_lifetime_ms <= 0 else min(max_lifetime_ms, longest)
    max_ms = now_ms + lifetime_ms
    expiry_ms = min(max_ms, now_ms + limits.expiry_time_ms)
    return DelegationToken(token_id, owner, requester, tuple(renewers), now_ms, expiry_ms, max_ms)


def renewed(
    token: DelegationToken,
    principal: Principal,
    period_ms: int,
    now_ms: int,
    limits: TokenLimits,
) -> DelegationToken | ErrorCode:
    """Return the token with a later or earlier end, or why not; a negative period is the default one."""
    refusal = _refusal_of_change(token, principal, now_ms)
    if refusal:
        return refusal
    period_ms = limits.expiry_time_ms if period_ms < 0 else period_ms
    return replace(token, expiry_ms=min(token.max_ms, now_ms + period_ms))


def ended(
    token: DelegationToken, principal: Principal, period_ms: int, now_ms: int
) -> DelegationToken | ErrorCode | None:
    """Return the token with its new end, None where it is to go at once (a negative period), or why not."""
    refusal = _refusal_of_change(token, principal, now_ms)
    if period_ms < 0 and refusal is not _E.DELEGATION_TOKEN_OWNER_MISMATCH:
        return None  # also one that has expired
    return refusal or replace(token, expiry_ms=min(token.max_ms, now_ms + period_ms))


def _refusal_of_change(token: DelegationToken, principal: Principal, now_ms: int) -> ErrorCode:
    if not token.is_of(principal):
        return _E.DELEGATION_TOKEN_OWNER_MISMATCH
    return _E.DELEGATION_TOKEN_EXPIRED if token.is_expired(now_ms) else _E.NONE


def is_shown(
    token: DelegationToken,
    principal: Principal,
    owners: Set[Principal] | None,
    may_see: Callable[[DelegationToken], bool],
) -> bool:
    """Return whether a client sees a token: of those that it asks for (None: all), its own and what it may see."""
    if owners is not None and token.owner not in owners and owners.isdisjoint(token.renewers):
        return False
    return token.is_of(principal) or may_see(token)
