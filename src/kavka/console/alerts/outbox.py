"""The states, events and messages of alerts: in the history's file, and in memory while that cannot be written.

While the disk is full alerts are decided and sent as before. States, events, messages and the results of attempts wait
in memory, and are one transaction when the file can be written again. A console that ends before has lost them: the
next one knows what the file has, decides again, and may send again what was sent.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final

from kavka.console.alerts import records
from kavka.console.alerts.book import Key, State
from kavka.console.alerts.messages import Alert
from kavka.console.alerts.records import WAITING, Delivery, NewDelivery, Result
from kavka.console.history.recorder import History

log = logging.getLogger(__name__)

_MOST: Final = 10_000
"""Messages, and events, that are kept in memory."""
_MOST_CHARACTERS: Final = 32_000_000
"""Of the documents of all these messages."""


class Outbox:
    """The file's part of alerts; nothing that the file refuses ends a look or an attempt."""

    def __init__(self, history: History) -> None:
        """Take the history, which owns the file."""
        self._history = history
        self._lock = asyncio.Lock()
        self._states: dict[Key, State] | None = None
        self._events: list[tuple[int, Alert]] = []
        self._held: list[Delivery] = []
        """Messages that the file does not have, with numbers below 0."""
        self._results: dict[int, tuple[str, Result]] = {}
        """Results of attempts that the file does not have, by the number of the message, with its channel."""
        self._channels: list[str] | None = None
        """The channels that there are, where the file does not know it yet."""
        self._out: dict[str, int] = {}
        """The message of each channel for which an attempt is made."""
        self._last = 0
        self.fault = ""
        """The reason why the file could not be written; empty where it could."""

    async def keep(
        self,
        now_s: int,
        states: Mapping[Key, State],
        events: Sequence[Alert],
        new: Sequence[NewDelivery],
    ) -> None:
        """Keep what one look has decided."""
        async with self._lock:
            self._states = dict(states)
            self._events += [(now_s, event) for event in events]
            for one in new:
                self._last -= 1
                self._held.append(records.waiting(self._last, one, now_s))
            self._bound()
            if await self._flush():
                await self._remove_old(now_s)

    async def _remove_old(self, now_s: int) -> None:
        """Remove what is too old; what was decided is kept, whatever comes of it."""
        try:
            await self._history.run(lambda file: records.remove_old(file, now_s))
        except sqlite3.Error as error:
            log.error("old alerts not removed path=%s reason=%s", self._history.path, error)
            self.fault = str(error)

    def _bound(self) -> None:
        """Drop the oldest where there are too many: messages that are over first, then those that wait."""
        if len(self._events) > _MOST:
            log.error("events lost count=%d reason=too many", len(self._events) - _MOST)
            del self._events[:-_MOST]
        characters = sum(len(one.document) for one in self._held)
        dropped: set[int] = set()
        for one in sorted(self._held, key=lambda one: one.state == WAITING):
            if len(self._held) - len(dropped) <= _MOST and characters <= _MOST_CHARACTERS:
                break
            dropped.add(one.number)
            characters -= len(one.document)
        waiting = sum(one.state == WAITING and one.number in dropped for one in self._held)
        if waiting:
            log.error("messages lost count=%d reason=too many", waiting)
        self._held = [one for one in self._held if one.number not in dropped]

    async def use(self, channels: Sequence[str]) -> None:
        """Give up the messages of other channels."""
        async with self._lock:
            self._channels = list(channels)
            self._held = [one for one in self._held if one.channel in channels]
            await self._flush()

    async def due(self, channel: str, now_s: int) -> Delivery | None:
        """Return the oldest message of a channel that waits, if it is due: messages keep their order."""
        async with self._lock:
            known = {n: one for n, (name, one) in self._results.items() if name == channel}
            done = max((n for n, one in known.items() if one.state != WAITING), default=0)
            found = await self._history.run(lambda file: records.oldest(file, channel, done))
            if found is None:
                waiting = (one for one in self._held if one.state == WAITING)
                found = next((one for one in waiting if one.channel == channel), None)
            elif found.number in known:
                found = found._replace(**known[found.number]._asdict())
            if found is None or not records.is_due(found, now_s):
                return None
            self._out[channel] = found.number
            return found

    async def note(self, channel: str, result: Result) -> None:
        """Keep the result of the attempt that was made for the message which was due."""
        async with self._lock:
            number = self._out.pop(channel)
            if number > 0:
                self._results[number] = channel, result
            self._held = [
                one._replace(**result._asdict()) if one.number == number else one
                for one in self._held
            ]
            if not self.fault:  # else the next look tries again, with all that waits
                await self._flush()

    async def _flush(self) -> bool:
        """Write what waits in memory; return whether the file took it."""
        states, events, held = self._states, list(self._events), list(self._held)
        results = {number: one for number, (_, one) in self._results.items()}
        channels = self._channels
        try:
            numbers = await self._history.run(
                lambda file: records.write(file, states, events, held, results, channels)
            )
        except sqlite3.Error as error:
            if str(error) != self.fault:
                log.error("alerts not kept path=%s reason=%s", self._history.path, error)
            self.fault = str(error)
            return False
        moved = dict(zip((one.number for one in held), numbers, strict=True))
        self._out = {name: moved.get(number, number) for name, number in self._out.items()}
        self._states, self._events, self._held, self._results = None, [], [], {}
        self._channels, self.fault = None, ""
        return True

    async def of_channels(self) -> dict[str, tuple[int, Delivery | None]]:
        """Return `records.of_channels`, with what waits in memory."""
        async with self._lock:
            found = await self._history.run(records.of_channels)
            for name, one in self._results.values():
                waiting, newest = found.get(name, (0, None))
                if newest is not None:
                    newest = newest._replace(**one._asdict())
                found[name] = waiting - (one.state != WAITING), newest
            for held in self._held:
                waiting, newest = found.get(held.channel, (0, None))
                newest = held if held.attempts else newest
                found[held.channel] = waiting + (held.state == WAITING), newest
            return found
