"""The rules, evaluated over the samples of one source, with a state that is a JSON document. Pure.

A source is what a collector names so on one host: a page of metrics, the host itself, a log. Its samples come with
times; those of one time are looked at together:

    samples of a time ─ selector ─► series ─ rate ─► by, aggregate ─► instances ─ divide ─► baseline ─► incident

A time that is not after the last one of a series says nothing, nor does one that is `stale_after` behind the clock of
the source: a sample that comes twice or late changes nothing.

Two clocks: that of the samples, by which incidents begin and end, and that of the pipeline (`arrived`), by which a
source is silent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from kavka.core.incident import FIRING, RESOLVED, Phase, ended, is_stale, step
from kavka.pipelines.operations.baseline import Baseline, severity_of
from kavka.pipelines.operations.incidents import Event, Instance, Subject
from kavka.pipelines.operations.rules import (
    Rule,
    Rules,
    Selector,
    SilenceRule,
    matches_labels,
)

State = dict[str, Any]
"""`clock`, `arrived`; `rules`: {rule: {instance: list}}; `series`: {rule: {side+series: [time, value]}};
`silent`: {rule: since}."""
MAX_AHEAD_MS = 60_000
"""A sample may be so far ahead of its arrival, else it counts as of then: a clock that was wrong for a moment must not
make all later samples old ones."""
NO_VALUES = "no values"
SILENT_SOURCE = "the source is silent"
REMOVED_RULE = "the rule was removed"
FORGOTTEN = "the source was forgotten"

_AGGREGATES: Mapping[str, Callable[[list[float]], float]] = {
    "max": max,
    "min": min,
    "sum": sum,
    "mean": lambda values: sum(values) / len(values),
}


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of a series, a finite number."""

    time_ms: int
    name: str
    value: float
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of samples."""

    host: str
    source: str
    is_collected: bool = True
    """True if a collector sends it at intervals; windows of the pipeline come when they are complete."""

    @property
    def labels(self) -> dict[str, str]:
        """Return host and source, which count as labels of all samples."""
        return {"host": self.host, "source": self.source}


class Evaluation:
    """The rules over one source: call `evaluate` or `handle_timer`, then read `events` and `state`."""

    def __init__(self, rules: Rules, source: Source, state: State | None) -> None:
        """Continue from a state, which is changed; None is the first evaluation."""
        self._rules = rules
        self._source = source
        self.state: State = {"clock": 0, "arrived": 0, "rules": {}, "series": {}, "silent": {}}
        if state is not None:
            self.state.update(state)
        self.events: list[Event] = []
        self.is_expired = False
        """True if the state can be removed: no sample has arrived for a long time."""
        self._end_removed_rules()

    # Samples

    def evaluate(self, samples: Iterable[Sample], arrived_ms: int) -> None:
        """Evaluate the samples, which arrived at a time of the pipeline's clock."""
        self.state["arrived"] = max(arrived_ms, self.state["arrived"])
        self._end_silences(arrived_ms)

        def time_of(sample: Sample) -> int:
            return min(sample.time_ms, arrived_ms + MAX_AHEAD_MS)

        for time_ms, of_a_time in groupby(sorted(samples, key=time_of), key=time_of):
            self._evaluate_time(time_ms, list(of_a_time))

    def _evaluate_time(self, time_ms: int, samples: list[Sample]) -> None:
        source_labels = self._source.labels
        series: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        for sample in samples:
            series.setdefault(sample.name, []).append(
                ({**source_labels, **sample.labels}, sample.value)
            )
        if time_ms > self.state["clock"]:
            self._find_stale(time_ms)
            self.state["clock"] = time_ms
        for rule in self._rules.values:
            if time_ms < self.state["clock"] - rule.stale_ms:
                continue  # its instance may be forgotten already, and would begin again
            for labels, value in self._values(rule, time_ms, series).items():
                self._step(rule, labels, time_ms, value)

    def _values(
        self, rule: Rule, time_ms: int, series: Mapping[str, list[tuple[Mapping[str, str], float]]]
    ) -> dict[str, float]:
        """Return the value of each instance at a time; its name is the JSON of its labels."""
        values = self._aggregated(rule, rule.selector, "", time_ms, series)
        if rule.divide_by is None:
            return values
        divisors = self._aggregated(rule, rule.divide_by, "/", time_ms, series)
        return {
            labels: value / divisors[labels]
            for labels, value in values.items()
            if divisors.get(labels)
        }

    def _aggregated(
        self,
        rule: Rule,
        selector: Selector,
        side: str,
        time_ms: int,
        series: Mapping[str, list[tuple[Mapping[str, str], float]]],
    ) -> dict[str, float]:
        groups: dict[str, list[float]] = {}
        for labels, value in series.get(selector.metric, ()):
            if not selector.matches(selector.metric, labels):
                continue
            own = {key: text for key, text in labels.items() if key not in ("host", "source")}
            number = self._rate(rule, side + _text(own), time_ms, value) if rule.is_rate else value
            if number is None:
                continue
            instance = own if rule.by is None else {key: labels.get(key, "") for key in rule.by}
            groups.setdefault(_text(instance), []).append(number)
        aggregate = _AGGREGATES[rule.aggregate]
        return {labels: aggregate(values) for labels, values in groups.items()}

    def _rate(self, rule: Rule, series: str, time_ms: int, value: float) -> float | None:
        """Return the growth of a counter in a second; one that is smaller than before began again at 0."""
        last_values = self.state["series"].setdefault(rule.name, {})
        last_ms, last = last_values.get(series, (None, 0.0))
        if last_ms is not None and time_ms <= last_ms:
            return None
        last_values[series] = [time_ms, value]
        if last_ms is None or time_ms - last_ms > rule.stale_ms:
            return None
        increase: float = value if value < last else value - last
        elapsed_s: float = (time_ms - last_ms) / 1000
        return increase / elapsed_s

    def _step(self, rule: Rule, labels: str, time_ms: int, value: float) -> None:
        instances = self.state["rules"].setdefault(rule.name, {})
        before = Instance.from_list(instances[labels]) if labels in instances else Instance()
        if (labels in instances and time_ms <= before.last_ms) or not math.isfinite(value):
            return
        facts: dict[str, Any] = {"metric": rule.selector.metric, "value": value}
        compared: float | None = value
        if rule.anomaly is not None:
            learnt = before.baseline or Baseline()
            score = learnt.score(rule.anomaly, value)
            compared = None if score is None else severity_of(rule.anomaly.direction, score)
            facts |= {"mean": learnt.mean, "deviation": learnt.deviation(rule.anomaly), "score": score}  # fmt: skip
            before = replace(before, baseline=learnt.learn(rule.anomaly, value, time_ms))
        if compared is None:
            instances[labels] = replace(before, last_ms=time_ms).to_list()
            return
        after, event = step(rule, before, time_ms, compared)
        instances[labels] = after.to_list()
        if event is not None:
            facts |= {"threshold": rule.threshold, "clear": rule.clear}
            since_ms = after.since_ms if event == FIRING else before.since_ms
            self._emit(event, rule, labels, since_ms, time_ms, facts)

    def _find_stale(self, now_ms: int) -> None:
        """Remove instances whose values have ended.

        It is judged by the time before this one: that is over, while of this one more records may come.
        """
        clock_ms = self.state["clock"]
        for rule in self._rules.values:
            instances = self.state["rules"].get(rule.name, {})
            for labels in list(instances):
                instance = Instance.from_list(instances[labels])
                if not is_stale(rule, instance, clock_ms):
                    continue
                if instance.phase is Phase.FIRING:
                    self._resolve(rule, labels, instance, now_ms, NO_VALUES)
                if instance.baseline is None or clock_ms - instance.last_ms > self._rules.forget_ms:
                    del instances[labels]
                else:
                    instances[labels] = ended(instance).to_list()
            series = self.state["series"].get(rule.name, {})
            for name in [one for one, (at, _) in series.items() if clock_ms - at > rule.stale_ms]:
                del series[name]

    # Silence

    def handle_timer(self, now_ms: int) -> None:
        """Evaluate what is due without samples: silent sources, values that have ended."""
        silent_ms = now_ms - self.state["arrived"]
        for silence in self._silences():
            if silent_ms >= silence.silent_ms:
                self._begin_silence(silence, now_ms)
        for rule in self._rules.values:
            instances = self.state["rules"].get(rule.name, {})
            for labels in list(instances) if silent_ms > rule.stale_ms else ():
                instance = Instance.from_list(instances[labels])
                if instance.phase is Phase.FIRING:
                    at_ms = instance.last_ms + silent_ms
                    self._resolve(rule, labels, instance, at_ms, SILENT_SOURCE)
                instances[labels] = ended(instance).to_list()
        if silent_ms > self._rules.forget_ms:
            self._end_silences(now_ms, FORGOTTEN)
            self.is_expired = True

    def deadline_ms(self) -> int | None:
        """Return when `handle_timer` has something to do, by the pipeline's clock; None when it is over."""
        if self.is_expired:
            return None
        silent = self.state["silent"]
        waits = [rule.silent_ms for rule in self._silences() if rule.name not in silent]
        waits.append(self._rules.forget_ms + 1)
        for rule in self._rules.values:
            instances = self.state["rules"].get(rule.name, {})
            if any(found[0] != Phase.OK for found in instances.values()):
                waits.append(rule.stale_ms + 1)
        return int(self.state["arrived"]) + min(waits)

    def _silences(self) -> list[SilenceRule]:
        source = self._source
        if not source.is_collected:
            return []
        labels = source.labels
        return [rule for rule in self._rules.silences if matches_labels(rule.labels, labels)]

    def _begin_silence(self, rule: SilenceRule, now_ms: int) -> None:
        if rule.name not in self.state["silent"]:
            since_ms = self.state["arrived"]
            self.state["silent"][rule.name] = since_ms
            self._emit(FIRING, rule, "{}", since_ms, now_ms, {"silent_s": (now_ms - since_ms) / 1000})  # fmt: skip

    def _end_silences(self, now_ms: int, reason: str = "") -> None:
        facts = {"reason": reason} if reason else {}
        for name, since_ms in self.state["silent"].items():
            rule = next((rule for rule in self._rules.silences if rule.name == name), None)
            self._emit(RESOLVED, rule or _removed(name), "{}", since_ms, now_ms, facts)
        self.state["silent"] = {}

    # Events

    def _end_removed_rules(self) -> None:
        """Resolve the incidents of removed rules, and remove their state."""
        names = {rule.name for rule in self._rules.values}
        for name in [name for name in self.state["rules"] if name not in names]:
            for labels, fields in self.state["rules"].pop(name).items():
                instance = Instance.from_list(fields)
                if instance.phase is Phase.FIRING:
                    self._resolve(_removed(name), labels, instance, self.state["clock"], REMOVED_RULE)  # fmt: skip
        for name in [name for name in self.state["series"] if name not in names]:
            del self.state["series"][name]

    def _resolve(
        self, rule: Rule | SilenceRule, labels: str, instance: Instance, time_ms: int, reason: str
    ) -> None:
        self._emit(RESOLVED, rule, labels, instance.since_ms, time_ms, {"reason": reason})

    def _emit(
        self,
        event: Any,
        rule: Rule | SilenceRule,
        labels: str,
        since_ms: int,
        time_ms: int,
        facts: Mapping[str, Any],
    ) -> None:
        subject = Subject(self._source.host, self._source.source, json.loads(labels))
        emitted = Event(
            event, rule.name, rule.severity, rule.summary, subject, since_ms, time_ms, facts
        )
        self.events.append(emitted)


def _removed(name: str) -> SilenceRule:
    """Return a rule of that name, for the event that ends its incident."""
    return SilenceRule(name, 1, severity="info", summary="")


def _text(labels: Mapping[str, str]) -> str:
    return json.dumps(labels, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
