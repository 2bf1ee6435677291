"""Refusals by other brokers, of a login, a certificate or a control request: warnings, for waiting does not mend them.

Connections are tried again several times a second; of one connection there is one such line a minute.
"""

from __future__ import annotations

import logging
from typing import Final

from kavka.core.sasl.oauthbearer import OAUTHBEARER
from kavka.errors import AuthenticationFailed, ErrorCode, KafkaError
from kavka.net.bounded_log import SpacedLog
from kavka.net.peer_security import TlsHandshakeFailed

log = logging.getLogger(__name__)

_BETWEEN_MS: Final = 60_000


class RefusalsByBrokers:
    """The failures of one connection to another broker."""

    def __init__(self) -> None:
        """Begin with none."""
        self._log = SpacedLog(log, _BETWEEN_MS)

    def is_refusal(self, broker: object, error: Exception) -> bool:
        """Return whether another broker refused this one, which is logged here; other failures the caller logs."""
        remedy = remedy_of(error)
        if remedy is None:
            return False
        if self._log.is_due():
            what = "another broker refuses this one broker=%s reason=%s: %s"
            self._log.write(what, broker, str(error).rstrip("."), remedy)
        return True


def remedy_of(error: Exception) -> str | None:
    """Return what to do about a refusal; None for a failure that may pass by itself."""
    if isinstance(error, AuthenticationFailed):
        if error.mechanism == OAUTHBEARER:
            return (
                "look at the token of this broker (issuer, audience, expiry, sub), and at sasl.oauthbearer.* of that "
                "broker's listener, whose log says why"
            )
        return (
            "look at user and password of this broker (sasl.jaas.config of the listener between brokers), and whether "
            "that user exists (kavka configs --describe --entity-type users)"
        )
    if isinstance(error, TlsHandshakeFailed):
        return "look at ssl.keystore.* and ssl.truststore.* of the listener between brokers"
    if isinstance(error, KafkaError) and error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return "super.users of that broker must have this broker's principal"
    return None
