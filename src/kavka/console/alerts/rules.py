"""The file of the alerts' rules: read with all its mistakes, each with its line. Pure but for `load`.

address: https://console.example.org          # of this console, in the links of messages
rules:
- alert: OrdersLate
watch: group_lag_seconds                  # a condition of `kavka.console.alerts.conditions`
groups: ["orders-*"]                      # or topics, brokers, pipelines, certificates
above: 5m                                 # or below: where the condition has both sides
clear: 1m                                 # hysteresis: the alert ends at this value, not at the threshold
for: 2m                                   # so long the value has to be beyond the threshold
clear_for: 1m                             # and so long at `clear` or better
severity: critical                        # info, warning or critical
advice: Restart the workers.              # instead of the condition's
channels: [team]                          # without it all
repeat: 4h                                # sent again while it fires
channels: ...                                 # `kavka.console.alerts.channels`
maintenance:
- name: weekly
days: [sunday]                            # without it every day
from: "02:00"
to: "04:00"                               # may be on the next day
timezone: Europe/Berlin                   # without it UTC
alerts: "Disk*"                           # without it all
subjects: "1"
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from kavka.console.alerts.channels import SEVERITIES, Channel, read_channel
from kavka.console.alerts.conditions import CONDITIONS, UNREACHABLE, Condition, Target, matches
from kavka.console.alerts.located import BadYaml, Items, Problem, Section, located
from kavka.console.sentences import Sentence, say
from kavka.settings.durations import duration_ms

DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_FILE: Final = ("address", "rules", "channels", "maintenance")
_RULE: Final = (
    "alert", "watch", "groups", "topics", "brokers", "pipelines", "certificates", "above", "below", "clear", "for",
    "clear_for", "severity", "advice", "channels", "repeat",
)  # fmt: skip
_SUBJECTS: Final = ("groups", "topics", "brokers", "pipelines", "certificates")
_WINDOW: Final = ("name", "days", "from", "to", "timezone", "alerts", "subjects")
_STALE_MS: Final = 300_000
_KEY: Final = re.compile(rf"\ufeff? *['\"]?({'|'.join(_FILE)})['\"]? *:")
"""The beginning of a line that begins with a key of the file."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. It has the thresholds that `kavka.core.incident` decides by."""

    name: str
    condition: Condition
    target: Target
    is_above: bool
    clear: float
    for_ms: int = 0
    clear_for_ms: int = 0
    stale_ms: int = _STALE_MS
    severity: str = "warning"
    advice: str = ""
    channels: tuple[str, ...] | None = None
    """The channels that it is sent to; None: all."""
    repeat_ms: int = 0
    line: int = 0

    @property
    def threshold(self) -> float:
        """Return the value beyond which it is bad."""
        return self.target.threshold

    def is_breached(self, value: float) -> bool:
        """Return whether a value is beyond the threshold."""
        return value > self.threshold if self.is_above else value < self.threshold

    def is_clear(self, value: float) -> bool:
        """Return whether a value lets an alert end."""
        return value <= self.clear if self.is_above else value >= self.clear


@dataclass(frozen=True, slots=True)
class Window:
    """A time of maintenance: nothing is sent meanwhile."""

    name: str
    days: tuple[int, ...]
    """Days on which it begins, Monday is 0."""
    begin: time
    end: time
    zone: tzinfo = UTC
    alerts: tuple[str, ...] = ("*",)
    subjects: tuple[str, ...] = ("*",)

    def covers(self, now_s: float, alert: str, subject: str) -> bool:
        """Return whether an alert is not sent at a time."""
        is_meant = matches(self.alerts, alert) and matches(self.subjects, subject)
        return is_meant and self.is_in(now_s)

    def is_in(self, now_s: float) -> bool:
        """Return whether it is that time."""
        now = datetime.fromtimestamp(now_s, self.zone)
        for begun in (now.date(), now.date() - timedelta(days=1)):
            if begun.weekday() not in self.days:
                continue
            begin = datetime.combine(begun, self.begin, self.zone)
            until = begun if self.end > self.begin else begun + timedelta(days=1)
            if begin <= now < datetime.combine(until, self.end, self.zone):
                return True
        return False


@dataclass(frozen=True, slots=True)
class Rules:
    """A file of rules."""

    rules: tuple[Rule, ...] = ()
    channels: Mapping[str, Channel] = field(default_factory=dict)
    windows: tuple[Window, ...] = ()
    address: str = ""
    """The console's, without a slash at the end; empty where it is not said."""

    def channels_of(self, rule: Rule) -> list[Channel]:
        """Return the channels to which alerts of a rule are sent."""
        names = self.channels if rule.channels is None else rule.channels
        found = [self.channels[name] for name in names]
        return [one for one in found if rule.severity in one.severities]

    def watches(self, what: str) -> list[Rule]:
        """Return the rules about a kind of subjects, or of one condition."""
        return [
            rule for rule in self.rules if what in (rule.condition.subjects, rule.condition.name)
        ]


