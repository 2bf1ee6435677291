"""Key stores in Java's own format, JKS: private keys with their chains, and trusted certificates. Pure.

    magic FEEDFEED, version, count, count * (tag, alias, time, entry), SHA-1 of (password, "Mighty Aphrodite", the rest)
    entry of tag 1:   key (length, EncryptedPrivateKeyInfo), chain (count * certificate)
    entry of tag 2:   certificate (type, length, DER)

A key is its PKCS #8 form under a stream of SHA-1 digests, each of the password and the digest before, the first of a
salt: salt[20] | key xor stream | SHA-1 of (password, key). Source: Java's `sun.security.provider.KeyProtector`.
No library that is still kept reads it, and it takes nothing but SHA-1 (decision 049).
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final

from kavka.core.distinguished_names import BadCertificate, elements
from kavka.values import field, frozen

MAGIC: Final = b"\xfe\xed\xfe\xed"
_PRIVATE_KEY, _TRUSTED = 1, 2
_DIGEST = 20
_WHITENER = b"Mighty Aphrodite"
_PROTECTOR: Final = bytes.fromhex("060a2b060104012a02110101")
"""OID 1.3.6.1.4.1.42.2.17.1.1, the algorithm by which keys are protected."""


class BadJks(ValueError):
    """The bytes are no JKS key store, or the password is not its own."""


@frozen
class JksKey:
    """A private key, still protected, and its chain, the owner's certificate first."""

    protected: bytes
    chain: tuple[bytes, ...]


@frozen
class JksEntries:
    """The entries of a key store, by alias; certificates are DER."""

    keys: dict[str, JksKey] = field(factory=dict)
    trusted: dict[str, bytes] = field(factory=dict)


def read_jks(data: bytes, password: str | None) -> JksEntries:
    """Return the entries of a store. Raise BadJks; without a password, what is there is not checked."""
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    reader = _Reader(body)
    if reader.take(4) != MAGIC:
        raise BadJks("it is no JKS key store")
    if password is not None:
        expected = hashlib.sha1(_utf16(password) + _WHITENER + body).digest()
        if not hmac.compare_digest(expected, digest):
            raise BadJks("the password is wrong, or the file is damaged")
    version = reader.number()
    if version not in (1, 2):
        raise BadJks(f"version {version} of the format is not known")
    entries = JksEntries()
    for _ in range(reader.number()):
        tag, alias = reader.number(), reader.text()
        reader.take(8)  # when it was made
        if tag == _PRIVATE_KEY:
            protected = reader.sized()
            chain = tuple(reader.certificate(version) for _ in range(reader.number()))
            entries.keys[alias] = JksKey(protected, chain)
        elif tag == _TRUSTED:
            entries.trusted[alias] = reader.certificate(version)
        else:
            raise BadJks(f"an entry has the unknown tag {tag}")
    return entries


def unprotected_key(protected: bytes, password: str) -> bytes:
    """Return a private key in PKCS #8 DER. Raise BadJks when the password is wrong."""
    try:
        (info,) = elements(protected)
        algorithm, encrypted = elements(info.content)
    except (BadCertificate, ValueError) as error:
        raise BadJks(f"a private key is damaged: {error}") from error
    if not algorithm.content.startswith(_PROTECTOR):
        raise BadJks("a private key is protected by an algorithm that is not JKS's own")
    salt, sealed = encrypted.content[:_DIGEST], encrypted.content[_DIGEST:-_DIGEST]
    secret = _utf16(password)
    stream, digest = bytearray(), salt
    while len(stream) < len(sealed):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    key = bytes(one ^ other for one, other in zip(sealed, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), encrypted.content[-_DIGEST:]):
        raise BadJks("the password of the private key is wrong")
    return key


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")


class _Reader:
    """Reads numbers, texts and certificates in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> bytes:
        found = self._data[self._at : self._at + length]
        if len(found) < length:
            raise BadJks("the file ends early")
        self._at += length
        return found

    def number(self) -> int:
        (found,) = struct.unpack(">I", self.take(4))
        return int(found)

    def sized(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        (length,) = struct.unpack(">H", self.take(2))
        return self.take(length).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self.text()) != "X.509":
            raise BadJks(f"a certificate is of the unknown type {kind}")
        return self.sized()
