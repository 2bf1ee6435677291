"""Hashed passwords of those that may read a page: a file of lines `user:hash`, as `htpasswd -B` writes it.

    alice:$scrypt$ln=14,r=8,p=1$<salt>$<hash>     salt and hash in Base64 without padding; written by `hashed`
    bob:$2y$10$...                                bcrypt; needs the library `bcrypt`, the extra `metrics`

Empty lines and those that begin with # are none. Hashes that take a processor for too long, and those that are too
weak (MD5, SHA-1, crypt), are refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Any, Final

_LOG_N: Final = 14  # 16 MiB, some 30 ms
_MAX_LOG_N: Final = 17
_MAX_BCRYPT_ROUNDS: Final = 14
_SALT_BYTES: Final = 16
_HASH_BYTES: Final = 32
_SCRYPT: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)"
)
_BCRYPT: Final = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
_ADVICE: Final = "write the line with `kavka metrics-users`, or `htpasswd -B`"

Check = Callable[[bytes], bool]


class BadUsers(ValueError):
    """A file of users that cannot be used; the message names the line."""


def hashed(password: str, salt: bytes) -> str:
    """Return the hash of a password; `salt` are 16 random bytes."""
    found = _scrypt(password.encode(), salt, _LOG_N, 8, 1)
    return f"$scrypt$ln={_LOG_N},r=8,p=1${_text(salt)}${_text(found)}"


class Users:
    """The users of a file, and the check of a password. A check takes a processor for a while: not for a loop."""

    def __init__(self, text: str) -> None:
        """Read the lines. Raise BadUsers."""
        self._checks: dict[str, Check] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            user, colon, stored = line.partition(":")
            try:
                if not (colon and user):
                    raise ValueError("it is not user:hash")
                self._checks[user] = _check(stored.strip())
            except ValueError as error:
                raise BadUsers(f"line {number}: {error}; {_ADVICE}") from None
        if not self._checks:
            raise BadUsers(f"there is no user in it; {_ADVICE}")
        # What an unknown user is checked against, so that it takes as long.
        self._unknown = next(iter(self._checks.values()))

    @property
    def names(self) -> list[str]:
        """Return the names, in the file's order."""
        return list(self._checks)

    def accept(self, user: str, password: bytes) -> bool:
        """Return whether the password is the user's; an unknown user takes as long as a wrong password."""
        known = self._checks.get(user)
        matches = (known or self._unknown)(password)
        return matches and known is not None


def _check(stored: str) -> Check:
    """Return the check of a stored hash. Raise ValueError."""
    found = _SCRYPT.fullmatch(stored)
    if found is not None:
        log_n, r, p = int(found[1]), int(found[2]), int(found[3])
        if not (1 <= log_n <= _MAX_LOG_N and 1 <= r <= 8 and p == 1):
            raise ValueError(f"scrypt is taken with ln up to {_MAX_LOG_N}, r up to 8, p=1")
        salt, wanted = _bytes(found[4]), _bytes(found[5])
        return lambda password: hmac.compare_digest(
            _scrypt(password, salt, log_n, r, p, len(wanted)), wanted
        )
    found = _BCRYPT.fullmatch(stored)
    if found is not None:
        if int(found[1]) > _MAX_BCRYPT_ROUNDS:
            raise ValueError(f"bcrypt is taken with a cost up to {_MAX_BCRYPT_ROUNDS}")
        return _bcrypt_check(stored.encode())
    raise ValueError("its hash is neither scrypt nor bcrypt")


def _bcrypt_check(stored: bytes) -> Check:
    try:
        import bcrypt as library
    except ImportError:
        raise ValueError("bcrypt needs a library: pip install 'kavka[metrics]'") from None
    bcrypt: Any = library

    def check(password: bytes) -> bool:
        # bcrypt has room for 72 bytes, and htpasswd takes no more.
        if len(password) > 72 or b"\0" in password:
            return False
        return bool(bcrypt.checkpw(password, stored))

    return check


def _scrypt(
    password: bytes, salt: bytes, log_n: int, r: int, p: int, size: int = _HASH_BYTES
) -> bytes:
    n = 1 << log_n
    # OpenSSL refuses what it estimates to take more: 128 * n * r, and some.
    return hashlib.scrypt(
        password, salt=salt, n=n, r=r, p=p, maxmem=128 * r * (n + p + 2) + 1024, dklen=size
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise ValueError("its hash is no Base64") from None
