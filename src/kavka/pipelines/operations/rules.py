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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kavka.pipelines.operations.baseline import BaselineSettings, Direction

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
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_STALE_AFTER_MS = 300_000
_FORGET_AFTER_MS = 7 * 86_400_000
_ANOMALY_ABOVE, _ANOMALY_CLEAR = 4.0, 2.0


class RuleError(ValueError):
    """Rules are wrong; the message is a sentence that names the rule and says what to write."""


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
    import yaml

    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise RuleError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    try:
        return parse_rules(document)
    except RuleError as error:
        raise RuleError(f"{path}: {error}") from error


def parse_rules(document: Any) -> Rules:
    """Return the rules of a document. Raise RuleError."""
    found = _mapping(document, "the file", ("rules", "stale_after", "forget_after"))
    listed = found.get("rules")
    if not isinstance(listed, list) or not listed:
        raise RuleError("the file has no list `rules`")
    stale_ms = _duration(found.get("stale_after", "5m"), "stale_after")
    rules: list[Rule] = []
    silences: list[SilenceRule] = []
    names: set[str] = set()
    for number, one in enumerate(listed, 1):
        fields = _mapping(one, f"rule {number}", _RULE)
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
    forget_ms = _duration(found.get("forget_after", "7d"), "forget_after")
    for rule in rules:
        if rule.stale_ms > forget_ms:
            raise RuleError(f"the rule {rule.name}: stale_after is longer than forget_after")
    return Rules(tuple(rules), tuple(silences), forget_ms)


def _rule(name: str, fields: Mapping[str, Any], stale_ms: int) -> Rule:
    what = f"the rule {name}"
    anomaly = _anomaly(what, fields["anomaly"]) if "anomaly" in fields else None
    is_above, threshold, clear = _thresholds(what, fields, anomaly is not None)
    divide_by = (
        _selector(f"{what}: divide_by", fields["divide_by"]) if "divide_by" in fields else None
    )
    by = _names(what, fields["by"]) if "by" in fields else None
    if divide_by is not None and by is None:
        raise RuleError(
            f"{what} has `divide_by`, so it needs `by`: the labels by which both series belong together"
        )
    return Rule(
        name,
        _selector(what, {key: fields[key] for key in ("metric", "labels") if key in fields}),
        is_above,
        threshold,
        clear,
        divide_by,
        by,
        _choice(what, "aggregate", fields.get("aggregate", "max" if is_above else "min"), _AGGREGATES),  # type: ignore[arg-type]
        _flag(what, "rate", fields.get("rate", False)),
        anomaly,
        _duration(fields.get("for", 0), f"{what}: for"),
        _duration(fields.get("clear_for", 0), f"{what}: clear_for"),
        _duration(fields["stale_after"], f"{what}: stale_after") if "stale_after" in fields else stale_ms,
        _choice(what, "severity", fields.get("severity", "warning"), _SEVERITIES),
        str(fields.get("summary", "")),
    )  # fmt: skip


def _thresholds(
    what: str, fields: Mapping[str, Any], is_anomaly: bool
) -> tuple[bool, float, float]:
    if is_anomaly:
        if "below" in fields:
            raise RuleError(f"{what} is about an anomaly: `above` is its z-score, which is no sign")
        above = _number(what, "above", fields.get("above", _ANOMALY_ABOVE))
        clear = _number(what, "clear", fields.get("clear", min(_ANOMALY_CLEAR, above)))
    elif ("above" in fields) == ("below" in fields):
        raise RuleError(f"{what} needs one of `above` and `below`")
    else:
        side = "above" if "above" in fields else "below"
        above = _number(what, side, fields[side])
        clear = _number(what, "clear", fields.get("clear", above))
    is_above = "below" not in fields
    if (clear > above) if is_above else (clear < above):
        raise RuleError(
            f"{what}: clear is {clear:g}, beyond the threshold {above:g}: an incident would end while it is there"
        )
    return is_above, above, clear


