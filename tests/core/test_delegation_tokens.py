"""Delegation tokens: who may have, renew, end and see them, and for how long they hold."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode

import pytest

from kavka.core.access.entries import ANONYMOUS, Principal
from kavka.core.delegation_tokens import (
    DelegationToken,
    TokenLimits,
    TokenSecret,
    created,
    ended,
    is_shown,
    may_send_requests,
    refusal_of_creation,
    renewed,
)
from kavka.core.sasl.exchange import (
    Challenge,
    Failure,
    FindDelegationToken,
    Success,
    TokenCredential,
)
from kavka.core.sasl.scram import ScramClient, ScramServer
from kavka.core.sasl.scram_credential import (
    SCRAM_MECHANISMS,
    SHA_256,
    SHA_512,
    ScramCredential,
    ScramMechanism,
    imitation,
)
from kavka.errors import ErrorCode
from kavka.values import replace

ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "carol"))
LIMITS = TokenLimits(max_lifetime_ms=1000, expiry_time_ms=100)
TOKEN = DelegationToken("id", ALICE, CAROL, (BOB,), issue_ms=0, expiry_ms=100, max_ms=1000)
_E = ErrorCode


@pytest.mark.parametrize(
    ("protocol", "principal", "token_id", "expected"),
    [
        ("PLAINTEXT", ANONYMOUS, None, False),
        ("SSL", ANONYMOUS, None, False),
        ("SSL", ALICE, None, True),
        ("SASL_PLAINTEXT", ALICE, None, True),
        ("SASL_SSL", ALICE, None, True),
        ("SASL_SSL", ALICE, "id", False),
    ],
)
def test_clients_that_may_ask_about_tokens(
    protocol: str, principal: Principal, token_id: str | None, expected: bool
) -> None:
    assert may_send_requests(protocol, principal, token_id) is expected


@pytest.mark.parametrize(
    ("owner", "renewers", "allowed", "expected"),
    [
        (ALICE, (), (), _E.NONE),
        (ALICE, (BOB, CAROL), (), _E.NONE),
        (BOB, (), (), _E.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
        (BOB, (), (BOB,), _E.NONE),
        (ALICE, (Principal("Group", "g"),), (), _E.INVALID_PRINCIPAL_TYPE),
        (ALICE, (BOB, Principal("User", "")), (), _E.INVALID_PRINCIPAL_TYPE),
        (Principal("Group", "bob"), (), (), _E.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
        (Principal("Group", "bob"), (), (Principal("Group", "bob"),), _E.INVALID_PRINCIPAL_TYPE),
        (BOB, (Principal("Group", "g"),), (), _E.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
    ],
)
def test_owners_and_renewers_that_alice_may_name(
    owner: Principal,
    renewers: tuple[Principal, ...],
    allowed: tuple[Principal, ...],
    expected: ErrorCode,
) -> None:
    assert refusal_of_creation(owner, ALICE, renewers, allowed.__contains__) is expected


@pytest.mark.parametrize(
    ("lifetime_ms", "expiry_ms", "max_ms"),
    [
        (-1, 600, 1500),
        (0, 600, 1500),
        (700, 600, 1200),
        (70, 570, 570),
        (5000, 600, 1500),
        (2**63 - 1, 600, 1500),
    ],
)
def test_a_new_token_holds_as_long_as_asked_for_and_as_the_settings_allow(
    lifetime_ms: int, expiry_ms: int, max_ms: int
) -> None:
    token = created(
        "id", ALICE, CAROL, [BOB], max_lifetime_ms=lifetime_ms, now_ms=500, limits=LIMITS
    )
    assert token == DelegationToken("id", ALICE, CAROL, (BOB,), 500, expiry_ms, max_ms)


@pytest.mark.parametrize(
    ("principal", "period_ms", "now_ms", "expected"),
    [
        (ALICE, -1, 50, 150),
        (BOB, 500, 50, 550),
        (BOB, 0, 50, 50),  # an earlier end
        (ALICE, 5000, 50, 1000),  # never beyond the maximum
        (ALICE, 2**63 - 1, 50, 1000),
        (ALICE, -1, 100, 200),
        (ALICE, -1, 101, _E.DELEGATION_TOKEN_EXPIRED),
        (CAROL, -1, 50, _E.DELEGATION_TOKEN_OWNER_MISMATCH),  # who asked for it is not its owner
        (CAROL, -1, 101, _E.DELEGATION_TOKEN_OWNER_MISMATCH),
    ],
)
def test_renewals(
    principal: Principal, period_ms: int, now_ms: int, expected: int | ErrorCode
) -> None:
    wanted = expected if isinstance(expected, ErrorCode) else replace(TOKEN, expiry_ms=expected)
    assert renewed(TOKEN, principal, period_ms, now_ms, LIMITS) == wanted


@pytest.mark.parametrize(
    ("principal", "period_ms", "now_ms", "expected"),
    [
        (ALICE, -1, 50, None),
        (BOB, -1, 50, None),
        (ALICE, -1, 101, None),  # one that has expired is removed
        (ALICE, 0, 50, 50),
        (ALICE, 500, 50, 550),
        (ALICE, 5000, 50, 1000),
        (ALICE, 0, 101, _E.DELEGATION_TOKEN_EXPIRED),
        (CAROL, -1, 50, _E.DELEGATION_TOKEN_OWNER_MISMATCH),
        (CAROL, 10, 50, _E.DELEGATION_TOKEN_OWNER_MISMATCH),
    ],
)
def test_other_ends(
    principal: Principal, period_ms: int, now_ms: int, expected: int | ErrorCode | None
) -> None:
    wanted = replace(TOKEN, expiry_ms=expected) if type(expected) is int else expected
    assert ended(TOKEN, principal, period_ms, now_ms) == wanted


@pytest.mark.parametrize(
    ("principal", "owners", "may_see", "expected"),
    [
        (ALICE, None, False, True),
        (BOB, None, False, True),
        (CAROL, None, False, False),
        (CAROL, None, True, True),
        (ALICE, {BOB}, False, True),  # Bob may renew it
        (ALICE, {CAROL}, True, False),
        (CAROL, {ALICE}, True, True),
        (CAROL, {ALICE}, False, False),
    ],
)
def test_tokens_that_clients_see(
    principal: Principal, owners: set[Principal] | None, may_see: bool, expected: bool
) -> None:
    assert is_shown(TOKEN, principal, owners, lambda _token: may_see) is expected


@pytest.mark.parametrize(
    ("token", "now_ms", "fault"),
    [
        (TOKEN, 100, None),
        (TOKEN, 101, "expired"),
        (replace(TOKEN, expiry_ms=2000), 1001, "expired"),
        (replace(TOKEN, owner=Principal("Group", "alice")), 0, "not a user's"),
    ],
)
def test_tokens_that_let_their_owners_in(
    token: DelegationToken, now_ms: int, fault: str | None
) -> None:
    assert token.login_fault(now_ms) == fault


# -- secrets and logins


def test_the_secret_is_the_hmac_of_the_id_by_sha_512() -> None:
    assert TokenSecret("kéy").hmac("id") == hmac.digest("kéy".encode(), b"id", hashlib.sha512)
    assert "kéy" not in repr(TokenSecret("kéy"))


def log_in(
    mechanism: ScramMechanism, result: TokenCredential | Failure, password: str
) -> tuple[Success | Failure, ScramClient]:
    """Log in with the token `id`, whose question is answered so; return the outcome."""
    known = ScramCredential.of_password(mechanism, b"salt", "password", 4096)
    server = ScramServer(
        mechanism, {"id": known}.get, lambda user: imitation(mechanism, user, b"s", None), "server"
    )
    client = ScramClient(mechanism, "id", password, "client", token_auth=True)
    assert server.respond(client.first()) == FindDelegationToken(mechanism, "id")
    first = server.verdict(result)
    if isinstance(first, Failure):
        return first, client
    assert isinstance(first, Challenge)
    final = client.respond(first.token)
    assert final is not None
    outcome = server.respond(final)
    assert isinstance(outcome, Success | Failure)
    return outcome, client


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=SCRAM_MECHANISMS)
def test_a_token_logs_in_as_its_owner(mechanism: ScramMechanism) -> None:
    secret = TokenSecret("key")
    result = TokenCredential(secret.credential(mechanism, "id"), "alice", 4711)
    outcome, client = log_in(mechanism, result, b64encode(secret.hmac("id")).decode())
    assert isinstance(outcome, Success)
    assert (outcome.user, outcome.token_id, outcome.expires_ms) == ("alice", "id", 4711)
    assert client.respond(outcome.token) is None
    assert client.is_complete


def test_a_user_of_the_tokens_name_is_no_token() -> None:
    secret = TokenSecret("key")
    result = TokenCredential(secret.credential(SHA_256, "id"), "alice", 4711)
    outcome, _client = log_in(SHA_256, result, "password")
    assert outcome == Failure("wrong HMAC of delegation token='id'")


def test_an_unknown_token_is_challenged_as_a_known_one() -> None:
    secret = TokenSecret("key")
    known, imitated = secret.credential(SHA_512, "id"), secret.imitated(SHA_512, "id")
    assert (known.salt, known.iterations) == (imitated.salt, imitated.iterations)
    assert known.stored_key != imitated.stored_key
    assert secret.imitated(SHA_512, "other").salt != imitated.salt
    password = b64encode(secret.hmac("id")).decode()
    outcome, _client = log_in(SHA_512, TokenCredential(imitated, fault="expired"), password)
    assert outcome == Failure("expired")
    # Not even the right password of a token that has expired.
    outcome, _client = log_in(SHA_512, TokenCredential(known, fault="expired"), password)
    assert outcome == Failure("expired")


def test_without_tokens_the_login_fails() -> None:
    outcome, _client = log_in(SHA_256, Failure("delegation tokens are off"), "password")
    assert outcome == Failure("delegation tokens are off")
