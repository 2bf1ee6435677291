"""Key and trust stores, read into PEM text that OpenSSL takes: PEM, PKCS #12 and Java's JKS.

The type that the settings name is what Java would open; as there, a file of type JKS may be PKCS #12, and the other
way round. PKCS #12 needs `cryptography`, which `kavka[tls]` installs; PEM and JKS need nothing.
"""

from __future__ import annotations

import base64
import os
import re
import stat
from pathlib import Path
from typing import Any, Final

from kavka.core.distinguished_names import subject_of
from kavka.net.tls import jks
from kavka.net.tls.settings import Store, TlsSettings
from kavka.values import frozen

_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN (?P<label>(?:X509 |TRUSTED )?CERTIFICATE)-----.*?-----END (?P=label)-----",
    re.DOTALL,
)
_KEY: Final = re.compile(
    rb"-----BEGIN (?P<label>(?:[A-Z]+ )?PRIVATE KEY)-----.*?-----END (?P=label)-----", re.DOTALL
)
_JCEKS = b"\xce\xce\xce\xce"
_DER_SEQUENCE = b"\x30"
_BEGIN = b"-----BEGIN "


@frozen
class KeyMaterial:
    """A private key with its chain, the owner's certificate first, as PEM."""

    certificates: bytes
    key: bytes
    password: str | None
    """The password that the key is encrypted with; None if it is not."""

    def __repr__(self) -> str:
        """Show neither password nor key."""
        return "KeyMaterial()"


def read_key_store(settings: TlsSettings) -> KeyMaterial | None:
    """Return the key of `ssl.keystore.*`, None without a key store. Raise InvalidStore."""
    store = settings.key_store
    if not store.is_given:
        return None
    if store.location is None:
        return _inline_key(store, settings.key_password)
    data = _read(store, store.location)
    if _is_pem(store, data):
        certificates, keys = _pem(data)
        if store.key_location is not None:
            _others, keys = _pem(_read(store, store.key_location))
        if not keys:
            where = f" {store.key_location}" if store.key_location else ""
            raise store.invalid(f"the file{where} holds no private key")
        return _checked(store, certificates, keys[0], settings.key_password)
    if data.startswith(jks.MAGIC):
        return _jks_key(store, data, settings.key_password)
    return _pkcs12_key(store, data)


def read_trust_store(store: Store) -> bytes | None:
    """Return the certificates of `ssl.truststore.*` as PEM, None without a trust store. Raise InvalidStore."""
    if not store.is_given:
        return None
    if store.location is None:
        found, _keys = _pem((store.certificates or "").encode())
    else:
        data = _read(store, store.location)
        if _is_pem(store, data):
            found, _keys = _pem(data)
        elif data.startswith(jks.MAGIC):
            entries = _jks_entries(store, data)
            found = [to_pem("CERTIFICATE", one) for one in entries.trusted.values()]
        else:
            found = _pkcs12_certificates(store, data)
    if not found:
        raise store.invalid("it holds no trusted certificate")
    return b"\n".join(found)


def certificates_of(pem: bytes) -> list[bytes]:
    """Return the certificates in PEM text as DER. Raise ValueError where one is damaged."""
    return [base64.b64decode(one.split(b"-----")[2]) for one in _pem(pem)[0]]


def to_pem(label: str, der: bytes) -> bytes:
    """Return DER as a block of PEM."""
    text = base64.b64encode(der).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""]).encode()


