"""SCRAM credentials: what a broker keeps of a password, and their text in `/config/users/<user>`.

    salt=<base64>,stored_key=<base64>,server_key=<base64>,iterations=8192

Source: RFC 5802, 3; Apache Kafka's `ScramCredentialUtils`.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from hmac import digest
from typing import Final, NamedTuple

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""Of credentials that a request creates. Those that were stored otherwise are used."""
_CLIENT_KEY: Final = b"Client Key"
_SERVER_KEY: Final = b"Server Key"


class ScramMechanism(NamedTuple):
    """A mechanism of the family: its name, its number in requests, its hash function."""

    name: str
    number: int
    hash: str

    @property
    def size(self) -> int:
        """The bytes of a hash."""
        return hashlib.new(self.hash).digest_size

    def hmac(self, key: bytes, text: bytes) -> bytes:
        """Return the HMAC of a text."""
        return digest(key, text, self.hash)

    def h(self, text: bytes) -> bytes:
        """Return the hash of a text."""
        return hashlib.new(self.hash, text).digest()

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return `Hi(password, salt, i)`. It takes milliseconds, during which other threads run."""
        return hashlib.pbkdf2_hmac(self.hash, password.encode(), salt, iterations)

    def client_key(self, salted_password: bytes) -> bytes:
        """Return what the client proves to have."""
        return self.hmac(salted_password, _CLIENT_KEY)

    def server_key(self, salted_password: bytes) -> bytes:
        """Return what the broker proves to have."""
        return self.hmac(salted_password, _SERVER_KEY)


SHA_256: Final = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SHA_512: Final = ScramMechanism("SCRAM-SHA-512", 2, "sha512")
SCRAM_MECHANISMS: Final = {each.name: each for each in (SHA_256, SHA_512)}
SCRAM_NUMBERS: Final = {each.number: each for each in (SHA_256, SHA_512)}


class ScramCredential(NamedTuple):
    """The part of a user's password that a broker keeps, for one mechanism. Its text shows none of it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Say only how costly a guess is."""
        return f"ScramCredential(iterations={self.iterations})"

    def encode(self) -> str:
        """Return the text that Apache Kafka keeps."""
        salt, stored_key, server_key = (b64encode(part).decode() for part in self[:3])
        return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={self.iterations}"

    @classmethod
    def decode(cls, text: str) -> ScramCredential:
        """Read such a text. Raise ValueError without a part of it in the message."""
        fields = dict(part.partition("=")[::2] for part in text.split(","))
        try:
            salt, stored_key, server_key = (
                b64decode(fields[name], validate=True)
                for name in ("salt", "stored_key", "server_key")
            )
            iterations = int(fields["iterations"])
        except (KeyError, Base64Error, ValueError):
            raise ValueError("not a SCRAM credential") from None
        if iterations < 1 or not salt or not stored_key or not server_key:
            raise ValueError("not a SCRAM credential")
        return cls(salt, stored_key, server_key, iterations)

    @classmethod
    def of_salted(
        cls, mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
    ) -> ScramCredential:
        """Make a credential of what AlterUserScramCredentials carries."""
        stored_key = mechanism.h(mechanism.client_key(salted_password))
        return cls(salt, stored_key, mechanism.server_key(salted_password), iterations)

    @classmethod
    def of_password(
        cls, mechanism: ScramMechanism, salt: bytes, password: str, iterations: int
    ) -> ScramCredential:
        """Make a credential of a password."""
        salted_password = mechanism.salted_password(password, salt, iterations)
        return cls.of_salted(mechanism, salt, salted_password, iterations)


Lookup = Callable[[str], ScramCredential | None]
"""Returns the credential of a user in a mechanism."""


def imitation(
    mechanism: ScramMechanism, user: str, secret: bytes, model: ScramCredential | None
) -> ScramCredential:
    """Return the credential by which a user that does not exist is answered: always the same, shaped like `model`.

    No password is known that fits it. `secret` must not be known to clients.
    """
    name = user.encode()
    iterations = MIN_ITERATIONS if model is None else model.iterations
    salt_bytes = 26 if model is None else len(model.salt)
    stream = b"".join(
        mechanism.hmac(secret, b"salt %d " % block + name)
        for block in range(-(-salt_bytes // mechanism.size))
    )
    salt = stream[:salt_bytes]
    if model is not None and model.salt.isalnum():  # Kafka's tool salts with letters and digits
        salt = bytes(b"0123456789abcdefghijklmnopqrstuvwxyz"[byte % 36] for byte in salt)
    stored_key = mechanism.hmac(secret, b"stored " + name)
    return ScramCredential(salt, stored_key, mechanism.hmac(secret, b"server " + name), iterations)
