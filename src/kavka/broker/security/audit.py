"""The audit: denied and administrative actions, authentications and their failures, one JSON object a line.

    {"time": "2026-01-31T12:00:00.123Z", "broker": 1, "event": "denied", "principal": "User:alice",
     "host": "10.0.0.1", "listener": "SASL_SSL", "client_id": "app", "api": "Produce", "version": 9,
     "correlation_id": 7, "operation": "WRITE", "resource_type": "TOPIC", "resource": "orders"}

Events are `denied`, `administrative`, `authenticated`, `authentication_failed`, and `dropped` with the number of lines
that were too many: `kavka.audit.max.per.second` holds for each event apart. Lines wait in memory for a moment, longer
while the disk does not take them, and are appended to the file together; the file may be renamed at any time. A topic
may have them as well (`audit_topic`). No value of a setting, credential or token is in a line: settings and users are
named only.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
from collections import Counter
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kavka.broker.context import BrokerContext
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.counters import error_steps
from kavka.broker.requests.session import AclOperation, AclResourceType, Session
from kavka.broker.security.audit_topic import AuditTopic
from kavka.broker.security.audited_requests import (
    OF_TOKENS,
    SUBJECTS,
    outcome_subjects,
    token_subjects,
)
from kavka.errors import ErrorCode
from kavka.settings.declaration import InvalidSetting
from kavka.wire.apis import ApiKey

if TYPE_CHECKING:
    from kavka.broker.requests.served_apis import Handler
    from kavka.broker.security.audit_topic_writer import AuditTopicWriter
    from kavka.broker.security.delegation_tokens import DelegationTokens
    from kavka.io import Disk

log = logging.getLogger(__name__)

_FLUSH_S: Final = 0.1
_RETRY_S: Final = 1.0
"""The pause after a write that failed."""
_MAX_WAITING: Final = 20_000
"""Lines in memory while the disk does not take them."""
_OF_ANY_CLIENT: Final = ("denied", "authentication_failed")
"""Events that any client can cause: half of the lines in memory are kept free of them."""
_MAX_TEXT: Final = 512
"""Characters of a text that comes from a client."""
_MAX_SUBJECTS: Final = 50


class Audit:
    """The audit log of one broker."""

    def __init__(
        self,
        context: BrokerContext,
        writer: AuditTopicWriter | None = None,
        tokens: DelegationTokens | None = None,
    ) -> None:
        """Write nothing before `start`; with `writer` to its topic as well. `tokens` say whose a secret is."""
        self._context = context
        self._tokens = tokens
        self._disk: Disk = context.environment.disk
        self._path = context.config.text("kavka.audit.log")
        self._max_per_second = context.config.integer("kavka.audit.max.per.second")
        self._second = 0
        self._in_second: Counter[str] = Counter()
        """Lines of this second, by event: many denials, which any client can cause, must not hide what was done."""
        self._waiting: list[str] = []
        self._unwritten: list[str] = []
        """Lines that were passed to the topic, and that the file does not have yet."""
        self._is_failing = False
        """True from a write that failed to the next that does not."""
        self._dropped = 0
        """Events without a line, since the last line that says so."""
        self._is_stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._write: asyncio.Task[None] | None = None
        self.writer = writer
        """Writes to the topic of the audit; None where there is none."""
        self.topic = (
            None if writer is None else AuditTopic(writer.name, writer.write, self._dropped_line)
        )
        """The lines that wait for the topic."""
        self.written = 0
        """Lines that the file has."""
        self.dropped = 0
        """Lines that it does not have."""

    async def start(self) -> None:
        """Find out that the file can be written. Raise InvalidSetting: without its audit a broker does not serve."""
        try:
            await self._disk.run(_append, self._disk, self._path, b"")
        except OSError as error:
            reason = f"cannot be written: {error.strerror or error}"
            raise InvalidSetting("kavka.audit.log", self._path, reason) from error

    async def stop(self) -> None:
        """Write what waits."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._write is not None:
            await self._write
        await self._flush()
        lost = len(self._unwritten) + self._dropped
        if lost:
            log.error("audit lines lost at the stop path=%s lines=%d", self._path, lost)
        if self.topic is not None and self.writer is not None:
            await self.topic.stop()
            self.writer.close()

    # -- events

    def denied(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource: AclResourceType,
        name: str,
    ) -> None:
        """Record that a client may not do what it asked for."""
        what = {
            "operation": operation.name,
            "resource_type": resource.name,
            "resource": name[:_MAX_TEXT],
        }
        self._record("denied", context.session, _request(context) | what)

    def authenticated(self, session: Session, mechanism: str) -> None:
        """Record that a client has authenticated by a mechanism, `SSL` or one of SASL."""
        what = {"mechanism": mechanism[:_MAX_TEXT]}
        if session.token_id is not None:
            what["delegation_token"] = session.token_id[:_MAX_TEXT]
        self._record("authenticated", session, what)

    def authentication_failed(self, session: Session, mechanism: str, reason: str) -> None:
        """Record that a client did not authenticate. Never a secret."""
        what = {
            "mechanism": mechanism[:_MAX_TEXT],
            "reason": reason[:_MAX_TEXT],
        }
        self._record("authentication_failed", session, what)

    def authentication_ended(self, session: Session, mechanism: str, failure: str | None) -> None:
        """Record an authentication, or why it failed: an observer of sessions."""
        if failure is None:
            self.authenticated(session, mechanism)
        else:
            self.authentication_failed(session, mechanism, failure)

    def audited(self, key: ApiKey, handle: Handler) -> Handler:
        """Return a handler that records what an administrative request does; other handlers as they are."""
        subjects_of = SUBJECTS.get(key)
        if subjects_of is None and key not in OF_TOKENS:
            return handle

        async def handle_audited(context: RequestContext, request: Any) -> Any:
            if subjects_of is not None:
                found = subjects_of(request)
            else:
                tokens = self._tokens
                found = token_subjects(
                    request, lambda hmac: None if tokens is None else tokens.id_of(hmac)
                )
            subjects = list(islice(found, _MAX_SUBJECTS + 1))
            try:
                result = handle(context, request)
                response = await result if hasattr(result, "__await__") else result
            except BaseException as error:
                self._administrative(context, subjects, {type(error).__name__: 1})
                raise
            subjects[:0] = islice(outcome_subjects(key, response), _MAX_SUBJECTS + 1)
            self._administrative(context, subjects, await _errors(context, response))
            return response

        return handle_audited

    def _administrative(
        self, context: RequestContext, subjects: list[str], errors: dict[str, int]
    ) -> None:
        what: dict[str, Any] = {
            "subjects": [text[:_MAX_TEXT] for text in subjects[:_MAX_SUBJECTS]],
            "has_more": len(subjects) > _MAX_SUBJECTS,
            "result": "failed" if errors else "done",
            "errors": errors,
        }
        self._record("administrative", context.session, _request(context) | what)

    # -- lines

    def _record(self, event: str, session: Session, what: dict[str, Any]) -> None:
        now_ms = self._context.clock.now_ms()
        second = now_ms // 1000
        if second != self._second:
            self._second = second
            self._in_second.clear()
        most = _MAX_WAITING // 2 if event in _OF_ANY_CLIENT else _MAX_WAITING
        waiting = len(self._waiting) + len(self._unwritten)
        if self._in_second[event] >= self._max_per_second or waiting >= most:
            self._dropped += 1
            self.dropped += 1
        else:
            self._in_second[event] += 1
            line = self._head(event, now_ms) | {
                "principal": str(session.principal)[:_MAX_TEXT],
                "host": session.host,
                "listener": session.listener_name,
                "protocol": session.protocol,
            }
            self._waiting.append(json.dumps(line | what))
        self._schedule()

    def _head(self, event: str, now_ms: int) -> dict[str, Any]:
        time = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
        text = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"time": text, "broker": self._context.broker_id, "event": event}

    def _schedule(self) -> None:
        if self._timer is None and self._write is None and not self._is_stopped:
            delay_s = _RETRY_S if self._is_failing else _FLUSH_S
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._begin_write)

    def _begin_write(self) -> None:
        self._timer = None
        self._write = asyncio.get_running_loop().create_task(self._write_waiting())

    async def _write_waiting(self) -> None:
        try:
            await self._flush()
        finally:
            self._write = None
            if self._waiting or self._unwritten or self._dropped:
                self._schedule()

    async def _flush(self) -> None:
        """Append what waits to the file, and pass it to the topic; what the disk does not take waits on."""
        lines, self._waiting = self._waiting, []
        if self._dropped and not self._is_failing:
            lines.append(self._dropped_line(self._dropped))
            self._dropped = 0
        if self.topic is not None and lines:
            self.topic.add(lines)
        self._unwritten += lines
        if not self._unwritten:
            return
        data = ("\n".join(self._unwritten) + "\n").encode()
        try:
            await self._disk.run(_append, self._disk, self._path, data)
        except OSError as error:
            if not self._is_failing:
                log.error("audit not written path=%s reason=%s", self._path, error)
            self._is_failing = True
            return
        if self._is_failing:
            log.info("audit written again path=%s lines=%d", self._path, len(self._unwritten))
        self._is_failing = False
        self.written += len(self._unwritten)
        self._unwritten = []

    def _dropped_line(self, count: int) -> str:
        head = self._head("dropped", self._context.clock.now_ms())
        return json.dumps(head | {"count": count})


def _append(disk: Disk, path: str, data: bytes) -> None:
    """Append to the file of this name now: it may have been renamed since the last time. Raise OSError.

    What was written in part is taken back: all of it will be appended again.
    """
    file = disk.open(path, create=True, private=True)
    try:
        size = file.size()
        try:
            file.write_at(data, size)
        except OSError:
            with suppress(OSError):  # the reason is that of the write
                file.truncate(size)
            raise
    finally:
        file.close()


def _request(context: RequestContext) -> dict[str, Any]:
    return {
        "client_id": context.client_id[:_MAX_TEXT],
        "api": context.api.key.title,
        "version": context.version,
        "correlation_id": context.header.correlation_id,
    }


async def _errors(context: RequestContext, response: Any) -> dict[str, int]:
    """Return the names of the errors in a response, and how often each is there."""
    codes: Counter[int] = Counter()
    response_class: type = type(response)
    steps = error_steps(response_class)
    for _ in () if steps is None else steps(response, lambda code: codes.update((code,))):
        if context.pace.is_over():
            await context.pace.rest()
    return {_name(code): count for code, count in sorted(codes.items())}


def _name(code: int) -> str:
    return ErrorCode.of(code).name
