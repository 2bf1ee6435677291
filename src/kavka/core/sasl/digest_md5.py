"""DIGEST-MD5 (RFC 2831) as ZooKeeper speaks it: quality `auth`, one login for each connection; pure, both sides.

    server  realm="zk-sasl-md5",nonce="…",qop="auth",charset=utf-8,algorithm=md5-sess
    client  username="…",realm="…",nonce="…",cnonce="…",nc=00000001,qop=auth,digest-uri="…",response=…,charset=utf-8
    server  rspauth=…        it knows the password, too

The password is not sent. MD5 and one guess for each hash make a recorded login easy to attack offline, so a network
that others read needs TLS. A response holds for the nonce of its connection only. The caller draws nonces at random.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final

from kavka.core.sasl.exchange import Challenge, Failure, SaslError, Success

REALM: Final = "zk-sasl-md5"
DIGEST_URI: Final = "zookeeper/zk-sasl-md5"
"""ZooKeeper's word in place of the server's name, at both ends."""
MAX_TOKEN_BYTES: Final = 4096
_COUNT: Final = "00000001"
_DIRECTIVE: Final = re.compile(
    rb'[ \t\r\n,]*([A-Za-z-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^",\s]*))[ \t\r\n]*(?:,|$)',
    re.DOTALL,
)
_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)


class DigestMd5Server:
    """The server's side of one login."""

    def __init__(self, nonce: str, password_of: Callable[[str], str | None]) -> None:
        """`nonce` is used once; `password_of(user)` is None where there is no such user."""
        self._nonce = nonce
        self._password_of = password_of
        self._has_challenged = False

    def respond(self, token: bytes) -> Challenge | Success | Failure:
        """Take a token of the client; the first one is empty."""
        if not self._has_challenged:
            self._has_challenged = True
            if token:
                return Failure("a first token that is not empty")
            fields = (
                f'realm="{REALM}",nonce="{self._nonce}",qop="auth",charset=utf-8,algorithm=md5-sess'
            )
            return Challenge(fields.encode())
        try:
            return self._check(_directives(token))
        except (SaslError, UnicodeDecodeError) as error:
            return Failure(str(error))

    def _check(self, given: dict[str, bytes]) -> Success | Failure:
        user = given.get("username", b"").decode("utf-8" if "charset" in given else "latin-1")
        expected = {
            "nonce": self._nonce.encode(),
            "nc": _COUNT.encode(),
            "realm": REALM.encode(),
            "digest-uri": DIGEST_URI.encode(),
        }
        for name, value in expected.items():
            if given.get(name, b"").lower() != value.lower():
                return Failure(f"another {name} than that of this connection")
        if given.get("qop", b"auth") != b"auth":
            return Failure("a quality of protection that was not offered")
        password, cnonce = self._password_of(user), given.get("cnonce", b"")
        # A user that is not there costs the same hashes.
        secret = _secret((user, REALM, password or ""), self._nonce, cnonce, given.get("authzid"))
        response = _response(secret, "AUTHENTICATE", self._nonce, cnonce)
        if not hmac.compare_digest(response, given.get("response", b"")) or password is None:
            return Failure("unknown user or wrong password")
        if given.get("authzid") not in (None, given.get("username")):
            return Failure("a login for another user")
        return Success(user, b"rspauth=" + _response(secret, "", self._nonce, cnonce))


class DigestMd5Client:
    """The client's side of one login: `respond` to the challenge, then `finish` with the server's proof."""

    def __init__(self, user: str, password: str, cnonce: str) -> None:
        """`cnonce` is used once."""
        self._user = user
        self._password = password
        self._cnonce = cnonce
        self._proof = b""

    def respond(self, challenge: bytes) -> bytes:
        """Return the response to the server's challenge. Raise SaslError."""
        given = _directives(challenge)
        nonce = _text(given.get("nonce", b""))
        realm = _text(given.get("realm", b""))
        if not nonce:
            raise SaslError("the challenge has no nonce")
        if given.get("algorithm") != b"md5-sess":
            raise SaslError("the server offers another algorithm than md5-sess")
        if b"auth" not in given.get("qop", b"auth").replace(b" ", b"").split(b","):
            raise SaslError("the server does not offer the quality of protection auth")
        cnonce = self._cnonce.encode()
        secret = _secret((self._user, realm, self._password), nonce, cnonce)
        self._proof = _response(secret, "", nonce, cnonce)
        fields = {
            "charset": "utf-8",
            "username": _quoted(self._user),
            "realm": _quoted(realm),
            "nonce": _quoted(nonce),
            "nc": _COUNT,
            "cnonce": _quoted(self._cnonce),
            "digest-uri": _quoted(DIGEST_URI),
            "response": _response(secret, "AUTHENTICATE", nonce, cnonce).decode(),
            "qop": "auth",
        }
        return ",".join(f"{name}={value}" for name, value in fields.items()).encode()

    def finish(self, token: bytes) -> None:
        """Check that the server knows the password. Raise SaslError."""
        given = _directives(token).get("rspauth", b"")
        if not self._proof or not hmac.compare_digest(given, self._proof):
            raise SaslError("the server did not prove that it knows the password")


def _secret(
    credentials: tuple[str, str, str], nonce: str, cnonce: bytes, authzid: bytes | None = None
) -> bytes:
    """Return H(A1) of user, realm and password in hexadecimal digits; `authzid` is there if the client sends it."""
    inner = _md5(b":".join(map(_hashed_as, credentials)))
    parts = (inner, nonce.encode(), cnonce)
    return _md5(b":".join(parts if authzid is None else (*parts, authzid))).hex().encode()


def _response(secret: bytes, method: str, nonce: str, cnonce: bytes) -> bytes:
    uri = _md5(f"{method}:{DIGEST_URI}".encode()).hex().encode()
    parts = (secret, nonce.encode(), _COUNT.encode(), cnonce, b"auth", uri)
    return _md5(b":".join(parts)).hex().encode()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _hashed_as(text: str) -> bytes:
    """Return the bytes that are hashed: those of ISO 8859-1 where it has all characters."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _directives(token: bytes) -> dict[str, bytes]:
    """Return the directives of a token; one that comes twice counts once. Raise SaslError."""
    if len(token) > MAX_TOKEN_BYTES:
        raise SaslError("a token that is too long")
    found: dict[str, bytes] = {}
    position = 0
    while position < len(token):
        match = _DIRECTIVE.match(token, position)
        if match is None:
            raise SaslError("a token that is no list of directives")
        quoted, plain = match[2], match[3]
        name = match[1].decode().lower()
        value = plain if quoted is None else _ESCAPE.sub(rb"\1", quoted)
        if found.setdefault(name, value) != value and name != "realm":
            raise SaslError(f"the directive {name} comes twice")
        position = match.end()
    return found


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise SaslError("a directive that is not UTF-8") from error


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
