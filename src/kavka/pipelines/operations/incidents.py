"""Incidents of the operations pipeline: what Spark keeps of an instance, and the two events of an incident. Pure.

`kavka.core.incident` decides when one begins and ends. Its id follows from the rule, the instance and the time of its
first value, so that the same values give the same ids.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kavka.collect.record import time_text
from kavka.core import incident
from kavka.core.incident import EventName, Phase
from kavka.pipelines.operations.baseline import Baseline


@dataclass(frozen=True, slots=True)
class Instance(incident.Instance):
    """One instance of a rule, and what is learnt of its values."""

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

    event: EventName
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
