"""The denials in the broker's log, where there is no audit: one a second, and how many there were in between."""

from __future__ import annotations

import logging
from typing import Final

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.io import Clock

log = logging.getLogger(__name__)

_BETWEEN_MS: Final = 1_000
_MAX_NAME: Final = 256


class DeniedLog:
    """Logs what clients asked for and may not do."""

    def __init__(self, clock: Clock) -> None:
        """Begin with none."""
        self._clock = clock
        self._logged_ms: int | None = None
        self._not_logged = 0

    def denied(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource: AclResourceType,
        name: str,
    ) -> None:
        """Take note of one."""
        now_ms = self._clock.tick_ms()
        if self._logged_ms is not None and now_ms - self._logged_ms < _BETWEEN_MS:
            self._not_logged += 1
            return
        session = context.session
        log.info(
            "denied principal=%s host=%s operation=%s resource=%s:%r api=%s%s",
            session.principal,
            session.host,
            operation.title,
            resource.title,
            name[:_MAX_NAME],
            context.api.key.title,
            f" not_logged_since_last={self._not_logged}" if self._not_logged else "",
        )
        self._logged_ms, self._not_logged = now_ms, 0
