"""SCRAM: both sides prove that they know the password, and neither sends it (RFC 5802; SHA-256 is RFC 7677).

    client-first   n,,n=user,r=<client nonce>
    server-first   r=<client nonce><server nonce>,s=<salt>,i=<iterations>
    client-final   c=biws,r=<both nonces>,p=<proof>
    server-final   v=<server signature>

With the extension `tokenauth=true` in client-first the user is the id of a delegation token, and the password its HMAC
in base64 (KIP-48). A user that does not exist gets the same responses, by the same steps, as one with another password.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from hmac import compare_digest
from typing import Final, NamedTuple

from kavka.core.sasl.exchange import (
    Challenge,
    Failure,
    FindDelegationToken,
    Outcome,
    Question,
    SaslError,
    Success,
    TokenCredential,
    Verdict,
)
from kavka.core.sasl.scram_credential import (
    MIN_ITERATIONS,
    Lookup,
    ScramCredential,
    ScramMechanism,
)
from kavka.values import replace

NONCE_BYTES: Final = 24
"""Random bytes of a nonce, on either side."""
_MAX_ITERATIONS: Final = 1_000_000
"""Iterations that a client computes for a broker: more would stop it for seconds."""
_NAME: Final = r"(?:[^,=\0]|=2C|=3D)+"
_PRINTABLE: Final = r"[\x21-\x2B\x2D-\x7E]+"
_BASE64: Final = r"[A-Za-z0-9+/]+={0,2}"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<gs2>[ny],(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>(?:,[a-zA-Z]+=[^,\0]+)*))"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[1-9][0-9]{{0,8}})(?:,[a-zA-Z]+=[^,\0]+)*"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproved>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_PRINTABLE})(?:,[a-oq-zA-Z]+=[^,\0]+)*),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(
    rf"(?:e=(?P<error>[^,\0]+)|v=(?P<signature>{_BASE64}))(?:,[a-zA-Z]+=[^,\0]+)*"
)


_TOKEN_AUTH: Final = "tokenauth"


class _Begun(NamedTuple):
    success: Success
    """The outcome if the client proves the password."""
    credential: ScramCredential
    fault: str | None
    """The reason that the proof does not count."""
    gs2: str
    nonce: str
    transcript: str


class ScramServer:
    """The broker's side."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        lookup: Lookup,
        imitate: Callable[[str], ScramCredential],
        nonce: str,
    ) -> None:
        """Use `imitate` for users that `lookup` does not know; `nonce` must be unpredictable and new."""
        self._mechanism = mechanism
        self._lookup = lookup
        self._imitate = imitate
        self._nonce = nonce
        self._asked: tuple[re.Match[str], str] | None = None
        """The client's first token, and the delegation token that it names, while that is looked for."""
        self._begun: _Begun | None = None
        self._is_over = False

    def respond(self, token: bytes) -> Outcome | Question:
        """Take the first token of the client, then its final one; no third."""
        try:
            text = token.decode()
        except UnicodeDecodeError:
            return self._end(Failure("a token that is not UTF-8"))
        if self._is_over:
            return Failure("a token after the end")
        return self._first(text) if self._begun is None else self._final(self._begun, text)

    def verdict(self, result: Verdict) -> Outcome:
        """Take what a delegation token is checked by, or why none is."""
        if not isinstance(result, TokenCredential):
            assert isinstance(result, Failure)
            return self._end(result)
        assert self._asked is not None
        found, token_id = self._asked
        success = Success(result.owner, expires_ms=result.expires_ms, token_id=token_id)
        return self._challenge(found, success, result.credential, result.fault)

    def _end(self, outcome: Outcome) -> Outcome:
        self._is_over = True
        return outcome

    def _first(self, text: str) -> Outcome | Question:
        found = _CLIENT_FIRST.fullmatch(text)
        if found is None:
            return self._end(Failure("a client-first message that cannot be read"))
        user = _decode_name(found["user"])
        if found["authorization"] is not None and _decode_name(found["authorization"]) != user:
            message = "Authentication failed: Client requested an authorization id that is different from username"
            return self._end(Failure(message, message))
        if _names_a_token(found["extensions"]):
            self._asked = (found, user)
            return FindDelegationToken(self._mechanism, user)
        # Both are made in either case: the time must not say whether the user exists.
        stored, imitated = self._lookup(user), self._imitate(user)
        if stored is None:
            return self._challenge(found, Success(user), imitated, _wrong(user))
        return self._challenge(found, Success(user), stored, None)

    def _challenge(
        self, found: re.Match[str], success: Success, credential: ScramCredential, fault: str | None
    ) -> Challenge:
        nonce = found["nonce"] + self._nonce
        first = f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        transcript = f"{found['bare']},{first}"
        self._begun = _Begun(success, credential, fault, found["gs2"], nonce, transcript)
        return Challenge(first.encode())

    def _final(self, begun: _Begun, text: str) -> Outcome:
        found = _CLIENT_FINAL.fullmatch(text)
        if found is None:
            return self._end(Failure("a client-final message that cannot be read"))
        # librdkafka before 2.6.1 repeats its own nonce in front; as Apache Kafka, only the end is compared. Against
        # replays it is enough: the broker's part is in it, and the proof covers what was sent.
        if not found["nonce"].endswith(begun.nonce):
            return self._end(Failure("a nonce of another exchange"))
        if _decoded(found["binding"]) != begun.gs2.encode():
            return self._end(Failure("another channel binding than at first"))
        message = f"{begun.transcript},{found['unproved']}".encode()
        mechanism, credential = self._mechanism, begun.credential
        signature = mechanism.hmac(credential.stored_key, message)
        client_key = _xor(_decoded(found["proof"]), signature)
        is_proved = compare_digest(mechanism.h(client_key), credential.stored_key)
        server_signature = mechanism.hmac(credential.server_key, message)
        success, fault = begun.success, begun.fault
        if fault is None and not is_proved:
            fault = _wrong(success.user)
            if success.token_id is not None:
                fault = f"wrong HMAC of delegation token={success.token_id!r}"
        if fault is not None:
            return self._end(Failure(fault))
        return self._end(replace(success, token=b"v=" + b64encode(server_signature)))