def _read(store: Store, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        what = "" if location == store.location else f"{location}: "
        raise store.invalid(f"{what}{error.strerror or error}") from error


def open_key_file(store: Store) -> str | None:
    """Return the file of the private key if any user of the machine can read it; None for one that is protected.

    A group may read it, as secrets are mounted for pods.
    """
    location = store.key_location or store.location
    if location is None:
        return None
    try:
        return location if os.stat(location).st_mode & stat.S_IROTH else None
    except OSError:
        return None  # it was read a moment ago, and is being replaced


def _is_pem(store: Store, data: bytes) -> bool:
    """Return whether the file is PEM. Raise InvalidStore where it is not what the settings say."""
    if store.type == "PEM":
        if _BEGIN not in data:
            raise store.invalid(f"the file is not PEM, which {store.prefix}.type says it is")
        return True
    if data.startswith((jks.MAGIC, _DER_SEQUENCE)):
        return False
    if _BEGIN in data:
        raise store.invalid(f"the file is PEM: set {store.prefix}.type=PEM")
    if data.startswith(_JCEKS):
        raise store.invalid("it is a JCEKS key store, which is not in this release; use PKCS12")
    raise store.invalid("the file is neither JKS nor PKCS12")


def _pem(data: bytes) -> tuple[list[bytes], list[bytes]]:
    certificates = [found[0] for found in _CERTIFICATE.finditer(data)]
    return certificates, [found[0] for found in _KEY.finditer(data)]


def _inline_key(store: Store, key_password: str | None) -> KeyMaterial:
    chain, keys_in_chain = _pem((store.certificates or "").encode())
    _certificates, keys = _pem((store.key or "").encode())
    keys = keys or keys_in_chain
    if not keys:
        raise store.invalid("ssl.keystore.key is missing, or is not PEM")
    return _checked(store, chain, keys[0], key_password)


def _checked(
    store: Store, certificates: list[bytes], key: bytes, password: str | None
) -> KeyMaterial:
    if not certificates:
        raise store.invalid("it holds no certificate for its private key")
    is_encrypted = b"ENCRYPTED" in key
    if is_encrypted and password is None:
        raise store.invalid("the private key is encrypted: set ssl.key.password")
    return KeyMaterial(b"\n".join(certificates), key, password if is_encrypted else None)


def _jks_entries(store: Store, data: bytes) -> jks.JksEntries:
    try:
        return jks.read_jks(data, store.password)
    except jks.BadJks as error:
        raise store.invalid(f"{error} ({store.prefix}.password)") from error


def _jks_key(store: Store, data: bytes, key_password: str | None) -> KeyMaterial:
    entries = _jks_entries(store, data)
    if not entries.keys:
        raise store.invalid("it holds no private key")
    password = store.password if key_password is None else key_password
    if password is None:
        raise store.invalid("the private key is encrypted: set ssl.keystore.password")
    first = next(iter(entries.keys.values()))
    try:
        key = jks.unprotected_key(first.protected, password)
    except jks.BadJks as error:
        raise store.invalid(f"{error} (ssl.key.password, else ssl.keystore.password)") from error
    certificates = [to_pem("CERTIFICATE", one) for one in first.chain]
    return _checked(store, certificates, to_pem("PRIVATE KEY", key), None)


def _load_pkcs12(store: Store, data: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        reason = "PKCS12 needs the package cryptography: pip install 'kavka[tls]', or use PEM"
        raise store.invalid(reason) from error
    password = None if store.password is None else store.password.encode()
    try:
        return pkcs12.load_pkcs12(data, password)
    except ValueError as error:
        reason = f"the password ({store.prefix}.password) is wrong, or the file is damaged: {error}"
        raise store.invalid(reason) from error


def _pkcs12_certificates(store: Store, data: bytes) -> list[bytes]:
    """Return the certificates that are entries of their own, without the chains of private keys, as Java does.

    Java marks them by an attribute, which the library does not show. In a file with a private key they are those with
    a name: a certificate of a chain has none, or has its subject for one.
    """
    from cryptography.hazmat.primitives.serialization import Encoding

    found = _load_pkcs12(store, data)
    trusted = [
        one.certificate
        for one in found.additional_certs
        if found.key is None or _has_alias(one.friendly_name, one.certificate)
    ]
    return [one.public_bytes(Encoding.PEM) for one in trusted]


def _has_alias(name: bytes | None, certificate: Any) -> bool:
    from cryptography.hazmat.primitives.serialization import Encoding

    if name is None:
        return False
    return name.decode("utf-8", "replace") != subject_of(certificate.public_bytes(Encoding.DER))


def _pkcs12_key(store: Store, data: bytes) -> KeyMaterial:
    found = _load_pkcs12(store, data)
    if found.key is None or found.cert is None:
        raise store.invalid("it holds no private key with a certificate")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    chain = _in_order(found.cert.certificate, [one.certificate for one in found.additional_certs])
    certificates = [one.public_bytes(Encoding.PEM) for one in chain]
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return _checked(store, certificates, key, None)


def _in_order(owner: Any, others: list[Any]) -> list[Any]:
    """Return a certificate, then that of its issuer, and so on, as far as they are there."""
    by_subject = {one.subject.public_bytes(): one for one in others}
    chain = [owner]
    while (issuer := by_subject.pop(chain[-1].issuer.public_bytes(), None)) is not None:
        chain.append(issuer)
    return chain
