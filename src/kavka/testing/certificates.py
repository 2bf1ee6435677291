"""A throw-away certificate authority."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID
except ImportError as error:
    raise ImportError("a cluster with tls=True needs: pip install 'kavka[testing]'") from error

_VALID = datetime.timedelta(days=30)


class Signed:
    """A certificate of an authority, and its key."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        """Hold both."""
        self._key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self._certificate = certificate.public_bytes(Encoding.PEM)

    def write(self, path: Path) -> None:
        """Write key and certificate into one file, as a broker takes it."""
        write_private(path, self._key + self._certificate)

    def write_apart(self, certificate: Path, key: Path) -> None:
        """Write two files, as clients take them."""
        certificate.write_bytes(self._certificate)
        write_private(key, self._key)


class Authority:
    """Signs certificates until it is forgotten: its own key is never written."""

    def __init__(self) -> None:
        """Make the authority's key and certificate."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("kavka.testing authority")
        self._certificate = signed_certificate(
            self._key, self._name, self._key, self._name, is_authority=True
        )

    def write(self, path: Path) -> None:
        """Write the certificate, which clients trust."""
        path.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def sign(self, common_name: str, hosts: tuple[str, ...]) -> Signed:
        """Return a certificate for `hosts`, or for a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name)
        return Signed(key, signed_certificate(key, name, self._key, self._name, hosts=hosts))


def signed_certificate(
    key: ec.EllipticCurvePrivateKey,
    name: x509.Name,
    signer_key: ec.EllipticCurvePrivateKey,
    signer_name: x509.Name,
    *,
    is_authority: bool = False,
    hosts: tuple[str, ...] = (),
    begin: datetime.timedelta = -_VALID,
    end: datetime.timedelta = _VALID,
) -> x509.Certificate:
    """Return a certificate of `key` that is valid from `begin` to `end`, counted from now."""
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(signer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begin)
        .not_valid_after(now + end)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()), False
        )
    )
    if is_authority:
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
    if hosts:
        names = [_general_name(host) for host in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer_key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def write_private(path: Path, data: bytes) -> None:
    """Write a file with a private key, for its owner alone."""
    path.touch(0o600)
    path.write_bytes(data)