DEFAULT_RULES: Final = """\
rules:
  - {alert: ClusterUnreachable, watch: cluster_unreachable, for: 1m, severity: critical}
  - {alert: NoController, watch: no_controller, for: 1m, severity: critical}
  - {alert: BrokerGone, watch: broker_gone, for: 1m, severity: critical}
  - {alert: PartitionsOffline, watch: offline, for: 30s, severity: critical}
  - {alert: UnderReplicated, watch: under_replicated, for: 5m}
  - {alert: GroupStuck, watch: group_stuck, above: 10m}
  - {alert: GroupFallingBehind, watch: group_falling_behind, clear_for: 5m}
  - {alert: GroupEmpty, watch: group_empty, for: 10m, severity: info}
  - {alert: DiskAlmostFull, watch: disk_used, above: 85%, clear: 80%, for: 5m}
  - {alert: DiskFullSoon, watch: disk_full_in, below: 24h, clear: 36h, for: 30m}
  - {alert: PipelineFailing, watch: pipeline_failing, for: 1m, severity: critical}
  - {alert: HistoryNotKept, watch: history_not_kept, for: 1m}
  - {alert: PipelineSilent, watch: pipeline_silent, above: 2m}
"""
"""The rules of a console without a file."""


class _Problems:
    """Collects mistakes, so that all of them are said at once."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, line: int, sentence: Sentence) -> None:
        self.found.append(Problem(line, sentence))


def parse(text: str, directory: Path) -> tuple[Rules, list[Problem]]:
    """Return the rules of a text and its mistakes; files that it names are looked for in `directory`.

    Without mistakes the rules are whole. Files with secrets are read.
    """
    try:
        document = located(text)
    except BadYaml as error:
        return Rules(), [error.problem]
    problems = _Problems()
    file = _section(document, 1, say("the file"), _FILE, problems)
    channels: dict[str, Channel] = {}
    for _, name, section in _named(file, "channels", "channel", problems):
        found, wrong = read_channel(name, section, directory)
        problems.found += wrong
        if found is not None:
            channels[name] = found
    rules = []
    listed = _names_of(file.get("channels"))
    for line, name, section in _named(file, "rules", "alert", problems):
        rule = _rule(name, section, listed, line, problems)
        if rule is not None:
            rules.append(rule)
    if "rules" not in file:
        problems.add(file.line or 1, say("the file has no list `rules`"))
    windows = [
        window
        for _, name, section in _named(file, "maintenance", "name", problems)
        if (window := _window(name, section, problems)) is not None
    ]
    address = _address(file, problems)
    return (
        Rules(tuple(rules), channels, tuple(windows), address),
        sorted(problems.found, key=lambda one: one.line),
    )


def load(path: Path) -> tuple[Rules, list[Problem], str]:
    """Return the rules of a file, its mistakes, and its text. Raise OSError."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return Rules(), [Problem(1, say("the file is not UTF-8"))], ""
    return *parse(text, path.parent), text


def without_channels(text: str) -> str:
    """Return a file that was read without its channels, which may hold secrets; empty where they are not apart."""
    document = located(text)
    starts = sorted(document.lines.values())
    lines = text.splitlines(keepends=True)
    if any(_KEY.match(lines[line - 1]) is None for line in starts) or len(set(starts)) < len(
        starts
    ):
        return ""
    begin = document.lines.get("channels")
    if begin is None:
        return text
    end = next((line for line in starts if line > begin), len(lines) + 1)
    return "".join([*lines[: begin - 1], "channels: ... # not shown\n", *lines[end - 1 :]])


def _named(
    file: Section, key: str, name_key: str, problems: _Problems
) -> list[tuple[int, str, Section]]:
    """Return the sections of a list, each with a name of its own."""
    listed = file.get(key)
    if listed is None:
        return []
    if not isinstance(listed, Items):
        problems.add(file.line_of(key), say("`{key}` is a list", key=key))
        return []
    found: dict[str, tuple[int, str, Section]] = {}
    for line, item in zip(listed.lines, listed, strict=True):
        name = item.get(name_key) if isinstance(item, Section) else None
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            sentence = say(
                "an entry of `{key}` begins with `{name_key}: NAME`", key=key, name_key=name_key
            )
            problems.add(line, sentence)
        elif name in found:
            problems.add(line, say("two entries of `{key}` are named {name!r}", key=key, name=name))
        else:
            found[name] = (line, name, item)
    return list(found.values())


def _names_of(listed: Any) -> list[str]:
    if not isinstance(listed, Items):
        return []
    return [str(one.get("channel")) for one in listed if isinstance(one, Section)]


