"""The alerts of a cluster, as one machine: observations of rules in, changes out. Pure.

Each rule and subject is an instance of `kavka.core.incident`: ok, pending, firing. On top of it:

    comes                                     state                       what is sent
    firing, and neither silenced nor in a     firing, sent                firing
      time of maintenance
    firing, silenced                          firing, not sent            nothing; it is in the history
    the silence ends while it is firing       firing, sent                firing
    `repeat` after it was sent, still firing  firing, sent                firing, repeated
    resolved, and it was sent                 ok                          resolved, silenced or not
    resolved, and it was not sent             ok                          nothing
    the value is not known                    as it was                   nothing
    a look failed                             as it was                   nothing
    the subject is gone for `stale_ms`        ok                          resolved, if firing was sent
    the rule is gone                          ok                          resolved, if firing was sent

So a receiver has each alert once, and never an end without a beginning. The state is plain data, and is kept with the
events of the same look: after a restart nothing is sent again, and nothing is left out.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final, NamedTuple

from kavka.console.alerts.conditions import Observation
from kavka.console.alerts.rules import Rule
from kavka.console.sentences import parts_of, restored, say
from kavka.core.incident import FIRING, RESOLVED, EventName, Instance, Phase, is_stale, step

NO_LONGER_THERE: Final = say("It is no longer there.")
NO_SUCH_RULE: Final = say("The rule was removed.")


_SENTENCES: Final = ("sentence", "muted")


@dataclass(frozen=True, slots=True)
class State(Instance):
    """The state of one rule and subject."""

    value: float | None = None
    sentence: str = ""
    location: str = ""
    severity: str = ""
    fired_ms: int = 0
    sent_ms: int | None = None
    """The time at which firing was sent last; None: it was not."""
    muted: str = ""
    """The reason why it was not sent."""

    def to_json(self) -> str:
        """Return it as the file keeps it."""
        parts = {name: parts_of(getattr(self, name)) for name in _SENTENCES}
        return json.dumps({**asdict(self), "parts": parts}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> State:
        """Return what `to_json` was of. Fields of a later release are left out."""
        document = json.loads(text)
        given = {k: v for k, v in document.items() if k in cls.__dataclass_fields__}
        parts = document.get("parts", {})
        said = {name: restored(given.get(name, ""), parts.get(name)) for name in _SENTENCES}
        return cls(**{**given, **said, "phase": Phase(given["phase"])})


class Key(NamedTuple):
    """An instance."""

    rule: str
    subject: str


class Change(NamedTuple):
    """An alert that began, ended, or is sent again or at last."""

    event: EventName
    rule: str
    subject: str
    state: State
    time_ms: int
    is_new: bool
    """True for the beginning and the end, which the history keeps; False when it is only sent."""
    is_sent: bool
    is_again: bool = False
    """True if it was sent before."""

    @property
    def incident(self) -> str:
        """Return the id of the alert, from its beginning to its end."""
        return incident_of(self.rule, self.subject, self.state.since_ms)


def incident_of(rule: str, subject: str, since_ms: int) -> str:
    """Return the id of an alert: 20 hexadecimal digits, the same for the same beginning."""
    text = json.dumps([rule, subject, since_ms])
    return hashlib.sha256(text.encode()).hexdigest()[:20]


Muted = Callable[[str, str], str]
"""Returns why alerts of a rule and subject are not sent, empty if they are."""


class Book:
    """All instances that are not ok."""

    def __init__(self, states: Mapping[Key, State] | None = None) -> None:
        """Take the states that were kept."""
        self.states: dict[Key, State] = dict(states or {})

    def set_back(self, now_ms: int) -> None:
        """Take states of a later time for those of now: the clock was set back, and what lasts goes on lasting.

        The beginning of an alert that fires stays, since receivers know the alert by it.
        """
        for key, state in self.states.items():
            ahead_ms = state.last_ms - now_ms
            if ahead_ms > 0:
                is_pending = state.phase is Phase.PENDING
                self.states[key] = replace(
                    state,
                    last_ms=now_ms,
                    since_ms=state.since_ms - ahead_ms if is_pending else state.since_ms,
                    clear_ms=None if state.clear_ms is None else state.clear_ms - ahead_ms,
                    sent_ms=None if state.sent_ms is None else state.sent_ms - ahead_ms,
                )

    def evaluate(
        self, now_ms: int, rule: Rule, observations: Iterable[Observation], muted: Muted
    ) -> list[Change]:
        """Take the observations of a rule at a look that succeeded, and return what changed."""
        changes: list[Change] = []
        seen = set()
        for observation in observations:
            key = Key(rule.name, observation.subject)
            seen.add(key)
            changes += self._observe(now_ms, rule, key, observation, muted)
        for key in [key for key in self.states if key.rule == rule.name and key not in seen]:
            state = self.states[key]
            if is_stale(rule, state, now_ms):
                changes += self._end(key, state, now_ms, NO_LONGER_THERE)
        return changes

    def end_missing(self, now_ms: int, rules: Iterable[Rule]) -> list[Change]:
        """End the alerts of rules that are gone."""
        names = {rule.name for rule in rules}
        changes: list[Change] = []
        for key in [key for key in self.states if key.rule not in names]:
            changes += self._end(key, self.states[key], now_ms, NO_SUCH_RULE)
        return changes

    def _observe(
        self, now_ms: int, rule: Rule, key: Key, observation: Observation, muted: Muted
    ) -> list[Change]:
        before = self.states.get(key, State())
        value = observation.value
        if value is None:
            if before.phase is Phase.FIRING:  # it is there, and not known to be better
                self.states[key] = replace(before, last_ms=now_ms)
            return []
        looked = replace(
            before,
            value=value if math.isfinite(value) else None,
            sentence=observation.sentence,
            location=observation.location,
            severity=rule.severity,
        )
        after, event = step(rule, looked, now_ms, value)
        if event == RESOLVED:
            return self._resolved(key, looked, now_ms)
        if after.phase is Phase.OK:
            self.states.pop(key, None)
            return []
        if event == FIRING:
            after = replace(after, fired_ms=now_ms, sent_ms=None)
        return self._send(now_ms, rule, key, after, muted, is_new=event == FIRING)

    def _send(
        self, now_ms: int, rule: Rule, key: Key, state: State, muted: Muted, *, is_new: bool
    ) -> list[Change]:
        """Keep a state, and return a change if it begins or is due to be sent."""
        is_due = state.phase is Phase.FIRING and (
            state.sent_ms is None
            or (rule.repeat_ms > 0 and now_ms - state.sent_ms >= rule.repeat_ms)
        )
        is_again = state.sent_ms is not None
        reason = muted(key.rule, key.subject) if state.phase is Phase.FIRING else ""
        is_sent = is_due and not reason
        state = replace(state, muted=reason, sent_ms=now_ms if is_sent else state.sent_ms)
        self.states[key] = state
        if not (is_new or is_sent):
            return []
        return [Change(FIRING, key.rule, key.subject, state, now_ms, is_new, is_sent, is_again)]

    def _resolved(self, key: Key, state: State, now_ms: int) -> list[Change]:
        del self.states[key]
        is_sent = state.sent_ms is not None
        return [Change(RESOLVED, key.rule, key.subject, state, now_ms, True, is_sent)]

    def _end(self, key: Key, state: State, now_ms: int, reason: str) -> list[Change]:
        if state.phase is Phase.FIRING:
            return self._resolved(key, replace(state, sentence=reason, value=None), now_ms)
        del self.states[key]
        return []
