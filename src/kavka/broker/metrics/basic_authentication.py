"""Basic authentication (RFC 7617) of those that read the page.

A password is hashed in the pool, one at a time, five times a second at most, and twice for one address: wrong ones cost
the broker no more, and beyond that are answered 429. A credential that was right once is remembered by a digest until
the file changes, so that a scraper is answered at once, also while another client guesses.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
import stat
from collections import Counter
from enum import Enum
from pathlib import Path
from typing import Final

from kavka.io import Clock, Disk, Random
from kavka.metrics.passwords import BadUsers, Users
from kavka.net.bounded_log import BoundedLog
from kavka.settings.declaration import InvalidSetting

log = logging.getLogger(__name__)

SETTING: Final = "kavka.metrics.users.file"
_CHECKS_PER_SECOND: Final = 5
_CHECKS_OF_ONE_ADDRESS: Final = 2
_MAX_REMEMBERED: Final = 100
_MAX_FILE_BYTES: Final = 1 << 20

_Version = tuple[int, int, int]


class Verdict(Enum):
    """The decision about a request; the value is the status of its response."""

    ALLOWED = 200
    REFUSED = 401
    TOO_MANY = 429


class BasicAuthentication:
    """Checks credentials against a file, which may change at any time."""

    def __init__(self, path: str, disk: Disk, clock: Clock, random: Random) -> None:
        """Read nothing before `start`."""
        self._path = path
        self._disk = disk
        self._clock = clock
        self._key = random.random_bytes(32)
        self._users: Users | None = None
        self._version: _Version | None = None
        self._known: set[bytes] = set()
        """Keyed digests of credentials that were right."""
        self._checking = asyncio.Lock()
        self._second = -1
        self._in_second: Counter[str] = Counter()
        """Checks of this second, by address."""
        self._is_readable = True
        self._log = BoundedLog(log)

    async def start(self) -> None:
        """Read the file. Raise InvalidSetting."""
        try:
            await self._disk.run(self._read)
        except FileNotFoundError as error:
            reason = "there is no such file: kavka metrics-users --file FILE --set USER makes it"
            raise InvalidSetting(SETTING, self._path, reason) from error
        except (OSError, BadUsers) as error:
            raise InvalidSetting(SETTING, self._path, str(error)) from error

    async def check(self, header: str | None, host: str) -> Verdict:
        """Return whether a request with this `Authorization` header may read the page."""
        credential = _credential(header)
        if credential is None:
            # A client's first request may have none: the response says that it needs one.
            return Verdict.REFUSED
        await self._refresh()
        digest = hashlib.blake2b(b"\0".join(credential), key=self._key).digest()
        if digest in self._known:
            return Verdict.ALLOWED
        if not self._admit(host):
            return Verdict.TOO_MANY
        users = self._users
        assert users is not None
        user, password = credential[0].decode("utf-8", "replace"), credential[1]
        async with self._checking:
            is_right = await self._disk.run(users.accept, user, password)
        if not is_right:
            self._log.write(host, "metrics refused peer=%s user=%.64r", host, user)
            return Verdict.REFUSED
        if users is self._users and len(self._known) < _MAX_REMEMBERED:
            self._known.add(digest)
        return Verdict.ALLOWED

    async def _refresh(self) -> None:
        """Read the file again if it is another one; what cannot be used leaves the users as they were."""
        try:
            await self._disk.run(self._read)
        except (OSError, BadUsers) as error:
            if self._is_readable:
                what = "users of metrics not read, those before stay path=%s reason=%s"
                log.error(what, self._path, error)
            self._is_readable = False
        else:
            self._is_readable = True

    def _read(self) -> None:
        facts = Path(self._path).stat()
        version = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        if version == self._version:
            return
        if facts.st_size > _MAX_FILE_BYTES:
            raise BadUsers("it is too large")
        users = Users(Path(self._path).read_text("utf-8", "replace"))
        if facts.st_mode & stat.S_IROTH:
            log.warning("password file readable by every user file=%s", self._path)
        self._known = set()
        self._users, self._version = users, version

    def _admit(self, host: str) -> bool:
        second = self._clock.tick_ms() // 1000
        counts = self._in_second
        if second != self._second:
            self._second = second
            counts.clear()
        if counts[host] >= _CHECKS_OF_ONE_ADDRESS or counts.total() >= _CHECKS_PER_SECOND:
            return False
        counts[host] += 1
        return True


def _credential(header: str | None) -> tuple[bytes, bytes] | None:
    """Return user and password of a header; None without any."""
    scheme, _space, encoded = (header or "").strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if colon else None
