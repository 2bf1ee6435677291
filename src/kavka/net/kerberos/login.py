"""The login of connections by Kerberos: whose tickets, for which service; of clients, and between brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from kavka.core.sasl.exchange import ClientExchange, SaslError
from kavka.core.sasl.gssapi import GSSAPI, GssapiClient
from kavka.io import Random
from kavka.net.kerberos.renewal import Renewals, RenewalTimes
from kavka.net.peer_security import Negotiated
from kavka.net.sasl_login import MechanismLogin
from kavka.settings.declaration import InvalidSetting
from kavka.values import frozen

if TYPE_CHECKING:
    from kavka.net.kerberos.contexts import Initiator

EXTRA: Final = (
    "GSSAPI needs an extra: pip install 'kavka[kerberos]', which is built with the headers of MIT Kerberos "
    "(on Debian libkrb5-dev, gcc and python3-dev)"
)
EXAMPLE: Final = (
    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
    'keyTab="/etc/security/kafka.keytab" principal="{}";'
)
_SERVICE: Final = "sasl.kerberos.service.name"
DEFAULT_TIMES: Final = RenewalTimes()
_KDC_SHARE: Final = 0.8
"""Of the time of an authentication, for tickets: so that the error names the KDC and not the broker."""


@frozen
class Identity:
    """The owner of tickets, and the key tab or the ticket cache that has them; None is the library's default."""

    principal: str | None
    keytab: str | None
    ticket_cache: str | None


def identity_of(options: Mapping[str, str], setting: str, example: str) -> Identity:
    """Return the identity that the options of a Krb5LoginModule describe. Raise InvalidSetting."""
    principal = options.get("principal") or None
    if _is_true(options, "useKeyTab"):
        keytab = options.get("keyTab")
        if not keytab or principal is None or principal == "*":
            missing = "principal" if keytab else "keyTab"
            reason = f"useKeyTab needs the option {missing}: {EXAMPLE.format(example)}"
            raise InvalidSetting(setting, "[hidden]", reason)
        return Identity(principal, keytab, None)
    if _is_true(options, "useTicketCache"):
        return Identity(principal, None, options.get("ticketCache"))
    reason = f"set useTicketCache=true, or a key tab: {EXAMPLE.format(example)}"
    raise InvalidSetting(setting, "[hidden]", reason)


def service_of(options: Mapping[str, str], configured: str | None, default: str) -> str:
    """Return the service of the brokers, the first component of their principals. Raise InvalidSetting."""
    of_module = options.get("serviceName")
    if of_module and configured and of_module != configured:
        reason = f"Conflicting serviceName values: the login module has {of_module}"
        raise InvalidSetting(_SERVICE, configured, reason)
    service = of_module or configured or default
    if not service.isprintable() or "@" in service or "/" in service:
        raise InvalidSetting(
            _SERVICE, service, "Expected the first component of a principal: kafka"
        )
    return service


def kerberos_login(
    identity: Identity, service: str, random: Random, times: RenewalTimes = DEFAULT_TIMES
) -> KerberosLogin:
    """Return a login, which renews the tickets of a key tab. Raise InvalidSetting where the extra is not installed."""
    try:
        from kavka.net.kerberos.contexts import Initiator
    except ImportError as error:
        raise InvalidSetting("sasl.mechanism", GSSAPI, EXTRA) from error
    initiator = Initiator(identity.principal, identity.keytab, identity.ticket_cache)
    has_keytab = identity.keytab is not None
    source = "the key tab" if has_keytab else "the ticket cache, which kinit fills"
    return KerberosLogin(initiator, service, source, random, times if has_keytab else None)


class KerberosLogin:
    """Implements `peer_security.SaslLogin`. Its text shows the service only."""

    def __init__(
        self,
        initiator: Initiator,
        service: str,
        source: str,
        random: Random,
        times: RenewalTimes | None,
    ) -> None:
        """Authenticate each connection to `service` on its broker's host; `source` is that of tickets, for errors.

        Without `times` tickets are not renewed.
        """
        self._initiator = initiator
        self._service = service
        self._source = source
        self._random = random
        # A thread of its own: while a KDC does not answer, the pool of the loop stays free for others.
        self._thread = ThreadPoolExecutor(1, "kavka-kerberos")
        self._renewals = None if times is None else Renewals(initiator, self._thread, times, random)

    def __repr__(self) -> str:
        """Name the service."""
        return f"KerberosLogin({self._service})"

    async def authenticate(self, peer: Negotiated, host: str, timeout_ms: int) -> int:
        """Authenticate; return after how many milliseconds to do so again, 0 for never.

        Raise AuthenticationFailed; OSError, also when no KDC answers.
        """
        begin = partial(self._begin, host, timeout_ms)
        login = MechanismLogin(GSSAPI, begin, self._random)
        again_ms = await login.authenticate(peer, host, timeout_ms)
        if self._renewals is not None:
            self._renewals.begin(peer)
        return again_ms

    async def _begin(self, host: str, timeout_ms: int) -> ClientExchange:
        loop = asyncio.get_running_loop()
        making = loop.run_in_executor(self._thread, self._initiator.initiate, self._service, host)
        try:
            context, first = await asyncio.wait_for(making, _KDC_SHARE * timeout_ms / 1000)
        except TimeoutError:
            raise ConnectionError("Kerberos: the KDC does not answer") from None
        except ConnectionError as error:
            raise ConnectionError(f"Kerberos: {error}") from None
        except SaslError as error:
            raise SaslError(
                f"no ticket for {self._service}/{host} by {self._source}: {error}"
            ) from None
        return GssapiClient(context, first)


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"