def _section(
    value: Any, line: int, where: Sentence, allowed: Sequence[str], problems: _Problems
) -> Section:
    if not isinstance(value, Section):
        problems.add(line, say("{where} is no mapping", where=where))
        return Section()
    for key in value:
        if key not in allowed:
            sentence = say(
                "{where} has no {key!r}; it may have {allowed}",
                where=where,
                key=key,
                allowed=", ".join(allowed),
            )
            problems.add(value.line_of(key), sentence)
    return value


def _address(file: Section, problems: _Problems) -> str:
    address = file.get("address", "")
    try:
        parts = urlsplit(str(address))
        is_good = not address or (parts.scheme in ("http", "https") and bool(parts.hostname))
    except ValueError:
        is_good = False
    if not is_good or not str(address).isprintable() or " " in str(address):
        problems.add(
            file.line_of("address"), say("address is a URL such as https://kafka.example.org")
        )
        return ""
    return str(address).rstrip("/")


# One rule


def _rule(
    name: str, section: Section, channels: Sequence[str], line: int, problems: _Problems
) -> Rule | None:
    before = len(problems.found)
    rule = say("the rule {name}", name=name)
    _section(section, line, rule, _RULE, problems)
    watch = section.get("watch")
    condition = CONDITIONS.get(watch) if isinstance(watch, str) else None
    if condition is None:
        problems.add(
            section.line_of("watch"),
            _one_of(rule, "watch", CONDITIONS, watch),
        )
        return None
    patterns = _subjects(rule, section, condition, problems)
    is_above, threshold, clear = _thresholds(rule, section, condition, problems)
    severity = section.get("severity", "warning")
    if severity not in SEVERITIES:
        problems.add(
            section.line_of("severity"),
            _one_of(rule, "severity", SEVERITIES, severity),
        )
    advice = section.get("advice", condition.advice)
    if not isinstance(advice, str):
        problems.add(section.line_of("advice"), say("{rule}: advice is a text", rule=rule))
    chosen = _patterns(section, "channels", problems) if "channels" in section else None
    for one in chosen or ():
        if one not in channels:
            sentence = say("{rule}: there is no channel {channel!r}", rule=rule, channel=one)
            problems.add(section.line_of("channels"), sentence)
    times = [_duration(section, key, rule, problems) for key in ("for", "clear_for", "repeat")]
    if len(problems.found) > before:
        return None
    for_ms, clear_for_ms, repeat_ms = times
    return Rule(
        name, condition, Target(patterns, threshold), is_above, clear, for_ms, clear_for_ms, _STALE_MS, str(severity),
        advice, chosen, repeat_ms, line,
    )  # fmt: skip


def _one_of(rule: Sentence, key: str, allowed: Iterable[str], value: object) -> Sentence:
    listed = ", ".join(allowed)
    return say(
        "{rule}: {key} is one of {listed}, not {value!r}",
        rule=rule,
        key=key,
        listed=listed,
        value=value,
    )


def _subjects(
    rule: Sentence, section: Section, condition: Condition, problems: _Problems
) -> tuple[str, ...]:
    for key in _SUBJECTS:
        if key in section and key != condition.subjects:
            what = f"`{condition.subjects}`" if condition.subjects else say("no subjects")
            sentence = say("{rule}: {watch} has {what}", rule=rule, watch=condition.name, what=what)
            problems.add(section.line_of(key), sentence)
    if not condition.subjects:
        return ("*",)
    if condition.subjects == "certificates":
        patterns = _patterns(section, "certificates", problems)
        for one in patterns:
            host, _, port = one.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65536:
                problems.add(
                    section.line_of("certificates"),
                    say(
                        "{rule}: {address!r} is no address such as broker-1.example.org:9093",
                        rule=rule,
                        address=one,
                    ),
                )
        if not patterns:
            problems.add(section.line, say("{rule} names no certificates: [host:port]", rule=rule))
        return patterns
    return _patterns(section, condition.subjects, problems) or ("*",)


def _patterns(section: Section, key: str, problems: _Problems) -> tuple[str, ...]:
    value = section.get(key)
    if value is None:
        return ()
    values = value if isinstance(value, Items) else [value]
    texts = [one for one in values if isinstance(one, (str, int)) and not isinstance(one, bool)]
    if len(texts) < len(values) or not texts or any(str(one) == "" for one in texts):
        problems.add(section.line_of(key), say("{key} is a name or a list of names", key=key))
        return ()
    return tuple(str(one) for one in texts)


