"""SASL mechanisms: both sides against each other, published examples, and what must be refused."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.core.sasl import scram_credential
from kavka.core.sasl.exchange import (
    Challenge,
    CheckPassword,
    CheckToken,
    Failure,
    SaslError,
    Success,
)
from kavka.core.sasl.jaas import JaasError, parse_jaas, quoted
from kavka.core.sasl.jaas_options import jaas_faults
from kavka.core.sasl.mechanisms import LOGIN_MODULES
from kavka.core.sasl.oauthbearer import OAuthBearerClient, OAuthBearerServer, refusal_of
from kavka.core.sasl.plain import PlainClient, PlainServer, check_password, jaas_users
from kavka.core.sasl.scram import ScramClient, ScramServer, new_nonce
from kavka.core.sasl.scram_credential import (
    SCRAM_MECHANISMS,
    SHA_256,
    SHA_512,
    ScramCredential,
    imitation,
)
from kavka.core.sasl.unsecured_jwt import (
    InvalidToken,
    TokenOwner,
    encode_unsecured,
    librdkafka_options,
    login_claims,
    login_extensions,
    owner_of_signed,
    read_unsecured,
    unsecured_rules,
)

_NAMES = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20
)


def credential(
    password: str, mechanism: scram_credential.ScramMechanism = SHA_256
) -> ScramCredential:
    return ScramCredential.of_password(mechanism, b"salt", password, 4096)


def proof(client: ScramClient, scram: ScramServer) -> bytes:
    """Return the client's response to the broker's challenge."""
    first = scram.respond(client.first())
    assert isinstance(first, Challenge)
    final = client.respond(first.token)
    assert final is not None
    return final


def server(users: dict[str, ScramCredential], nonce: str = "server") -> ScramServer:
    return ScramServer(
        SHA_256, users.get, lambda user: imitation(SHA_256, user, b"secret", None), nonce
    )


# -- SCRAM


def test_the_example_of_rfc_7677() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    stored = ScramCredential.of_password(SHA_256, salt, "pencil", 4096)
    nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    scram = server({"user": stored}, nonce)
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = scram.respond(client.first())
    assert first == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = client.respond(first.token)
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    last = scram.respond(final)
    assert last == Success("user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert client.respond(last.token) is None
    assert client.is_complete


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=SCRAM_MECHANISMS)
@settings(max_examples=30)  # each derives two keys
@given(user=_NAMES, password=_NAMES, tried=_NAMES)
def test_a_password_is_proved_if_it_is_the_stored_one(
    mechanism: scram_credential.ScramMechanism, user: str, password: str, tried: str
) -> None:
    stored = {user: credential(password, mechanism)}
    scram = ScramServer(mechanism, stored.get, lambda name: credential("other", mechanism), "s")
    client = ScramClient(mechanism, user, tried, "c")
    first = scram.respond(client.first())
    assert isinstance(first, Challenge)
    final = client.respond(first.token)
    assert final is not None
    outcome = scram.respond(final)
    if tried == password:
        assert isinstance(outcome, Success)
        assert outcome.user == user
        assert client.respond(outcome.token) is None
    else:
        assert isinstance(outcome, Failure)
        assert outcome.reason == f"wrong password or unknown user={user!r}"


def test_an_unknown_user_takes_the_steps_of_a_wrong_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[tuple[str, int]] = []
    hmac, h = scram_credential.ScramMechanism.hmac, scram_credential.ScramMechanism.h

    def counted_hmac(self: scram_credential.ScramMechanism, key: bytes, text: bytes) -> bytes:
        steps.append(("hmac", len(text)))
        return hmac(self, key, text)

    def counted_h(self: scram_credential.ScramMechanism, text: bytes) -> bytes:
        steps.append(("h", len(text)))
        return h(self, text)

    model = ScramCredential.of_password(SHA_256, b"s" * 26, "secret", 4096)
    monkeypatch.setattr(scram_credential.ScramMechanism, "hmac", counted_hmac)
    monkeypatch.setattr(scram_credential.ScramMechanism, "h", counted_h)
    taken = []
    for user in ("alice", "mails"):
        client = ScramClient(SHA_256, user, "wrong", "c" * 24)
        scram = ScramServer(
            SHA_256,
            {"alice": model}.get,
            lambda name: imitation(SHA_256, name, b"secret", model),
            "s" * 24,
        )
        first = scram.respond(client.first())
        assert isinstance(first, Challenge)
        final = client.respond(first.token)
        assert final is not None
        steps.clear()
        assert type(scram.respond(final)) is Failure
        taken.append((len(first.token), list(steps)))
    assert taken[0] == taken[1]


def test_an_unknown_user_is_always_answered_alike_and_in_the_shape_of_others() -> None:
    model = ScramCredential(b"1sd8j3l4kjs93jd8s7hd8w2hxs", b"k" * 64, b"k" * 64, 8192)
    first, second = (imitation(SHA_512, "mallory", b"secret", model) for _ in range(2))
    assert first == second
    assert (len(first.salt), first.iterations, first.salt.isalnum()) == (26, 8192, True)
    assert imitation(SHA_512, "mallory", b"other", model).salt != first.salt


def test_a_replayed_exchange_is_refused() -> None:
    users = {"alice": credential("secret")}
    client = ScramClient(SHA_256, "alice", "secret", "c")
    once = server(users, "first")
    final = proof(client, once)
    assert isinstance(once.respond(final), Success)
    again = server(users, "second")
    again.respond(client.first())
    assert again.respond(final) == Failure("a nonce of another exchange")
    assert isinstance(once.respond(final), Failure)


@pytest.mark.parametrize(
    ("sent", "outcome"),
    [
        ("client", Success), ("", Success),
        ("only the broker's", Failure), ("cut", Failure),
    ],
)  # fmt: skip
def test_old_librdkafka_repeats_its_nonce(sent: str, outcome: type) -> None:
    """Before 2.6.1 (its pull request 4895), kcat of Debian 12 among them."""
    stored = credential("secret")
    scram = server({"alice": stored}, "server")
    first = scram.respond(b"n,,n=alice,r=client")
    assert isinstance(first, Challenge)
    nonce = {"only the broker's": "server", "cut": "clientserve"}.get(sent, f"{sent}clientserver")
    unproved = f"c=biws,r={nonce}"
    message = f"n=alice,r=client,{first.token.decode()},{unproved}".encode()
    client_key = SHA_256.client_key(SHA_256.salted_password("secret", b"salt", 4096))
    signature = SHA_256.hmac(stored.stored_key, message)
    shown = b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True)))
    assert type(scram.respond(f"{unproved},p=".encode() + shown)) is outcome


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff",
        b"n,,n=,r=c",
        b"n,,n=alice",
        b"n,,n=alice,r=",
        b"p=tls-unique,,n=alice,r=c",
        b"n,,m=ext,n=alice,r=c",
        b"n,,n=al=ice,r=c",
        b"n,a=bob,n=alice,r=c",
        b"n,,n=alice,r=c\x00",
        b"n,,n=alice,r=" + b"c" * 10 + b"\n",
    ],
)
def test_a_first_message_against_the_rules_is_refused(first: bytes) -> None:
    assert isinstance(server({"alice": credential("secret")}).respond(first), Failure)


@given(st.binary(max_size=200))
def test_no_final_message_is_taken_by_chance(final: bytes) -> None:
    scram = server({"alice": credential("secret")})
    scram.respond(b"n,,n=alice,r=c")
    assert isinstance(scram.respond(final), Failure)


@pytest.mark.parametrize("binding", ["eSws", "bixhPWFsaWNlLA=="])
def test_another_channel_binding_than_at_first_is_refused(binding: str) -> None:
    scram = server({"alice": credential("secret")})
    scram.respond(b"n,,n=alice,r=c")
    final = f"c={binding},r=cserver,p=AAAA".encode()
    assert scram.respond(final) == Failure("another channel binding than at first")


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"r=other,s=c2FsdA==,i=4096", "nonce"),
        (b"r=c,s=c2FsdA==,i=4096", "nonce"),
        (b"r=cs,s=c2FsdA==,i=1", "iterations"),
        (b"r=cs,s=c2FsdA==,i=100000000", "iterations"),
        (b"e=other-error", "cannot be read"),
        (b"\xff", "UTF-8"),
    ],
)
def test_a_client_refuses_a_broker_that_does_not_keep_the_rules(first: bytes, reason: str) -> None:
    client = ScramClient(SHA_256, "alice", "secret", "c")
    with pytest.raises(SaslError, match=reason):
        client.respond(first)


@pytest.mark.parametrize("last", [b"v=AAAA", b"e=invalid-proof", b"", b"\xff"])
def test_a_client_refuses_a_broker_that_does_not_know_the_password(last: bytes) -> None:
    scram = server({"alice": credential("secret")})
    client = ScramClient(SHA_256, "alice", "secret", "c")
    proof(client, scram)
    with pytest.raises(SaslError):
        client.respond(last)
    assert not client.is_complete


@given(salt=st.binary(min_size=1, max_size=40), iterations=st.integers(1, 1 << 20))
def test_a_stored_credential_is_read_as_it_was_written(salt: bytes, iterations: int) -> None:
    stored = ScramCredential(salt, b"stored", b"server", iterations)
    assert ScramCredential.decode(stored.encode()) == stored
    assert "stored" not in repr(stored)


@pytest.mark.parametrize(
    "text",
    ["", "salt=?,stored_key=eA==,server_key=eA==,iterations=4096", "iterations=0", "a=secret"],
)
def test_what_is_no_credential_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not a SCRAM credential$"):
        ScramCredential.decode(text)


def test_a_nonce_is_printable_and_as_unpredictable_as_its_bytes() -> None:
    assert new_nonce(bytes(range(250, 256)) * 4).isascii()
    assert len({new_nonce(hashlib.sha256(bytes([n])).digest()) for n in range(100)}) == 100


# -- PLAIN


@given(user=_NAMES, password=_NAMES)
def test_a_plain_token_carries_user_and_password(user: str, password: str) -> None:
    question = PlainServer().respond(PlainClient(user, password).first())
    assert isinstance(question, CheckPassword)
    assert (question.user, question.password) == (user, password)
    assert check_password({user: password}, question) == Success(user)
    assert isinstance(check_password({user: password + "x"}, question), Failure)
    assert isinstance(check_password({}, question), Failure)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"\0alice", "expected 3 tokens, got 2"),
        (b"\0alice\0a\0b", "expected 3 tokens, got 4"),
        (b"\0\0secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"bob\0alice\0secret", "authorization id that is different from username"),
        (b"\0\xff\0x", "not UTF-8"),
    ],
)
def test_a_plain_token_against_the_rules_is_refused(token: bytes, message: str) -> None:
    refused = PlainServer().respond(token)
    assert isinstance(refused, Failure)
    assert message in (refused.message or "")


# -- OAUTHBEARER


def test_a_bearer_token_arrives_with_its_extensions() -> None:
    question = OAuthBearerServer().respond(OAuthBearerClient("a.b.c", {"tenant": "x y"}).first())
    assert isinstance(question, CheckToken)
    assert (question.token, question.extensions) == ("a.b.c", {"tenant": "x y"})


def test_a_refused_bearer_token_is_confirmed_by_the_client() -> None:
    exchange, client = OAuthBearerServer(), OAuthBearerClient("a.b.c", {})
    exchange.respond(client.first())
    challenge = exchange.verdict(refusal_of(InvalidToken("too old")))
    assert challenge == Challenge(b'{"status":"invalid_token"}')
    confirmed = client.respond(challenge.token)
    assert confirmed == b"\x01"
    failure = exchange.respond(confirmed)
    assert isinstance(failure, Failure)
    assert failure.message == '{"status":"invalid_token"}'


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer x\x01empty=\x01\x01",
        "n,,\x01auth=Bearer x\x01other=ü\x01\x01".encode(),
        b"\xff",
    ],
)
def test_a_bearer_message_against_the_rules_is_refused(token: bytes) -> None:
    assert isinstance(OAuthBearerServer().respond(token), Failure)


def test_a_token_of_somebody_else_than_the_authorization_id_is_refused() -> None:
    exchange = OAuthBearerServer()
    exchange.respond(b"n,a=bob,\x01auth=Bearer x\x01\x01")
    assert isinstance(exchange.verdict(Success("alice")), Failure)


_NOW = 1_700_000_000_000


_WRITE = unsecured_rules({"unsecuredValidatorRequiredScope": "write"})


def owner(claims: dict[str, object], **options: str) -> TokenOwner:
    named = {f"unsecuredValidator{name}": text for name, text in options.items()}
    return read_unsecured(encode_unsecured(claims), unsecured_rules(named), _NOW)


def test_an_unsecured_token_says_whose_it_is_and_until_when() -> None:
    claims = login_claims(
        {"unsecuredLoginStringClaim_sub": "alice", "unsecuredLoginListClaim_scope": "|a|b"}, _NOW
    )
    found = owner(claims, RequiredScope="a")
    assert (found.user, found.expires_ms, found.scope) == ("alice", _NOW + 3_600_000, ("a", "b"))


def test_librdkafkas_options_of_an_unsecured_token_have_their_effect() -> None:
    text = "principalClaimName=user principal=alice scopeClaimName=scp scope=a,b lifeSeconds=9 extension_t=x=y"
    options = librdkafka_options(text)
    assert login_extensions(options) == {"t": "x=y"}
    found = owner(
        login_claims(options, _NOW),
        PrincipalClaimName="user",
        ScopeClaimName="scp",
        RequiredScope="a b",
    )
    assert found == TokenOwner("alice", _NOW + 9000, ("a", "b"))
    assert "scope" not in login_claims(librdkafka_options("principal=alice scope="), _NOW)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no principal"),
        ("scope=a", "no principal"),
        ("principal=a princpal=b", "princpal"),
        ("principal=a lifeSeconds=1h", "lifeSeconds"),
        ("principal=a lifeSeconds=0", "lifeSeconds"),
    ],
)
def test_librdkafkas_options_that_cannot_be_used_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        librdkafka_options(text)


def test_a_token_issued_in_this_very_millisecond_is_valid() -> None:
    claims: dict[str, object] = {
        "sub": "alice",
        "exp": _NOW / 1000 + 9,
        "iat": (_NOW + 0.9) / 1000,
    }
    assert owner(claims).user == "alice"


def test_claims_are_named_by_options_and_a_text_is_one_scope() -> None:
    claims: dict[str, object] = {
        "user": "alice",
        "exp": _NOW / 1000 + 9,
        "nbf": _NOW / 1000 + 5,
        "scp": " a b ",
    }
    names = {"PrincipalClaimName": " user ", "ScopeClaimName": "scp"}
    assert owner(claims, **names) == TokenOwner("alice", _NOW + 9000, ("a b",))
    with pytest.raises(InvalidToken, match="lacks the scope a") as refused:
        owner(claims, **names, RequiredScope="a  b")
    assert (refused.value.status, refused.value.scope) == ("insufficient_scope", "[a, b]")
    assert owner({**claims, "scp": ["b", " a", "b"]}, **names, RequiredScope="a b").scope == (
        "b",
        "a",
    )
    assert owner({**claims, "sub": "bob"}, PrincipalClaimName="  ").user == "bob"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"sub": "alice"}, "no expiration"),
        ({"sub": "alice", "exp": _NOW / 1000 - 1}, "expired"),
        ({"sub": "alice", "exp": _NOW / 1000}, "expired"),
        ({"sub": "alice", "exp": _NOW / 1000 + 9, "iat": _NOW / 1000 + 5}, "not valid yet"),
        ({"sub": "", "exp": _NOW / 1000 + 9}, "claim sub"),
        ({"sub": "  ", "exp": _NOW / 1000 + 9}, "claim sub"),
        ({"sub": "alice", "exp": float("inf")}, "no expiration"),
        ({"sub": "alice", "exp": _NOW / 1000 + 9, "scope": "read"}, "lacks the scope write"),
        ({"sub": "alice", "exp": _NOW / 1000 + 9, "scope": 1}, "claim scope is a number"),
        ({"sub": "alice", "exp": _NOW / 1000 + 9, "iat": None}, "claim iat is null"),
    ],
)
def test_an_unsecured_token_that_does_not_hold_is_refused(
    claims: dict[str, object], reason: str
) -> None:
    with pytest.raises(InvalidToken, match=reason):
        read_unsecured(encode_unsecured(claims), _WRITE, _NOW)


def test_a_token_that_ends_before_it_was_issued_is_refused() -> None:
    times: dict[str, object] = {"iat": _NOW / 1000, "exp": _NOW / 1000 - 2, "sub": "alice"}
    with pytest.raises(InvalidToken, match="expires before it was issued"):
        owner(times, AllowableClockSkewMs="5000")


@pytest.mark.parametrize(
    ("option", "text"),
    [("RequiredScope", 'a b"'), ("AllowableClockSkewMs", "-1"), ("AllowableClockSkewMs", "1s")],
)
def test_options_of_the_validator_that_cannot_be_used_are_refused(option: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"unsecuredValidator{option}"):
        unsecured_rules({f"unsecuredValidator{option}": text})


@pytest.mark.parametrize(
    "scope", ["", " ", ["a", "a"], ["a", " a"], [""], [1]], ids=lambda scope: repr(scope)
)
def test_the_scope_of_a_signed_token_has_no_blank_and_no_double_items(scope: object) -> None:
    claims = {"sub": " alice ", "exp": _NOW / 1000 + 9, "iat": _NOW / 1000}
    names: dict[str, Any] = {"principal_claim": "sub", "scope_claim": "scp"}
    times: dict[str, Any] = {"now_ms": _NOW, "skew_ms": 0}
    for fine, items in (({}, ()), ({"scp": "a b"}, ("a b",)), ({"scp": ["a", "b"]}, ("a", "b"))):
        found = owner_of_signed({**claims, **fine}, **names, **times)
        assert (found.user, found.scope) == ("alice", items)
    with pytest.raises(InvalidToken, match="claim scp has an item"):
        owner_of_signed({**claims, "scp": scope}, **names, **times)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_token_in_another_encoding_than_utf_8_is_refused(encoding: str) -> None:
    head, _, _ = encode_unsecured({}).partition(".")
    claims = json.dumps({"sub": "alice", "exp": _NOW / 1000 + 9}).encode(encoding)
    token = f"{head}.{urlsafe_b64encode(claims).decode().rstrip('=')}."
    with pytest.raises(InvalidToken, match="not JSON"):
        read_unsecured(token, unsecured_rules({}), _NOW)


@pytest.mark.slow
@given(st.text(max_size=50))
def test_no_text_is_taken_for_an_unsecured_token(text: str) -> None:
    with pytest.raises(InvalidToken):
        read_unsecured(text, unsecured_rules({}), _NOW)


# -- JAAS


@pytest.mark.parametrize(
    ("mechanism", "options", "faults"),
    [
        ("PLAIN", 'username="a" password="b" user_alice="c"', []),
        ("PLAIN", 'user_alice=""', ["user_alice has no password, so the user cannot authenticate"]),
        ("PLAIN", 'user_="x"', ["user_ has no name behind user_"]),
        ("PLAIN", 'usr_alice="secret"', ["usr_alice is not known: is it user_?"]),
        ("PLAIN", 'userAlice="secret"', ["userAlice is not known"]),
        ("SCRAM-SHA-256", 'usrname="a" password="b"', ["usrname is not known: is it username?"]),
        ("SCRAM-SHA-512", 'user_alice="x"', ["user_alice is not known"]),
        ("OAUTHBEARER", 'unsecuredLoginStringClaim_sub="a" ssl.truststore.type="PEM"', []),
        (
            "OAUTHBEARER",
            'unsecuredvalidatorRequiredScope="a" other="b"',
            [
                "unsecuredvalidatorRequiredScope is not known: is it unsecuredValidatorRequiredScope?",
                "other is not known",
            ],
        ),
        ("GSSAPI", "useKeytab=true debug=true", ["useKeytab is not known: is it useKeyTab?"]),
    ],
)
def test_options_without_effect_are_named_and_no_value_is_shown(
    mechanism: str, options: str, faults: list[str]
) -> None:
    login = parse_jaas(f"{LOGIN_MODULES[mechanism]} required {options};")
    assert jaas_faults(mechanism, login.options) == [f"the option {fault}" for fault in faults]


def test_a_jaas_text_names_a_login_module_and_its_options() -> None:
    login = parse_jaas(
        'org.apache.kafka.common.security.plain.PlainLoginModule required\n  username="admin"'
        ' password="a\\"b;c=\\\\" // a comment\n user_alice=\'x y\' user_bob=plain;'
    )
    assert login.is_module("PlainLoginModule")
    assert login.options == {
        "username": "admin",
        "password": 'a"b;c=\\',
        "user_alice": "x y",
        "user_bob": "plain",
    }
    assert jaas_users(login.options) == {"alice": "x y", "bob": "plain"}
    assert "x y" not in repr(login)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_quoted_value_is_read_as_it_was(value: str) -> None:
    assert parse_jaas(f"M required password={quoted(value)};").options == {"password": value}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Module",
        "Module required",
        'Module required password="topsecret"',
        'Module needed password="topsecret";',
        'Module required password="topsecret;',
        "Module required password topsecret;",
        "Module required password=;",
        'Module required password="topsecret"; Other required;',
        'Module required "topsecret"=x;',
    ],
)
def test_what_is_no_jaas_text_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_jaas(text)
    assert "topsecret" not in str(refused.value)
