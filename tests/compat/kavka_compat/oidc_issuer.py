"""An issuer of OAuth tokens over HTTP, with what librdkafka's test 0126 asks of one.

POST /token      grant client_credentials (with the secret), or a signed assertion (jwt-bearer)
GET /token       as the metadata service of a cloud, with its parameters
POST /malformed  a token that is none
POST /expired    a token that is no longer valid
GET /keys        the keys by which a broker checks tokens (JWKS)
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

AUDIENCE = "kafka"
CLIENT, SECRET, SCOPE = "loader", "loader-secret", "required-scope"
LIFETIME_S = 60
_PASSWORD = "sesame"
_ASSERTION = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_METADATA = ("api-version", "resource", "client_id")


class Issuer:
    """Keys, and the responses to requests; `serve` runs one."""

    def __init__(self) -> None:
        self.url = ""
        self.lifetime_s = LIFETIME_S
        self.granted_tokens = 0
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._clients_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def write_clients_key(self, directory: Path) -> dict[str, str]:
        """Write the key by which the client signs assertions; return the variables of the test's environment."""
        variables = {"OAUTHBEARER_CLIENT_PRIVATE_KEY_PASSWORD": _PASSWORD}
        for variable, how in (
            ("OAUTHBEARER_CLIENT_PRIVATE_KEY", NoEncryption()),
            (
                "OAUTHBEARER_CLIENT_PRIVATE_KEY_ENCRYPTED",
                BestAvailableEncryption(_PASSWORD.encode()),
            ),
        ):
            pem = self._clients_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)
            path = directory / f"{variable.lower()}.pem"
            path.touch(0o600)
            path.write_bytes(pem)
            variables[variable] = str(path)
        return variables

    def keys(self) -> dict[str, Any]:
        """Return the published keys."""
        key = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {"keys": [{**key, "kid": "one", "use": "sig", "alg": "RS256"}]}

    def granted(self, path: str, form: Mapping[str, str], authorization: str) -> dict[str, Any]:
        """Return the response to POST. Raise PermissionError."""
        if path == "/malformed":
            return self._answer("not.a-token")
        if path == "/expired":
            return self._answer(self._token("sub", -LIFETIME_S))
        if form.get("scope") not in (None, SCOPE):
            raise PermissionError("invalid_scope")
        if form.get("grant_type") == _ASSERTION:
            return self._answer(self._token(self._asserted(form["assertion"])))
        expected = b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if form.get("grant_type") != "client_credentials" or authorization != f"Basic {expected}":
            raise PermissionError("invalid_client")
        self.granted_tokens += 1
        return self._answer(self._token(CLIENT))

    def described(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the response to GET, as Azure's service of a machine's metadata gives it. Raise PermissionError."""
        if not all(query.get(name) for name in _METADATA):
            raise PermissionError("invalid_request")
        return self._answer(self._token(query["client_id"]))

    def _asserted(self, assertion: str) -> str:
        public = self._clients_key.public_key()
        try:
            claims = jwt.decode(
                assertion, public, algorithms=["RS256"], options={"verify_aud": False}
            )
        except jwt.InvalidTokenError as error:
            raise PermissionError(f"invalid_grant {error}") from None
        return str(claims["sub"])

    def _token(self, user: str, lifetime_s: int = 0) -> str:
        now = int(time.time())
        lifetime_s = lifetime_s or self.lifetime_s + 1  # `now` is up to a second ago
        claims = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": user,
            "client_id": user,
            "scope": SCOPE,
            "iat": now + min(0, 2 * lifetime_s),
            "exp": now + lifetime_s,
        }
        return jwt.encode(claims, self._key, "RS256", headers={"kid": "one"})

    def _answer(self, token: str) -> dict[str, Any]:
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s}


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, issuer: Issuer, *arguments: Any) -> None:
        self._issuer = issuer
        super().__init__(*arguments)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/keys":
            self._send(200, self._issuer.keys())
        else:
            self._grant(lambda: self._issuer.described(_first(url.query)))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        authorization = self.headers.get("Authorization", "")
        self._grant(lambda: self._issuer.granted(self.path, _first(body), authorization))

    def _grant(self, response: Any) -> None:
        try:
            self._send(200, response())
        except PermissionError as error:
            self._send(400, {"error": str(error)})

    def _send(self, status: int, response: dict[str, Any]) -> None:
        body = json.dumps(response).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


def _first(query: str) -> dict[str, str]:
    return {name: texts[0] for name, texts in parse_qs(query).items()}


@contextmanager
def serve() -> Iterator[Issuer]:
    """Serve an issuer on a free port, for the body of a `with`."""
    issuer = Issuer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, issuer))
    issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
