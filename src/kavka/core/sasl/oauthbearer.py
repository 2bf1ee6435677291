"""OAUTHBEARER: a bearer token in one message (RFC 7628, KIP-255), with extensions (KIP-342).

client    n,,^auth=Bearer <token>^<extension>=<value>^^          (^ is the byte 1)
broker    nothing, or {"status":"invalid_token"}, to which the client says ^ and the exchange has failed
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from kavka.core.sasl.exchange import (
    Challenge,
    CheckToken,
    Failure,
    Outcome,
    SaslError,
    TokenCredential,
    Verdict,
)
from kavka.core.sasl.unsecured_jwt import InvalidToken

OAUTHBEARER: Final = "OAUTHBEARER"
_CONFIRMATION: Final = b"\x01"
_INITIAL: Final = re.compile(
    r"n,(?:a=(?P<authorization>(?:[^,=\0\x01]|=2C|=3D)+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(r"(?i:bearer) +(?P<token>[-_~+/.A-Za-z0-9]+=*)")
_EXTENSION: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+")


class OAuthBearerServer:
    """The broker's side: one question; a refusal takes one more message."""

    def __init__(self) -> None:
        """Begin."""
        self._is_asked = False
        self._authorization: str | None = None
        self._refusal: Failure | None = None

    def respond(self, token: bytes) -> Outcome | CheckToken:
        """Take the token's message, or the confirmation of its refusal."""
        if self._refusal is not None:
            if token == _CONFIRMATION:
                return self._refusal
            return Failure("something else than the confirmation of a refusal")
        if self._is_asked:
            return Failure("more than one token")
        self._is_asked = True
        try:
            found = _INITIAL.fullmatch(token.decode())
        except UnicodeDecodeError:
            return Failure("a message that is not UTF-8")
        if found is None:
            return Failure("a message that cannot be read")
        pairs = dict(pair.partition("=")[::2] for pair in found["pairs"].split("\x01") if pair)
        bearer = _BEARER.fullmatch(pairs.pop("auth", ""))
        if bearer is None:
            return Failure("a message without a bearer token")
        if found["authorization"] is not None:
            name = found["authorization"]
            self._authorization = name.replace("=2C", ",").replace("=3D", "=")
        return CheckToken(bearer["token"], pairs)

    def verdict(self, result: Verdict) -> Outcome:
        """Take the answer; the client hears of a refusal by a challenge first."""
        assert not isinstance(result, TokenCredential)
        if isinstance(result, Failure):
            if not result.challenge:
                return result
            self._refusal = result
            return Challenge(result.challenge)
        if self._authorization not in (None, result.user):
            message = (
                f"Authentication failed: Client requested an authorization id ({self._authorization}) that is "
                f"different from the token's principal name ({result.user})"
            )
            return Failure(message, message)
        return result


def refusal_of(error: InvalidToken) -> Failure:
    """Return the failure of a client whose token is not accepted, with its challenge (RFC 7628)."""
    status = {"status": error.status} | ({"scope": error.scope} if error.scope else {})
    text = json.dumps(status, separators=(", ", ":"))
    return Failure(f"bearer token refused: {error}", text, text.encode())


class OAuthBearerClient:
    """The side that connects."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        """Raise SaslError for what the message cannot carry."""
        if _BEARER.fullmatch(f"Bearer {token}") is None:
            raise SaslError(
                "OAUTHBEARER needs a bearer token of the characters that RFC 6750 allows"
            )
        for name, value in extensions.items():
            if name == "auth" or not _EXTENSION.fullmatch(name):
                raise SaslError(f"{name!r} cannot be the name of an OAUTHBEARER extension")
            if not _EXTENSION_VALUE.fullmatch(value):
                raise SaslError(f"the value of the OAUTHBEARER extension {name} cannot be sent")
        pairs = "".join(f"{name}={value}\x01" for name, value in extensions.items())
        self._first = f"n,,\x01auth=Bearer {token}\x01{pairs}\x01".encode()
        self.is_complete = True

    def first(self) -> bytes:
        """Return the token's message."""
        return self._first

    def respond(self, token: bytes) -> bytes | None:
        """Confirm a refusal."""
        return _CONFIRMATION if token else None
