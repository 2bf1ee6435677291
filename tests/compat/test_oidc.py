"""OAUTHBEARER with a real issuer, the npm package oidc-provider: its tokens, its keys, and clients of three kinds.

The broker runs in this process. The tests need node and npm, and are skipped without.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.client.blocking import Admin
from kavka.errors import AuthenticationFailed
from kavka.net.event_loop import MeasuredEventLoop
from kavka_compat.apache import SMALL, ApacheKafka
from kavka_compat.programs import install_node
from support.sasl import Server, served

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(300)]

_PACKAGE = "org.apache.kafka.common.security.oauthbearer"


class Issuer:
    """The issuer's process."""

    def __init__(self, command: list[str], audience: str) -> None:
        self._process = subprocess.Popen(
            [*command, audience],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.url = self._line()

    def rotate(self) -> None:
        """Have another key, instead of the one before."""
        assert self._process.stdin is not None
        self._process.stdin.write("rotate\n")
        self._process.stdin.flush()
        while self._line() != "rotated":  # it also prints notices there
            pass

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=30)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the issuer has ended"
        return line.strip()

    def client(self, server: Server, **changed: str) -> dict[str, Any]:
        """Return the settings of a client of ours."""
        return {
            "bootstrap.servers": f"127.0.0.1:{server.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": f"{self.url}/token",
            "sasl.oauthbearer.client.id": "loader",
            "sasl.oauthbearer.client.secret": "loader-secret",
            "sasl.oauthbearer.scope": "kafka",
            **changed,
        }


@pytest.fixture(scope="module")
def command() -> list[str]:
    return install_node(Path(__file__).parent / "oidc", "oidc")


@pytest.fixture
def issuer(command: list[str]) -> Iterator[Issuer]:
    made = Issuer(command, "kafka")
    yield made
    made.stop()


def beside_a_broker(directory: Path, issuer: Issuer, story: Callable[[Server], None]) -> None:
    """Run a story on a thread beside a broker that trusts the issuer."""

    async def with_broker() -> None:
        settings = {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"{issuer.url}/jwks",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": "1",
            "sasl.oauthbearer.expected.issuer": issuer.url,
            "sasl.oauthbearer.expected.audience": "kafka",
        }
        async with served(directory, **settings) as server:
            await asyncio.to_thread(story, server)

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(with_broker())


def logs_in(settings: dict[str, Any]) -> bool:
    with Admin(settings) as admin:
        return bool(admin.describe_cluster().brokers)


def librdkafka_logs_in(issuer: Issuer, server: Server, secret: str) -> bool:
    """Return whether librdkafka gets a token and is let in; in a process of its own, since it keeps trying."""
    program = f"""
from confluent_kafka.admin import AdminClient
admin = AdminClient({{
    "bootstrap.servers": "127.0.0.1:{server.port}",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "{issuer.url}/token",
    "sasl.oauthbearer.client.id": "loader",
    "sasl.oauthbearer.client.secret": "{secret}",
    "sasl.oauthbearer.scope": "kafka",
    "log_level": 0,
}})
admin.poll(0)
print(len(admin.list_topics(timeout=10).brokers))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout == "1\n"


def test_our_clients_and_librdkafka_log_in_with_tokens_of_a_real_issuer(
    tmp_path: Path, issuer: Issuer
) -> None:
    def story(server: Server) -> None:
        assert logs_in(issuer.client(server))
        with pytest.raises(AuthenticationFailed) as refused:
            logs_in(issuer.client(server, **{"sasl.oauthbearer.client.secret": "topsecret"}))
        assert "401" in refused.value.reason
        assert "topsecret" not in str(refused.value)
        assert librdkafka_logs_in(issuer, server, "loader-secret")
        assert not librdkafka_logs_in(issuer, server, "wrong")
        users = {
            user.session.principal.name for user in server.broker.dispatcher.connections.values()
        }
        assert users <= {"loader"}
        assert server.counts["CLIENTS", "OAUTHBEARER", True] >= 2

    beside_a_broker(tmp_path, issuer, story)


def test_keys_that_a_real_issuer_rotates_are_followed(tmp_path: Path, issuer: Issuer) -> None:
    def story(server: Server) -> None:
        for _ in range(3):
            assert logs_in(issuer.client(server))
            issuer.rotate()

    beside_a_broker(tmp_path, issuer, story)


def test_tokens_for_another_audience_are_refused(tmp_path: Path, command: list[str]) -> None:
    issuer = Issuer(command, "payments")
    try:

        def story(server: Server) -> None:
            with pytest.raises(AuthenticationFailed, match="invalid_token"):
                logs_in(issuer.client(server))

        beside_a_broker(tmp_path, issuer, story)
    finally:
        issuer.stop()


def test_javas_client_logs_in_with_a_token_of_a_real_issuer(tmp_path: Path, issuer: Issuer) -> None:
    def story(server: Server) -> None:
        file = tmp_path / "client.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\n"
            "sasl.mechanism=OAUTHBEARER\n"
            f"sasl.oauthbearer.token.endpoint.url={issuer.url}/token\n"
            f"sasl.login.callback.handler.class={_PACKAGE}.OAuthBearerLoginCallbackHandler\n"
            f"sasl.jaas.config={_PACKAGE}.OAuthBearerLoginModule required "
            'clientId="loader" clientSecret="loader-secret" scope="kafka";\n'
        )
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.url}/token"
        at = ("--bootstrap-server", f"127.0.0.1:{server.port}", "--command-config", str(file))
        done = ApacheKafka("3.9").tool(
            "kafka-topics", *at, "--create", "--topic", "t", options=(*SMALL, allowed)
        )
        assert done.code == 0, done
        assert "Created topic t." in done.out

    beside_a_broker(tmp_path, issuer, story)
