"""Contexts of OpenSSL, made of the settings of TLS, and made again when the files of those have changed."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from kavka.core.certificate_validity import Validity, validity_of
from kavka.core.distinguished_names import alternative_names_of, encoded_subject, subject_of
from kavka.io import Clock
from kavka.net.clock import SystemClock
from kavka.net.tls.ciphers import choose_ciphers, protocol_bounds
from kavka.net.tls.settings import Store, TlsSettings
from kavka.net.tls.stores import (
    KeyMaterial,
    certificates_of,
    open_key_file,
    read_key_store,
    read_trust_store,
    to_pem,
)
from kavka.settings.declaration import InvalidSetting
from kavka.values import frozen

log = logging.getLogger(__name__)

_CLOCK: Final = SystemClock()
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a listener. Raise InvalidSetting, of which InvalidStore is a kind."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _configure(context, settings)
    if not settings.key_store.is_given:
        raise settings.key_store.invalid(
            "a listener with TLS needs a key store: set ssl.keystore.location, "
            "or ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    if settings.client_auth != "none" or settings.trust_store.is_given:
        trusted = _trust(context, settings)
        if settings.client_auth != "none" and trusted:
            _name_authorities(context, trusted)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of connections to brokers. Raise InvalidSetting, of which InvalidStore is a kind."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _configure(context, settings)
    context.check_hostname = settings.verifies and settings.checks_host
    context.verify_mode = ssl.CERT_REQUIRED if settings.verifies else ssl.CERT_NONE
    _trust(context, settings)
    return context


def _configure(context: ssl.SSLContext, settings: TlsSettings) -> None:
    context.minimum_version, context.maximum_version = protocol_bounds(settings.protocols)
    context.options |= ssl.OP_NO_RENEGOTIATION
    choose_ciphers(context, settings.cipher_suites)
    # As in Java, whatever is in the trust store is trusted: also an intermediate, or one broker's own certificate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    material = read_key_store(settings)
    if material is not None:
        _load_key(context, settings, material)


def _trust(context: ssl.SSLContext, settings: TlsSettings) -> bytes:
    """Trust the certificates of the trust store; without one those of the system, as Java trusts its own.

    Return them as PEM; of the system's those that are in one file.
    """
    trusted = read_trust_store(settings.trust_store)
    if trusted is None:
        context.load_default_certs(
            ssl.Purpose.CLIENT_AUTH
            if context.protocol == ssl.PROTOCOL_TLS_SERVER
            else ssl.Purpose.SERVER_AUTH
        )
        return b"".join(to_pem("CERTIFICATE", one) for one in context.get_ca_certs(True))
    try:
        context.load_verify_locations(cadata=trusted.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise settings.trust_store.invalid(f"a certificate is damaged: {_reason(error)}") from error
    return trusted


def _name_authorities(context: ssl.SSLContext, trusted: bytes) -> None:
    """Send clients the names of these authorities with the request for a certificate, as Java does, where it can be."""
    from kavka.net.tls.authority_names import CannotName, name_authorities

    try:
        subjects = [encoded_subject(one).whole for one in certificates_of(trusted)]
        with _in_memory(trusted) as path:
            name_authorities(context, path, subjects)
    except (CannotName, ValueError) as error:
        log.warning("trusted authorities are not named to clients reason=%s", error)


def _load_key(context: ssl.SSLContext, settings: TlsSettings, material: KeyMaterial) -> None:
    store, password = settings.key_store, material.password
    try:
        # With a password that is empty OpenSSL does not ask for one at the terminal.
        with _in_memory(material.certificates) as chain, _in_memory(material.key) as key:
            context.load_cert_chain(chain, key, password or "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise store.invalid("the private key is not that of the certificate") from error
        if password is not None and not _is_chain_damaged(material):
            reason = "the password of the private key (ssl.key.password) is wrong"
            raise store.invalid(reason) from error
        raise store.invalid(f"OpenSSL refuses it: {_reason(error)}") from error
    except ValueError as error:  # a password that is too long
        raise store.invalid(str(error)) from error


def _is_chain_damaged(material: KeyMaterial) -> bool:
    """Return whether it is the chain that cannot be read, and not the key."""
    probe = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        probe.load_verify_locations(cadata=material.certificates.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError):
        return True
    return False


def _reason(error: Exception) -> str:
    reason: str | None = getattr(error, "reason", None)
    return reason.replace("_", " ").lower() if reason else str(error)


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """Yield the name of a file that is in memory only, so that no private key lies on a disk."""
    descriptor = os.memfd_create("kavka-tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


@frozen
class Owner:
    """The owner of a key store: the names in its certificate."""

    subject: str
    alternative_names: frozenset[bytes]
    """As DER."""


def _owner_of(material: KeyMaterial, store: Store) -> Owner:
    """Return the owner of a key store. Raise InvalidStore."""
    try:
        own = certificates_of(material.certificates)[0]
        return Owner(subject_of(own), alternative_names_of(own))
    except ValueError as error:  # of base64, or BadCertificate
        raise store.invalid(f"its certificate cannot be read: {error}") from error


def _validity_of(material: KeyMaterial) -> Validity | None:
    """Return the validity of a key store's certificate; None for one that only OpenSSL can read."""
    try:
        return validity_of(certificates_of(material.certificates)[0])
    except ValueError:  # of base64, or BadCertificate
        return None


