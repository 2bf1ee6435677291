"""Programs of others reach a broker over mutual TLS: OpenSSL, librdkafka, kcat, clients in Python."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from kavka.testing.local_cluster import LocalCluster
from support.certificates import PASSWORD
from support.tls import TlsFiles

VALUES = [b"%d" % number * 1000 for number in range(200)] + [bytes(900_000)]


class Server:
    """A broker that requires certificates, and a client's files as other programs take them."""

    def __init__(self, directory: Path) -> None:
        self.files = TlsFiles(directory)
        signed = self.files.authority.sign("alice", hosts=())
        self.chain, self.key = directory / "alice.crt", directory / "alice.key"
        self.chain.write_bytes(signed.chain_pem)
        self.key.write_bytes(signed.key_pem(PASSWORD))
        given = self.files.broker_settings(client_auth="required")
        self.settings = {
            name.replace("__", "."): text for name, text in given.items() if name != "listeners"
        }
        self.bootstrap_servers = ""

    @property
    def port(self) -> int:
        return int(self.bootstrap_servers.rpartition(":")[2])

    def librdkafka(self, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": self.files.trust,
            "ssl.certificate.location": str(self.chain),
            "ssl.key.location": str(self.key),
            "ssl.key.password": PASSWORD,
            **more,
        }

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.files.trust)
        context.load_cert_chain(self.chain, self.key, PASSWORD)
        return context


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("tls")
    server = Server(directory)
    with LocalCluster(directory / "cluster", brokers=1, settings=server.settings) as cluster:
        server.bootstrap_servers = cluster.bootstrap_servers
        yield server


def test_librdkafka_reads_what_it_wrote(server: Server) -> None:
    producer = confluent_kafka.Producer(server.librdkafka())
    for value in VALUES:
        producer.produce("librdkafka", value)
    assert producer.flush(60) == 0
    consumer = confluent_kafka.Consumer(
        server.librdkafka(**{"group.id": "g", "auto.offset.reset": "earliest"})
    )
    consumer.subscribe(["librdkafka"])
    read: list[bytes] = []
    while len(read) < len(VALUES):
        for message in consumer.consume(500, 1):
            assert message.error() is None
            read.append(message.value())
    consumer.close()
    assert read == VALUES


def test_librdkafka_says_that_a_certificate_is_asked_for(server: Server) -> None:
    errors: list[Any] = []
    settings = server.librdkafka(error_cb=errors.append)
    for name in ("ssl.certificate.location", "ssl.key.location", "ssl.key.password"):
        del settings[name]
    consumer = confluent_kafka.Consumer(settings | {"group.id": "none"})
    with pytest.raises(confluent_kafka.KafkaException):
        consumer.list_topics(timeout=1)
    consumer.close()
    assert any("certificate" in str(error) for error in errors), errors


def test_kafka_python_reads_what_it_wrote(server: Server) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": server.bootstrap_servers,
        "security_protocol": "SSL",
        "ssl_cafile": server.files.trust,
        "ssl_certfile": str(server.chain),
        "ssl_keyfile": str(server.key),
        "ssl_password": PASSWORD,
    }
    producer = kafka.KafkaProducer(**settings)
    for value in VALUES:
        producer.send("kafka-python", value)
    producer.flush()
    producer.close()
    consumer = kafka.KafkaConsumer("kafka-python", auto_offset_reset="earliest", **settings)
    assert [next(consumer).value for _ in VALUES] == VALUES
    consumer.close()


def test_aiokafka_reads_what_it_wrote(server: Server) -> None:
    async def story() -> None:
        settings: dict[str, Any] = {
            "bootstrap_servers": server.bootstrap_servers,
            "security_protocol": "SSL",
            "ssl_context": server.context(),
        }
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            for value in VALUES:
                await producer.send("aiokafka", value)
        consumer = aiokafka.AIOKafkaConsumer("aiokafka", auto_offset_reset="earliest", **settings)
        async with consumer:
            assert [(await consumer.getone()).value for _ in VALUES] == VALUES

    asyncio.run(story())


def test_kcat_reads_what_it_wrote(server: Server) -> None:
    options = [
        part
        for name, text in server.librdkafka().items()
        if name != "bootstrap.servers"
        for part in ("-X", f"{name}={text}")
    ]
    kcat = ["kcat", "-b", server.bootstrap_servers, *options, "-t", "kcat", "-q"]
    subprocess.run([*kcat, "-P"], input=b"one\ntwo\n", check=True, timeout=60)
    read = subprocess.run(
        [*kcat, "-C", "-o", "beginning", "-e"], capture_output=True, check=True, timeout=60
    )
    assert read.stdout == b"one\ntwo\n"


def s_client(server: Server, *options: str) -> tuple[int, str]:
    """Return the exit code and the output of OpenSSL's client."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", *options]
    command += [
        "-CAfile",
        server.files.trust,
        "-verify_return_error",
        "-verify_hostname",
        "localhost",
    ]
    command += ["-cert", str(server.chain), "-key", str(server.key), "-pass", f"pass:{PASSWORD}"]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False)
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


@pytest.mark.parametrize(("option", "shown"), [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")])
def test_openssl_agrees_on_each_version(server: Server, option: str, shown: str) -> None:
    code, output = s_client(server, option)
    assert code == 0, output
    assert f"New, {shown}, Cipher is" in output
    assert "Verification: OK" in output
    assert "Secure Renegotiation IS" in output


@pytest.mark.parametrize("option", ["-tls1", "-tls1_1"])
def test_openssl_is_refused_with_an_old_version(server: Server, option: str) -> None:
    code, output = s_client(server, option, "-cipher", "ALL:@SECLEVEL=0")
    assert code != 0
    assert "protocol version" in output


def test_a_client_may_not_renegotiate(server: Server) -> None:
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_2"]
    command += ["-cert", str(server.chain), "-key", str(server.key), "-pass", f"pass:{PASSWORD}"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        output = b""
        while b"Max Early Data" not in output and b"Extended master secret" not in output:
            line = client.stdout.readline()
            assert line, output
            output += line
        client.stdin.write(b"R\n")
        client.stdin.flush()
        rest, _ = client.communicate(timeout=60)
    assert b"RENEGOTIATING" in rest
    assert b"no renegotiation" in rest or b"no_renegotiation" in rest, rest
