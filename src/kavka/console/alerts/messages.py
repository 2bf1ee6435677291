"""Messages about alerts: JSON, Slack's and PagerDuty's shapes, a document of one's own, mail. Pure.

Names of groups and topics are the cluster's, and may hold anything: they are values of JSON, are escaped for Slack,
and have no line breaks in a header of mail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any, Final

from kavka.console.alerts.book import Change
from kavka.console.alerts.channels import Channel, Mail
from kavka.console.alerts.rules import Rule, Rules
from kavka.console.formats import iso_time, utf8_of

_LISTED: Final = 20
"""Alerts that a message for people lists."""
_MOST: Final = 500
"""Alerts that a document for programs lists."""
_PAGERDUTY_SUMMARY: Final = 1024


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert as messages and pages have it."""

    incident: str
    event: str
    alert: str
    subject: str
    severity: str
    sentence: str
    advice: str
    link: str
    value: float | None
    since: str
    """The first value beyond the threshold, as ISO 8601."""
    time: str
    repeated: bool = False


def alert_of(change: Change, rule: Rule | None, address: str) -> Alert:
    """Return the alert of a change; `address` is the console's, empty where the rules do not say it."""
    state = change.state
    return Alert(
        incident=change.incident,
        event=change.event,
        alert=change.rule,
        subject=change.subject,
        severity=rule.severity if rule else state.severity,
        sentence=state.sentence,
        advice=rule.advice if rule else "",
        link=f"{address}{state.location or '/alerts'}",
        value=state.value,
        since=iso_time(state.since_ms),
        time=iso_time(change.time_ms),
        repeated=change.is_again,
    )


def test_alert(address: str, now_ms: int) -> Alert:
    """Return the alert that the button of a channel sends."""
    return Alert(
        incident="test",
        event="firing",
        alert="Test",
        subject="kavka console",
        severity="info",
        sentence="This is a test of the channel: it works.",
        advice="Nothing is to be done.",
        link=f"{address}/alerts",
        value=None,
        since=iso_time(now_ms),
        time=iso_time(now_ms),
    )


test_alert.__test__ = False  # type: ignore[attr-defined]


def messages_of(channel: Channel, alerts: Sequence[Alert]) -> list[tuple[str, dict[str, Any]]]:
    """Return the messages of alerts of one rule and event: for each what tells it apart, and its document.

    PagerDuty has an event for each alert, the others one message for all.
    """
    if channel.kind in ("pagerduty", "body"):
        return [(_key([one]), _document(channel, [one])) for one in alerts]
    return [(_key(alerts), _document(channel, alerts))] if alerts else []


def _key(alerts: Sequence[Alert]) -> str:
    """Return what a receiver knows a repeated attempt by."""
    first = alerts[0]
    again = f":{re.sub('[^0-9]', '', first.time)}" if first.repeated else ""
    return f"{first.incident}:{first.event}{again}"


def _document(channel: Channel, alerts: Sequence[Alert]) -> dict[str, Any]:
    if channel.kind == "slack":
        return _slack(alerts)
    if channel.kind == "pagerduty":
        return _pagerduty(alerts[0])
    if channel.kind == "body":
        return {"body": _filled(channel.body, _fields(alerts[0]))}
    if channel.kind == "mail":
        return {"subject": title(alerts), "text": _text(alerts)}
    return {
        "event": alerts[0].event,
        "title": title(alerts),
        "count": len(alerts),
        "alerts": [_fields(one) for one in alerts[:_MOST]],
    }


def body_of(channel: Channel, document: Mapping[str, Any]) -> bytes:
    """Return the body of a webhook's request. Secrets are added here: the file does not keep them."""
    if channel.kind == "pagerduty":
        document = {"routing_key": channel.key, **document}
    if channel.kind == "body":
        document = document["body"]
    return utf8_of(json.dumps(document, ensure_ascii=False, allow_nan=False))


def _fields(alert: Alert) -> dict[str, Any]:
    return {name: getattr(alert, name) for name in Alert.__slots__}