def _wrong(user: str) -> str:
    return f"wrong password or unknown user={user!r}"


def _names_a_token(extensions: str) -> bool:
    """Return whether the extensions of a client-first message say that the user is a delegation token."""
    pairs = dict(part.partition("=")[::2] for part in extensions.split(",") if part)
    return pairs.get(_TOKEN_AUTH, "").lower() == "true"


class ScramClient:
    """The side that connects. `respond` to the first challenge takes milliseconds: PBKDF2."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        user: str,
        password: str,
        nonce: str,
        *,
        token_auth: bool = False,
    ) -> None:
        """`token_auth` says that user and password are a delegation token's id and HMAC."""
        if not user or not password:
            raise SaslError(f"{mechanism.name} needs a username and a password")
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        extension = f",{_TOKEN_AUTH}=true" if token_auth else ""
        self._bare = f"n={_encode_name(user)},r={nonce}{extension}"
        self._server_signature: bytes | None = None
        self.is_complete = False

    def first(self) -> bytes:
        """Return client-first."""
        return f"n,,{self._bare}".encode()

    def respond(self, token: bytes) -> bytes | None:
        """Prove the password, then check what the broker proves. Raise SaslError."""
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise SaslError("the broker's token is not UTF-8") from None
        if self.is_complete:
            raise SaslError("the broker sent a token after the end")
        if self._server_signature is None:
            return self._prove(text)
        self._check(text, self._server_signature)
        return None

    def _prove(self, text: str) -> bytes:
        found = _SERVER_FIRST.fullmatch(text)
        if found is None:
            raise SaslError("the broker's first message cannot be read")
        if not found["nonce"].startswith(self._nonce) or found["nonce"] == self._nonce:
            raise SaslError("the broker's nonce does not continue the client's")
        iterations = int(found["iterations"])
        if not MIN_ITERATIONS <= iterations <= _MAX_ITERATIONS:
            raise SaslError(
                f"the broker asks for {iterations} iterations, not {MIN_ITERATIONS} to {_MAX_ITERATIONS}"
            )
        mechanism = self._mechanism
        salted = mechanism.salted_password(self._password, _decoded(found["salt"]), iterations)
        client_key = mechanism.client_key(salted)
        unproved = f"c=biws,r={found['nonce']}"
        message = f"{self._bare},{text},{unproved}".encode()
        proof = _xor(client_key, mechanism.hmac(mechanism.h(client_key), message))
        self._server_signature = mechanism.hmac(mechanism.server_key(salted), message)
        return f"{unproved},p={b64encode(proof).decode()}".encode()

    def _check(self, text: str, expected: bytes) -> None:
        found = _SERVER_FINAL.fullmatch(text)
        if found is None:
            raise SaslError("the broker's last message cannot be read")
        if found["error"] is not None:
            raise SaslError(f"the broker refused: {found['error']}")
        if not compare_digest(_decoded(found["signature"]), expected):
            raise SaslError("the broker did not prove that it knows the password")
        self.is_complete = True


def new_nonce(random_bytes: bytes) -> str:
    """Return a nonce of unpredictable bytes: printable, without a comma."""
    return b64encode(random_bytes).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    """Return the bytes of a base64 text; none where it is not one, which no proof is equal to."""
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        return b""


def _xor(left: bytes, right: bytes) -> bytes:
    """Return the exclusive or of texts of one length; of others, nothing that hashes to a stored key."""
    if len(left) != len(right):
        return b""
    return (int.from_bytes(left, "big") ^ int.from_bytes(right, "big")).to_bytes(len(left), "big")


def _encode_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _decode_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
