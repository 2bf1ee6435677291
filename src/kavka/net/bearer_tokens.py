"""Bearer tokens for OAUTHBEARER: of a callable, of a token endpoint, or without a signature for tests.

Clients and brokers get theirs by the same sources. What may block runs on a thread: the request to the endpoint, and a
callable that is not `async`.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from kavka.core.sasl.exchange import SaslError
from kavka.core.sasl.unsecured_jwt import (
    encode_unsecured,
    expiry_ms,
    login_claims,
    login_extensions,
)
from kavka.io import Clock
from kavka.settings.declaration import InvalidSetting
from kavka.values import frozen

CALLBACK: Final = "sasl.login.callback.handler.class"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_MAX_BYTES: Final = 1 << 20
_ENDLESS_S: Final = 1e10
"""Three hundred years: a longer life, also of more digits than a float takes, is not meant as one."""
_ERROR_CODE: Final = re.compile(r"[ -!#-\[\]-~]{1,100}")
_JAVA_HANDLERS: Final = "OAuthBearerLoginCallbackHandler"
"""The name of Kafka's classes that ask a token endpoint, as is done here without a class."""


@frozen
class BearerToken:
    """A token and the end of its life, milliseconds since 1970. Its text does not show it."""

    text: str
    expires_ms: int

    def __repr__(self) -> str:
        """Show the end only."""
        return f"BearerToken(expires_ms={self.expires_ms})"


Source = Callable[[], Awaitable[BearerToken]]
"""Gets a token. Raises SaslError or OSError."""


def is_java_handler(callback: object) -> bool:
    """Return whether the name of a callback is that of Kafka's class for token endpoints."""
    return isinstance(callback, str) and callback.endswith(_JAVA_HANDLERS)


def module_extensions(options: Mapping[str, str]) -> dict[str, str]:
    """Return the SASL extensions that the options of a login module ask for."""
    of_endpoint = {
        name.removeprefix("extension_"): value
        for name, value in options.items()
        if name.startswith("extension_")
    }
    return {**of_endpoint, **login_extensions(options)}


# Without a signature


def has_unsecured(options: Mapping[str, str]) -> bool:
    """Return whether the options of a login module ask for tokens without a signature."""
    return any(name.startswith("unsecuredLogin") for name in options)


def unsecured_source(setting: str, options: Mapping[str, str], clock: Clock) -> Source:
    """Return the source of tokens that anyone can make. Raise InvalidSetting, which shows no option."""

    def made() -> BearerToken:
        claims = login_claims(options, clock.now_ms())
        return BearerToken(encode_unsecured(claims), int(claims["exp"] * 1000))

    async def make() -> BearerToken:
        return made()

    try:
        made()
    except (ValueError, OverflowError) as error:
        raise InvalidSetting(setting, "[hidden]", str(error)) from None
    return make


# Of a callable


def callable_source(callback: Any) -> Source:
    """Return the source that asks a callable, or `module:name` of one. Raise InvalidSetting."""
    called = _loaded(callback)

    async def ask() -> BearerToken:
        try:
            if inspect.iscoroutinefunction(called):
                given = await called()
            else:
                given = await asyncio.to_thread(called)
            text, expires_ms = given
            return BearerToken(str(text), int(expires_ms))
        except Exception as error:
            raise SaslError(
                f"the callback gave no token: {type(error).__name__}: {error}"
            ) from error

    return ask


def _loaded(callback: Any) -> Callable[[], Any]:
    if isinstance(callback, str):
        module, colon, name = callback.partition(":")
        try:
            callback = getattr(importlib.import_module(module), name) if colon else None
        except (ImportError, AttributeError) as error:
            raise InvalidSetting(CALLBACK, callback, str(error)) from error
    if not callable(callback):
        reason = "Give a callable, or module:name of one, that returns (token, expiry in ms)"
        raise InvalidSetting(CALLBACK, callback, reason)
    called: Callable[[], Any] = callback
    return called


# Of a token endpoint


@frozen
class TokenEndpoint:
    """An endpoint that gives tokens by the grant client_credentials (RFC 6749, 4.4). Its text shows no secret."""

    url: str
    client: str
    secret: str
    scope: str | None
    connect_timeout_s: float
    read_timeout_s: float
    """Of each part of the response."""

    def __repr__(self) -> str:
        """Show the address only."""
        return f"TokenEndpoint({self.url})"