def title(alerts: Sequence[Alert]) -> str:
    """Return the alerts in one line."""
    first = alerts[0]
    state = "RESOLVED" if first.event == "resolved" else first.severity.upper()
    what = first.subject if len(alerts) == 1 else f"{len(alerts)} of them"
    return _one_line(f"[{state}] {first.alert}: {what}")


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]


def _text(alerts: Sequence[Alert]) -> str:
    lines = []
    for one in alerts[:_LISTED]:
        lines += [one.sentence, f"  since {one.since}, {one.link}"]
    if len(alerts) > _LISTED:
        lines.append(f"... and {len(alerts) - _LISTED} more.")
    if alerts[0].event == "firing" and alerts[0].advice:
        lines += ["", f"What to do: {alerts[0].advice}"]
    return "\n".join(lines) + "\n"


# Slack


def _slack(alerts: Sequence[Alert]) -> dict[str, Any]:
    lines = [f"*{_slack_text(title(alerts))}*"]
    for one in alerts[:_LISTED]:
        link = f" <{_slack_text(one.link)}|Look>" if one.link.startswith("http") else ""
        lines.append(f"{_slack_text(one.sentence)}{link}")
    if len(alerts) > _LISTED:
        lines.append(f"… and {len(alerts) - _LISTED} more.")
    if alerts[0].event == "firing" and alerts[0].advice:
        lines.append(f"_{_slack_text(alerts[0].advice)}_")
    return {"text": "\n".join(lines)}


def _slack_text(text: str) -> str:
    """Return text in which nothing calls people or makes links: Slack's three characters are escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# PagerDuty, Events API v2


def _pagerduty(alert: Alert) -> dict[str, Any]:
    if alert.event == "resolved":
        return {"event_action": "resolve", "dedup_key": alert.incident}
    found: dict[str, Any] = {
        "event_action": "trigger",
        "dedup_key": alert.incident,
        "payload": {
            "summary": f"{alert.alert}: {alert.sentence}"[:_PAGERDUTY_SUMMARY],
            "source": alert.subject,
            "severity": alert.severity,
            "component": "kafka",
            "custom_details": {"advice": alert.advice, "value": alert.value, "since": alert.since},
        },
    }
    if alert.link.startswith("http"):
        found["links"] = [{"href": alert.link, "text": "kavka console"}]
    return found


# A document of one's own


def _filled(value: Any, fields: Mapping[str, Any]) -> Any:
    """Return a document with its names in braces replaced; what they stand for stays a value of JSON."""
    if isinstance(value, dict):
        return {key: _filled(one, fields) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, fields) for one in value]
    if isinstance(value, str):
        return re.sub(r"\{([a-z]+)\}", lambda found: _as_text(fields[found[1]]), value)
    return value


def _as_text(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


# Mail


def email_of(mail: Mail, document: Mapping[str, Any], key: str, now_s: float) -> EmailMessage:
    """Return a message. Its headers have no line breaks: `EmailMessage` refuses them as well."""
    message = EmailMessage()
    message["Subject"] = _one_line(str(document["subject"]))
    message["From"] = mail.sender
    message["To"] = ", ".join(mail.to)
    message["Date"] = format_datetime(datetime.fromtimestamp(now_s, UTC))
    message["Message-ID"] = f"<{re.sub('[^0-9A-Za-z.]', '.', key)}@{mail.sender.partition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(str(document["text"]))
    return message


def grouped(rules: Rules, changes: Sequence[Change]) -> list[tuple[Channel, list[Alert]]]:
    """Return the alerts that are sent, for each channel those of one rule and event together."""
    by_name = {rule.name: rule for rule in rules.rules}
    found: dict[tuple[str, str, bool, str], tuple[Channel, list[Alert]]] = {}
    for change in changes:
        if not change.is_sent:
            continue
        rule = by_name.get(change.rule)
        channels = rules.channels_of(rule) if rule else list(rules.channels.values())
        alert = alert_of(change, rule, rules.address)
        for channel in channels:
            key = (channel.name, alert.alert, alert.repeated, alert.event)
            found.setdefault(key, (channel, []))[1].append(alert)
    return list(found.values())
