"""Local users: a file of names and Argon2id hashes, and checks whose time says nothing about names.

Needs argon2-cffi. A check takes as much memory as the hash asks for (64 MiB by default), so few run at the same time.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from pathlib import Path
from typing import Final

from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError

from kavka.console.access.config import BadAccess

_AT_ONCE: Final = 2


def hashed(password: str) -> str:
    """Return a password's hash: Argon2id with RFC 9106's parameters for little memory."""
    encoded: str = PasswordHasher().hash(password)
    return encoded


def users_of(text: str) -> dict[str, str]:
    """Return the hashes of a file's users, lines `name:$argon2id$...`. Raise ValueError, with the line's number."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, encoded = line.partition(":")
        try:
            kind = extract_parameters(encoded.strip()).type
        except (InvalidHashError, ValueError):
            kind = None
        if not name or kind is not Type.ID:
            raise ValueError(
                f"line {number} is no user with an Argon2id hash: set the password with `kavka console-users --set`"
            )
        if name in found:
            raise ValueError(f"line {number} has {name!r} for the second time")
        found[name] = encoded.strip()
    return found


class UsersFile:
    """The users of a file, which is read again when it has changed."""

    def __init__(self, path: str) -> None:
        """Read the file. Raise BadAccess."""
        self._path = Path(path)
        self._users: dict[str, str] = {}
        self._stamp: tuple[int, int, int] | None = None
        self._decoys: dict[str, str] = {}
        self._checks = asyncio.Semaphore(_AT_ONCE)
        try:
            self._read_changed()
        except (OSError, ValueError) as error:
            raise BadAccess(f"users-file {path}: {error}") from None

    def _read_changed(self) -> None:
        found = self._path.stat()
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp != self._stamp:
            self._users = users_of(self._path.read_text("utf-8"))
            self._stamp = stamp

    def current(self) -> dict[str, str]:
        """Return the users as the file has them. Raise OSError, ValueError: then no user is let in."""
        self._read_changed()
        return self._users

    def proof_of(self, name: str) -> str:
        """Return what changes with a user's password; empty without the user. Raise OSError, ValueError."""
        encoded = self.current().get(name, "")
        return _proof(encoded) if encoded else ""

    async def check(self, name: str, password: str) -> str:
        """Return the proof of a user whose password this is, else nothing. Raise OSError, ValueError.

        The same work is done for a name that does not exist.
        """
        users = self.current()
        async with self._checks:
            encoded = users.get(name)
            if encoded is None:
                decoy = await asyncio.to_thread(self._decoy, name, users)
                await asyncio.to_thread(_matches, decoy, password)
                return ""
            is_right = await asyncio.to_thread(_matches, encoded, password)
        return _proof(encoded) if is_right else ""

    def _decoy(self, name: str, users: dict[str, str]) -> str:
        """Return a hash with the parameters of one of the users, the same one for the same name."""
        hashes = sorted(users.values()) or [_DEFAULT]
        like = hashes[
            int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % len(hashes)
        ]
        parameters = like.rpartition("$")[0].rpartition("$")[0]
        if parameters not in self._decoys:
            self._decoys[parameters] = _random_like(like)
        return self._decoys[parameters]


_DEFAULT: Final = "$argon2id$v=19$m=65536,t=3,p=4$" + "A" * 22 + "$" + "A" * 43


def _random_like(encoded: str) -> str:
    """Return what is no hash of any known password, with the parameters of this one, without the time of hashing."""
    *head, salt, digest = encoded.split("$")
    made = (secrets.token_bytes(len(part) * 3 // 4) for part in (salt, digest))
    return "$".join([*head, *(base64.b64encode(part).decode().rstrip("=") for part in made)])


def _proof(encoded: str) -> str:
    return hashlib.sha256(encoded.encode()).hexdigest()


def _matches(encoded: str, password: str) -> bool:
    try:
        return bool(PasswordHasher().verify(encoded, password))
    except (VerificationError, InvalidHashError):
        return False
