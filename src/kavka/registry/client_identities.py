"""The identities of a client of a served registry: what its connection shows, and what it proves by AUTH or SASL.

    connection     ip:<address>, and x509:<name> of the certificate that TLS has verified
    AUTH digest    digest:<user>:<hash>       every password is accepted: it is another identity
    SASL           sasl:<user>                DIGEST-MD5 with the users of the JAAS file; a failure ends the connection

Identities belong to a connection, not to its session: a client proves them again on the next one. Source: ZooKeeper's
administrator's guide, "Authentication & Authorization Options".
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Collection, Mapping

from kavka.core.sasl.digest_md5 import DigestMd5Server
from kavka.core.sasl.exchange import Challenge, Failure, Success
from kavka.core.znode_access import SUPER, Identity, digest_id
from kavka.io import Random
from kavka.net.bounded_log import BoundedLog
from kavka.values import field, frozen

log = logging.getLogger(__name__)

_MAX_IDENTITIES = 64
"""Of one connection: each request compares them with access lists."""
_NONCE_BYTES = 24


class LoginRefused(Exception):
    """A client that has not proved what it says: its connection is closed."""


@frozen
class AccessSettings:
    """The settings of access to a served registry. Their text shows no password."""

    users: Mapping[str, str] = field(factory=dict)
    """Passwords of the users that may log in by SASL; empty offers no SASL."""
    super_digest: str = ""
    """The id of the scheme digest to which everything is allowed."""
    super_certificate: str = ""
    """The name of the certificate to whose owner everything is allowed."""
    super_user: str = ""
    """The user of SASL that everything is allowed to."""
    required_schemes: tuple[str, ...] = ()
    """Schemes of which a client must have an identity before any other request; empty requires none."""
    skips_access_lists: bool = False

    def __repr__(self) -> str:
        """Show no password and no hash."""
        return f"AccessSettings(users={sorted(self.users)}, required={self.required_schemes})"


class ClientAuthentication:
    """Makes the identities of all connections of a server, and logs failures, though not each of a flood."""

    def __init__(self, settings: AccessSettings, random: Random) -> None:
        """Begin without connections."""
        self.settings = settings
        self.random = random
        self._log = BoundedLog(log)
        self.failures = 0
        """Logins that failed since the start."""

    def begin(self, address: str, certificate: str | None = None) -> ClientIdentities:
        """Return the identities of a new connection; `certificate` is the name in the client's, if it has one."""
        return ClientIdentities(self, address, certificate)

    def failed(self, address: str, scheme: str, reason: str) -> LoginRefused:
        """Count and log a failure, unless there are many; return the exception to raise."""
        self.failures += 1
        self._log.write(
            address, "registry login failed peer=%s scheme=%s reason=%s", address, scheme, reason
        )
        return LoginRefused(reason)


class ClientIdentities:
    """The identities of one connection."""

    def __init__(
        self, authentication: ClientAuthentication, address: str, certificate: str | None
    ) -> None:
        """Begin with what the connection itself shows."""
        self._authentication = authentication
        self._settings = authentication.settings
        self._address = address
        self._found: dict[Identity, None] = {Identity("ip", address): None}
        self._login: DigestMd5Server | None = None
        self._is_logged_in = False
        if certificate:
            self._add(Identity("x509", certificate), self._settings.super_certificate)

    @property
    def all(self) -> Collection[Identity]:
        """Return all identities, for access lists."""
        if self._settings.skips_access_lists:
            return {**self._found, SUPER: None}
        return self._found

    @property
    def proven(self) -> Collection[Identity]:
        """Return what is shown to the client itself: without hashes."""
        return [
            Identity(scheme, name.partition(":")[0] if scheme == "digest" else name)
            for scheme, name in self._found
        ]

    @property
    def may_proceed(self) -> bool:
        """Return whether the client may send requests: it has an identity of a scheme that is required."""
        required = self._settings.required_schemes
        return not required or any(one.scheme in required for one in self._found)

    def add(self, scheme: str, proof: bytes) -> None:
        """Take an AUTH request. Raise LoginRefused for a scheme that is none."""
        if scheme == "ip" or (
            scheme == "x509" and any(one.scheme == scheme for one in self._found)
        ):
            return  # known of the connection
        if scheme != "digest":
            raise self._failed(scheme, "there is no such scheme for AUTH")
        self._add(Identity("digest", digest_id(proof)), self._settings.super_digest)

    def respond(self, token: bytes) -> bytes | None:
        """Take a token of a SASL login and return the reply; None where no SASL is offered.

        Raise LoginRefused.
        """
        if not self._settings.users:
            return None
        if self._is_logged_in:
            raise self._failed("sasl", "a second login on one connection")
        if self._login is None:
            nonce = self._authentication.random.random_bytes(_NONCE_BYTES).hex()
            self._login = DigestMd5Server(nonce, self._settings.users.get)
        match self._login.respond(token):
            case Challenge(challenge):
                return challenge
            case Success(user, proof):
                self._is_logged_in = True
                self._add(Identity("sasl", user), self._settings.super_user)
                log.info("registry client logged in peer=%s user=%s", self._address, user)
                return proof
            case Failure(reason):
                raise self._failed("sasl", reason)

    def _add(self, identity: Identity, super_id: str) -> None:
        if identity not in self._found and len(self._found) >= _MAX_IDENTITIES:
            raise self._failed(identity.scheme, f"more than {_MAX_IDENTITIES} identities")
        self._found[identity] = None
        if super_id and hmac.compare_digest(identity.id.encode(), super_id.encode()):
            self._found[SUPER] = None

    def _failed(self, scheme: str, reason: str) -> LoginRefused:
        return self._authentication.failed(self._address, scheme, reason)
