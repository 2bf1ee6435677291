"""An incident of one instance of a rule: when it begins, when it ends, and the two events that say so. Pure.

    phase     what comes                            becomes     event
    ok        a value beyond the threshold          pending     (with `for: 0` firing at once)
    pending   the same for `for`                    firing      firing
    pending   a value that is not beyond it         ok
    pending   no value for `stale_after`, then one  ok, and what the value says
    firing    `clear` or better for `clear_for`     ok          resolved
    firing    worse than `clear`                    firing      (the time for `clear_for` begins again)
    firing    no value for `stale_after`            ok          resolved, with the reason

So an incident has one firing and one resolved event, however many values say the same. Its id follows from the rule,
the instance and the time of its first value, so that the same values give the same ids.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from kavka.collect.record import time_text
from kavka.pipelines.operations.baseline import Baseline
from kavka.pipelines.operations.rules import Rule

FIRING, RESOLVED = "firing", "resolved"


class Phase(StrEnum):
    """The state of an instance: ok, pending or firing."""

    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a rule; times are those of samples, in milliseconds."""

    phase: Phase = Phase.OK
    since_ms: int = 0
    """The first value beyond the threshold of this incident."""
    clear_ms: int | None = None
    """Since when a firing one is clear."""
    last_ms: int = 0
    baseline: Baseline | None = None

    def to_list(self) -> list[Any]:
        """Return it for JSON."""
        learnt = self.baseline
        fields: list[Any] = [self.phase, self.since_ms, self.clear_ms, self.last_ms]
        if learnt is not None:
            fields += [learnt.count, learnt.mean, learnt.variance, learnt.last_ms]
        return fields

    @classmethod
    def from_list(cls, fields: list[Any]) -> Instance:
        """Return what `to_list` was of."""
        phase, since_ms, clear_ms, last_ms, *learnt = fields
        baseline = Baseline(*learnt) if learnt else None
        return cls(Phase(phase), since_ms, clear_ms, last_ms, baseline)


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of an incident: a source and labels."""

    host: str
    source: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """The beginning or the end of an incident."""

    event: Literal["firing", "resolved"]
    alert: str
    severity: str
    summary: str
    subject: Subject
    since_ms: int
    time_ms: int
    """Time of the decision, by the clock of the samples."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Metric, value, threshold; of an anomaly mean, deviation and score; the reason of an end without a value."""

    @property
    def key(self) -> str:
        """Return what all incidents of this instance have in common: the key of the record."""
        labels = ",".join(f"{name}={value}" for name, value in sorted(self.subject.labels.items()))
        return f"{self.alert} {self.subject.host}:{self.subject.source} {{{labels}}}"

    @property
    def incident(self) -> str:
        """Return the id of the incident, 20 hexadecimal digits."""
        return hashlib.sha256(f"{self.key} {self.since_ms}".encode()).hexdigest()[:20]

    def to_json(self) -> str:
        """Return the record's value."""
        subject = self.subject
        fields: dict[str, Any] = {
            "event": self.event,
            "incident": self.incident,
            "alert": self.alert,
            "severity": self.severity,
            "summary": self.summary,
            "host": subject.host,
            "source": subject.source,
            "labels": dict(sorted(subject.labels.items())),
            "since": time_text(self.since_ms),
            "time": time_text(self.time_ms),
            **self.facts,
        }
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def step(rule: Rule, before: Instance, time_ms: int, value: float) -> tuple[Instance, str | None]:
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
    rule: Rule, seen: Instance, time_ms: int, value: float
) -> tuple[Instance, str | None]:
    if not rule.is_clear(value):
        return replace(seen, clear_ms=None), None
    clear_ms = time_ms if seen.clear_ms is None else seen.clear_ms
    if time_ms - clear_ms < rule.clear_for_ms:
        return replace(seen, clear_ms=clear_ms), None
    return ended(seen), RESOLVED


def ended(instance: Instance) -> Instance:
    """Return the instance without its incident."""
    return replace(instance, phase=Phase.OK, since_ms=0, clear_ms=None)


def is_stale(rule: Rule, instance: Instance, clock_ms: int) -> bool:
    """Return whether the values of an instance have ended, at a time of its source that is over."""
    return clock_ms - instance.last_ms > rule.stale_ms
