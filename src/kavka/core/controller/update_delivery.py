"""The delivery of pending updates to one broker: what is sent next, and what becomes of it. Pure.

    dirty --next_part--> a part is sent --delivered--> the next part, or what is dirty by then
                             ^     '------refused----> its halves; a part that cannot be split is put back
                             '-- after a pause <------ failed: this part and the rest are put back

    code of a response                             verdict
    NONE                                           APPLIED
    STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH     OUTDATED: a newer controller is active, or the broker has registered
                                                   again; a watch reports both
    INVALID_REQUEST, UNKNOWN_SERVER_ERROR          REFUSED
    any other                                      FAILED: the same may be applied later

One part is in progress; what becomes dirty meanwhile is in a later one. Updates that cannot be sent, or are refused,
are sent in halves: one partition must not block the others. What is put back is merged with what is dirty by then
(`broker_updates`), and sent after a pause.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from kavka.core.controller.broker_updates import Outbox, PendingUpdates
from kavka.errors import ErrorCode

_RETRY_MS: Final = 100
_MAX_FAULTS: Final = 20
"""Maximum of failed halves; with more, it is not the fault of some partitions."""


class Verdict(Enum):
    """The meaning of a response for the updates of its request."""

    APPLIED = "applied"
    OUTDATED = "outdated"
    REFUSED = "refused"
    FAILED = "failed"


_VERDICTS: Final = {
    ErrorCode.NONE: Verdict.APPLIED,
    ErrorCode.STALE_CONTROLLER_EPOCH: Verdict.OUTDATED,
    ErrorCode.STALE_BROKER_EPOCH: Verdict.OUTDATED,
    ErrorCode.INVALID_REQUEST: Verdict.REFUSED,
    ErrorCode.UNKNOWN_SERVER_ERROR: Verdict.REFUSED,
}


def verdict(code: ErrorCode) -> Verdict:
    """Return what the error code of a response to a control request means."""
    return _VERDICTS.get(code, Verdict.FAILED)


class UpdateDelivery:
    """The delivery of the updates of one broker.

    Each part of `next_part` is ended by `delivered`, `refused` or `failed` before the next.
    """

    def __init__(self, broker: int, outbox: Outbox) -> None:
        """Begin with what is dirty in `outbox`."""
        self._broker = broker
        self._outbox = outbox
        self._part: PendingUpdates | None = None  # that is being sent
        self._todo: list[PendingUpdates] = []  # the next is the last
        self._failed: list[PendingUpdates] = []
        self._paused_until_ms: int | None = None
        self._taken = 0  # how often updates were taken from the outbox
        self.finished = 0
        """Number of times that all updates taken from the outbox were sent, or put back."""

    def next_part(self, now_ms: int) -> PendingUpdates | None:
        """Return what is to be sent now; None when nothing is dirty, or until `deadline_ms`."""
        assert self._part is None, "one part is sent at a time"
        if self._paused_until_ms is not None:
            if now_ms < self._paused_until_ms:
                return None
            self._paused_until_ms = None
            self.finished = self._taken
        if not self._todo:
            pending = self._outbox.take(self._broker)
            if pending is None:
                return None
            self._taken += 1
            self._todo.append(pending)
        self._part = self._todo.pop()
        return self._part

    def deadline_ms(self) -> int | None:
        """Return when a pause ends; None without one."""
        return self._paused_until_ms

    def flush_target(self) -> int:
        """Return the value of `finished` from which on all that is dirty now has been sent, or put back."""
        return self._taken + (1 if self._broker in self._outbox.waiting() else 0)

    # What became of a part

    def delivered(self, now_ms: int) -> None:
        """Go on: the part was answered."""
        self._take_part()
        self._end_if_done(now_ms)

    def failed(self, now_ms: int) -> None:
        """Return the part and all after it to the outbox: it is not known whether the broker has applied it."""
        self._failed.append(self._take_part())
        self._fail_rest()
        self._end_if_done(now_ms)

    def refused(self, now_ms: int) -> bool:
        """Send the part in halves; return False when it cannot be split, and is put back."""
        part = self._take_part()
        halves = part.split()
        if halves:
            self._todo += reversed(halves)
        else:
            self._failed.append(part)
        if len(self._failed) == _MAX_FAULTS:
            self._fail_rest()
        self._end_if_done(now_ms)
        return bool(halves)

    def _take_part(self) -> PendingUpdates:
        part, self._part = self._part, None
        assert part is not None, "a part is being sent"
        return part

    def _fail_rest(self) -> None:
        self._failed += self._todo
        self._todo = []

    def _end_if_done(self, now_ms: int) -> None:
        if self._todo:
            return
        if not self._failed:
            self.finished = self._taken
            return
        failed, self._failed = self._failed, []
        for part in failed:
            self._outbox.put_back(self._broker, part)
        self._paused_until_ms = now_ms + _RETRY_MS
