"""Runs a scenario of the console's alerts: observations of rules in, changes and messages out.

    rules YAML...                       begin again with these rules, in one line; the channel `c` takes all alerts
    change YAML...                      go on with other rules, as after a change of the file
    at TIME [RULE] SUBJECT=VALUE...     a look at a time since 1970-01-01 (a Thursday); `?` is a value that is not known
    fails TIME                          a look that failed
    silence RULE SUBJECT until TIME     a silence, as of the page
    state                               what is pending or firing

The states go through JSON after each command, as through the file.
"""

from __future__ import annotations

from pathlib import Path

from kavka.console.alerts.book import Book, Change, State
from kavka.console.alerts.conditions import Observation, matches
from kavka.console.alerts.messages import grouped, messages_of
from kavka.console.alerts.rules import Rules, parse
from kavka.console.sentences import as_is
from kavka.settings.durations import duration_ms
from support.stories.alerts_story import short

CHANNEL = "{channel: c, webhook: 'http://127.0.0.1:1/'}"


class Story:
    """A book, its rules and its silences."""

    def __init__(self) -> None:
        self.rules = Rules()
        self.book = Book()
        self.silences: list[tuple[str, str, int]] = []

    def command(self, line: str) -> str:
        name, _, rest = line.partition(" ")
        output: str = getattr(self, f"do_{name}")(rest)
        self.book = Book({k: State.from_json(v.to_json()) for k, v in self.book.states.items()})
        return output or "ok"

    def do_rules(self, text: str) -> str:
        self.book, self.silences = Book(), []
        return self.do_change(text)

    def do_change(self, text: str) -> str:
        channels = "" if "channels:" in text else f", channels: [{CHANNEL}]"
        self.rules, problems = parse(f"{{{text.strip('{}')}{channels}}}", Path())
        return "\n".join(problem.sentence for problem in problems)

    def do_silence(self, text: str) -> str:
        alert, subject, _, until = text.split()
        self.silences.append((alert, subject, duration_ms(until)))
        return ""

    def do_at(self, text: str) -> str:
        time, *words = text.split()
        at_ms = duration_ms(time)
        changes = self.book.end_missing(at_ms, self.rules.rules)
        name = words.pop(0) if words and "=" not in words[0] else self.rules.rules[0].name
        observations = []
        for word in words:
            subject, _, value = word.partition("=")
            found = None if value == "?" else float(value)
            said = as_is(f"{subject} is {value}.")
            observations.append(Observation(subject, found, said, "/group"))
        for rule in self.rules.rules:
            if rule.name == name:
                changes += self.book.evaluate(
                    at_ms, rule, observations, lambda a, s: self.muted(at_ms, a, s)
                )
        return self.said(changes)

    def do_fails(self, text: str) -> str:
        return self.said(self.book.end_missing(duration_ms(text), self.rules.rules))

    def muted(self, at_ms: int, alert: str, subject: str) -> str:
        for pattern, of, until_ms in self.silences:
            if matches((pattern,), alert) and matches((of,), subject) and at_ms < until_ms:
                return "silenced"
        for window in self.rules.windows:
            if window.covers(at_ms / 1000, alert, subject):
                return window.name
        return ""

    def said(self, changes: list[Change]) -> str:
        lines = []
        for change in changes:
            if change.is_new:
                muted = f" muted={change.state.muted}" if change.state.muted else ""
                lines.append(
                    f"{change.event} {change.rule} {change.subject}{muted}: {change.state.sentence}"
                )
        for channel, alerts in grouped(self.rules, changes):
            for _, document in messages_of(channel, alerts):
                said = document.get("title") or document.get("text") or document
                again = " again" if alerts[0].repeated else ""
                lines.append(f"  {channel.name}{again}: {said}")
        return "\n".join(lines)

    def do_state(self, _: str) -> str:
        lines = [
            f"{key.rule} {key.subject} {state.phase} since={short(state.since_ms)}"
            f"{f' muted={state.muted}' if state.muted else ''}"
            for key, state in sorted(self.book.states.items())
        ]
        return "\n".join(lines) or "nothing"
