"""TLS of a listener: `io.ServerTls` over a context that is reloaded; failed handshakes are counted and logged."""

from __future__ import annotations

import logging
import ssl
from typing import Protocol

from kavka.net.bounded_log import BoundedLog
from kavka.net.tls.contexts import ReloadableContext, server_context
from kavka.net.tls.settings import TlsSettings

log = logging.getLogger(__name__)

_MAX_HANDSHAKES = 1000
_HANDSHAKE_MS = 10_000


class Admission(Protocol):
    """The decision whether a connection is let in, before its handshake."""

    def admit(self, listener: str, host: str) -> int | None:
        """Count a connection, and return None; else for how many ms it is kept unread before it is closed."""
        ...

    def release(self, listener: str, host: str) -> None:
        """Count a connection no more that was admitted, and whose handshake came to nothing."""
        ...


class ListenerTls:
    """Implements `io.ServerTls` for one listener."""

    def __init__(
        self,
        name: str,
        settings: TlsSettings,
        max_handshakes: int = _MAX_HANDSHAKES,
        handshake_timeout_ms: int = _HANDSHAKE_MS,
    ) -> None:
        """Read the stores. Raise InvalidSetting."""
        self._name = name
        self.reloadable = ReloadableContext(settings, server_context, name)
        self.max_handshakes = max_handshakes
        self.handshake_timeout_ms = handshake_timeout_ms
        self.admission: Admission | None = None
        """Asked about each connection; without it all are let in."""
        self.failures = 0
        """Handshakes that failed since the start."""
        self._log = BoundedLog(log)

    def context(self) -> ssl.SSLContext:
        """Return the context of the next connection."""
        return self.reloadable.current

    def admit(self, host: str) -> int | None:
        """Count a connection before its handshake, and return None; else for how many ms it is kept, then closed."""
        return None if self.admission is None else self.admission.admit(self._name, host)

    def release(self, host: str) -> None:
        """Count a connection no more that was admitted, and whose handshake came to nothing."""
        if self.admission is not None:
            self.admission.release(self._name, host)

    def handshake_failed(self, host: str, reason: str) -> None:
        """Count a failure, and log it unless there are many."""
        self.failures += 1
        self._log.write(
            host, "TLS handshake failed listener=%s peer=%s reason=%s", self._name, host, reason
        )
