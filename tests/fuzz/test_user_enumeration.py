"""The time of a refusal does not show whether a user or a topic exists: statistics of thousands of refusals."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.client.admin import Admin, ScramUpsertion
from kavka.core.sasl.conversation import Conversation, Offer, TokenReply
from kavka.core.sasl.exchange import CheckPassword, ServerExchange
from kavka.core.sasl.plain import PlainServer, check_password
from kavka.core.sasl.scram import ScramServer
from kavka.core.sasl.scram_credential import SHA_512, ScramCredential, imitation
from kavka.errors import ErrorCode
from kavka.net.event_loop import MeasuredEventLoop
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kavka.wire.messages.sasl_handshake import SaslHandshakeRequest
from support.access import SETTINGS, connected_as
from support.one_broker import Served, serve
from support.sasl import Server, served

pytestmark = [pytest.mark.fuzz, pytest.mark.long, pytest.mark.timeout(3600)]

_ROUNDS, _ROUNDS_AT_THE_PORT = 6_000, 1_000
_KNOWN = [f"user{number:03}" for number in range(100)]
_UNKNOWN = [f"none{number:03}" for number in range(100)]


def probability_of_longer(first: list[int], second: list[int]) -> float:
    """Return how probable it is that one of the first takes longer than one of the second (Mann and Whitney's U)."""
    ranked = sorted([(took, 0) for took in first] + [(took, 1) for took in second])
    places = sum(place for place, (_took, which) in enumerate(ranked, 1) if which == 0)
    lowest = len(first) * (len(first) + 1) / 2
    return (places - lowest) / (len(first) * len(second))


def median(times: list[int]) -> int:
    return sorted(times)[len(times) // 2]


def in_turns(rounds: int) -> Iterator[tuple[bool, str]]:
    """Yield names that exist and that do not, one of each in a round, in any order."""
    chance = random.Random(7)
    for _ in range(rounds):
        for is_known in chance.sample((True, False), 2):
            yield is_known, chance.choice(_KNOWN if is_known else _UNKNOWN)


def assert_medians_alike(refused_ns: Callable[[str], int]) -> None:
    """Insist that the work for refusals of users that exist and that do not takes as long, but for caches."""
    took: dict[bool, list[int]] = {True: [], False: []}
    for is_known, user in in_turns(_ROUNDS):
        took[is_known].append(refused_ns(user))
    known, unknown = median(took[True]), median(took[False])
    print(f"medians: {known} ns for a user that exists, {unknown} ns for others")
    assert abs(known - unknown) < 0.1 * known, (known, unknown)


def test_the_statistics_find_a_difference() -> None:
    assert probability_of_longer([1, 4, 5], [2, 3, 6]) == pytest.approx(4 / 9)
    assert probability_of_longer([4, 5, 6], [1, 2, 3]) == 1
    assert probability_of_longer([1, 2, 3], [4, 5, 6]) == 0


def test_scram_takes_as_long_for_users_that_do_not_exist() -> None:
    stored = {
        user: ScramCredential.of_password(SHA_512, user.encode(), "right", 1) for user in _KNOWN
    }
    model = stored[_KNOWN[0]]

    def exchange() -> ServerExchange:
        return ScramServer(
            SHA_512, stored.get, lambda user: imitation(SHA_512, user, b"secret", model), "server"
        )

    final = f"c=biws,r=clientserver,p={'A' * 86}==".encode()

    def refused_ns(user: str) -> int:
        server = Conversation({"SCRAM-SHA-512": Offer(exchange)})
        server.handshake("SCRAM-SHA-512", 1, 0)
        first = f"n,,n={user},r=client".encode()
        began = time.perf_counter_ns()
        server.token(first, 0, 0)
        refusal = server.token(final, 0, 0)
        took = time.perf_counter_ns() - began
        assert isinstance(refusal, TokenReply)
        assert refusal.closes
        return took

    assert_medians_alike(refused_ns)


def test_plain_takes_as_long_for_users_that_do_not_exist() -> None:
    users = dict.fromkeys(_KNOWN, "the right password")

    def refused_ns(user: str) -> int:
        server = Conversation({"PLAIN": Offer(PlainServer)})
        server.handshake("PLAIN", 1, 0)
        token = f"\0{user}\0a wrong password".encode()
        began = time.perf_counter_ns()
        question = server.token(token, 0, 0)
        assert isinstance(question, CheckPassword)
        reply = server.verdict(check_password(users, question), 0, 0)
        took = time.perf_counter_ns() - began
        assert reply.closes
        return took

    assert_medians_alike(refused_ns)


async def refused_at_the_port_ns(server: Server, user: str) -> int:
    """Be refused by SCRAM; return how long the responses to both tokens took."""
    peer = await server.anonymous()
    await peer.send(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
    began = time.perf_counter_ns()
    first = f"n,,n={user},r=client".encode()
    challenge = await peer.send(SaslAuthenticateRequest(auth_bytes=first), 2)
    nonce = challenge.auth_bytes.decode().partition(",")[0]
    final = f"c=biws,{nonce},p={'A' * 86}==".encode()
    refusal = await peer.send(SaslAuthenticateRequest(auth_bytes=final), 2)
    took = time.perf_counter_ns() - began
    assert refusal.error_code != 0
    await peer.wait_closed()
    return took


def test_nobody_finds_users_by_the_time_of_refusals_at_the_port(tmp_path: Path) -> None:
    """Without the delay of refusals: 0.5 says nothing, at 0.55 an attacker needs hundreds of attempts for a name."""

    async def story() -> None:
        async with served(tmp_path, **{"connection.failed.authentication.delay.ms": "0"}) as server:
            async with Admin(server.config("alice", "alice secret")) as admin:
                await admin.alter_user_scram_credentials(
                    [ScramUpsertion(user, "SCRAM-SHA-512", "s", iterations=4096) for user in _KNOWN]
                )
            took: dict[bool, list[int]] = {True: [], False: []}
            for is_known, user in in_turns(_ROUNDS_AT_THE_PORT):
                took[is_known].append(await refused_at_the_port_ns(server, user))
            found = probability_of_longer(took[False], took[True])
            print(
                f"longer with probability {found:.3f}; medians {median(took[True])} ns for a user"
            )
            print(f"that exists, {median(took[False])} ns for others")
            assert 0.45 < found < 0.55, found

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(story())


@pytest.mark.parametrize("api", ["metadata", "fetch", "produce"])
def test_nobody_finds_topics_by_the_time_of_refusals(tmp_path: Path, api: str) -> None:
    async def refused_ns(mallory: Any, topic: str) -> int:
        began = time.perf_counter_ns()
        if api == "metadata":
            asked = [MetadataRequestTopic(name=topic)]
            (answer,) = (await mallory.send(MetadataRequest(topics=asked))).topics
        else:
            answer = await (
                mallory.fetch(topic) if api == "fetch" else mallory.produce(topic, b"value")
            )
        took = time.perf_counter_ns() - began
        assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return took

    async def story(served_: Served) -> None:
        for topic in _KNOWN:
            await served_.topic(topic)
        mallory = await connected_as(served_, "mallory")
        took: dict[bool, list[int]] = {True: [], False: []}
        for is_known, topic in in_turns(_ROUNDS_AT_THE_PORT):
            took[is_known].append(await refused_ns(mallory, topic))
        found = probability_of_longer(took[False], took[True])
        print(f"{api}: longer with probability {found:.3f}")
        assert 0.45 < found < 0.55, found

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(serve(tmp_path, story, **SETTINGS))
