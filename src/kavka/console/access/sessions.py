"""Sessions on the server: random ids, of which only digests are kept, with an idle and an absolute end. Pure.

Times are seconds of a clock that never goes back. A login always makes a new session and ends the one that the browser
had (no fixation).
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

_MOST: Final = 10_000
_MOST_OF_A_USER: Final = 20


@dataclass(slots=True)
class Session:
    """A login; `proof` is what it rests on: for a local user the digest of the password's hash."""

    user: str
    source: str
    claims: tuple[str, ...]
    proof: str
    began_s: float
    used_s: float


class Sessions:
    """The sessions of one console; they end with it."""

    def __init__(self, idle_s: float, absolute_s: float) -> None:
        """End a session after these times."""
        self._idle_s = idle_s
        self._absolute_s = absolute_s
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def begin(
        self, user: str, source: str, claims: tuple[str, ...], proof: str, now_s: float
    ) -> str:
        """Begin a session and return its id; the oldest of a user ends where there are too many."""
        own = [
            key for key, one in self._sessions.items() if (one.user, one.source) == (user, source)
        ]
        for key in own[: max(len(own) - _MOST_OF_A_USER + 1, 0)]:
            del self._sessions[key]
        if len(self._sessions) >= _MOST:
            self._sessions.popitem(last=False)
        made = secrets.token_urlsafe(32)
        self._sessions[_digest(made)] = Session(user, source, claims, proof, now_s, now_s)
        return made

    def find(self, session_id: str, now_s: float, *, is_use: bool) -> Session | None:
        """Return a session that has not ended; `is_use` begins its idle time again."""
        found = self._sessions.get(_digest(session_id))
        if found is None:
            return None
        if now_s - found.used_s >= self._idle_s or now_s - found.began_s >= self._absolute_s:
            self.end(session_id)
            return None
        if is_use:
            found.used_s = now_s
        return found

    def end(self, session_id: str) -> None:
        """End a session, if it is known."""
        self._sessions.pop(_digest(session_id), None)

    def __len__(self) -> int:
        """Return the number of sessions, ended ones that were not asked for included."""
        return len(self._sessions)


def _digest(session_id: str) -> str:
    """Return the key of a session: a copy of the table is of no use to log in."""
    return hashlib.sha256(session_id.encode()).hexdigest()
