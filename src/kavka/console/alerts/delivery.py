"""Delivery of messages, at least once and in order for each channel: one attempt at a time, with pauses that grow.

A message waits in the outbox until it was taken, so a console that was ended goes on with it. A channel that is down
gets one attempt at a time and has all its messages when it is back, those that are younger than `retry_for`. A message
that a receiver refuses as wrong is given up at once, and the page says so.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import smtplib
import sqlite3
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from kavka.console.alerts import records
from kavka.console.alerts.channels import Channel, Mail
from kavka.console.alerts.messages import body_of, email_of
from kavka.console.alerts.outbox import Outbox
from kavka.console.alerts.records import Delivery, Result
from kavka.net.webhook import Endpoint, Outcome, Verdict, wait_s

log = logging.getLogger(__name__)

_FIRST_WAIT_S: Final = 2.0
_LOOK_S: Final = 5.0
_WRONG: Final = range(500, 600)
"""Replies of mail servers that mean that this message will never be taken."""


class Deliveries:
    """Sends what waits, while the console runs."""

    def __init__(self, outbox: Outbox) -> None:
        """Take the messages."""
        self._outbox = outbox
        self._channels: Mapping[str, Channel] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._wake: dict[str, asyncio.Event] = {}
        self._stop = asyncio.Event()

    async def use(self, channels: Mapping[str, Channel]) -> None:
        """Send to these channels from now on."""
        self._channels = dict(channels)
        for name in self._tasks.keys() - channels.keys():
            self._tasks.pop(name).cancel()
        for name in channels:
            if name not in self._tasks:
                self._wake[name] = asyncio.Event()
                self._tasks[name] = asyncio.create_task(
                    self._run(name), name=f"kavka-alerts-{name}"
                )
        await self._outbox.use(list(channels))

    async def stop(self) -> None:
        """Send no more; what waits is sent by the next console."""
        self._stop.set()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def wake(self) -> None:
        """Look at once whether something is to be sent."""
        for event in self._wake.values():
            event.set()

    async def _run(self, name: str) -> None:
        wake = self._wake[name]
        while True:
            wake.clear()
            try:
                while await self._send_next(name):
                    pass
            except sqlite3.Error as error:  # the file cannot be read
                log.error("alerts not sent channel=%s reason=%s", name, error)
            except Exception:  # one message must not end the others
                log.exception("alerts not sent channel=%s", name)
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), _LOOK_S)

    async def _send_next(self, name: str) -> bool:
        """Make an attempt for the oldest message of a channel; return whether to look for another at once."""
        now_s = time.time()
        found = await self._outbox.due(name, int(now_s))
        if found is None:
            return False
        channel = self._channels[name]
        try:
            outcome = await self.attempt(channel, json.loads(found.document), found.key)
        except (
            Exception
        ) as error:  # a message that cannot be sent must not keep others waiting without end
            log.exception("alert not sent channel=%s key=%s", name, found.key)
            outcome = Outcome(500, f"{type(error).__name__}: {error}")
        attempts = found.attempts + 1
        state, due_s = self._decide(channel, found, outcome, attempts, now_s)
        await self._outbox.note(name, Result(state, attempts, due_s, outcome.text))
        return state != records.WAITING

    def _decide(
        self, channel: Channel, found: Delivery, outcome: Outcome, attempts: int, now_s: float
    ) -> tuple[str, int]:
        """Return the state of a message after an attempt, and when the next one is due."""
        if outcome.verdict is Verdict.DELIVERED:
            return records.DELIVERED, 0
        is_over = now_s - found.made_s >= channel.retry_for_s
        if outcome.verdict is Verdict.REFUSED or is_over:
            log.error(
                "alert given up channel=%s key=%s attempts=%d reason=%s",
                channel.name,
                found.key,
                attempts,
                outcome.text,
            )
            return records.GIVEN_UP, 0
        pause_s = wait_s(_FIRST_WAIT_S, attempts, outcome, random.random())
        if attempts == 1:
            log.warning(
                "alert not delivered, is tried again channel=%s key=%s reason=%s retry_s=%.1f",
                channel.name,
                found.key,
                outcome.text,
                pause_s,
            )
        return records.WAITING, int(now_s + pause_s) + 1

    async def attempt(self, channel: Channel, document: dict[str, Any], key: str) -> Outcome:
        """Make one attempt to send a message."""
        if channel.mail is not None:
            return await asyncio.to_thread(_send_mail, channel, document, key)
        endpoint = Endpoint(channel.url, channel.headers, channel.timeout_s)
        return await endpoint.post(body_of(channel, document), key, self._stop)


def _send_mail(channel: Channel, document: dict[str, Any], key: str) -> Outcome:
    mail = channel.mail
    assert mail is not None
    message = email_of(mail, document, key, time.time())
    try:
        with _connected(mail, channel.timeout_s) as server:
            if mail.user:
                server.login(mail.user, mail.password)
            refused = server.send_message(message)
    except smtplib.SMTPRecipientsRefused as error:
        codes = {code for code, _ in error.recipients.values()}
        is_wrong = all(code in _WRONG for code in codes)
        return Outcome(400 if is_wrong else None, f"no receiver was accepted: {sorted(codes)}")
    except smtplib.SMTPResponseException as error:
        text = (
            error.smtp_error.decode(errors="replace")
            if isinstance(error.smtp_error, bytes)
            else error.smtp_error
        )
        # A login that is refused may be mended; a message that is refused stays as it is.
        is_wrong = error.smtp_code in _WRONG and not isinstance(
            error, smtplib.SMTPAuthenticationError
        )
        return Outcome(400 if is_wrong else 500, f"{error.smtp_code} {text}")
    except (smtplib.SMTPException, OSError) as error:
        return Outcome(None, str(error) or type(error).__name__)
    return Outcome(200, f"taken, without {', '.join(refused)}" if refused else "taken")


def _connected(mail: Mail, timeout_s: float) -> smtplib.SMTP:
    context = ssl.create_default_context()
    if mail.security == "tls":
        return smtplib.SMTP_SSL(mail.host, mail.port, timeout=timeout_s, context=context)
    server = smtplib.SMTP(mail.host, mail.port, timeout=timeout_s)
    if mail.security == "starttls":
        try:
            server.starttls(context=context)
        except BaseException:
            server.close()
            raise
    return server
