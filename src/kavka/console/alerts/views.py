"""Alerts, rules, channels, silences and deliveries as pages show them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from kavka.console.alerts.book import Key, State, incident_of
from kavka.console.alerts.located import Problem
from kavka.console.alerts.messages import Alert
from kavka.console.alerts.records import Delivery, Silence
from kavka.console.alerts.rules import Rule, Rules, Window
from kavka.console.formats import seconds_text
from kavka.console.sentences import NOTHING, Sentence, as_is, say
from kavka.console.views.paging import Paging


@dataclass(frozen=True, slots=True)
class AlertView:
    """An alert that is pending or firing."""

    incident: str
    phase: str
    alert: str
    subject: str
    severity: str
    sentence: Sentence
    advice: Sentence
    location: str
    value: float | None
    since_ms: int
    muted: Sentence
    """The reason why it is not sent; empty if it is."""


@dataclass(frozen=True, slots=True)
class ChannelView:
    """A channel, without its secrets."""

    name: str
    kind: str
    target: str
    severities: list[str]
    waiting: int
    """Messages that wait for it."""
    latest: str
    """The result of its newest message."""


@dataclass(frozen=True, slots=True)
class SilenceView:
    """A silence."""

    id: str
    alert: str
    subject: str
    until_ms: int
    comment: str


@dataclass(frozen=True, slots=True)
class AlertList:
    """Alerts that fire or are pending, silences, and channels."""

    alerts: list[AlertView]
    """Those of the page, the worst first."""
    paging: Paging
    firing: int
    worst: str
    """The state of all: critical, warning or ok."""
    silences: list[SilenceView]
    channels: list[ChannelView]
    rules: int
    problems: list[Sentence]
    """Mistakes of a rules' file that was changed and is not taken."""
    note: Sentence


@dataclass(frozen=True, slots=True)
class RuleView:
    """A rule."""

    name: str
    watch: str
    summary: Sentence
    subjects: list[str]
    threshold: Sentence
    clear: str
    for_text: str
    clear_for_text: str
    severity: str
    advice: Sentence
    channels: list[str]
    firing: int


@dataclass(frozen=True, slots=True)
class WindowView:
    """A time of maintenance."""

    name: str
    when: Sentence
    alerts: list[str]
    subjects: list[str]
    is_now: bool


@dataclass(frozen=True, slots=True)
class RuleList:
    """The rules, and the times of maintenance."""

    path: str
    """The file; empty for the default rules."""
    text: str
    """The file without its channels, which may hold secrets."""
    rules: list[RuleView]
    windows: list[WindowView]
    problems: list[Sentence]


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """A message, and how far it came."""

    channel: str
    state: str
    attempts: int
    made_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class AlertHistory:
    """The beginnings and ends of alerts, the newest first, and the newest messages."""

    events: list[Alert]
    paging: Paging
    incident: str
    deliveries: list[DeliveryView]


@dataclass(frozen=True, slots=True)
class SilenceForm:
    """The rules whose alerts can be silenced."""

    alerts: list[str]


@dataclass(frozen=True, slots=True)
class SilenceEnd:
    """A silence that can be ended."""

    silence: SilenceView | None


@dataclass(frozen=True, slots=True)
class ChannelTest:
    """A channel that can be tested."""

    channel: ChannelView | None


def alert_view(key: Key, state: State, rule: Rule | None) -> AlertView:
    """Return an alert."""
    return AlertView(
        incident=incident_of(key.rule, key.subject, state.since_ms),
        phase=str(state.phase),
        alert=key.rule,
        subject=key.subject,
        severity=state.severity,
        sentence=as_is(state.sentence),
        advice=as_is(rule.advice if rule else ""),
        location=state.location,
        value=state.value,
        since_ms=state.since_ms,
        muted=as_is(state.muted),
    )


def channel_views(
    rules: Rules, messages: Mapping[str, tuple[int, Delivery | None]]
) -> list[ChannelView]:
    """Return the channels; `messages` is of `records.of_channels`."""
    views = []
    for name, channel in rules.channels.items():
        waiting, tried = messages.get(name, (0, None))
        views.append(
            ChannelView(
                name=name,
                kind=channel.kind,
                target=channel.target,
                severities=list(channel.severities),
                waiting=waiting,
                latest=f"{tried.state}: {tried.reason}" if tried else "",
            )
        )
    return views


def silence_view(silence: Silence) -> SilenceView:
    """Return a silence."""
    return SilenceView(
        silence.id, silence.alert, silence.subject, silence.until_s * 1000, silence.comment
    )


def rule_view(rule: Rule, rules: Rules, firing: int) -> RuleView:
    """Return a rule."""
    is_flag = rule.condition.measure == "flag"
    return RuleView(
        name=rule.name,
        watch=rule.condition.name,
        summary=rule.condition.summary,
        subjects=list(rule.target.patterns) if rule.condition.subjects else [],
        threshold=NOTHING if is_flag else _threshold(rule),
        clear="" if is_flag or rule.clear == rule.threshold else _amount(rule, rule.clear),
        for_text=seconds_text(rule.for_ms / 1000) if rule.for_ms else "",
        clear_for_text=seconds_text(rule.clear_for_ms / 1000) if rule.clear_for_ms else "",
        severity=rule.severity,
        advice=as_is(rule.advice),
        channels=[channel.name for channel in rules.channels_of(rule)],
        firing=firing,
    )


def _threshold(rule: Rule) -> Sentence:
    amount = _amount(rule, rule.threshold)
    return (
        say("above {amount}", amount=amount)
        if rule.is_above
        else say("below {amount}", amount=amount)
    )


def _amount(rule: Rule, value: float) -> str:
    if rule.condition.measure == "share":
        return f"{value:.0%}"
    return seconds_text(value) if rule.condition.measure == "duration" else f"{value:,g}"


_DAYS: Final = (
    say("Monday"),
    say("Tuesday"),
    say("Wednesday"),
    say("Thursday"),
    say("Friday"),
    say("Saturday"),
    say("Sunday"),
)


def window_view(window: Window, now_s: float) -> WindowView:
    """Return a time of maintenance."""
    named = [_DAYS[day] for day in window.days] if len(window.days) < 7 else [say("every day")]
    days = reduce(lambda days, day: say("{days}, {day}", days=days, day=day), named)
    return WindowView(
        name=window.name,
        when=say(
            "{days} {begin:%H:%M} to {end:%H:%M} {zone}",
            days=days,
            begin=window.begin,
            end=window.end,
            zone=window.zone,
        ),
        alerts=list(window.alerts),
        subjects=list(window.subjects),
        is_now=window.is_in(now_s),
    )


def problem_texts(problems: Sequence[Problem]) -> list[Sentence]:
    """Return mistakes with their lines."""
    return [say("line {line}: {mistake}", line=one.line, mistake=one.sentence) for one in problems]


def delivery_view(delivery: Delivery) -> DeliveryView:
    """Return a message."""
    return DeliveryView(
        delivery.channel,
        delivery.state,
        delivery.attempts,
        delivery.made_s * 1000,
        delivery.reason,
    )
