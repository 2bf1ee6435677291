"""The address and the name of a console: off the loopback only with a login and TLS. Pure.

TLS is the console's own, or ends in a reverse proxy that is named. Requests must then come from that proxy, and what
they say about the browser (`X-Forwarded-For`, `X-Forwarded-Proto`) is believed; from all others it is passed over.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from kavka.console.failures import Failure
from kavka.console.sentences import say

DEFAULT_PORT: Final = 8080
DEFAULT_HOST: Final = "127.0.0.1"

_PORTS: Final = {"http": 80, "https": 443}
_FORWARDED: Final = ("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded")


class NotLoopback(ValueError):
    """Other machines can reach the console, and it lacks what that needs."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """The way in: own TLS, or a proxy's, and the address that browsers have."""

    certificate: str = ""
    """PEM file with the certificate and those that signed it."""
    key: str = ""
    """PEM file with its key; empty: in the same file."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of reverse proxies that end TLS."""
    public_url: str = ""
    """The address in browsers, such as https://console.example.org; empty on the loopback."""

    @property
    def is_secure(self) -> bool:
        """Return whether browsers use https."""
        return bool(self.certificate) or self.public_url.startswith("https://")

    @property
    def origin(self) -> str:
        """The public address without a path; empty without one."""
        parts = urlsplit(self.public_url)
        return f"{parts.scheme}://{parts.netloc}" if self.public_url else ""

    def is_proxy(self, address: str) -> bool:
        """Return whether a connection comes from a proxy."""
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None) or found
        return any(mapped in ipaddress.ip_network(one, strict=False) for one in self.proxies)


@dataclass(frozen=True, slots=True)
class Sender:
    """The browser of a request: its address, and the scheme that it used."""

    address: str
    scheme: str


def checked_exposure(host: str, exposure: Exposure, *, has_login: bool) -> str:
    """Return the address to listen on. Raise NotLoopback, which says what is missing; ValueError for wrong values."""
    _check_values(exposure)
    loopback = loopback_of(host)
    if loopback and not exposure.proxies and not exposure.public_url:
        return loopback
    missing = []
    if not has_login:
        missing.append("a login: --access FILE with users or OIDC")
    if not exposure.certificate and not exposure.proxies:
        missing.append(
            "TLS: --tls-certificate and --tls-key, or --proxy with the address of the reverse proxy that ends it"
        )
    if not exposure.public_url.startswith("https://"):
        missing.append("the address that browsers use: --public-url https://NAME")
    if missing:
        what = f"--host {host}" if not loopback else "a console behind a name or a proxy"
        raise NotLoopback(
            f"{what}: others than this machine's programs can connect, which needs {'; '.join(missing)} "
            "(docs/how-to/console-access.md). Without them the console listens on 127.0.0.1, ::1 and localhost; from "
            f"another machine: ssh -L {DEFAULT_PORT}:127.0.0.1:{DEFAULT_PORT} <this machine>"
        )
    if loopback:
        return loopback
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        raise NotLoopback(
            f"--host {host}: give an address of this machine, such as 0.0.0.0"
        ) from None


def _check_values(exposure: Exposure) -> None:
    if exposure.key and not exposure.certificate:
        raise ValueError("--tls-key needs --tls-certificate")
    if exposure.certificate and exposure.proxies:
        raise ValueError(
            "--proxy is for a proxy that ends TLS: it does not go with --tls-certificate"
        )
    for one in exposure.proxies:
        try:
            ipaddress.ip_network(one, strict=False)
        except ValueError:
            raise ValueError(f"--proxy {one} is no address or network, such as 10.0.0.7") from None
    parts = urlsplit(exposure.public_url)
    if exposure.public_url and (not parts.hostname or parts.path not in ("", "/") or parts.query):
        raise ValueError(
            f"--public-url {exposure.public_url} is no address such as https://console.example.org"
        )


def sender_of(
    peer: str, scheme: str, headers: Mapping[str, str], exposure: Exposure
) -> Sender | Failure:
    """Return the browser of a request, or why the request is refused."""
    if not exposure.proxies:
        if not exposure.public_url and any(name in headers for name in _FORWARDED):
            return Failure(
                421,
                say("This console is behind a proxy that it does not know"),
                say(
                    "The request has a header of a reverse proxy, and the console was started for this machine alone."
                ),
                say("Start it with --proxy, --public-url and --access, or connect to it directly."),
            )
        return Sender(peer, scheme)
    if not exposure.is_proxy(peer):
        return Failure(
            403,
            say("This console answers to its proxy only"),
            say("The connection does not come from the reverse proxy."),
            say("Open {origin}.", origin=exposure.origin),
        )
    if headers.get("x-forwarded-proto", "").strip().lower() != "https":
        return Failure(
            421,
            say("The reverse proxy does not say that TLS was used"),
            say("X-Forwarded-Proto is not https."),
            say("Have the proxy set X-Forwarded-Proto, and send http to https."),
        )
    return Sender(_client(headers.get("x-forwarded-for", ""), exposure) or peer, "https")


def _client(forwarded: str, exposure: Exposure) -> str:
    """Return the address before the last proxy of ours: those before it the browser could have written itself."""
    for part in reversed(forwarded.split(",")):
        address = part.strip()
        try:
            ipaddress.ip_address(address)
        except ValueError:
            return ""
        if not exposure.is_proxy(address):
            return address
    return ""


def answers_to(authority: str, exposure: Exposure) -> bool:
    """Return whether a Host header names this console (else DNS rebinding could read it)."""
    if exposure.public_url and _named(authority, "https") == _named(
        urlsplit(exposure.public_url).netloc, urlsplit(exposure.public_url).scheme
    ):
        return True
    return not exposure.public_url and is_loopback_name(authority)


def _named(authority: str, scheme: str) -> tuple[str, int]:
    """Return a host in small letters and its port."""
    try:
        parts = urlsplit(f"//{authority}")
        return (parts.hostname or "").lower(), parts.port or _PORTS[scheme]
    except ValueError:
        return "", 0


def local_path(target: str) -> str:
    """Return an address to go to after a login, `/` for one that is not a path of this console (open redirect)."""
    plain = all(" " < c < "\x7f" for c in target) and "\\" not in target
    try:
        parts = urlsplit(target) if plain else None
    except ValueError:  # a bracket where a host would be
        parts = None
    if parts is None or parts.scheme or parts.netloc or not target.startswith("/"):
        return "/"
    if target.startswith("//") or parts.path.startswith(("/login", "/logout", "/api/", "/assets")):
        return "/"
    return target


def loopback_of(host: str) -> str:
    """Return an address of this machine's loopback, nothing for all others.

    Names other than `localhost` are none, since what they stand for may change.
    """
    if host == "localhost":
        return DEFAULT_HOST
    try:
        return host.strip("[]") if ipaddress.ip_address(host.strip("[]")).is_loopback else ""
    except ValueError:
        return ""


def is_loopback_name(authority: str) -> bool:
    """Return whether the Host header of a request names this machine's loopback, with or without a port.

    A page of another site whose name was made to point here (DNS rebinding) sends its own name.
    """
    host = authority
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