def _anomaly(what: str, found: Any) -> BaselineSettings:
    known = ("half_life", "warmup", "min_deviation", "direction")
    fields = _mapping({} if found is True else found, f"{what}: anomaly", known)
    half_life_ms = _duration(fields.get("half_life", "1h"), f"{what}: half_life")
    warmup = fields.get("warmup", 30)
    if isinstance(warmup, bool) or not isinstance(warmup, int) or warmup < 2:
        raise RuleError(f"{what}: warmup is a number of samples, 2 or more, not {warmup!r}")
    least = _number(what, "min_deviation", fields.get("min_deviation", 0))
    if half_life_ms == 0 or least < 0:
        raise RuleError(f"{what}: half_life is more than 0, min_deviation not below 0")
    direction: Direction = _choice(what, "direction", fields.get("direction", "both"), _DIRECTIONS)  # type: ignore[assignment]
    return BaselineSettings(half_life_ms, warmup, least, direction)


def _silence(name: str, fields: Mapping[str, Any]) -> SilenceRule:
    what = f"the rule {name}"
    for other in _NOT_OF_SILENCE:
        if other in fields:
            raise RuleError(f"{what} is about silence, so it has no `{other}`")
    silent_ms = _duration(fields["silent"], f"{what}: silent")
    if silent_ms == 0:
        raise RuleError(f"{what}: silent is more than 0")
    return SilenceRule(
        name,
        silent_ms,
        _labels(what, fields.get("labels", {})),
        _choice(what, "severity", fields.get("severity", "warning"), _SEVERITIES),
        str(fields.get("summary", "")),
    )


def _selector(what: str, found: Any) -> Selector:
    fields = _mapping(found, what, ("metric", "labels"))
    metric = fields.get("metric")
    if not isinstance(metric, str) or not metric:
        raise RuleError(f"{what} has no `metric`: write the metric's whole name")
    return Selector(metric, _labels(what, fields.get("labels", {})))


def _labels(what: str, found: Any) -> tuple[tuple[str, re.Pattern[str]], ...]:
    wanted = _mapping(found, f"{what}: labels")
    return tuple((name, _pattern(f"{what}: {name}", value)) for name, value in wanted.items())


def _pattern(what: str, found: Any) -> re.Pattern[str]:
    if isinstance(found, list):
        return re.compile("|".join(re.escape(_text(what, one)) for one in found))
    text = _text(what, found)
    if not text.startswith("~"):
        return re.compile(re.escape(text))
    try:
        return re.compile(text[1:])
    except re.error as error:
        raise RuleError(f"{what}: {text!r} is no regular expression: {error}") from error


def _text(what: str, found: Any) -> str:
    if isinstance(found, bool) or not isinstance(found, (str, int, float)):
        raise RuleError(f"{what} is a text, a list of texts, or ~REGEX, not {found!r}")
    return str(found)


# Values


def _mapping(found: Any, what: str, known: Sequence[str] = ()) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise RuleError(f"{what} is not a mapping, but {type(found).__name__}")
    for name in found:
        if known and name not in known:
            raise RuleError(f"{what} has no {name!r}; it may have {', '.join(known)}")
    return {str(name): value for name, value in found.items()}


def _names(what: str, found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise RuleError(f"{what}: by is a list of labels, not {found!r}")
    return tuple(sorted(set(found)))


def _choice(what: str, field: str, found: Any, known: Sequence[str]) -> str:
    if found not in known:
        raise RuleError(f"{what}: {field} is one of {', '.join(known)}, not {found!r}")
    return str(found)


def _flag(what: str, field: str, found: Any) -> bool:
    if not isinstance(found, bool):
        raise RuleError(f"{what}: {field} is true or false, not {found!r}")
    return found


def _number(what: str, field: str, found: Any) -> float:
    if (
        isinstance(found, bool)
        or not isinstance(found, (int, float))
        or not math.isfinite(float(found))
    ):
        raise RuleError(f"{what}: {field} is a number, not {found!r}")
    return float(found)


def _duration(found: Any, what: str) -> int:
    """Return milliseconds of a text such as 1h30m, or of a number of seconds."""
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        if 0 <= found < 1e9:
            return round(found * 1000)
    elif isinstance(found, str) and _DURATION.fullmatch(found):
        return round(
            sum(float(size) * _UNITS[unit] for size, unit in _DURATION_PART.findall(found))
        )
    raise RuleError(f"{what} is a time such as 90s, 5m or 1h30m, not {found!r}")
