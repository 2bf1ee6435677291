"""Certificates for tests: an authority, and what it signs, as PEM, PKCS #12 and JKS files."""

from __future__ import annotations

import datetime
import hashlib
import struct
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

from kavka.testing.certificates import signed_certificate, write_private

PASSWORD = "sesame"
_DAY = datetime.timedelta(days=1)


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Acme"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


class Signed:
    """A private key and its chain, the owner's certificate first."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, chain: list[x509.Certificate]) -> None:
        self.key = key
        self.chain = chain

    @property
    def chain_pem(self) -> bytes:
        return b"".join(one.public_bytes(Encoding.PEM) for one in self.chain)

    def key_pem(self, password: str | None = None) -> bytes:
        how: Any = (
            NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        )
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)

    def key_der(self) -> bytes:
        return self.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())

    def write_pem(self, path: Path, password: str | None = None) -> str:
        """Write a key store of type PEM, and return its path."""
        write_private(path, self.key_pem(password) + self.chain_pem)
        return str(path)

    def write_pkcs12(self, path: Path, password: str = PASSWORD) -> str:
        how = BestAvailableEncryption(password.encode())
        # The others in any order: the reader has to find who signed whom.
        data = pkcs12.serialize_key_and_certificates(
            b"owner", self.key, self.chain[0], self.chain[:0:-1], how
        )
        write_private(path, data)
        return str(path)

    def write_jks(
        self, path: Path, password: str = PASSWORD, key_password: str | None = None
    ) -> str:
        chain = [one.public_bytes(Encoding.DER) for one in self.chain]
        write_private(path, _jks(password, (self.key_der(), chain, key_password or password), []))
        return str(path)


class Authority:
    """Signs certificates."""

    def __init__(self, name: str = "Test authority", issuer: Authority | None = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = _name(name)
        self.issuer = issuer
        signer = issuer or self
        self.certificate = signed_certificate(
            self.key,
            self.name,
            signer.key,
            signer.name,
            is_authority=True,
            begin=-_DAY,
            end=365 * _DAY,
        )

    @property
    def chain(self) -> list[x509.Certificate]:
        """This authority's certificate and those above it, without the root."""
        return [] if self.issuer is None else [self.certificate, *self.issuer.chain]

    def sign(
        self,
        common_name: str = "localhost",
        *,
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
        begin: int = -1,
        end: int = 30,
        name: x509.Name | None = None,
    ) -> Signed:
        """Sign a certificate that is valid from day `begin` to `end`, counted from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = signed_certificate(
            key,
            name or _name(common_name),
            self.key,
            self.name,
            hosts=hosts,
            begin=begin * _DAY,
            end=end * _DAY,
        )
        return Signed(key, [certificate, *self.chain])

    def write_pem(self, path: Path) -> str:
        """Write a trust store of type PEM, and return its path."""
        path.write_bytes(self.certificate.public_bytes(Encoding.PEM))
        return str(path)

    def write_pkcs12(self, path: Path, password: str = PASSWORD) -> str:
        how = BestAvailableEncryption(password.encode())
        data = pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(self.certificate, b"ca")], how
        )
        path.write_bytes(data)
        return str(path)

    def write_jks(self, path: Path, password: str = PASSWORD) -> str:
        path.write_bytes(_jks(password, None, [self.certificate.public_bytes(Encoding.DER)]))
        return str(path)


def _jks(
    password: str, owner: tuple[bytes, list[bytes], str] | None, trusted: list[bytes]
) -> bytes:
    """Return a key store as Java writes it; `test_tls_java` compares the reader with keytool's own."""
    entries = [_jks_trusted(f"ca{i}", one) for i, one in enumerate(trusted)]
    if owner is not None:
        entries.append(_jks_key(*owner))
    body = struct.pack(">III", 0xFEEDFEED, 2, len(entries)) + b"".join(entries)
    secret = password.encode("utf-16-be")
    return body + hashlib.sha1(secret + b"Mighty Aphrodite" + body).digest()


def _jks_text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _jks_certificate(der: bytes) -> bytes:
    return _jks_text("X.509") + struct.pack(">I", len(der)) + der


def _jks_trusted(alias: str, der: bytes) -> bytes:
    return struct.pack(">I", 2) + _jks_text(alias) + bytes(8) + _jks_certificate(der)


def _jks_key(key: bytes, chain: list[bytes], password: str) -> bytes:
    secret, salt = password.encode("utf-16-be"), bytes(range(20))
    stream, digest = b"", salt
    while len(stream) < len(key):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    sealed = bytes(a ^ b for a, b in zip(key, stream, strict=False))
    sealed = salt + sealed + hashlib.sha1(secret + key).digest()
    algorithm = bytes.fromhex("300e060a2b060104012a021101010500")
    protected = _der(0x30, algorithm + _der(0x04, sealed))
    return (
        struct.pack(">I", 1)
        + _jks_text("owner")
        + bytes(8)
        + struct.pack(">I", len(protected))
        + protected
        + struct.pack(">I", len(chain))
        + b"".join(map(_jks_certificate, chain))
    )


def _der(tag: int, content: bytes) -> bytes:
    return bytes([tag, 0x82]) + struct.pack(">H", len(content)) + content
