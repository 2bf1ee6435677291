"""The settings of a served registry, by their names in `zoo.cfg`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kavka.registry.client_identities import AccessSettings
from kavka.registry.jaas_files import users_of_file
from kavka.settings.declaration import InvalidSetting, whole_number
from kavka.settings.registry import REGISTRY_SETTINGS, WITHOUT_EFFECT
from kavka.values import frozen

if TYPE_CHECKING:
    from kavka.net.tls.settings import TlsSettings

log = logging.getLogger(__name__)

_PROVABLE = ("sasl", "digest", "x509")
"""Schemes of which an identity is proved: an address is not."""
_PROVIDER = "authProvider."
_PROVIDERS = ("SASL", "Digest", "X509", "IP")
_CLIENT_AUTH = {"need": "required", "want": "requested", "none": "none"}


@frozen
class RegistryServerConfig:
    """The settings of a served registry."""

    data_directory: str
    host: str
    port: int
    """-1 for no port in plain text."""
    tick_ms: int
    min_session_timeout_ms: int
    max_session_timeout_ms: int
    max_client_connections: int
    """Of one address; 0 for any number."""
    allowed_words: tuple[str, ...]
    frame_bytes: int
    secure_host: str = ""
    secure_port: int = -1
    """-1 for no port with TLS."""
    tls: TlsSettings | None = None
    tls_reload_ms: int = 5_000
    access: AccessSettings = AccessSettings()

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> RegistryServerConfig:
        """Read the names of `zoo.cfg`; warn of unknown ones. Raise InvalidSetting."""
        values = REGISTRY_SETTINGS.parse(texts)
        _check_names(texts)
        whole = partial(whole_number, values)
        tick_ms = whole("tickTime")
        min_ms, max_ms = whole("minSessionTimeout"), whole("maxSessionTimeout")
        min_ms = 2 * tick_ms if min_ms < 0 else min_ms
        max_ms = 20 * tick_ms if max_ms < 0 else max_ms
        if min_ms > max_ms:
            raise InvalidSetting("minSessionTimeout", min_ms, "is above maxSessionTimeout")
        words = values["4lw.commands.whitelist"]
        assert isinstance(words, list)
        return cls(
            str(values["dataDir"]),
            str(values["clientPortAddress"]),
            whole("clientPort") if "clientPort" in texts or whole("secureClientPort") < 0 else -1,
            tick_ms,
            min_ms,
            max_ms,
            whole("maxClientCnxns"),
            tuple(words),
            whole("jute.maxbuffer"),
            str(values["secureClientPortAddress"]),
            whole("secureClientPort"),
            None if whole("secureClientPort") < 0 else _tls(values),
            whole("kavka.ssl.reload.interval.ms"),
            _access(values),
        )


def _access(values: Mapping[str, Any]) -> AccessSettings:
    required = tuple(values["enforce.auth.schemes"]) if values["enforce.auth.enabled"] else ()
    if values["enforce.auth.enabled"] and not required:
        reason = f"is empty: name one or more of {', '.join(_PROVABLE)}"
        raise InvalidSetting("enforce.auth.schemes", "", reason)
    if values["sessionRequireClientSASLAuth"]:
        required = ("sasl",)
    unknown = [scheme for scheme in required if scheme not in _PROVABLE]
    if unknown:
        reason = f"Expected some of {', '.join(_PROVABLE)}"
        raise InvalidSetting("enforce.auth.schemes", ",".join(unknown), reason)
    users = users_of_file(values["kavka.jaas.file"], values["kavka.jaas.section"])
    if required == ("sasl",) and not users:
        reason = "there are no users: set kavka.jaas.file"
        raise InvalidSetting("enforce.auth.schemes", "sasl", reason)
    return AccessSettings(
        users,
        values["DigestAuthenticationProvider.superDigest"],
        values["X509AuthenticationProvider.superUser"],
        values["superUser"],
        required,
        values["skipACL"] == "yes",
    )


def _tls(values: Mapping[str, Any]) -> TlsSettings:
    from kavka.net.tls.settings import parse_settings, type_of_file

    key_store, trust_store = values["ssl.keyStore.location"], values["ssl.trustStore.location"]
    named = {
        "ssl.keystore.location": key_store,
        "ssl.keystore.type": values["ssl.keyStore.type"] or type_of_file(key_store),
        "ssl.keystore.password": values["ssl.keyStore.password"],
        "ssl.key.password": values["ssl.keyStore.password"],
        "ssl.truststore.location": trust_store,
        "ssl.truststore.type": values["ssl.trustStore.type"] or type_of_file(trust_store),
        "ssl.truststore.password": values["ssl.trustStore.password"],
        "ssl.enabled.protocols": values["ssl.enabledProtocols"],
        "ssl.cipher.suites": values["ssl.ciphersuites"],
    }
    return parse_settings(named.get, _CLIENT_AUTH[values["ssl.clientAuth"]])


def _check_names(texts: Mapping[str, str]) -> None:
    members = [name for name in texts if name.startswith("server.")]
    if len(members) > 1:
        reason = "an ensemble is not served here: leave one server, or run Apache ZooKeeper"
        raise InvalidSetting(members[0], texts[members[0]], reason)
    for name in sorted(texts):
        if name.startswith(_PROVIDER):
            _check_provider(name, texts[name])
        elif name in WITHOUT_EFFECT or name in members:
            log.info("setting without effect name=%s", name)
        elif name not in REGISTRY_SETTINGS:
            near = REGISTRY_SETTINGS.nearest(name)
            hint = f"; did you mean {near}?" if near else ""
            log.warning("unknown setting ignored name=%s%s", name, hint)


def _check_provider(name: str, text: str) -> None:
    """Refuse a class of Java: its access lists would protect nothing here."""
    known = {
        f"org.apache.zookeeper.server.auth.{each}AuthenticationProvider" for each in _PROVIDERS
    }
    if text.strip() not in known:
        reason = "classes of Java do not run here: the schemes are sasl, digest, x509 and ip"
        raise InvalidSetting(name, text, reason)
