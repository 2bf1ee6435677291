"""Java's clients by each mechanism over each protocol: Kafka's console producer writes, its console consumer reads."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kavka.client.admin import Admin, ScramUpsertion
from kavka.net.event_loop import MeasuredEventLoop
from kavka_compat.apache import ApacheKafka
from kavka_compat.processes import free_port
from support.certificates import PASSWORD
from support.in_process import dotted
from support.sasl import served
from support.tls import TlsFiles

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(900)]

_PACKAGE = "org.apache.kafka.common.security"
_SCRAM = f'{_PACKAGE}.scram.ScramLoginModule required username="alice" password="scram secret";'
LOGINS = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule required "
    'username="alice" password="alice secret";',
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="alice";',
}
_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")


class Clients:
    """Writes the settings of clients, and has Kafka's tools use them."""

    def __init__(self, tools: ApacheKafka, directory: Path, files: TlsFiles) -> None:
        self._tools = tools
        self._directory = directory
        signed = files.authority.sign("alice", hosts=())
        self._tls = {
            "ssl.truststore.type": "JKS",
            "ssl.truststore.location": files.authority.write_jks(directory / "ca.jks"),
            "ssl.truststore.password": PASSWORD,
        }
        self._own = {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": signed.write_pkcs12(directory / "alice.p12"),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
        }

    def settings(self, protocol: str, mechanism: str | None) -> str:
        """Return a file of settings."""
        settings = {"security.protocol": protocol, **({} if "PLAINTEXT" in protocol else self._tls)}
        if mechanism is None:
            settings |= self._own
        else:
            settings |= {"sasl.mechanism": mechanism, "sasl.jaas.config": LOGINS[mechanism]}
        path = self._directory / f"{protocol}-{mechanism}.properties"
        path.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
        return str(path)

    def write_and_read(self, port: int, protocol: str, mechanism: str | None) -> None:
        """Write a record by one client, and read it by another."""
        topic = f"{protocol}-{mechanism}"
        file = self.settings(protocol, mechanism)
        at = ("--bootstrap-server", f"127.0.0.1:{port}", "--topic", topic)
        sent = ("kafka-console-producer", *at, "--producer.config", file)
        self._tools.check(*sent, stdin=f"by {topic}\n", seconds=180)
        asked = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "60000")
        read = self._tools.check(
            "kafka-console-consumer", *at, "--consumer.config", file, *asked, seconds=180
        )
        assert read.lines == [f"by {topic}"]


@pytest.mark.parametrize("kafka_tools", ["3.9", "4.1"], indirect=True)
def test_javas_clients_write_and_read_by_each_mechanism_over_each_protocol(
    tmp_path: Path, kafka_tools: ApacheKafka
) -> None:
    files = TlsFiles(tmp_path)
    clients = Clients(kafka_tools, tmp_path, files)
    ports = {protocol: free_port() for protocol in _PROTOCOLS}
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    settings = {
        **{name: text for name, text in dotted(files.broker_settings()).items() if "ssl." in name},
        "listeners": f"CLIENTS://127.0.0.1:0,{listeners}",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,"
        + ",".join(f"{name}:{name}" for name in ports),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(LOGINS),
        "auto.create.topics.enable": "true",
    }
    for name in ("clients", "sasl_plaintext", "sasl_ssl"):
        settings[f"listener.name.{name}.plain.sasl.jaas.config"] = (
            f'{_PACKAGE}.plain.PlainLoginModule required user_alice="alice secret";'
        )
        settings[f"listener.name.{name}.oauthbearer.sasl.jaas.config"] = (
            "OAuthBearerLoginModule required;"
        )

    def story() -> None:
        for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
            for mechanism in LOGINS:
                clients.write_and_read(ports[protocol], protocol, mechanism)
        clients.write_and_read(ports["SSL"], "SSL", None)

    async def beside() -> None:
        async with served(tmp_path, **settings) as server:
            async with Admin(server.config("alice", "alice secret")) as admin:
                upsertions = [
                    ScramUpsertion("alice", mechanism, "scram secret", iterations=4096)
                    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
                ]
                assert await admin.alter_user_scram_credentials(upsertions) == {"alice": None}
            await asyncio.to_thread(story)
            for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
                for mechanism in LOGINS:
                    assert server.counts[protocol, mechanism, True] >= 2
            assert all(is_success for (_, _, is_success) in server.counts)

    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        runner.run(beside())
