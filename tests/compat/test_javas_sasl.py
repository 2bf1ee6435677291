"""Java's clients and Kafka's tools authenticate to our broker: each mechanism, users of their tool, renewed sessions.

The broker runs in this process. Each call of a tool starts a JVM, so each test is a story.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.net.event_loop import MeasuredEventLoop
from kavka_compat.apache import ApacheKafka
from support.sasl import Server, served

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

_PACKAGE = "org.apache.kafka.common.security"
MODULES = {
    "PLAIN": f'{_PACKAGE}.plain.PlainLoginModule required username="{{user}}" password="{{password}}";',
    "SCRAM-SHA-256": f'{_PACKAGE}.scram.ScramLoginModule required username="{{user}}" password="{{password}}";',
    "SCRAM-SHA-512": f'{_PACKAGE}.scram.ScramLoginModule required username="{{user}}" password="{{password}}";',
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="{user}";',
}
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.clients.oauthbearer.sasl.jaas.config": "OAuthBearerLoginModule required;",
}
Story = Callable[[Server], None]


def beside_a_broker(directory: Path, story: Story, **settings: str) -> None:
    """Run a story on a thread beside a broker."""

    async def with_broker() -> None:
        async with served(directory, **SETTINGS, **settings) as server:
            await asyncio.to_thread(story, server)

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(with_broker())


def properties(directory: Path, mechanism: str, user: str, password: str = "") -> str:
    """Write the settings of a client; return the file."""
    file = directory / f"{mechanism}-{user}.properties"
    jaas = MODULES[mechanism].format(user=user, password=password)
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
        "retries=0\n"
    )
    return str(file)


@pytest.mark.parametrize(
    "kafka_tools", ["3.9", pytest.param("4.1", marks=pytest.mark.long)], indirect=True
)
def test_kafkas_tool_makes_users_that_our_broker_authenticates(
    tmp_path: Path, kafka_tools: ApacheKafka
) -> None:
    def story(server: Server) -> None:
        at = ("--bootstrap-server", f"127.0.0.1:{server.port}")
        admin = ("--command-config", properties(tmp_path, "PLAIN", "alice", "alice secret"))
        users = ("kafka-configs", *at, *admin, "--entity-type", "users", "--entity-name", "dora")
        scram = "SCRAM-SHA-256=[iterations=8192,password=d s]"
        made = kafka_tools.check(*users, "--alter", "--add-config", scram)
        assert "Completed updating config for user dora." in made.out
        shown = kafka_tools.check(*users, "--describe")
        line = (
            "SCRAM credential configs for user-principal 'dora' are SCRAM-SHA-256=iterations=8192"
        )
        assert line in shown.out
        dora = properties(tmp_path, "SCRAM-SHA-256", "dora", "d s")
        topics = ("kafka-topics", *at, "--command-config")
        kafka_tools.check(*topics, dora, "--create", "--topic", "t")
        wrong = properties(tmp_path, "SCRAM-SHA-256", "dora", "guess")
        refused = kafka_tools.tool(*topics, wrong, "--list")
        assert "SaslAuthenticationException" in refused.out + refused.err
        assert server.counts["CLIENTS", "SCRAM-SHA-256", False] >= 1
        gone = kafka_tools.check(*users, "--alter", "--delete-config", "SCRAM-SHA-256")
        assert "Completed updating config for user dora." in gone.out

    beside_a_broker(tmp_path, story)


@pytest.mark.long
@pytest.mark.parametrize("mechanism", MODULES)
def test_javas_producer_authenticates_again_on_its_connections(
    tmp_path: Path, kafka_tools: ApacheKafka, mechanism: str
) -> None:
    def story(server: Server) -> None:
        at = f"127.0.0.1:{server.port}"
        alice = properties(tmp_path, "PLAIN", "alice", "alice secret")
        if mechanism.startswith("SCRAM"):
            kafka_tools.check(
                "kafka-configs",
                *("--bootstrap-server", at, "--command-config", alice, "--alter"),
                *("--entity-type", "users", "--entity-name", "alice"),
                *("--add-config", f"{mechanism}=[password=alice secret]"),
            )
        config = properties(tmp_path, mechanism, "alice", "alice secret")
        before = server.counts["CLIENTS", mechanism, True]
        produced = kafka_tools.check(
            "kafka-producer-perf-test",
            *("--topic", "t", "--num-records", "60", "--record-size", "10", "--throughput", "10"),
            *("--producer-props", f"bootstrap.servers={at}", "--producer.config", config),
        )
        assert "60 records sent" in produced.out
        assert server.counts["CLIENTS", mechanism, True] >= before + 4
        assert not any(n for (_, _, is_success), n in server.counts.items() if not is_success)

    beside_a_broker(tmp_path, story, **{"connections.max.reauth.ms": "2000"})
