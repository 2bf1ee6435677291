"""The brake on guessing passwords: waits that grow with each failure, and that lock no other user out. Pure.

Failures are counted for a user at an address, and for an address whatever the user; never for a user alone, which would
let anyone lock a user out. A browser that has logged in before has a mark for its user (OWASP's device cookie), and is
counted by itself: what others at the same address, such as a proxy's, have guessed wrong does not stop it. An attempt
counts as a failure from its begin, so many at once are not more than one after the other.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

_FREE_OF_A_USER: Final = 5
_FREE_OF_AN_ADDRESS: Final = 50
_FIRST_WAIT_S: Final = 2.0
_LONGEST_WAIT_S: Final = 900.0
_FORGOTTEN_S: Final = 3600.0
_MOST: Final = 20_000


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last_s: float = 0.0
    until_s: float = 0.0


class Brake:
    """The failures of one console's logins."""

    def __init__(self) -> None:
        """Begin without failures."""
        self._failures: OrderedDict[tuple[str, ...], _Failures] = OrderedDict()
        self._key = secrets.token_bytes(32)

    def mark(self, user: str) -> str:
        """Return a mark for a browser in which a user has logged in."""
        nonce = secrets.token_urlsafe(12)
        return f"{nonce}.{self._code(user, nonce)}"

    def _code(self, user: str, nonce: str) -> str:
        return hmac.new(self._key, f"{nonce}.{user}".encode(), hashlib.sha256).hexdigest()

    def _counters(self, user: str, address: str, mark: str) -> list[tuple[tuple[str, ...], int]]:
        """Return the counters of an attempt, and how many failures of each are free."""
        nonce, _, code = mark.partition(".")
        if code and hmac.compare_digest(code.encode(), self._code(user, nonce).encode()):
            return [(("browser", nonce), _FREE_OF_A_USER)]
        network = network_of(address)
        # The name's digest: names of any length are entries of the same size.
        name = hashlib.sha256(user.encode()).hexdigest()
        return [
            (("user", name, network), _FREE_OF_A_USER),
            (("address", network), _FREE_OF_AN_ADDRESS),
        ]

    def begin(self, user: str, address: str, mark: str, now_s: float) -> float:
        """Begin an attempt, which counts as failed until `succeeded`; return 0, or seconds to wait without trying."""
        counters = self._counters(user, address, mark)
        wait_s = max(self._found(key, now_s).until_s - now_s for key, _ in counters)
        if wait_s > 0:
            return wait_s
        for key, free in counters:
            failures = self._found(key, now_s)
            failures.count += 1
            failures.last_s = now_s
            over = failures.count - free
            if over >= 0:
                failures.until_s = now_s + min(_FIRST_WAIT_S * 2 ** min(over, 16), _LONGEST_WAIT_S)
        return 0.0

    def succeeded(self, user: str, address: str, mark: str, now_s: float) -> None:
        """Take back what `begin` counted: a user's counter begins again, an address's is one lower."""
        for key, free in self._counters(user, address, mark):
            failures = self._found(key, now_s)
            failures.count = failures.count - 1 if key[0] == "address" else 0
            if failures.count < free:
                failures.until_s = 0.0

    def _found(self, key: tuple[str, ...], now_s: float) -> _Failures:
        found = self._failures.get(key)
        if found is None or (now_s - found.last_s >= _FORGOTTEN_S and now_s >= found.until_s):
            found = self._failures[key] = _Failures()
        self._failures.move_to_end(key)
        while len(self._failures) > _MOST:
            self._failures.popitem(last=False)
        return found


def network_of(address: str) -> str:
    """Return what one party has: an address of IPv4, the first 64 bits of one of IPv6."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
