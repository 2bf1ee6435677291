"""Rules of alerts, as `alerts.yml` of a project has them. Pure.

    stale_after: 5m                     # for all rules that do not say another
    rules:
      - alert: DiskAlmostFull
        metric: host_disk_space_bytes   # the name of a metric, whole
        labels: {kind: used}            # a text, a list of texts, or "~REGEX"; `host` and `source` count as labels
        divide_by: {metric: host_disk_space_bytes, labels: {kind: total}}
        by: [mount]                     # one incident for each value of these; without it for each series
        aggregate: max                  # of the series of an instance: max, min, sum or mean
        rate: true                      # of a counter: its growth in a second, between two samples
        above: 0.9                      # or below:
        clear: 0.85                     # hysteresis: the incident ends at this value, not at the threshold
        for: 5m                         # so long the value has to be beyond the threshold
        clear_for: 1m                   # and so long at `clear` or better
        severity: warning
        summary: the disk is almost full
      - alert: LoadIsUnusual
        metric: host_load1
        anomaly: {half_life: 1h, warmup: 30, min_deviation: 0.5, direction: up}    # thresholds are z-scores then
      - alert: CollectorIsSilent
        silent: 10m                     # nothing came from a source for so long
        labels: {host: "~web.*"}

A rule that is wrong is refused with a sentence that names it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from kavka.pipelines.operations.baseline import BaselineSettings, Direction
from kavka.pipelines.yaml_values import mapping_of, yaml_documents
from kavka.settings.durations import duration_ms

Aggregate = Literal["max", "min", "sum", "mean"]
_AGGREGATES = ("max", "min", "sum", "mean")
_SEVERITIES = ("info", "warning", "critical")
_DIRECTIONS = ("both", "up", "down")
_RULE = (
    "alert", "metric", "labels", "divide_by", "by", "aggregate", "rate", "anomaly", "above", "below", "clear",
    "for", "clear_for", "stale_after", "severity", "summary", "silent",
)  # fmt: skip
_NOT_OF_SILENCE = tuple(
    name for name in _RULE if name not in ("alert", "labels", "severity", "summary", "silent")
)
_STALE_AFTER_MS = 300_000
_FORGET_AFTER_MS = 7 * 86_400_000
_ANOMALY_ABOVE, _ANOMALY_CLEAR = 4.0, 2.0


class RuleError(ValueError):
    """Rules are wrong; the message is a sentence that names the rule and says what to write."""


_mapping = partial(mapping_of, error=RuleError)


@dataclass(frozen=True, slots=True)
class Selector:
    """Chooses series: by the name of their metric, and by patterns that whole labels match."""

    metric: str
    labels: tuple[tuple[str, re.Pattern[str]], ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a series is chosen; a label that it has not is the empty text."""
        return name == self.metric and matches_labels(self.labels, labels)


def matches_labels(
    patterns: Sequence[tuple[str, re.Pattern[str]]], labels: Mapping[str, str]
) -> bool:
    """Return whether all labels match; one that is absent is the empty text."""
    return all(pattern.fullmatch(labels.get(name, "")) for name, pattern in patterns)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule about values."""

    name: str
    selector: Selector
    is_above: bool
    """True if values above the threshold are bad; else those below."""
    threshold: float
    clear: float
    """At this value, or a better one, an incident ends."""
    divide_by: Selector | None = None
    by: tuple[str, ...] | None = None
    """Labels that distinguish instances; None: all of them."""
    aggregate: Aggregate = "max"
    is_rate: bool = False
    anomaly: BaselineSettings | None = None
    for_ms: int = 0
    clear_for_ms: int = 0
    stale_ms: int = _STALE_AFTER_MS
    severity: str = "warning"
    summary: str = ""

    def is_breached(self, value: float) -> bool:
        """Return whether a value is beyond the threshold."""
        return value > self.threshold if self.is_above else value < self.threshold

    def is_clear(self, value: float) -> bool:
        """Return whether a value lets an incident end."""
        return value <= self.clear if self.is_above else value >= self.clear


@dataclass(frozen=True, slots=True)
class SilenceRule:
    """A rule about sources from which nothing comes."""

    name: str
    silent_ms: int
    labels: tuple[tuple[str, re.Pattern[str]], ...] = ()
    severity: str = "warning"
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of a project, in their order."""

    values: tuple[Rule, ...] = ()
    silences: tuple[SilenceRule, ...] = ()
    forget_ms: int = _FORGET_AFTER_MS
    """Milliseconds without a sample after which the state of a source is forgotten."""

    @property
    def metrics(self) -> list[str]:
        """Return the names of the metrics that are looked at, sorted."""
        names = [
            selector.metric for rule in self.values for selector in (rule.selector, rule.divide_by)
            if selector is not None
        ]  # fmt: skip
        return sorted(set(names))


