"""The alerts of a console: at each look the rules are decided, what changed is kept, and messages are sent."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kavka.console.alerts import records, rule_file
from kavka.console.alerts.book import Book, Change, Key, State
from kavka.console.alerts.conditions import DISK_FULL_IN, HISTORY_NOT_KEPT, Observation, matches
from kavka.console.alerts.delivery import Deliveries
from kavka.console.alerts.located import Problem
from kavka.console.alerts.messages import alert_of, grouped, messages_of, test_alert
from kavka.console.alerts.outbox import Outbox
from kavka.console.alerts.probes import Certificates, disk_forecasts, read_pipelines
from kavka.console.alerts.records import NewDelivery, Silence
from kavka.console.alerts.rules import (
    DEFAULT_RULES,
    Rule,
    Rules,
    is_about_failure,
    load,
    parse,
)
from kavka.console.connection import ClusterConnection
from kavka.console.failures import Failure, Refused, bad_request, not_found
from kavka.console.history.recorder import History
from kavka.console.history.snapshot import Snapshot
from kavka.console.sentences import NOTHING, Sentence, say
from kavka.errors import KafkaError
from kavka.net.webhook import Verdict

log = logging.getLogger(__name__)

_MOST_SILENCES: Final = 1000


class InvalidRules(ValueError):
    """The file of rules has mistakes; the sentence has the first ones, with their lines."""


class Alerts:
    """The alerts, while the console runs: `start`, then `stop`."""

    def __init__(self, history: History, cluster: ClusterConnection, path: Path | None) -> None:
        """Read the rules, the default ones without a file. Raise InvalidRules."""
        self._history, self._cluster, self.path = history, cluster, path
        self.rules, self.text, self._changed = _read(path)
        self.problems: list[Problem] = []
        """Mistakes of a file that was changed while the console runs; the rules before it are kept."""
        self.book = Book()
        self.silences: list[Silence] = []
        self.outbox = Outbox(history)
        self.deliveries = Deliveries(self.outbox)
        self._certificates = Certificates()
        self._editing = asyncio.Lock()
        history.on_look = self._on_look

    async def start(self) -> None:
        """Take the states that were kept, and begin to send."""
        self.book = Book(await self._history.run(records.read_states))
        await self._read_silences()
        await self.deliveries.use(self.rules.channels)

    async def stop(self) -> None:
        """Send no more."""
        await self.deliveries.stop()

    @property
    def fault(self) -> str:
        """The reason why the history's file could not be written at the last look; empty where it could."""
        return self._history.fault or self.outbox.fault

    # The file of rules

    async def _reread(self) -> None:
        """Take the file again where it was changed; one with mistakes is not taken, and the page says so."""
        if self.path is None:
            return
        try:
            changed = _changed(self.path)
            if changed == self._changed:
                return
            self._changed = changed
            rules, problems, text = load(self.path)
        except OSError as error:
            rules, problems, text = (
                Rules(),
                [Problem(1, say("it cannot be read: {error}", error=error))],
                "",
            )
        self.problems = problems
        if problems:
            log.error("rules not taken path=%s reason=%s", self.path, _said(self.path, problems))
            return
        log.info("rules taken path=%s rules=%d", self.path, len(rules.rules))
        self.rules, self.text = rules, text
        await self.deliveries.use(rules.channels)

    async def edit(
        self, version: str, name: str, entry: Mapping[str, Any] | None, *, check: bool
    ) -> None:
        """Change one rule in the file as `rule_file.edit` does, and take the file. Raise as that does."""
        path = self.path
        assert path is not None, "there is a file"
        async with self._editing:
            await asyncio.to_thread(rule_file.edit, path, version, name, entry, check=check)
        if not check:
            await self._reread()

    # A look

    async def _on_look(self, snapshot: Snapshot | None, reason: str) -> None:
        now_s = time.time()
        await self._reread()
        try:
            await self._read_silences()
        except sqlite3.Error as error:  # those that are known hold
            log.error("silences not read reason=%s", error)
        if snapshot is not None:
            snapshot = await self._completed(snapshot)
        await self.decide(snapshot, reason, now_s)

    async def _completed(self, snapshot: Snapshot) -> Snapshot:
        """Return a look with what some rules need besides."""
        pipelines = None
        if self.rules.watches("pipelines"):
            try:
                pipelines = await read_pipelines(self._cluster)
            except (KafkaError, OSError, Refused) as error:
                log.info("progress of pipelines not read reason=%s", error)
        disk_full_s: dict[int, float | None] = {}
        if self.rules.watches(DISK_FULL_IN):
            disk_full_s = await disk_forecasts(self._history, snapshot)
        addresses = [
            one for rule in self.rules.watches("certificates") for one in rule.target.exact
        ]
        return replace(
            snapshot,
            pipelines=pipelines,
            disk_full_s=disk_full_s,
            certificates=await self._certificates.look(addresses),
        )

    async def decide(self, snapshot: Snapshot | None, reason: str, now_s: float) -> None:
        """Decide all rules, keep what changed, and send it. None is a look that failed."""
        now_ms = int(now_s * 1000)
        before = dict(self.book.states)
        self.book.set_back(now_ms)
        changes = self.book.end_missing(now_ms, self.rules.rules)
        for rule in self.rules.rules:
            observations = _observations(rule, snapshot, reason, self.fault)
            if observations is not None:
                changes += self.book.evaluate(
                    now_ms, rule, observations, lambda alert, subject: self.muted(now_s, alert, subject)
                )  # fmt: skip
        try:
            await self._keep(changes, int(now_s))
        except BaseException:
            # Nothing of it was kept, so nothing of it is sent: the next look decides it again.
            self.book.states = before
            raise

    async def _keep(self, changes: Sequence[Change], now_s: int) -> None:
        by_name = {rule.name: rule for rule in self.rules.rules}
        events = [
            alert_of(change, by_name.get(change.rule), self.rules.address)
            for change in changes
            if change.is_new
        ]
        for event in events:
            level = logging.WARNING if event.event == "firing" else logging.INFO
            log.log(level, "alert %s alert=%s subject=%r", event.event, event.alert, event.subject)
        new = [
            NewDelivery(channel.name, key, json.dumps(document))
            for channel, alerts in grouped(self.rules, changes)
            for key, document in messages_of(channel, alerts)
        ]
        await self.outbox.keep(now_s, self.book.states, events, new)
        if new:
            self.deliveries.wake()

    # Silences

    def muted(self, now_s: float, alert: str, subject: str) -> Sentence:
        """Return why an alert is not sent at a time, empty if it is."""
        for silence in self.silences:
            is_meant = matches((silence.alert,), alert) and matches((silence.subject,), subject)
            if is_meant and silence.until_s > now_s:
                if not silence.comment:
                    return say("silenced")
                return say("silenced: {comment}", comment=silence.comment)
        for window in self.rules.windows:
            if window.covers(now_s, alert, subject):
                return say("maintenance {name}", name=window.name)
        return NOTHING

    async def _read_silences(self) -> None:
        now_s = int(time.time())
        self.silences = await self._history.run(lambda file: records.silences(file, now_s))

    async def silence(self, alert: str, subject: str, until_s: int, comment: str) -> Silence:
        """Begin a silence. Raise Refused."""
        now_s = int(time.time())
        if until_s <= now_s:
            raise bad_request(say("The silence would be over already."))
        if len(self.silences) >= _MOST_SILENCES:
            raise bad_request(
                say("There are {silences} silences.", silences=len(self.silences)),
                say("End some."),
            )
        made = Silence(secrets.token_urlsafe(9), alert, subject, until_s, comment, now_s)
        await self._history.run(lambda file: records.add_silence(file, made))
        await self._read_silences()
        return made

    async def end_silence(self, number: str) -> None:
        """End a silence. Raise Refused."""
        if not await self._history.run(lambda file: records.end_silence(file, number)):
            raise not_found(
                say("There is no such silence."), say("It may be over: look at the list.")
            )
        await self._read_silences()

    # Channels

    async def test(self, name: str) -> str:
        """Send a test through a channel, and return the response. Raise Refused with it where it was not taken."""
        channel = self.rules.channels.get(name)
        if channel is None:
            raise not_found(
                say("There is no channel {name!r}.", name=name), say("Look at the list.")
            )
        now_ms = int(time.time() * 1000)
        [(key, document)] = messages_of(channel, [test_alert(self.rules.address, now_ms)])
        outcome = await self.deliveries.attempt(channel, document, f"{key}:{now_ms}")
        if outcome.verdict is not Verdict.DELIVERED:
            raise Refused(
                Failure(
                    422,
                    say("The channel {name} did not take the test", name=name),
                    say("{target} answered: {text}.", target=channel.target, text=outcome.text),
                    say(
                        "Correct the channel in the file of rules, which is read again at the next look."
                    ),
                )
            )
        return outcome.text

    # Pages

    def current(self) -> list[tuple[Key, State, Rule | None]]:
        """Return what is pending or firing, the worst and the oldest first."""
        by_name = {rule.name: rule for rule in self.rules.rules}
        order = {"critical": 0, "warning": 1, "info": 2}
        return sorted(
            ((key, state, by_name.get(key.rule)) for key, state in self.book.states.items()),
            key=lambda one: (one[1].phase != "firing", order.get(one[1].severity, 3), one[1].since_ms),
        )  # fmt: skip


