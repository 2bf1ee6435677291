"""Access to ZooKeeper on the client's side: how a connection proves who it is, and who may use the nodes it makes.

Access lists are Apache Kafka's with `zookeeper.set.acl=true`: everything is allowed to the identity that creates a
node; everybody may read it, but for what is below the sensitive paths. Source: Kafka's documentation, "ZooKeeper
Authentication"; `kafka.zk.ZkData` for the paths.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kavka.core.sasl.digest_md5 import DigestMd5Client
from kavka.core.sasl.exchange import SaslError
from kavka.core.znode_access import ALL, OPEN, READ, AccessList, AclEntry
from kavka.core.znodes import ZnodeError
from kavka.io import Random
from kavka.registry.interface import RegistryRefused
from kavka.registry.jaas_files import ZooKeeperLogin
from kavka.registry.zookeeper_connection import ServerRefused, ZooKeeperConnection
from kavka.settings.declaration import InvalidSetting
from kavka.wire.zookeeper.jute import decode, encode
from kavka.wire.zookeeper.messages import AuthRequest, OpCode, SaslToken

_CREATOR: Final = AclEntry(ALL, "auth", "")
_READERS: Final = AclEntry(READ, "world", "anyone")
_SENSITIVE: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
_OPEN_PATH: Final = "/consumers"
"""Consumers of old clients write below it."""
SECURE_ROOTS: Final = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    "/controller",
    "/controller_epoch",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/delegation_token",
    "/kafka-acl-extended",
    "/migration",
    "/feature",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
)
"""The paths whose trees belong to the brokers."""
_CNONCE_BYTES: Final = 24
_AUTH_FAILED: Final = (-115, -124)


class ZooKeeperLoginRefused(ConnectionError):
    """ZooKeeper does not take the login: trying again with the same one does not help."""


class AccessDenied(ConnectionError):
    """ZooKeeper refuses a node to this session's identities."""


def kafkas_access_list(path: str) -> AccessList:
    """Return the access list of a node that a broker makes with `zookeeper.set.acl=true`, by its path in the chroot."""
    if path == _OPEN_PATH:
        return OPEN
    return (_CREATOR,) if path.startswith(_SENSITIVE) else (_CREATOR, _READERS)


def open_access_list(path: str) -> AccessList:
    """Return the access list of a node that a broker makes without `zookeeper.set.acl`."""
    return OPEN


class ZooKeeperAccess:
    """The identity of a client and the access lists of what it creates."""

    def __init__(
        self,
        read_login: Callable[[], ZooKeeperLogin | None] | None = None,
        access_list: Callable[[str], AccessList] = open_access_list,
    ) -> None:
        """Take what reads the login of each connection, on a thread, so that a changed file counts."""
        self._read_login = read_login
        self.access_list = access_list
        self._proofs: list[tuple[str, bytes]] = []

    def access_of(self, path: str, asked: AccessList) -> AccessList:
        """Return the access list of a new node: what is asked for, or that of its path."""
        return self.access_list(path) if asked is OPEN else asked

    async def prove(self, connection: ZooKeeperConnection, random: Random) -> None:
        """Show the identities on a new connection. Raise ZooKeeperLoginRefused, OSError."""
        login = None
        try:
            if self._read_login is not None:
                login = await asyncio.to_thread(self._read_login)
        except InvalidSetting as error:
            raise ZooKeeperLoginRefused(str(error)) from error
        if login is not None:
            await _log_in(connection, login, random)
        for scheme, proof in self._proofs:
            await _show(connection, scheme, proof)

    async def add(self, connection: ZooKeeperConnection, scheme: str, proof: bytes) -> None:
        """Show another identity, on this connection and those to come. Raise ZooKeeperLoginRefused, OSError."""
        await _show(connection, scheme, proof)
        self._proofs.append((scheme, proof))


async def _show(connection: ZooKeeperConnection, scheme: str, proof: bytes) -> None:
    try:
        await connection.authenticate(encode(AuthRequest(0, scheme, proof)))
    except ServerRefused as refused:
        raise ZooKeeperLoginRefused(
            f"ZooKeeper refused the identity of the scheme {scheme}"
        ) from refused


async def _log_in(connection: ZooKeeperConnection, login: ZooKeeperLogin, random: Random) -> None:
    exchange = DigestMd5Client(login.user, login.password, random.random_bytes(_CNONCE_BYTES).hex())
    try:
        challenge = await _sasl(connection, b"")
        if challenge is None:
            reason = "it offers no SASL: its JAAS file has no section Server"
            raise ZooKeeperLoginRefused(_refusal_of(login, reason))
        proof = await _sasl(connection, exchange.respond(challenge))
        exchange.finish(proof or b"")
    except ServerRefused as refused:
        if refused.code not in _AUTH_FAILED:
            raise ZooKeeperLoginRefused(_refusal_of(login, str(refused))) from refused
        reason = "unknown user or wrong password"
        raise ZooKeeperLoginRefused(_refusal_of(login, reason)) from refused
    except SaslError as error:
        raise ZooKeeperLoginRefused(_refusal_of(login, str(error))) from error


def _refusal_of(login: ZooKeeperLogin, reason: str) -> str:
    return f"ZooKeeper does not take the login of user {login.user} ({login.source}): {reason}"


async def _sasl(connection: ZooKeeperConnection, token: bytes) -> bytes | None:
    return decode(SaslToken, await connection.request(OpCode.SASL, SaslToken(token))).token


def refusal(error: ServerRefused, path: str, at: int = 0) -> RegistryRefused | ConnectionError:
    """Return what a call raises that the server answered with an error; `at` is its place in a multi."""
    if error.code == ZnodeError.NO_AUTH:
        return AccessDenied(
            f"ZooKeeper denies access to {path} (NoAuth): the znode, or the one above, belongs to another identity; "
            "a broker has that of its JAAS file or certificate, `kavka zookeeper-shell` shows the list with getAcl"
        )
    if error.code in _AUTH_FAILED:
        return ZooKeeperLoginRefused(
            f"ZooKeeper answers only clients that log in or show a certificate ({error}, {path}): name a JAAS file "
            "with a section Client (KAFKA_OPTS=-Djava.security.auth.login.config=FILE; a broker's setting is "
            "kavka.zookeeper.jaas.file), or a certificate (zookeeper.ssl.keystore.location)"
        )
    try:
        return RegistryRefused(ZnodeError(error.code), path, at)
    except ValueError:
        return ConnectionError(f"{error} for {path}")
