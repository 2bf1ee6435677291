"""Passwords as Apache Kafka keeps them in the registry: encrypted, with a key that is derived from a secret.

    keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,keyLength:128,salt:...,
    iterations:4096,encryptedPassword:...,passwordLength:14,initializationVector:...

Each text says by what it was made, so that one of other settings is read as well. Kafka's ciphers are those of Java;
here they are AES with CBC, GCM or CTR. Source: KIP-226, the output of `org.apache.kafka.security.PasswordEncoder` 3.9.
Needs `kavka[tls]`.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kavka.settings.access import SECRET
from kavka.settings.declaration import InvalidSetting
from kavka.values import frozen

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher

CIPHERS: Final = ("AES/CBC/PKCS5Padding", "AES/GCM/NoPadding", "AES/CTR/NoPadding")
KEY_BITS: Final = (128, 192, 256)
DEFAULT_KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
_DIGESTS: Final = {
    f"PBKDF2WithHmac{name.upper()}": name
    for name in ("sha1", "sha224", "sha256", "sha384", "sha512")
}
KEY_FACTORIES: Final = tuple(_DIGESTS)
_SALT_BYTES: Final = 256
_BLOCK_BITS: Final = 128
_GCM_IV_BYTES: Final = 12
_TAG_BYTES: Final = 16
_MAX_ITERATIONS: Final = 10_000_000
"""A text with more is taken for damaged: the event loop would stand still for minutes."""


class UndecodablePassword(ValueError):
    """A text that is no encrypted password, or one of another secret; the message shows no secret."""


@frozen
class PasswordEncoding:
    """The settings `password.encoder.*` by which passwords are encrypted."""

    key_factory: str = DEFAULT_KEY_FACTORY
    cipher: str = CIPHERS[0]
    key_bits: int = 128
    iterations: int = 4_096


class PasswordEncoder:
    """Encrypts and decrypts passwords by one secret."""

    def __init__(
        self, secret: str, encoding: PasswordEncoding, random_bytes: Callable[[int], bytes]
    ) -> None:
        """Encrypt by these settings; salts and initialization vectors are random bytes."""
        self._secret = secret.encode()
        self._encoding = encoding
        self._random_bytes = random_bytes

    def __repr__(self) -> str:
        """Show no secret."""
        return "PasswordEncoder()"

    def encode(self, password: str) -> str:
        """Return the text that is stored for a password."""
        made = self._encoding
        salt = self._random_bytes(_SALT_BYTES)
        is_gcm = made.cipher.startswith("AES/GCM/")
        vector = self._random_bytes(_GCM_IV_BYTES if is_gcm else _BLOCK_BITS // 8)
        key = self._key(made.key_factory, salt, made.iterations, made.key_bits)
        fields = {
            "keyFactoryAlgorithm": made.key_factory,
            "cipherAlgorithm": made.cipher,
            "keyLength": str(made.key_bits),
            "salt": _text(salt),
            "iterations": str(made.iterations),
            "encryptedPassword": _text(_encrypted(made.cipher, key, vector, password.encode())),
            "passwordLength": str(_java_length(password)),
            "initializationVector": _text(vector),
        }
        if is_gcm:
            fields["authenticationTagLength"] = str(_TAG_BYTES * 8)
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, text: str) -> str:
        """Return the password of a stored text. Raise UndecodablePassword."""
        fields = {
            name.strip(): value.strip()
            for name, _colon, value in (part.rpartition(":") for part in text.split(","))
        }
        try:
            return self._decoded(fields)
        except KeyError as missing:
            reason = f"it is not an encrypted password: {missing} is missing"
            raise UndecodablePassword(reason) from None
        except UndecodablePassword:
            raise
        except ValueError:  # base64, numbers, padding, UTF-8
            reason = "it is damaged, or was encrypted with another secret"
            raise UndecodablePassword(reason) from None

    def _decoded(self, fields: Mapping[str, str]) -> str:
        factory, cipher = fields["keyFactoryAlgorithm"], fields["cipherAlgorithm"]
        if factory not in _DIGESTS:
            raise UndecodablePassword(f"its key factory {factory[:64]!r} is not supported")
        if cipher not in CIPHERS:
            raise UndecodablePassword(f"its cipher {cipher[:64]!r} is not supported")
        bits, iterations = int(fields["keyLength"]), int(fields["iterations"])
        if bits not in KEY_BITS or not 0 < iterations <= _MAX_ITERATIONS:
            raise UndecodablePassword(f"its key has {bits} bits and {iterations} iterations")
        key = self._key(factory, _bytes(fields["salt"]), iterations, bits)
        vector = _bytes(fields["initializationVector"])
        password = _decrypted(cipher, key, vector, _bytes(fields["encryptedPassword"])).decode()
        if _java_length(password) != int(fields["passwordLength"]):
            raise ValueError
        return password

    def _key(self, factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
        return hashlib.pbkdf2_hmac(_DIGESTS[factory], self._secret, salt, iterations, bits // 8)


def password_encoder(  # the settings `password.encoder.*`
    secret: str,
    key_factory: str | None,
    cipher: str,
    key_bits: int,
    iterations: int,
    random_bytes: Callable[[int], bytes],
) -> PasswordEncoder:
    """Return the encoder of these settings. Raise InvalidSetting, also where the extra is not installed."""
    try:
        import cryptography  # noqa: F401  # each password needs it
    except ImportError as error:
        reason = "encrypted passwords need an extra: pip install 'kavka[tls]'"
        raise InvalidSetting(SECRET, "[hidden]", reason) from error
    factory = key_factory or DEFAULT_KEY_FACTORY
    for name, value, allowed in (
        ("password.encoder.keyfactory.algorithm", factory, KEY_FACTORIES),
        ("password.encoder.cipher.algorithm", cipher, CIPHERS),
        ("password.encoder.key.length", str(key_bits), tuple(map(str, KEY_BITS))),
    ):
        if value not in allowed:
            raise InvalidSetting(name, value, f"Expected one of {', '.join(allowed)}")
    return PasswordEncoder(
        secret, PasswordEncoding(factory, cipher, key_bits, iterations), random_bytes
    )


def _java_length(text: str) -> int:
    """Return the number of UTF-16 units, which is what Java calls the length."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return b64decode(text, validate=True)


