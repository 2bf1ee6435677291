"""Security contexts and credentials of Kerberos V5, through the package `gssapi`. Imported only where it is installed.

The library reads `krb5.conf` (or what KRB5_CONFIG names) and key tabs by itself, each time: changed ones count at once.
Texts of its errors hold names that a peer chose, so what is not printable is replaced in them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final

import gssapi

from kavka.core.sasl.exchange import SaslError

_UNREACHABLE: Final = frozenset([-1765328228 & 0xFFFFFFFF])
"""Of krb5: no KDC of the realm answers (KRB5_KDC_UNREACH)."""
_MEANINGLESS: Final = ("", "Success", "Unknown error")
_MAX_CHARACTERS: Final = 300
_FLAGS: Final = (
    gssapi.RequirementFlag.mutual_authentication
    | gssapi.RequirementFlag.integrity
    | gssapi.RequirementFlag.replay_detection
    | gssapi.RequirementFlag.out_of_sequence_detection
)
_getting_tickets: dict[str, threading.Lock] = {}
"""Held while tickets come from a key tab, by the memory that keeps them: another thread would find that empty."""


class Context:
    """Implements `core.sasl.gssapi.GssContext`."""

    def __init__(self, context: Any) -> None:
        """Wrap a context of the library."""
        # Else an error that has a token for the peer would be returned as if it were the next step.
        context.__DEFER_STEP_ERRORS__ = False
        self._context = context
        self._is_established = False

    @property
    def is_established(self) -> bool:
        """Return whether this side has proved and checked what it must."""
        return self._is_established

    def step(self, token: bytes) -> bytes:
        """Take a token of the peer, none at first. Raise SaslError, ConnectionError when no KDC answers."""
        with _errors():
            output_token: bytes | None = self._context.step(token or None)
            if self._context.complete:
                if self._context.mech != gssapi.MechType.kerberos:
                    raise SaslError("a mechanism other than Kerberos V5")
                self._is_established = True
        return output_token or b""

    def peer(self) -> str:
        """Return the principal of the other side. Raise SaslError."""
        with _errors():
            context = self._context
            name = context.target_name if context.locally_initiated else context.initiator_name
            return str(name)

    def wrap(self, message: bytes) -> bytes:
        """Return a message with its checksum. Raise SaslError."""
        with _errors():
            wrapped: bytes = self._context.wrap(message, False).message
            return wrapped

    def unwrap(self, token: bytes) -> bytes:
        """Return the message of a token. Raise SaslError."""
        with _errors():
            message: bytes = self._context.unwrap(token).message
            return message


class Acceptor:
    """Makes contexts of clients, by the keys of a key tab."""

    def __init__(self, principal: str | None, keytab: str | None) -> None:
        """Accept for one principal, or with None for all of the key tab; its own default is that of the library.

        Blocks: it reads the key tab. Raise SaslError where that has no key of the principal.
        """
        with _errors():
            self._credential = gssapi.Credentials(
                name=_principal(principal),
                usage="accept",
                mechs=[gssapi.MechType.kerberos],
                store=None if keytab is None else {"keytab": keytab},
            )

    def accept(self) -> Context:
        """Return the context of a new connection."""
        return Context(gssapi.SecurityContext(creds=self._credential, usage="accept"))


class Initiator:
    """Makes contexts to brokers, by tickets from a key tab or from a cache.

    Tickets from a key tab are kept in the memory of this process. When half of their life is over, the library gets
    them again where they are needed, by a connection or by `renew`. Implements `renewal.Tickets`.
    """

    def __init__(self, principal: str | None, keytab: str | None, ticket_cache: str | None) -> None:
        """Take no ticket yet. Without a key tab tickets are those of the cache: by default the library's."""
        self._principal = principal
        self._keytab = keytab
        self.valid_ms = 0
        """For how long the tickets were valid when a connection or `renew` needed them last."""
        self._store = {} if ticket_cache is None else {"ccache": ticket_cache}
        if keytab is not None:
            # One name for each identity: the library has no call that would free such memory.
            identity = sha256(f"{principal}\0{keytab}".encode()).hexdigest()[:32]
            self._store = {"client_keytab": keytab, "ccache": f"MEMORY:kavka-{identity}"}
            self._getting_tickets = _getting_tickets.setdefault(identity, threading.Lock())

    def initiate(self, service: str, host: str) -> tuple[Context, bytes]:
        """Return a context to a broker, which must prove itself, and the first token. Blocks: it may ask a KDC.

        Raise SaslError, ConnectionError when no KDC answers.
        """
        if self._keytab is None:
            return self._initiate(service, host)
        # Asked for tickets alone the library does not say that the key tab has no key.
        Acceptor(self._principal, self._keytab)
        with self._getting_tickets:
            return self._initiate(service, host)

    def renew(self) -> None:
        """Get tickets from the key tab again, if half of their life is over. Blocks: it asks a KDC.

        Raise SaslError, ConnectionError when no KDC answers. While the tickets before are valid, the library says
        nothing of a KDC that gave none: see `valid_ms`.
        """
        assert self._keytab is not None
        Acceptor(self._principal, self._keytab)
        with self._getting_tickets, _errors():
            self._note_life(self._credentials())

    def _initiate(self, service: str, host: str) -> tuple[Context, bytes]:
        with _errors():
            credential = self._credentials()
            target = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
            context = Context(
                gssapi.SecurityContext(
                    name=target,
                    creds=credential,
                    mech=gssapi.MechType.kerberos,
                    flags=_FLAGS,
                    usage="initiate",
                )
            )
            first = context.step(b"")
            if self._keytab is not None:
                self._note_life(credential)
            return context, first

    def _credentials(self) -> Any:
        return gssapi.Credentials(
            name=_principal(self._principal),
            usage="initiate",
            mechs=[gssapi.MechType.kerberos],
            store=self._store or None,
        )

    def _note_life(self, credential: Any) -> None:
        try:
            self.valid_ms = 1000 * int(credential.lifetime or 0)
        except gssapi.exceptions.ExpiredCredentialsError:
            self.valid_ms = 0


def default_realm() -> str:
    """Return the default realm of `krb5.conf`, an empty text without one, as Apache Kafka does."""
    try:
        with _errors():
            name = gssapi.Name("any", gssapi.NameType.kerberos_principal)
            return str(name.canonicalize(gssapi.MechType.kerberos)).partition("@")[2]
    except SaslError:
        return ""


def _principal(name: str | None) -> Any:
    return None if name is None else gssapi.Name(name, gssapi.NameType.kerberos_principal)


@contextmanager
def _errors() -> Iterator[None]:
    """Raise the library's errors as SaslError, or as ConnectionError when no KDC answers."""
    try:
        yield
    except gssapi.exceptions.GSSError as error:
        # On the thread of the call: the library keeps its texts there.
        text = _text(error)
        if error.min_code in _UNREACHABLE:
            raise ConnectionError(text) from None
        raise SaslError(text) from None
    except UnicodeDecodeError:
        raise SaslError("a name that is not UTF-8") from None


def _text(error: Any) -> str:
    """Return what the mechanism says, or where it says nothing, what GSSAPI says."""
    said = error.get_all_statuses(error.min_code, False) if error.min_code else []
    meaningful = [text for text in said if text not in _MEANINGLESS]
    text = "; ".join(meaningful or error.get_all_statuses(error.maj_code, True))
    return "".join(c if c.isprintable() else "?" for c in text[:_MAX_CHARACTERS])
