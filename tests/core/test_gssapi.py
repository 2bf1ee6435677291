"""The conversation of GSSAPI on both sides, over a library that is a model: its tokens can be read."""

from __future__ import annotations

import pytest

from kavka.core.sasl.conversation import Conversation, Offer, State, TokenReply
from kavka.core.sasl.exchange import Challenge, Failure, GssStep, Outcome, SaslError, Success
from kavka.core.sasl.gssapi import GSSAPI, GssapiClient, GssapiServer
from kavka.errors import ErrorCode


class Library:
    """One side of a context: each of `results` is what a step returns; behind the last the context is established."""

    def __init__(self, *results: bytes, peer: str = "alice@R") -> None:
        self.results = list(results)
        self.taken: list[bytes] = []
        self._peer = peer

    @property
    def is_established(self) -> bool:
        return not self.results

    def step(self, token: bytes) -> bytes:
        if token.startswith(b"bad"):
            raise SaslError("Invalid token was supplied")
        self.taken.append(token)
        return self.results.pop(0)

    def peer(self) -> str:
        assert self.is_established
        return self._peer

    def wrap(self, message: bytes) -> bytes:
        assert self.is_established
        return b"wrapped " + message

    def unwrap(self, token: bytes) -> bytes:
        if not token.startswith(b"wrapped "):
            raise SaslError("Token header is malformed or corrupt")
        return token.removeprefix(b"wrapped ")


OFFER = b"wrapped \1\0\0\0"


def short(principal: str) -> str:
    if principal.startswith("nobody"):
        raise SaslError("No rules apply")
    return principal.partition("@")[0]


def answer(server: GssapiServer, token: bytes) -> Outcome:
    outcome = server.respond(token)
    return outcome.take() if isinstance(outcome, GssStep) else outcome


@pytest.mark.parametrize(
    ("results", "tokens", "challenges"),
    [
        # As librdkafka, kafka-python and ours: the broker proves itself.
        ([b"AP-REP"], [b"AP-REQ", b""], [b"AP-REP", OFFER]),
        # As Java's clients, which do not ask for that.
        ([b""], [b"AP-REQ"], [OFFER]),
        ([b"2", b"4", b""], [b"1", b"3", b"5"], [b"2", b"4", OFFER]),
    ],
)
@pytest.mark.parametrize("authorization_id", [b"", b"alice@R", b"kafka@localhost", b"\xff"])
def test_the_broker_offers_no_layer_behind_the_context_and_knows_the_user(
    results: list[bytes], tokens: list[bytes], challenges: list[bytes], authorization_id: bytes
) -> None:
    server = GssapiServer(Library(*results), short)
    assert [answer(server, token) for token in tokens] == [Challenge(c) for c in challenges]
    assert answer(server, OFFER + authorization_id) == Success("alice")


def test_only_steps_of_the_context_are_for_a_thread() -> None:
    server = GssapiServer(Library(b"AP-REP"), short)
    first = server.respond(b"AP-REQ")
    assert isinstance(first, GssStep)
    assert first.take() == Challenge(b"AP-REP")
    assert server.respond(b"") == Challenge(OFFER)
    assert server.respond(OFFER) == Success("alice")


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ([b""], "an empty token before"),
        ([b"bad"], "Invalid token was supplied"),
        ([b"AP-REQ", OFFER], "where none is expected"),
        ([b"AP-REQ", b"", b"in clear"], "malformed or corrupt"),
        ([b"AP-REQ", b"", b"wrapped \1\0\0"], "too short"),
        ([b"AP-REQ", b"", b"wrapped "], "too short"),
        ([b"AP-REQ", b"", b"wrapped \2\0\0\0"], "must be auth"),
        ([b"AP-REQ", b"", b"wrapped \5\0\0\0"], "must be auth"),
    ],
)
def test_what_breaks_the_order_or_the_choice_is_refused(tokens: list[bytes], reason: str) -> None:
    server = GssapiServer(Library(b"AP-REP"), short)
    *before, last = (answer(server, token) for token in tokens)
    assert all(isinstance(outcome, Challenge) for outcome in before)
    assert isinstance(last, Failure)
    assert reason in last.reason
    assert last.message is None, "the client hears no reason"


def test_a_principal_without_a_user_is_refused() -> None:
    server = GssapiServer(Library(b"AP-REP", peer="nobody@OTHER"), short)
    assert answer(server, b"AP-REQ") == Failure("No rules apply")


def test_a_client_and_a_broker_come_to_an_end() -> None:
    server = GssapiServer(Library(b"AP-REP"), short)
    library = Library(b"")
    client = GssapiClient(library, b"AP-REQ")
    token: bytes | None = client.first()
    outcome: Outcome = Failure("none yet")
    while token is not None:
        assert not client.is_complete
        outcome = answer(server, token)
        assert isinstance(outcome, Challenge | Success)
        token = client.respond(outcome.token)
    assert client.is_complete
    assert outcome == Success("alice")
    assert library.taken == [b"AP-REP"]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([b"bad"], "Invalid token"),
        ([b"AP-REP", b"in clear"], "malformed"),
        ([b"AP-REP", b"wrapped \1\0\0"], "cannot be read"),
        ([b"AP-REP", b"wrapped \6\0\0\0"], "demands a security layer"),
        ([b"AP-REP", OFFER, b"more"], "after the end"),
    ],
)
def test_a_client_refuses_what_a_broker_may_not_send(tokens: list[bytes], message: str) -> None:
    client = GssapiClient(Library(b""), b"AP-REQ")
    *before, last = tokens
    for token in before:
        client.respond(token)
    with pytest.raises(SaslError, match=message):
        client.respond(last)
    assert not client.is_complete


def test_a_client_takes_the_best_that_a_broker_with_layers_offers_without_one() -> None:
    client = GssapiClient(Library(b""), b"AP-REQ")
    client.respond(b"AP-REP")
    assert client.respond(b"wrapped \7\xff\xff\xff") == OFFER


def test_a_conversation_waits_for_each_step_and_has_no_second_token_meanwhile() -> None:
    offers = {GSSAPI: Offer(lambda: GssapiServer(Library(b"AP-REP"), short), 5000)}
    conversation = Conversation(offers)
    conversation.handshake(GSSAPI, 1, 0)
    step = conversation.token(b"AP-REQ", 0, 0)
    assert isinstance(step, GssStep)
    assert conversation.state is State.CHECKING
    assert conversation.verdict(step.take(), 0, 0) == TokenReply(token=b"AP-REP")
    assert conversation.token(b"", 0, 0) == TokenReply(token=OFFER)
    assert conversation.token(OFFER, 0, 0) == TokenReply(lifetime_ms=5000)
    assert (conversation.user, conversation.state) == ("alice", State.AUTHENTICATED)

    conversation = Conversation(offers)
    conversation.handshake(GSSAPI, 1, 0)
    step = conversation.token(b"AP-REQ", 0, 0)
    assert isinstance(step, GssStep)
    second = conversation.token(b"AP-REQ", 0, 0)
    assert isinstance(second, TokenReply)
    assert (second.code, second.closes) == (ErrorCode.ILLEGAL_SASL_STATE, True)
    late = conversation.verdict(step.take(), 0, 0)
    assert (late.code, late.closes, late.token) == (ErrorCode.ILLEGAL_SASL_STATE, True, b"")