def _cipher(cipher: str, key: bytes, vector: bytes, tag: bytes | None = None) -> Cipher[Any]:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    mode: Any
    match cipher.split("/")[1]:
        case "CBC":
            mode = modes.CBC(vector)
        case "GCM":
            mode = modes.GCM(vector, tag)
        case _:
            mode = modes.CTR(vector)
    return Cipher(algorithms.AES(key), mode)


def _encrypted(cipher: str, key: bytes, vector: bytes, plain: bytes) -> bytes:
    from cryptography.hazmat.primitives.padding import PKCS7

    if cipher.endswith("/PKCS5Padding"):
        padder = PKCS7(_BLOCK_BITS).padder()
        plain = padder.update(plain) + padder.finalize()
    encryptor = _cipher(cipher, key, vector).encryptor()
    sealed = encryptor.update(plain) + encryptor.finalize()
    # Java appends the tag of GCM to what is encrypted.
    return sealed + (encryptor.tag if cipher.startswith("AES/GCM/") else b"")


def _decrypted(cipher: str, key: bytes, vector: bytes, sealed: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.padding import PKCS7

    tag = None
    if cipher.startswith("AES/GCM/"):
        sealed, tag = sealed[:-_TAG_BYTES], sealed[-_TAG_BYTES:]
    decryptor = _cipher(cipher, key, vector, tag).decryptor()
    try:
        plain = decryptor.update(sealed) + decryptor.finalize()
    except InvalidTag as error:
        raise ValueError from error
    if cipher.endswith("/PKCS5Padding"):
        unpadder = PKCS7(_BLOCK_BITS).unpadder()
        plain = unpadder.update(plain) + unpadder.finalize()
    return plain
