"""The defence against other sites: headers of responses, and the checks of requests. Pure but for `make_id`.

The danger is a page of another site in the same browser. It may not name this console as another host
(DNS rebinding: the Host header is checked), not frame it, not run scripts in it (no inline script or style is allowed),
and not change anything: a change needs a token that only the console's own pages hold, or a header that no form sends.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from kavka.console.access.exposure import Exposure, answers_to
from kavka.console.failures import Failure
from kavka.console.sentences import say

COOKIE: Final = "kavka_console"
TOKEN_FIELD: Final = "csrf_token"

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Headers of every response."""


def headers_of(exposure: Exposure) -> dict[str, str]:
    """Return the headers of every response; with https a browser keeps to it for a year."""
    if not exposure.is_secure:
        return HEADERS
    return {**HEADERS, "Strict-Transport-Security": "max-age=31536000"}


def make_id() -> str:
    """Return a random id for a browser."""
    return secrets.token_urlsafe(18)


class Tokens:
    """Tokens of browsers: the code of a browser's id by a key that ends with this process."""

    def __init__(self) -> None:
        """Make a key."""
        self._key = secrets.token_bytes(32)

    def token(self, browser: str) -> str:
        """Return the token that forms of this browser hold."""
        return hmac.new(self._key, browser.encode(), hashlib.sha256).hexdigest()

    def is_valid(self, browser: str, token: str) -> bool:
        """Return whether a form came from a page that this console made for this browser."""
        return bool(browser) and hmac.compare_digest(self.token(browser).encode(), token.encode())


def refusal_of_request(headers: Mapping[str, str], exposure: Exposure) -> Failure | None:
    """Return why a request is refused whatever it asks: its Host is not this console's, or another site embeds it.

    A link of another site may lead here; its pictures, scripts and event streams would only take readers.
    """
    host = headers.get("host", "")
    if answers_to(host, exposure):
        return _refusal_of_embedding(headers)
    if exposure.public_url:
        return Failure(
            421,
            say("This console answers to its own name only"),
            say("The request names the host {host!r}.", host=host[:100]),
            say(
                "Open {origin}; a reverse proxy has to pass the header Host on.",
                origin=exposure.origin,
            ),
        )
    return Failure(
        421,
        say("This console answers to local names only"),
        say(
            "The request names the host {host!r}, and a console without a public address "
            "answers to localhost, 127.0.0.1 and [::1] alone.",
            host=host[:100],
        ),
        say("Open it by one of these names."),
    )


def _refusal_of_embedding(headers: Mapping[str, str]) -> Failure | None:
    site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "")
    if site in ("same-origin", "none") or mode == "navigate":
        return None
    return Failure(
        403,
        say("This request was refused"),
        say("A page of another site has made it."),
        say("Open the console in a tab of its own."),
    )


def refusal_of_change(headers: Mapping[str, str], *, has_token: bool) -> Failure | None:
    """Return why a change is refused: another site sent it, or neither a token nor JSON says that no site did."""
    site = headers.get("sec-fetch-site", "none")
    origin = headers.get("origin", "")
    is_own = not origin or _host_of(origin) == headers.get("host", "")
    if site in ("same-origin", "none") and is_own and (has_token or _is_json(headers)):
        return None
    return Failure(
        403,
        say("This change was refused"),
        say("It did not come from a page of this console, or from one of an earlier run of it."),
        say(
            "Load the page again and repeat it. Programs send JSON, with the header Content-Type: application/json."
        ),
    )


def _host_of(origin: str) -> str | None:
    """Return the host and port of an origin, None where it has none."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def _is_json(headers: Mapping[str, str]) -> bool:
    """Return whether the body is JSON: browsers send that to another site only after it has agreed."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
