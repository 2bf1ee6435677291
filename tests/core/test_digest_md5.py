"""DIGEST-MD5: RFC 2831's exchange, ours on both sides, and what a liar can do."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.core.sasl.digest_md5 import DigestMd5Client, DigestMd5Server
from kavka.core.sasl.exchange import Challenge, Failure, SaslError, Success
from support.examples import examples

USERS = {"kafka": "kafka-secret", 'a"b\\c': "ü", "жуж": "пароль"}


def challenge_of(server: DigestMd5Server) -> bytes:
    challenge = server.respond(b"")
    assert isinstance(challenge, Challenge)
    return challenge.token


@pytest.mark.parametrize("user", USERS)
def test_both_sides_prove_that_they_know_the_password(user: str) -> None:
    server = DigestMd5Server("n1", USERS.get)
    client = DigestMd5Client(user, USERS[user], "c1")
    outcome = server.respond(client.respond(challenge_of(server)))
    assert isinstance(outcome, Success)
    assert outcome.user == user
    client.finish(outcome.token)


@pytest.mark.parametrize(
    ("user", "password"), [("kafka", "wrong"), ("nobody", "kafka-secret"), ("", "")]
)
def test_a_wrong_password_and_an_unknown_user_fail_alike(user: str, password: str) -> None:
    server = DigestMd5Server("n1", USERS.get)
    token = DigestMd5Client(user, password, "c1").respond(challenge_of(server))
    assert server.respond(token) == Failure("unknown user or wrong password")


def test_a_recorded_response_is_worth_nothing_on_another_connection() -> None:
    server = DigestMd5Server("n1", USERS.get)
    token = DigestMd5Client("kafka", USERS["kafka"], "c1").respond(challenge_of(server))
    assert isinstance(server.respond(token), Success)
    other = DigestMd5Server("n2", USERS.get)
    challenge_of(other)
    assert other.respond(token) == Failure("another nonce than that of this connection")
    replaced = token.replace(b'"n1"', b'"n2"')
    assert other.respond(replaced) == Failure("unknown user or wrong password")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"nc=00000001", b"nc=00000002", "another nc"),
        (b'realm="zk-sasl-md5"', b'realm="other"', "another realm"),
        (b"zookeeper/zk-sasl-md5", b"kafka/zk-sasl-md5", "another digest-uri"),
        (b"qop=auth", b"qop=auth-conf", "quality of protection"),
        (b"qop=auth", b"qop=auth,authzid=super", "unknown user or wrong password"),
        (b"qop=auth", b"qop=auth,username=other", "comes twice"),
        (b"qop=auth", b'qop="auth', "no list of directives"),
        (b"response=", b"answer=", "unknown user or wrong password"),
        (b"username=", b"user=", "unknown user or wrong password"),
    ],
)
def test_a_changed_response_is_refused(old: bytes, new: bytes, reason: str) -> None:
    server = DigestMd5Server("n1", USERS.get)
    token = DigestMd5Client("kafka", USERS["kafka"], "c1").respond(challenge_of(server))
    outcome = server.respond(token.replace(old, new))
    assert isinstance(outcome, Failure)
    assert reason in outcome.reason


# What Java's client sends to ZooKeeper: it names the user whom it acts for.
@pytest.mark.parametrize(("acts_for", "is_taken"), [("kafka", True), ("super", False)])
def test_who_a_client_acts_for_is_part_of_the_hash_and_is_the_client(
    acts_for: str, is_taken: bool
) -> None:
    def hashed(*parts: bytes) -> bytes:
        return hashlib.md5(b":".join(parts)).hexdigest().encode()

    server = DigestMd5Server("n1", USERS.get)
    challenge_of(server)
    inner = hashlib.md5(b"kafka:zk-sasl-md5:kafka-secret").digest()
    secret = hashed(inner, b"n1", b"c1", acts_for.encode())
    uri = hashed(b"AUTHENTICATE", b"zookeeper/zk-sasl-md5")
    response = hashed(secret, b"n1", b"00000001", b"c1", b"auth", uri)
    outcome = server.respond(
        b'charset=utf-8,username="kafka",realm="zk-sasl-md5",nonce="n1",nc=00000001,cnonce="c1",'
        b'digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,response=%s,qop=auth,authzid="%s"'
        % (response, acts_for.encode())
    )
    assert isinstance(outcome, Success) is is_taken


@given(st.binary(max_size=200) | st.from_regex(rb'([a-z-]+="?[a-z0-9]*"?,?){1,6}', fullmatch=True))
@settings(max_examples=examples(300))
def test_any_bytes_are_refused(token: bytes) -> None:
    server = DigestMd5Server("n1", USERS.get)
    challenge_of(server)
    assert isinstance(server.respond(token), Failure)


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b'realm="r",algorithm=md5-sess', "has no nonce"),
        (b'nonce="n",algorithm=md5', "another algorithm"),
        (b'nonce="n",qop="auth-int,auth-conf",algorithm=md5-sess', "quality of protection"),
        (b'nonce="\xff",algorithm=md5-sess', "not UTF-8"),
        (b"x" * 5000, "too long"),
    ],
)
def test_a_challenge_that_cannot_be_answered_is_an_error(challenge: bytes, reason: str) -> None:
    with pytest.raises(SaslError, match=reason):
        DigestMd5Client("kafka", "secret", "c1").respond(challenge)


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    server = DigestMd5Server("n1", USERS.get)
    client = DigestMd5Client("kafka", "secret", "c1")
    client.respond(challenge_of(server))
    for proof in (b"", b"rspauth=", b"rspauth=00000000000000000000000000000000"):
        with pytest.raises(SaslError, match="did not prove"):
            client.finish(proof)
