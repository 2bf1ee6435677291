"""Log lines of iterations of the event loop that took too long."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from kavka.broker.lifecycle.periodic_tasks import TaskRun
from kavka.broker.requests.context import RequestContext, Responding
from kavka.io import Clock
from kavka.net.event_loop import Stall, Work
from kavka.wire.apis import ApiKey

if TYPE_CHECKING:
    from kavka.net.bounded_log import SpacedLog

log = logging.getLogger(__name__)

_BETWEEN_WARNINGS_MS = 10_000
_MAX_NAMED = 3


class StallWarnings:
    """Logs the first stall of every ten seconds, and how many there were in between."""

    def __init__(self, in_second_stage: Callable[[], list[RequestContext]], clock: Clock) -> None:
        """`in_second_stage` returns the requests with handlers that have begun and not returned."""
        self._in_second_stage = in_second_stage
        self._clock = clock

    @cached_property
    def _log(self) -> SpacedLog:
        from kavka.net.bounded_log import SpacedLog  # when the first line is written

        return SpacedLog(log, _BETWEEN_WARNINGS_MS, self._clock.tick_ms)

    def stalled(self, stall: Stall) -> None:
        """Take note of one."""
        if self._log.is_due():
            self._log.write(
                "event loop stalled duration_ms=%d cpu_ms=%d %s",
                stall.duration_ms,
                stall.cpu_ms,
                self._cause(stall.work),
            )

    def _cause(self, work: Work | None) -> str:
        """Return the request or the periodic task that took longest, else the requests that tasks work on."""
        match work:
            case TaskRun(name=name):
                return f"task={name}"
            case Responding(context=context):
                return _request(context)
            case RequestContext():
                return _request(work)
        working = self._in_second_stage()[:_MAX_NAMED]
        return " or ".join(map(_request, working)) or "api=none"


def _request(context: RequestContext) -> str:
    header = context.header
    api = ApiKey(header.api_key).title
    return f"api={api} version={header.api_version} peer={context.connection.peer_host}"
