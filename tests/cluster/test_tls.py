"""Brokers that reach each other over mutual TLS only."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.client.admin import NewTopic
from kavka.client.blocking import Admin, Consumer, Producer
from kavka.settings.declaration import InvalidSetting
from kavka.testing.local_cluster import LocalCluster
from support.certificates import Authority
from support.cluster import Cluster
from support.in_process import run_story
from support.tls import TlsFiles


def dotted(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("__", "."): text for name, text in settings.items() if name != "listeners"}


def test_records_are_replicated_and_survive_a_leader_over_mutual_tls(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path)
    settings = dotted(files.broker_settings(client_auth="required"))
    settings["offsets.topic.replication.factor"] = "1"
    with LocalCluster(tmp_path / "cluster", brokers=2, settings=settings) as cluster:
        client = files.client_settings(certificate=files.client)
        client["bootstrap.servers"] = cluster.bootstrap_servers
        with Admin(client) as admin:
            admin.create_topics([NewTopic("t", 1, 2)])
        with Producer(client) as producer:
            for number in range(100):
                producer.send("t", b"%d" % number)
            producer.flush()
            cluster.until_replicated("t", replicas=2)
            cluster.kill(cluster.leader("t"))
            producer.send("t", b"100")
            producer.flush()
        values: list[bytes] = []
        with Consumer(client | {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(["t"])
            while len(values) < 101:
                values += [r.value for one in consumer.poll(1000) for r in one.records()]
        assert values == [b"%d" % number for number in range(101)]


def test_a_broker_whose_certificate_others_would_refuse_does_not_start(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path)
    settings = {**dotted(files.broker_settings()), "listeners": "SSL://127.0.0.1:0"}
    settings["ssl.truststore.location"] = Authority("Another").write_pem(tmp_path / "another.pem")

    async def story(cluster: Cluster) -> None:
        with pytest.raises(InvalidSetting, match="could not connect to each other") as refused:
            await cluster.start(1)
        assert refused.value.name == "ssl.truststore.location"

    run_story(Cluster(tmp_path, settings), story)
