"""The denials in the broker's log: a few a minute of each address. The audit has each."""

from __future__ import annotations

import logging
from typing import Final

from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.session import AclOperation, AclResourceType
from kavka.net.bounded_log import BoundedLog

log = logging.getLogger(__name__)

_MAX_NAME: Final = 256


class DeniedLog:
    """Logs what clients asked for and may not do."""

    def __init__(self) -> None:
        """Begin with none."""
        self._log = BoundedLog(log, logging.INFO)

    def denied(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource: AclResourceType,
        name: str,
    ) -> None:
        """Take note of one."""
        session = context.session
        self._log.write(
            session.host,
            "denied principal=%s host=%s operation=%s resource=%s:%r api=%s",
            str(session.principal)[:_MAX_NAME],
            session.host,
            operation.title,
            resource.title,
            name[:_MAX_NAME],
            context.api.key.title,
        )