def load_rules(path: Path | str) -> Rules:
    """Read a file of rules. Raise RuleError, OSError."""
    documents = yaml_documents(path, error=RuleError)
    if len(documents) > 1:
        raise RuleError(f"{path} has {len(documents)} documents, and rules are one")
    try:
        return parse_rules(documents[0] if documents else None)
    except RuleError as error:
        raise RuleError(f"{path}: {error}") from error


def parse_rules(document: Any) -> Rules:
    """Return the rules of a document. Raise RuleError."""
    fields_of_file = _mapping(document, "the file", ("rules", "stale_after", "forget_after"))
    listed = fields_of_file.get("rules")
    if not isinstance(listed, list) or not listed:
        raise RuleError("the file has no list `rules`")
    stale_ms = _duration(fields_of_file.get("stale_after", "5m"), "stale_after")
    rules: list[Rule] = []
    silences: list[SilenceRule] = []
    names: set[str] = set()
    for number, rule_document in enumerate(listed, 1):
        fields = _mapping(rule_document, f"rule {number}", _RULE)
        name = fields.get("alert")
        if not isinstance(name, str) or not name.strip():
            raise RuleError(f"rule {number} has no name: write `alert: NAME` first")
        if name in names:
            raise RuleError(f"two rules are named {name!r}: incidents are known by that name")
        names.add(name)
        if "silent" in fields:
            silences.append(_silence(name, fields))
        else:
            rules.append(_rule(name, fields, stale_ms))
    forget_ms = _duration(fields_of_file.get("forget_after", "7d"), "forget_after")
    for rule in rules:
        if rule.stale_ms > forget_ms:
            raise RuleError(f"the rule {rule.name}: stale_after is longer than forget_after")
    return Rules(tuple(rules), tuple(silences), forget_ms)


def _rule(name: str, fields: Mapping[str, Any], stale_ms: int) -> Rule:
    rule = f"the rule {name}"
    anomaly = _anomaly(rule, fields["anomaly"]) if "anomaly" in fields else None
    is_above, threshold, clear = _thresholds(rule, fields, anomaly is not None)
    divide_by = (
        _selector(f"{rule}: divide_by", fields["divide_by"]) if "divide_by" in fields else None
    )
    by = _names(rule, fields["by"]) if "by" in fields else None
    if divide_by is not None and by is None:
        raise RuleError(
            f"{rule} has `divide_by`, so it needs `by`: the labels by which both series belong together"
        )
    return Rule(
        name,
        _selector(rule, {key: fields[key] for key in ("metric", "labels") if key in fields}),
        is_above,
        threshold,
        clear,
        divide_by,
        by,
        _choice(rule, "aggregate", fields.get("aggregate", "max" if is_above else "min"), _AGGREGATES),  # type: ignore[arg-type]
        _flag(rule, "rate", fields.get("rate", False)),
        anomaly,
        _duration(fields.get("for", 0), f"{rule}: for"),
        _duration(fields.get("clear_for", 0), f"{rule}: clear_for"),
        _duration(fields["stale_after"], f"{rule}: stale_after") if "stale_after" in fields else stale_ms,
        _choice(rule, "severity", fields.get("severity", "warning"), _SEVERITIES),
        str(fields.get("summary", "")),
    )  # fmt: skip


def _thresholds(
    rule: str, fields: Mapping[str, Any], is_anomaly: bool
) -> tuple[bool, float, float]:
    if is_anomaly:
        if "below" in fields:
            raise RuleError(f"{rule} is about an anomaly: `above` is its z-score, which is no sign")
        above = _number(rule, "above", fields.get("above", _ANOMALY_ABOVE))
        clear = _number(rule, "clear", fields.get("clear", min(_ANOMALY_CLEAR, above)))
    elif ("above" in fields) == ("below" in fields):
        raise RuleError(f"{rule} needs one of `above` and `below`")
    else:
        side = "above" if "above" in fields else "below"
        above = _number(rule, side, fields[side])
        clear = _number(rule, "clear", fields.get("clear", above))
    is_above = "below" not in fields
    if (clear > above) if is_above else (clear < above):
        raise RuleError(
            f"{rule}: clear is {clear:g}, beyond the threshold {above:g}: an incident would end while it is there"
        )
    return is_above, above, clear


