"""An incident of one instance of a rule: when it begins, and when it ends.

    phase     what comes                            becomes     event
    ok        a value beyond the threshold          pending     (with no time to wait firing at once)
    pending   the same for `for_ms`                 firing      firing
    pending   a value that is not beyond it         ok
    pending   no value for `stale_ms`, then one     ok, and what the value says
    firing    a clear value for `clear_for_ms`      ok          resolved
    firing    a value that is not clear             firing      (the time for `clear_for_ms` begins again)
    firing    no value for `stale_ms`               ok          resolved, with the reason

So an incident has one firing and one resolved event, however many values say the same. The operations pipeline and the
console's alerts decide with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal, Protocol, TypeVar

EventName = Literal["firing", "resolved"]
FIRING: Final[EventName] = "firing"
RESOLVED: Final[EventName] = "resolved"


class Phase(StrEnum):
    """The state of an instance: ok, pending or firing."""

    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"


class Thresholds(Protocol):
    """The part of a rule that decides; times are milliseconds."""

    @property
    def for_ms(self) -> int:
        """Return how long values have to be beyond the threshold."""

    @property
    def clear_for_ms(self) -> int:
        """Return how long they have to be clear."""

    @property
    def stale_ms(self) -> int:
        """Return the time without a value after which nothing is known."""

    def is_breached(self, value: float) -> bool:
        """Return whether a value is beyond the threshold."""

    def is_clear(self, value: float) -> bool:
        """Return whether a value lets an incident end."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a rule; times are those of samples, in milliseconds."""

    phase: Phase = Phase.OK
    since_ms: int = 0
    """The first value beyond the threshold of this incident."""
    clear_ms: int | None = None
    """Since when a firing one is clear."""
    last_ms: int = 0


Known = TypeVar("Known", bound=Instance)
"""An instance, with what its owner adds."""


def step(
    rule: Thresholds, before: Known, time_ms: int, value: float
) -> tuple[Known, EventName | None]:
    """Return the instance after a value that is compared with the threshold, and `firing`, `resolved` or None."""
    seen = replace(before, last_ms=time_ms)
    if before.phase is Phase.FIRING:
        return _step_firing(rule, seen, time_ms, value)
    if not rule.is_breached(value):
        return replace(seen, phase=Phase.OK, since_ms=0), None
    is_new = before.phase is Phase.OK or time_ms - before.last_ms > rule.stale_ms
    since_ms = time_ms if is_new else before.since_ms
    if time_ms - since_ms < rule.for_ms:
        return replace(seen, phase=Phase.PENDING, since_ms=since_ms), None
    return replace(seen, phase=Phase.FIRING, since_ms=since_ms, clear_ms=None), FIRING


def _step_firing(
    rule: Thresholds, seen: Known, time_ms: int, value: float
) -> tuple[Known, EventName | None]:
    if not rule.is_clear(value):
        return replace(seen, clear_ms=None), None
    clear_ms = time_ms if seen.clear_ms is None else seen.clear_ms
    if time_ms - clear_ms < rule.clear_for_ms:
        return replace(seen, clear_ms=clear_ms), None
    return ended(seen), RESOLVED


def ended(instance: Known) -> Known:
    """Return the instance without its incident."""
    return replace(instance, phase=Phase.OK, since_ms=0, clear_ms=None)


def is_stale(rule: Thresholds, instance: Instance, clock_ms: int) -> bool:
    """Return whether the values of an instance have ended, at a time of its source that is over."""
    return clock_ms - instance.last_ms > rule.stale_ms
