"""The SCRAM credentials of all users, as the registry has them, in memory.

Apache Kafka keeps them in `/config/users/<user>`. Notifications bring changes that other brokers or tools make.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from kavka.broker.configs.entity_configs import read_entity_config
from kavka.core.sasl.scram_credential import (
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
    imitation,
)
from kavka.registry.interface import Registry, existing_children, gathered
from kavka.wire.stored import znodes

log = logging.getLogger(__name__)

USERS = "users"
_AT_ONCE = 100
_SECRETS = 5
"""Credentials that the responses for unknown users depend on: with more, those would change more often."""


def scram_credentials(config: Mapping[str, str], user: str) -> dict[str, ScramCredential]:
    """Return the credentials among a user's settings, by mechanism; one that cannot be read is left out."""
    found: dict[str, ScramCredential] = {}
    for mechanism in SCRAM_MECHANISMS:
        text = config.get(mechanism)
        if text is None:
            continue
        try:
            found[mechanism] = ScramCredential.decode(text)
        except ValueError:
            log.warning("stored credential not readable user=%r mechanism=%s", user, mechanism)
    return found


async def stored_credentials(
    registry: Registry,
    users: Iterable[str] | None = None,
    rest: Callable[[], Awaitable[None]] | None = None,
) -> dict[str, dict[str, ScramCredential]]:
    """Return what the registry has, of some users or of all, of those that have any. Raise ConnectionError.

    `rest` is awaited now and then.
    """
    nodes: Iterable[str]
    if users is None:
        nodes = await existing_children(registry, f"/config/{USERS}")
    else:
        nodes = (znodes.sanitized_name(user) for user in users if user not in znodes.UNSTORABLE)

    async def read(node: str) -> tuple[str, dict[str, ScramCredential]] | None:
        user = znodes.entity_name(node)
        config = await read_entity_config(registry, f"{USERS}/{node}")
        credentials = scram_credentials(config, user)
        return (user, credentials) if credentials else None

    of_users = (node for node in nodes if node != znodes.DEFAULT_ENTITY)
    found = await gathered(read, of_users, _AT_ONCE, rest)
    return dict(each for each in found if each is not None)


class ScramCredentials:
    """The credentials that a broker authenticates by."""

    def __init__(self, random_secret: bytes) -> None:
        """Begin without users; `random_secret` serves to answer for users that do not exist, until one exists."""
        self._users: dict[str, dict[str, ScramCredential]] = {}
        self._random_secret = random_secret
        self._secret = random_secret
        self._models: dict[str, list[ScramCredential]] = {}
        # Held from a read until memory has it: else what is older could replace what is newer.
        self._lock = asyncio.Lock()

    async def load(self, registry: Registry) -> None:
        """Read all users. Raise ConnectionError."""
        async with self._lock:
            self._users = await stored_credentials(registry)
            self._refresh()

    async def entity_changed(self, registry: Registry, path: str) -> None:
        """Read a user again, if `path` below `/config` is that of one. Raise ConnectionError."""
        kind, _slash, node = path.partition("/")
        if kind != USERS or "/" in node or node == znodes.DEFAULT_ENTITY:
            return
        user = znodes.entity_name(node)
        async with self._lock:
            credentials = scram_credentials(await read_entity_config(registry, path), user)
            if credentials == self._users.get(user, {}):
                return
            if credentials:
                self._users[user] = credentials
            else:
                self._users.pop(user, None)
            self._refresh()

    def _refresh(self) -> None:
        """Keep what answers for unknown users alike on all brokers: it depends on what is stored alone."""
        digests = sorted(
            hashlib.sha256(f"{user}\0{name}\0".encode() + credential.server_key).digest()
            for user, credentials in self._users.items()
            for name, credential in credentials.items()
        )
        # Of several credentials, and no user can compute of which: one alone would be known to its user.
        found = b"".join(digests[:_SECRETS])
        self._secret = hashlib.sha256(found).digest() if found else self._random_secret
        self._models = {
            name: sorted(
                credentials[name] for credentials in self._users.values() if name in credentials
            )
            for name in SCRAM_MECHANISMS
        }

    def of(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Return the credential of a user."""
        return self._users.get(user, {}).get(mechanism.name)

    def imitated(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        """Return what a user without a credential is answered with: the shape is that of one that exists."""
        models = self._models.get(mechanism.name)
        model = None
        if models:
            place = int.from_bytes(mechanism.hmac(self._secret, user.encode())[:8], "big")
            model = models[place % len(models)]
        return imitation(mechanism, user, self._secret, model)