def endpoint_source(endpoint: TokenEndpoint, clock: Clock) -> Source:
    """Return the source that asks the endpoint. Raise InvalidSetting for an address that is none."""
    _check_address(endpoint.url)
    # RFC 6749, 2.3.1: both are form-encoded before they are joined.
    pair = f"{quote(endpoint.client, safe='')}:{quote(endpoint.secret, safe='')}".encode()
    headers = {
        "Authorization": f"Basic {base64.b64encode(pair).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    form = {"grant_type": "client_credentials"} | (
        {"scope": endpoint.scope} if endpoint.scope else {}
    )

    async def ask() -> BearerToken:
        request = Request(endpoint.url, urlencode(form).encode(), headers, method="POST")
        document = await asyncio.to_thread(_post, request, endpoint)
        text, lifetime_s = document.get("access_token"), document.get("expires_in")
        if not isinstance(text, str):
            raise SaslError("the token endpoint's answer has no access_token")
        return BearerToken(text, _end_ms(text, lifetime_s, clock.now_ms()))

    return ask


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises ValueError for one that is no number
    except ValueError:
        is_address = False
    if not is_address:
        raise InvalidSetting(ENDPOINT, url, "Expected an http or https URL")


def _end_ms(text: str, lifetime_s: object, now_ms: int) -> int:
    """Return the end of a token's life: that of its claim `exp`, or of `expires_in` where this is earlier.

    Apache Kafka reads `exp` only; RFC 6749 recommends `expires_in`. A token without either has a minute.
    """
    ends = []
    match lifetime_s:
        case int() | float() if not isinstance(lifetime_s, bool) and abs(lifetime_s) < _ENDLESS_S:
            ends.append(now_ms + int(lifetime_s * 1000))
    claimed = expiry_ms(text)
    if claimed is not None:
        ends.append(claimed)
    return min(ends, default=now_ms + 60_000)


class _NoRedirect(HTTPRedirectHandler):
    """Follows to no other address: the secret of the client would go there."""

    def redirect_request(self, *_given: Any) -> None:
        """Return nothing: the response fails as any other that is no token."""


class _Connection(HTTPConnection):
    """Has a timeout of its own once it is connected."""

    read_timeout_s: float

    def connect(self) -> None:
        """Connect within `timeout`; then each read has `read_timeout_s`."""
        super().connect()
        self.sock.settimeout(self.read_timeout_s)


class _TlsConnection(_Connection, HTTPSConnection):
    """The same through TLS, whose handshake is part of connecting."""


def _connected(
    kind: type[_Connection], read_timeout_s: float, host: str, **given: Any
) -> HTTPConnection:
    made = kind(host, **given)
    made.read_timeout_s = read_timeout_s
    return made


class _Opener(HTTPSHandler, HTTPHandler):
    """Opens addresses of both schemes with a timeout for reading."""

    def __init__(self, read_timeout_s: float) -> None:
        super().__init__()
        self._read_timeout_s = read_timeout_s

    def http_open(self, request: Request) -> HTTPResponse:
        return self.do_open(partial(_connected, _Connection, self._read_timeout_s), request)

    def https_open(self, request: Request) -> HTTPResponse:
        return self.do_open(partial(_connected, _TlsConnection, self._read_timeout_s), request)


def _post(request: Request, endpoint: TokenEndpoint) -> dict[str, Any]:
    """Return the endpoint's answer. Raise SaslError for a refusal, OSError when it is not reached."""
    opener = build_opener(_NoRedirect, _Opener(endpoint.read_timeout_s))
    try:
        # The scheme was checked.
        with opener.open(request, timeout=endpoint.connect_timeout_s) as response:
            document = json.loads(response.read(_MAX_BYTES))
    except HTTPError as error:
        with error:
            why = _error_code(error)
        raise SaslError(f"the token endpoint answered {error.code} {error.reason}{why}") from None
    except HTTPException as error:
        raise SaslError(f"the token endpoint's answer is not HTTP: {error!r}") from None
    except (ValueError, RecursionError):
        raise SaslError("the token endpoint's answer is not JSON") from None
    if not isinstance(document, dict):
        raise SaslError("the token endpoint's answer is not a JSON object")
    return document


def _error_code(response: HTTPError) -> str:
    """Return what an endpoint says of its refusal, such as invalid_client (RFC 6749, 5.2); nothing else of it."""
    try:
        document = json.loads(response.read(_MAX_BYTES))
    except (OSError, HTTPException, ValueError, RecursionError):
        return ""  # the status says enough
    code = document.get("error") if isinstance(document, dict) else None
    return f": {code}" if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""