def _anomaly(rule: str, value: Any) -> BaselineSettings:
    allowed = ("half_life", "warmup", "min_deviation", "direction")
    fields = _mapping({} if value is True else value, f"{rule}: anomaly", allowed)
    half_life_ms = _duration(fields.get("half_life", "1h"), f"{rule}: half_life")
    warmup = fields.get("warmup", 30)
    if isinstance(warmup, bool) or not isinstance(warmup, int) or warmup < 2:
        raise RuleError(f"{rule}: warmup is a number of samples, 2 or more, not {warmup!r}")
    min_deviation = _number(rule, "min_deviation", fields.get("min_deviation", 0))
    if half_life_ms == 0 or min_deviation < 0:
        raise RuleError(f"{rule}: half_life is more than 0, min_deviation not below 0")
    direction: Direction = _choice(rule, "direction", fields.get("direction", "both"), _DIRECTIONS)  # type: ignore[assignment]
    return BaselineSettings(half_life_ms, warmup, min_deviation, direction)


def _silence(name: str, fields: Mapping[str, Any]) -> SilenceRule:
    rule = f"the rule {name}"
    for other in _NOT_OF_SILENCE:
        if other in fields:
            raise RuleError(f"{rule} is about silence, so it has no `{other}`")
    silent_ms = _duration(fields["silent"], f"{rule}: silent")
    if silent_ms == 0:
        raise RuleError(f"{rule}: silent is more than 0")
    return SilenceRule(
        name,
        silent_ms,
        _labels(rule, fields.get("labels", {})),
        _choice(rule, "severity", fields.get("severity", "warning"), _SEVERITIES),
        str(fields.get("summary", "")),
    )


def _selector(name: str, value: Any) -> Selector:
    fields = _mapping(value, name, ("metric", "labels"))
    metric = fields.get("metric")
    if not isinstance(metric, str) or not metric:
        raise RuleError(f"{name} has no `metric`: write the metric's whole name")
    return Selector(metric, _labels(name, fields.get("labels", {})))


def _labels(rule: str, mapping: Any) -> tuple[tuple[str, re.Pattern[str]], ...]:
    labels = _mapping(mapping, f"{rule}: labels")
    return tuple((name, _pattern(f"{rule}: {name}", value)) for name, value in labels.items())


def _pattern(name: str, value: Any) -> re.Pattern[str]:
    if isinstance(value, list):
        return re.compile("|".join(re.escape(_text(name, one)) for one in value))
    text = _text(name, value)
    if not text.startswith("~"):
        return re.compile(re.escape(text))
    try:
        return re.compile(text[1:])
    except re.error as error:
        raise RuleError(f"{name}: {text!r} is no regular expression: {error}") from error


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise RuleError(f"{name} is a text, a list of texts, or ~REGEX, not {value!r}")
    return str(value)


# Values


def _names(rule: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise RuleError(f"{rule}: by is a list of labels, not {value!r}")
    return tuple(sorted(set(value)))


def _choice(rule: str, field: str, value: Any, choices: Sequence[str]) -> str:
    if value not in choices:
        raise RuleError(f"{rule}: {field} is one of {', '.join(choices)}, not {value!r}")
    return str(value)


def _flag(rule: str, field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise RuleError(f"{rule}: {field} is true or false, not {value!r}")
    return value


def _number(rule: str, field: str, value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(float(value))
    ):
        raise RuleError(f"{rule}: {field} is a number, not {value!r}")
    return float(value)


def _duration(value: Any, name: str) -> int:
    """Return milliseconds of a text such as 1h30m, or of a number of seconds."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if 0 <= value < 1e9:
            return round(value * 1000)
    elif isinstance(value, str):
        with suppress(ValueError):
            return duration_ms(value)
    raise RuleError(f"{name} is a time such as 90s, 5m or 1h30m, not {value!r}")
