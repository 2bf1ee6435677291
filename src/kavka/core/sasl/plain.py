"""PLAIN: `[authorization id] NUL user NUL password` (RFC 4616), with the errors of Apache Kafka's `PlainSaslServer`."""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest

from kavka.core.sasl.exchange import (
    CheckPassword,
    Failure,
    Outcome,
    SaslError,
    Success,
    TokenCredential,
    Verdict,
)

PLAIN = "PLAIN"
INVALID = "Authentication failed: Invalid username or password"
_JAAS_USER = "user_"


class PlainServer:
    """The broker's side: one token, one question."""

    __slots__ = ("_is_asked",)

    def __init__(self) -> None:
        """Begin."""
        self._is_asked = False

    def respond(self, token: bytes) -> Outcome | CheckPassword:
        """Take the one token."""
        if self._is_asked:
            return _refused("more than one token")
        self._is_asked = True
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            return _refused("Invalid SASL/PLAIN response: not UTF-8")
        if len(parts) != 3:
            return _refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            return _refused("Authentication failed: username not specified")
        if not password:
            return _refused("Authentication failed: password not specified")
        if authorization_id not in ("", user):
            return _refused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return CheckPassword(user, password)

    def verdict(self, result: Verdict) -> Outcome:
        """Take the answer to the question."""
        assert not isinstance(result, TokenCredential)
        return result


def _refused(message: str) -> Failure:
    return Failure(message, message)


class PlainClient:
    """The side that connects."""

    def __init__(self, user: str, password: str) -> None:
        """Raise SaslError for what the token cannot carry."""
        if not user or not password or "\0" in user or "\0" in password:
            raise SaslError(
                "PLAIN needs a username and a password, without characters of the value 0"
            )
        self._token = f"\0{user}\0{password}".encode()
        self.is_complete = True

    def first(self) -> bytes:
        """Return the only token."""
        return self._token

    def respond(self, token: bytes) -> bytes | None:
        """Return nothing: the broker proves nothing."""
        return None


def jaas_users(options: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords of the users that `user_<name>="password"` of a PlainLoginModule names."""
    return {
        name.removeprefix(_JAAS_USER): value
        for name, value in options.items()
        if name.startswith(_JAAS_USER) and name != _JAAS_USER
    }


def check_password(users: Mapping[str, str], question: CheckPassword) -> Success | Failure:
    """Verdict from a table of passwords, with the same steps for a user that is not in it."""
    expected = users.get(question.user)
    wanted = (question.password if expected is None else expected).encode()
    is_equal = compare_digest(wanted, question.password.encode())
    if expected is not None and is_equal:
        return Success(question.user)
    return Failure(f"wrong password or unknown user={question.user!r}", INVALID)
