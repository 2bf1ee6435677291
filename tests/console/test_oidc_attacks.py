"""Logins with an OpenID provider that answers as an attacker would. `test_oidc.py` has a real provider."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from support.console_access import access, audited, browsers

NOWHERE = "127.0.0.1:1"


class Issuer:
    """A provider in the test's process, which gives the token that a test makes."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, parameters={"kid": "one", "use": "sig"})
        self.keys = [self.key]
        self.claims: dict[str, Any] = {}
        self.token: str | None = None
        self.userinfo: dict[str, Any] = {}
        self.asked: dict[str, list[str]] = {}
        self.metadata: dict[str, Any] = {}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, path: str) -> dict[str, Any]:
        if path.endswith("openid-configuration"):
            places = ("authorization", "token", "userinfo")
            ends = {f"{name}_endpoint": f"{self.url}/{name}" for name in places}
            return {"issuer": self.url, "jwks_uri": f"{self.url}/jwks", **ends, **self.metadata}
        if path == "/jwks":
            return KeySet(self.keys).as_dict(private=False)
        if path == "/userinfo":
            return self.userinfo
        return {
            "access_token": "at",
            "token_type": "Bearer",
            "id_token": self.token or self.signed(),
        }

    def signed(self, key: Any = None, alg: str = "RS256", **header: Any) -> str:
        return jwt.encode({"alg": alg, "kid": "one", **header}, self.claims, key or self.key,
                          algorithms=[alg])  # fmt: skip

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                if length:
                    issuer.asked = parse_qs(self.rfile.read(length).decode())
                body = json.dumps(issuer.answer(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        return Handler


@pytest.fixture(scope="module")
def one_issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.close()


@pytest.fixture
def issuer(one_issuer: Issuer) -> Issuer:
    one_issuer.keys, one_issuer.token = [one_issuer.key], None
    one_issuer.userinfo, one_issuer.metadata = {}, {}
    return one_issuer


@pytest.fixture
def browser(tmp_path: Path, issuer: Issuer) -> Iterator[Any]:
    (tmp_path / "secret").write_text("s3cret")
    oidc = {
        "issuer": issuer.url, "client-id": "console", "client-secret-file": "secret", "claim": "roles.kafka",
        "label": "Example <ID>",
    }  # fmt: skip
    grants = [{"role": "viewer", "claims": ["readers"]}, {"role": "viewer", "users": ["vera"]}]
    with browsers(NOWHERE, access(tmp_path, oidc=oidc, grants=grants)) as opened:
        yield opened


def begin(browser: Any, issuer: Issuer, target: str = "/api?x=1") -> dict[str, str]:
    """Go to the provider; return what it was asked for. The token is right until a test changes it."""
    sent = browser.get("/login/oidc", params={"next": target}, follow_redirects=False)
    assert sent.status_code == 303, sent.text
    address = urlsplit(sent.headers["location"])
    assert f"{address.scheme}://{address.netloc}{address.path}" == f"{issuer.url}/authorization"
    asked = {name: values[0] for name, values in parse_qs(address.query).items()}
    now_s = int(time.time())
    issuer.claims = {
        "iss": issuer.url, "aud": "console", "sub": "u1", "iat": now_s, "exp": now_s + 60,
        "nonce": asked["nonce"], "preferred_username": "rita", "roles": {"kafka": ["readers", "others"]},
    }  # fmt: skip
    return asked


def end(browser: Any, asked: dict[str, str], **changed: str):
    query = {"state": asked["state"], "code": "c0de", **changed}
    return browser.get("/login/oidc/callback", params=query, follow_redirects=False)


def is_in(browser: Any) -> bool:
    return browser.get("/api", follow_redirects=False).status_code == 200


def test_a_user_of_a_provider_logs_in(browser: Any, issuer: Issuer) -> None:
    rita = browser()
    assert "Log in with Example &lt;ID&gt;" in rita.get("/login").text
    asked = begin(rita, issuer)
    assert asked["response_type"] == "code"
    assert "openid" in asked["scope"].split()
    assert asked["redirect_uri"] == "http://127.0.0.1:8080/login/oidc/callback"
    assert asked["code_challenge_method"] == "S256"
    with audited() as lines:
        done = end(rita, asked, iss=issuer.url)
    assert (done.status_code, done.headers["location"]) == (303, "/api?x=1")
    assert [(line["user"], line["result"]) for line in lines] == [("rita", "ok")]
    digest = hashlib.sha256(issuer.asked["code_verifier"][0].encode()).digest()
    assert base64_of(digest) == asked["code_challenge"]
    assert issuer.asked["redirect_uri"] == [asked["redirect_uri"]]
    assert is_in(rita)
    assert "rita" in rita.get("/api").text
    again = end(rita, asked)
    assert again.status_code == 401, "an answer counts once"


def test_a_login_leads_back_to_a_page_of_the_console_only(browser: Any, issuer: Issuer) -> None:
    for target, place in (("/topics/a?b=c", "/topics/a?b=c"), ("https://evil.example", "/")):
        rita = browser()
        assert end(rita, begin(rita, issuer, target)).headers["location"] == place


def test_answers_of_other_logins_are_refused(browser: Any, issuer: Issuer) -> None:
    attacker, victim = browser(), browser()
    theirs, own = begin(attacker, issuer), begin(victim, issuer)
    for asked in (theirs, {"state": ""}, {"state": own["state"] + "x"}):
        assert end(victim, asked).status_code == 401
    assert end(browser(), begin(victim, issuer)).status_code == 401, "a browser that began nothing"
    for wrong in ({"iss": "https://evil.example"}, {"error": "access_denied"}):
        assert end(victim, begin(victim, issuer), **wrong).status_code == 401
    assert not is_in(victim)


@pytest.mark.parametrize(
    "wrong",
    [
        {"nonce": "another"}, {"nonce": None}, {"aud": "another"}, {"aud": ["console", "other"]}, {"aud": None},
        {"iss": "https://evil.example"}, {"exp": 1_000_000_000}, {"exp": None}, {"sub": None}, {"iat": None},
        {"iat": 99_999_999_999}, {"nbf": 99_999_999_999},
    ],
    ids=str,
)  # fmt: skip
def test_tokens_for_something_else_are_refused(
    browser: Any, issuer: Issuer, wrong: dict[str, Any]
) -> None:
    rita = browser()
    asked = begin(rita, issuer)
    changed = {**issuer.claims, **wrong}
    issuer.claims = {name: value for name, value in changed.items() if value is not None}
    done = end(rita, asked)
    assert done.status_code == 401, done.text
    assert not is_in(rita)


def test_tokens_that_the_provider_has_not_signed_are_refused(browser: Any, issuer: Issuer) -> None:
    other = RSAKey.generate_key(2048, parameters={"kid": "one"})
    rita = browser()
    for make in (
        lambda: issuer.signed(other),
        lambda: with_public_key_as_secret(issuer),
        lambda: unsigned(issuer.claims),
        lambda: issuer.signed(other, jwk=other.as_dict(private=False)),
        lambda: issuer.signed()[:-8] + "AAAAAAAA",
        lambda: "no.token.here",
        lambda: "x",
    ):
        asked = begin(rita, issuer)
        issuer.token = make()
        done = end(rita, asked)
        assert done.status_code == 401, done.text
    assert not is_in(rita)


def unsigned(claims: dict[str, Any], algorithm: str = "none") -> str:
    head = {"alg": algorithm, "kid": "one"}
    return f"{base64_of(json.dumps(head).encode())}.{base64_of(json.dumps(claims).encode())}."


def with_public_key_as_secret(issuer: Issuer) -> str:
    text = unsigned(issuer.claims, "HS256")[:-1]
    code = hmac.new(issuer.key.as_pem(private=False), text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64_of(code)}"


def base64_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_a_user_without_a_value_that_a_grant_names_is_not_let_in(
    browser: Any, issuer: Issuer
) -> None:
    rita = browser()
    issuer.userinfo = {"sub": "u1"}
    # A local user's grants are not those of a user of the provider with the same name.
    for name, roles in (("rita", ["others"]), ("vera", []), ("vera", "no-list"), ("vera", None)):
        asked = begin(rita, issuer)
        issuer.claims |= {"preferred_username": name, "roles": {"kafka": roles}}
        done = end(rita, asked)
        assert (done.status_code, "No role was granted" in done.text) == (403, True)
        assert not is_in(rita)


def test_claims_that_the_token_lacks_come_from_userinfo_of_the_same_user(
    browser: Any, issuer: Issuer
) -> None:
    rita = browser()
    for sub, status in (("u2", 401), ("u1", 303)):
        asked = begin(rita, issuer)
        del issuer.claims["roles"]
        issuer.userinfo = {"sub": sub, "roles": {"kafka": "readers"}}
        assert end(rita, asked).status_code == status


def test_a_provider_that_calls_itself_otherwise_is_not_used(browser: Any, issuer: Issuer) -> None:
    issuer.metadata = {"issuer": "https://evil.example"}
    done = browser().get("/login/oidc", follow_redirects=False)
    assert (done.status_code, "calls itself" in done.text) == (401, True)
    issuer.metadata = {"authorization_endpoint": "http://evil.example/authorize"}
    done = browser().get("/login/oidc", follow_redirects=False)
    assert (done.status_code, "begins with https://" in done.text) == (401, True)


def test_a_provider_that_does_not_answer_is_said(tmp_path: Path) -> None:
    oidc = {"issuer": "http://127.0.0.1:1", "client-id": "console"}
    with browsers(NOWHERE, access(tmp_path, oidc=oidc)) as opened:
        done = opened().get("/login/oidc", follow_redirects=False)
        assert (done.status_code, "does not answer" in done.text) == (401, True)