def _thresholds(
    rule: Sentence, section: Section, condition: Condition, problems: _Problems
) -> tuple[bool, float, float]:
    watch = condition.name
    given = [side for side in ("above", "below") if side in section]
    if condition.measure == "flag":
        for key in (*given, *(["clear"] if "clear" in section else [])):
            sentence = say("{rule}: {watch} has no threshold", rule=rule, watch=watch)
            problems.add(section.line_of(key), sentence)
        return True, 0.5, 0.5
    wanted = {True: "above", False: "below", None: "above or below"}[condition.is_above]
    if len(given) > 1 or (given and given[0] not in wanted.split(" or ")):
        sentence = say(
            "{rule}: {watch} has one of: {wanted}", rule=rule, watch=watch, wanted=wanted
        )
        problems.add(section.line_of(given[-1]), sentence)
        return True, 0.0, 0.0
    if not given and (condition.default is None or condition.is_above is None):
        problems.add(
            section.line, say("{rule} has no threshold: `{wanted}`", rule=rule, wanted=wanted)
        )
        return True, 0.0, 0.0
    is_above = given == ["above"] if given else bool(condition.is_above)
    threshold = (
        _number(section, given[0], condition, rule, problems) if given else condition.default
    )
    assert threshold is not None
    clear = (
        _number(section, "clear", condition, rule, problems) if "clear" in section else threshold
    )
    if (clear > threshold) if is_above else (clear < threshold):
        problems.add(
            section.line_of("clear"),
            say(
                "{rule}: clear is beyond the threshold, so an alert would end while it is there",
                rule=rule,
            ),
        )
    return is_above, threshold, clear


def _number(
    section: Section, key: str, condition: Condition, rule: Sentence, problems: _Problems
) -> float:
    value = section[key]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    most = 1 if condition.measure == "share" else math.inf
    if condition.measure == "share" and isinstance(value, str) and value.strip().endswith("%"):
        with suppress(ValueError):
            share = float(value.strip()[:-1]) / 100
            if 0 <= share <= most:
                return share
    if condition.measure == "duration" and isinstance(value, str):
        with suppress(ValueError):
            return duration_ms(value) / 1000
    if is_number and math.isfinite(value) and 0 <= value <= most:
        return float(value)
    forms = {
        "share": say("a share such as 85% or 0.85"),
        "duration": say("a time such as 90s, 5m or 24h"),
    }
    form = forms.get(condition.measure, say("a number"))
    problems.add(section.line_of(key), _is_no(rule, key, form, value))
    return 0.0


def _is_no(rule: Sentence, key: str, form: Sentence, value: object) -> Sentence:
    return say("{rule}: {key} is {form}, not {value!r}", rule=rule, key=key, form=form, value=value)


def _duration(section: Section, key: str, rule: Sentence, problems: _Problems) -> int:
    value = section.get(key, 0)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9:
        return round(value * 1000)
    if isinstance(value, str):
        with suppress(ValueError):
            return duration_ms(value)
    form = say("a time such as 90s, 5m or 1h30m")
    problems.add(section.line_of(key), _is_no(rule, key, form, value))
    return 0


# Maintenance


def _window(name: str, section: Section, problems: _Problems) -> Window | None:
    before = len(problems.found)
    where = say("the maintenance {name}", name=name)
    _section(section, section.line, where, _WINDOW, problems)
    days = [str(day).lower() for day in _patterns(section, "days", problems)] or list(DAYS)
    for day in days:
        if day not in DAYS:
            sentence = say("{where}: {day!r} is no day such as sunday", where=where, day=day)
            problems.add(section.line_of("days"), sentence)
    begin, end = (_clock(section, key, where, problems) for key in ("from", "to"))
    zone: tzinfo = UTC
    if "timezone" in section:
        try:
            zone = ZoneInfo(str(section["timezone"]))
        except (ValueError, OSError, KeyError):
            problems.add(
                section.line_of("timezone"),
                say(
                    "{where}: {zone!r} is no time zone such as Europe/Berlin",
                    where=where,
                    zone=section["timezone"],
                ),
            )
    alerts = _patterns(section, "alerts", problems) or ("*",)
    subjects = _patterns(section, "subjects", problems) or ("*",)
    if len(problems.found) > before:
        return None
    numbers = tuple(DAYS.index(day) for day in days)
    return Window(name, numbers, begin, end, zone, alerts, subjects)


def _clock(section: Section, key: str, where: Sentence, problems: _Problems) -> time:
    value = section.get(key)
    # YAML 1.1 takes 02:00 for a number in base 60, unless it stands in quotes.
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 24 * 60:
        return time(value // 60, value % 60)
    with suppress(ValueError):
        if isinstance(value, str):
            return time.fromisoformat(value)
    sentence = say('{where}: {key} is a time of the day such as "02:30"', where=where, key=key)
    problems.add(section.line_of(key), sentence)
    return time()


def is_about_failure(rule: Rule) -> bool:
    """Return whether a rule is about looks that fail."""
    return rule.condition.name == UNREACHABLE