def _observations(
    rule: Rule, snapshot: Snapshot | None, reason: str, fault: str
) -> list[Observation] | None:
    """Return the observations of a rule, None where a look says nothing about it."""
    if rule.condition.name == HISTORY_NOT_KEPT:  # about the console, whatever the cluster says
        look = replace(snapshot or Snapshot(0.0), history_fault=fault)
        return list(rule.condition.observe(look, rule.target))
    if snapshot is not None:
        if rule.condition.subjects == "pipelines" and snapshot.pipelines is None:
            return None
        return list(rule.condition.observe(snapshot, rule.target))
    if not is_about_failure(rule):
        return None
    return [
        Observation(
            "cluster",
            1.0,
            say("The console cannot look at the cluster: {reason}.", reason=reason),
            "/",
        )
    ]


def _read(path: Path | None) -> tuple[Rules, str, tuple[int, int]]:
    if path is None:
        rules, problems = parse(DEFAULT_RULES, Path())
        assert not problems, problems
        return rules, DEFAULT_RULES, (0, 0)
    try:
        changed = _changed(path)
        rules, problems, text = load(path)
    except OSError as error:
        raise InvalidRules(f"the rules {path} cannot be read: {error.strerror or error}") from error
    if problems:
        raise InvalidRules(_said(path, problems))
    return rules, text, changed


def _changed(path: Path) -> tuple[int, int]:
    """Return what is another after each change of a file."""
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


def _said(path: Path, problems: Sequence[Problem]) -> str:
    said = "; ".join(f"{path}:{one.line}: {one.sentence}" for one in problems[:5])
    more = len(problems) - 5
    return f"{said}; and {more} more: see `kavka console check-rules {path}`" if more > 0 else said
