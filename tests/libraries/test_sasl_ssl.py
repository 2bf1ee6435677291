"""SASL_SSL between two brokers and to clients, ours, librdkafka's and kcat: a password goes through TLS only."""

from __future__ import annotations

import subprocess
from pathlib import Path

import confluent_kafka

from kavka.client.admin import NewTopic, ScramUpsertion
from kavka.client.blocking import Admin, Consumer
from kavka.testing.local_cluster import LocalCluster
from support.tls import TlsFiles

USERS = "".join(f' user_{name}="{name}-secret"' for name in ("broker", "alice"))
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def test_records_are_replicated_and_read(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path)
    settings = {
        name.replace("__", "."): text
        for name, text in files.broker_settings().items()
        if name != "listeners"
    } | {
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{MODULE} username="broker" password="broker-secret"{USERS};'
        ),
    }
    with LocalCluster(tmp_path / "cluster", brokers=2, settings=settings) as cluster:
        ours = files.client_settings() | {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{MODULE} username="alice" password="alice-secret";',
        }
        with Admin(ours) as admin:
            admin.create_topics([NewTopic("t", 1, 2)])
            scram = ScramUpsertion("carol", "SCRAM-SHA-512", "carol-secret")
            assert admin.alter_user_scram_credentials([scram]) == {"carol": None}
        theirs = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": files.trust,
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "alice-secret",
        }
        producer = confluent_kafka.Producer({**theirs, "acks": "all"})
        producer.produce("t", b"value")
        assert producer.flush(60) == 0
        cluster.until_replicated("t", replicas=2)
        with Consumer({**ours, "group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(["t"])
            values: list[bytes] = []
            while not values:
                values = [r.value for one in consumer.poll(1000) for r in one.records()]
        assert values == [b"value"]
        options = [part for name, text in theirs.items() for part in ("-X", f"{name}={text}")]
        kcat = ["kcat", *options, "-t", "t", "-q"]
        subprocess.run([*kcat, "-P"], input=b"of kcat\n", check=True, timeout=60)
        read = subprocess.run([*kcat, "-C", "-e"], capture_output=True, check=True, timeout=60)
        assert read.stdout == b"value\nof kcat\n"
        wrong = [*kcat, "-X", "sasl.password=guess", "-C", "-e"]
        refused = subprocess.run(wrong, capture_output=True, check=False, timeout=60)
        assert (refused.returncode, refused.stdout) == (1, b"")
        # kcat of Debian 12 is built on librdkafka 2.0, which repeats its nonce.
        by_scram = {"mechanism": "SCRAM-SHA-512", "username": "carol", "password": "carol-secret"}
        carol = [part for name, text in by_scram.items() for part in ("-X", f"sasl.{name}={text}")]
        read = subprocess.run(
            [*kcat, *carol, "-C", "-e"], capture_output=True, check=True, timeout=60
        )
        assert read.stdout == b"value\nof kcat\n"
