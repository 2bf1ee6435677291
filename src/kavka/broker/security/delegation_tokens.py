"""The delegation tokens of the cluster, as the registry has them, in memory.

Any broker changes them: it replaces a token's znode at the version that it has read, together with a notification for
the others. Source: Apache Kafka 3.9's `DelegationTokenManagerZk`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

from kavka.broker.context import BrokerContext
from kavka.broker.control.change_notifications import ChangeNotifications
from kavka.core.access.entries import Principal
from kavka.core.delegation_tokens import DelegationToken, TokenLimits, TokenSecret
from kavka.core.sasl.exchange import TokenCredential
from kavka.core.sasl.scram_credential import SCRAM_MECHANISMS, ScramCredential, ScramMechanism
from kavka.core.znodes import Create, Delete, Operation, SetData, ZnodeError
from kavka.errors import ErrorCode
from kavka.registry.interface import (
    RegistryRefused,
    decode_or_none,
    ensure_paths,
    gathered,
    require_no_node,
)
from kavka.wire.stored import token_znodes
from kavka.wire.stored.token_znodes import TokenRow

log = logging.getLogger(__name__)

Change = Callable[[DelegationToken], DelegationToken | ErrorCode | None]
"""Returns a token as it is to be, None for none, or why it stays; it may be called again."""
_AT_ONCE = 100
_MAX_CREDENTIALS = 10_000
"""Credentials in memory: each takes milliseconds to make."""
_MAX_BYTES = 500_000
"""Of a token's znode: ZooKeeper's servers close the connection of a broker that sends a mebibyte."""
_RACES = (ZnodeError.BAD_VERSION, ZnodeError.NO_NODE)


class DelegationTokens:
    """The tokens that a broker knows, and changes of them."""

    def __init__(self, context: BrokerContext, key: str) -> None:
        """Make the secrets of tokens from `key`."""
        config = context.config
        self._context = context
        self._secret = TokenSecret(key)
        self.limits = TokenLimits(
            config.integer("delegation.token.max.lifetime.ms"),
            config.integer("delegation.token.expiry.time.ms"),
        )
        self._tokens: dict[str, DelegationToken] = {}
        self._by_hmac: dict[bytes, str] = {}
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        """By token and mechanism, of tokens that have been used."""
        # Held from a read, or a write, until memory has it: else what is older could replace what is newer.
        self._lock = asyncio.Lock()
        self._notifications = ChangeNotifications(
            context, {token_znodes.CHANGE: self._apply}, "changes of delegation tokens not read"
        )
        self._notifications.reloads.append(self._load)

    async def start(self) -> None:
        """Load all tokens, and follow their changes from now on. Raise ConnectionError."""
        await ensure_paths(self._context.registry, (token_znodes.TOKENS, token_znodes.CHANGES))
        await self._notifications.mark_seen()
        await self._load()
        self._notifications.start()

    async def stop(self) -> None:
        """Stop watching the registry."""
        await self._notifications.stop()

    def session_renewed(self) -> None:
        """Note that the watches are gone, and perhaps changes were missed."""
        self._notifications.session_renewed()

    # -- what is known

    @property
    def count(self) -> int:
        """Return how many tokens there are, with those that have expired and are not removed yet."""
        return len(self._tokens)

    def __iter__(self) -> Iterator[DelegationToken]:
        """Yield the tokens, also those that have expired and are not removed yet."""
        return iter(list(self._tokens.values()))

    def id_of(self, hmac: bytes) -> str | None:
        """Return the token with a secret."""
        return self._by_hmac.get(hmac)

    def hmac_of(self, token_id: str) -> bytes:
        """Return the secret of a token."""
        return self._secret.hmac(token_id)

    def login(
        self, mechanism: ScramMechanism, token_id: str
    ) -> TokenCredential | Awaitable[TokenCredential]:
        """Return by what a login with a token is checked, later where that takes milliseconds."""
        token = self._tokens.get(token_id)
        fault = "unknown" if token is None else token.login_fault(self._context.clock.now_ms())
        if token is None or fault is not None:
            credential = self._secret.imitated(mechanism, token_id)
            return TokenCredential(credential, fault=f"{fault} delegation token={token_id[:64]!r}")
        known = self._credentials.get((token_id, mechanism.name))
        if known is None:
            return self._made(mechanism, token_id)
        return TokenCredential(known, token.owner.name, token.expiry_ms)

    async def _made(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential:
        """Make the credential of a token, and return what `login` does then: the token may have been removed."""
        credential = await asyncio.to_thread(self._secret.credential, mechanism, token_id)
        token = self._tokens.get(token_id)
        if token is not None:
            if len(self._credentials) >= _MAX_CREDENTIALS:
                del self._credentials[next(iter(self._credentials))]
            self._credentials[token_id, mechanism.name] = credential
        found = self.login(mechanism, token_id)
        assert isinstance(found, TokenCredential)
        return found

    # -- changes

    async def create(self, token: DelegationToken) -> ErrorCode:
        """Store a new token; INVALID_REQUEST for one with more renewers than a znode takes.

        Raise ConnectionError, RegistryRefused.
        """
        data = token_znodes.encode_token(_row(token))
        if len(data) > _MAX_BYTES:
            return ErrorCode.INVALID_REQUEST
        async with self._lock:
            path = token_znodes.token_path(token.token_id)
            await self._write(token.token_id, Create(path, data))
            self._put(token)
        log.info("delegation token created token=%s owner=%s", token.token_id, token.owner)
        return ErrorCode.NONE

    async def change(self, token_id: str, change: Change) -> DelegationToken | ErrorCode | None:
        """Change a token as it is stored then; return the same as `change`, or DELEGATION_TOKEN_NOT_FOUND.

        Raise ConnectionError, RegistryRefused.
        """
        path = token_znodes.token_path(token_id)
        async with self._lock:
            while True:
                token, version = await self._read(token_id)
                if token is None:
                    self._forget(token_id)
                    return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
                after = change(token)
                if isinstance(after, ErrorCode):
                    return after
                write: Operation = Delete(path, version)
                if after is not None:
                    write = SetData(path, token_znodes.encode_token(_row(after)), version)
                try:
                    await self._write(token_id, write)
                except RegistryRefused as refused:
                    if refused.error not in _RACES or refused.at != 0:
                        raise
                    continue  # another broker has changed it meanwhile
                if after is None:
                    self._forget(token_id)
                else:
                    self._put(after)
                return after

    async def remove_expired(self) -> None:
        """Remove the tokens that have expired. Raise ConnectionError."""
        clock = self._context.clock

        def without(token: DelegationToken) -> ErrorCode | None:
            # Another broker may have renewed it.
            return None if token.is_expired(clock.now_ms()) else ErrorCode.NONE

        for token in self:
            if (
                token.is_expired(clock.now_ms())
                and await self.change(token.token_id, without) is None
            ):
                log.info("delegation token expired token=%s owner=%s", token.token_id, token.owner)

    async def _write(self, token_id: str, write: Operation) -> None:
        notification = Create(token_znodes.CHANGE, token_id.encode(), sequence=True)
        await self._context.registry.multi([write, notification])

    # -- memory

    async def _load(self) -> None:
        async with self._lock:
            stored = await self._context.registry.children(token_znodes.TOKENS)
            read = await gathered(self._read, stored, _AT_ONCE)
            found = {token.token_id: token for token, _version in read if token is not None}
            for token_id in [known for known in self._tokens if known not in found]:
                self._forget(token_id)
            for token in found.values():
                self._put(token)

    async def _apply(self, data: bytes, path: str) -> None:
        token_id = decode_or_none(data, bytes.decode, path)
        if token_id is None or not _may_be_a_node(token_id):
            self._notifications.must_reload = True  # some token has changed
            return
        async with self._lock:
            token, _version = await self._read(token_id)
            if token is None:
                self._forget(token_id)
            else:
                self._put(token)

    async def _read(self, token_id: str) -> tuple[DelegationToken | None, int]:
        """Return a stored token and the version of its znode; None where there is none that can be read."""
        path = token_znodes.token_path(token_id)
        try:
            data, stat = await self._context.registry.get(path)
        except RegistryRefused as refused:
            require_no_node(refused)
            return None, -1
        token = decode_or_none(data, lambda data: _token(token_znodes.decode_token(data)), path)
        if token is not None and token.token_id != token_id:
            log.warning("znode not used path=%s reason=%s", path, "it names another token")
            token = None
        return token, stat.version

    def _put(self, token: DelegationToken) -> None:
        if token.token_id not in self._tokens:
            self._by_hmac[self._secret.hmac(token.token_id)] = token.token_id
        self._tokens[token.token_id] = token

    def _forget(self, token_id: str) -> None:
        if self._tokens.pop(token_id, None) is None:
            return
        self._by_hmac.pop(self._secret.hmac(token_id), None)
        for mechanism in SCRAM_MECHANISMS:
            self._credentials.pop((token_id, mechanism), None)


def _may_be_a_node(name: str) -> bool:
    return bool(name) and "/" not in name


def _row(token: DelegationToken) -> TokenRow:
    return TokenRow(
        token.token_id,
        str(token.owner),
        str(token.requester),
        [str(renewer) for renewer in token.renewers],
        token.issue_ms,
        token.expiry_ms,
        token.max_ms,
    )


def _token(row: TokenRow) -> DelegationToken:
    return DelegationToken(
        row.token_id,
        Principal.parse(row.owner),
        Principal.parse(row.requester),
        tuple(Principal.parse(renewer) for renewer in row.renewers),
        row.issue_ms,
        row.expiry_ms,
        row.max_ms,
    )