def check_owner(before: Owner, after: Owner, settings: TlsSettings) -> None:
    """Raise InvalidStore where a key store of `after` may not take the place of one of `before`."""
    store = settings.key_store
    if not settings.allows_dn_changes and after.subject.lower() != before.subject.lower():
        raise store.invalid(
            f"its distinguished name is {after.subject}, that of the key store in use {before.subject}: "
            "ssl.allow.dn.changes=true allows it"
        )
    if not settings.allows_san_changes and not before.alternative_names <= after.alternative_names:
        raise store.invalid(
            "it lacks subject alternative names that the key store in use has: "
            "ssl.allow.san.changes=true allows it"
        )


@frozen
class LoadedContext:
    """A context, and what there is to say of the files that it was made of."""

    context: ssl.SSLContext
    owner: Owner | None = None
    """The owner of the key store; None where another's may take its place."""
    validity: Validity | None = None
    """Of the certificate in the key store; None without one."""
    open_key_file: str | None = None
    """The file of the private key, where every user of the machine can read it."""


class ReloadableContext:
    """The context of one listener or client, made again when its settings or the files that these name have changed.

    A change counts for connections that are made afterwards. Settings or files that cannot be used are logged, and the
    context before stays in use.
    """

    def __init__(
        self,
        settings: TlsSettings,
        make: Callable[[TlsSettings], ssl.SSLContext],
        name: str,
        clock: Clock = _CLOCK,
    ) -> None:
        """Make the first context. Raise InvalidSetting; `name` is for log lines."""
        self.settings = settings
        self.wanted = settings
        """The settings in use, or those for which files are being read."""
        self._make = make
        self._name = name
        self._clock = clock
        self._seen = _states(settings)
        self._said: str | None = None
        """The fault of the certificate in use that the log has; None where it has none."""
        self._loaded: LoadedContext | None = None
        self._use(self.made(settings))

    def made(self, settings: TlsSettings) -> LoadedContext:
        """Return the context of other settings or files, on any thread. Raise InvalidSetting."""
        context, store = self._make(settings), settings.key_store
        material = read_key_store(settings)
        if material is None:
            return LoadedContext(context)
        owner = None
        if not (settings.allows_dn_changes and settings.allows_san_changes):
            owner = _owner_of(material, store)
            if self._loaded is not None and self._loaded.owner is not None:
                check_owner(self._loaded.owner, owner, settings)
        return LoadedContext(context, owner, _validity_of(material), open_key_file(store))

    @property
    def current(self) -> ssl.SSLContext:
        """The context of the next connection."""
        assert self._loaded is not None
        return self._loaded.context

    def _use(self, loaded: LoadedContext) -> None:
        """Use a context from now on, and say what is wrong with its files."""
        self._loaded = loaded
        if loaded.open_key_file is not None:
            log.warning("private key readable by every user file=%s", loaded.open_key_file)
        self._look_at_validity()

    def _look_at_validity(self) -> None:
        """Say once that the certificate in use is not valid now, or soon will not be."""
        validity = None if self._loaded is None else self._loaded.validity
        fault = None if validity is None else validity.fault(self._clock.now_ms())
        if fault is not None and fault != self._said:
            log.warning("certificate %s name=%s", fault, self._name)
        self._said = fault

    async def refresh(self) -> None:
        """Make another context if a file has changed; say that the certificate in use ends, where it does."""
        self._look_at_validity()
        settings = self.settings
        seen = await asyncio.to_thread(_states, settings)
        if seen != self._seen and settings is self.wanted:
            self._seen = seen
            await self._replace(settings)

    async def configure(self, settings: TlsSettings) -> None:
        """Use other settings from now on, unless they cannot be used."""
        if settings != self.wanted:
            self.wanted = settings  # at once: of several changes the last one counts
            seen = await asyncio.to_thread(_states, settings)
            await self._replace(settings)
            if settings is self.settings:
                self._seen = seen

    async def _replace(self, settings: TlsSettings) -> None:
        """Read the files on a thread, and use the context unless other settings came meanwhile."""
        try:
            loaded = await asyncio.to_thread(self.made, settings)
        except InvalidSetting as error:
            log.error("TLS reload failed, certificates kept name=%s reason=%s", self._name, error)
            if self.wanted is settings:
                self.wanted = self.settings
            return
        if self.wanted is settings:
            self.settings = settings
            log.info("TLS certificates reloaded name=%s", self._name)
            self._use(loaded)


def _states(settings: TlsSettings) -> list[tuple[int, int, int] | None]:
    """Return what tells a file from its next version, for each file; None where there is none."""
    states: list[tuple[int, int, int] | None] = []
    for path in settings.files:
        try:
            found = os.stat(path)
        except OSError:
            states.append(None)
        else:
            states.append((found.st_mtime_ns, found.st_size, found.st_ino))
    return states
