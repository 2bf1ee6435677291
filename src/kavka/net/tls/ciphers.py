"""Protocols and cipher suites: what Java's names, which Kafka's settings have, are in OpenSSL."""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Final

from kavka.settings.declaration import InvalidSetting

_VERSIONS: Final = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_OBSOLETE: Final = ("SSLv2", "SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
_OF_TLS_1_3: Final = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
)
"""The suites of TLS 1.3 that OpenSSL offers by default."""
_STRONG: Final = "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20:!aNULL"
"""The suites of TLS 1.2 that a listener offers by default: with forward secrecy, and encryption that authenticates.

Python's own default has those with CBC as well where a distribution leaves the choice to OpenSSL, as Debian does.
"""
_JAVA: Final = re.compile(
    r"TLS_(?P<exchange>ECDHE_ECDSA|ECDHE_RSA|DHE_RSA|RSA)_WITH_"
    r"(?P<cipher>AES_(?:128|256)_(?:GCM|CBC)|CHACHA20_POLY1305)_(?P<digest>SHA\d*)"
)


def protocol_bounds(enabled: Sequence[str]) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    """Return the oldest and the newest version of `ssl.enabled.protocols`. Raise InvalidSetting."""
    versions: list[ssl.TLSVersion] = []
    for name in enabled:
        if name in _OBSOLETE:
            reason = f"{name} is not secure and not in this release; use TLSv1.2 and TLSv1.3"
            raise InvalidSetting("ssl.enabled.protocols", name, reason)
        if name not in _VERSIONS:
            raise InvalidSetting("ssl.enabled.protocols", name, "Expected TLSv1.2 or TLSv1.3")
        versions.append(_VERSIONS[name])
    return min(versions), max(versions)


def choose_ciphers(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    """Offer only these suites of `ssl.cipher.suites`, by Java's or OpenSSL's names. Raise InvalidSetting.

    Without any a listener offers the strong ones, a client what Python does. A version of TLS of which no suite is
    named is not offered.
    """
    if not suites:
        if context.protocol == ssl.PROTOCOL_TLS_SERVER:
            context.set_ciphers(_STRONG)
        return
    newer = [name for name in suites if name in _OF_TLS_1_3 or name.startswith("TLS_AES_128_CCM")]
    older = [name for name in suites if name not in newer]
    _choose_newer(context, newer)
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    if not newer:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.set_ciphers(":".join(map(openssl_name, older)))
    except ssl.SSLError as error:
        reason = "OpenSSL offers none of these suites"
        raise InvalidSetting("ssl.cipher.suites", list(suites), reason) from error
    unknown = [name for name in older if not _is_offered(context, openssl_name(name))]
    if unknown:
        reason = "OpenSSL does not offer this suite"
        raise InvalidSetting("ssl.cipher.suites", unknown[0], reason)


def openssl_name(name: str) -> str:
    """Return what OpenSSL calls a suite of TLS 1.2; the same text where it is no name of Java's."""
    found = _JAVA.fullmatch(name)
    if found is None:
        return name
    exchange = "" if found["exchange"] == "RSA" else found["exchange"].replace("_", "-") + "-"
    cipher = found["cipher"].replace("CHACHA20_POLY1305", "CHACHA20-POLY1305")
    cipher = cipher.replace("AES_", "AES").replace("_GCM", "-GCM").replace("_CBC", "")
    digest = "" if cipher.startswith("CHACHA20") else f"-{found['digest']}"
    return f"{exchange}{cipher}{digest}"


def _choose_newer(context: ssl.SSLContext, newer: list[str]) -> None:
    if not newer:
        return
    if hasattr(context, "set_ciphersuites"):  # since Python 3.15
        context.set_ciphersuites(":".join(newer))
    elif set(newer) != set(_OF_TLS_1_3):
        reason = (
            "this release of Python cannot choose among the suites of TLS 1.3: "
            f"name all of {', '.join(_OF_TLS_1_3)}, or none"
        )
        raise InvalidSetting("ssl.cipher.suites", newer, reason)


def _is_offered(context: ssl.SSLContext, name: str) -> bool:
    # What is no single suite, HIGH say, is an expression of OpenSSL's, as librdkafka takes it.
    if not re.fullmatch(r"[A-Z0-9]+(-[A-Z0-9]+)+", name):
        return True
    return any(cipher["name"] == name for cipher in context.get_ciphers())
