"""Logins and access lists between brokers and ZooKeeper: ours and Apache's on both sides."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from kavka_compat.apache import SMALL, ApacheKafka, write_properties
from kavka_compat.ours import kavka_command, run_kavka
from kavka_compat.processes import free_port
from kavka_compat.served import run_served
from kavka_compat.zookeeper import RELEASES, run_ensemble
from support.certificates import PASSWORD
from support.served_registry import USERS, jaas_file
from support.tls import TlsFiles

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

KAFKA = ApacheKafka("3.9")
Lists = dict[str, set[tuple[int, str, str]]]

SETTINGS = {
    "zookeeper.set.acl": "true",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
OWNER, READERS, OPEN = (31, "sasl", "kafka"), (1, "world", "anyone"), (31, "world", "anyone")


def login(jaas: Path) -> str:
    """Return the option of Java that names a JAAS file."""
    return f"-Djava.security.auth.login.config={jaas}"


def run_ours(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one of our commands to its end."""
    return subprocess.run(
        kavka_command(*words),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextmanager
def kazoo(connect: str, user: str = "kafka") -> Iterator[Any]:
    options = {"mechanism": "DIGEST-MD5", "username": user, "password": USERS[user]}
    client = KazooClient(connect, sasl_options=options)
    client.start(20)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def access_lists(connect: str) -> Lists:
    """Return the access lists of all nodes; numbers of brokers and partitions are the same in both clusters."""
    found: Lists = {}
    with kazoo(connect) as client:
        waiting = ["/"]
        while waiting:
            path = waiting.pop()
            entries, _stat = client.get_acls(path)
            found[path] = {(one.perms, one.id.scheme, one.id.id) for one in entries}
            prefix = "" if path == "/" else path
            waiting += [f"{prefix}/{name}" for name in client.get_children(path)]
    return found


def use(bootstrap: str) -> None:
    """Have a cluster make znodes of each kind: topics, configurations, users, access rules, quotas."""
    at = ["--bootstrap-server", bootstrap]
    KAFKA.check("kafka-topics", *at, "--create", "--topic", "t", "--config", "retention.ms=9999999")
    alter = ["--alter", "--add-config"]
    KAFKA.check(
        "kafka-configs",
        *(
            *at,
            *alter,
            "SCRAM-SHA-256=[password=x]",
            "--entity-type",
            "users",
            "--entity-name",
            "u",
        ),
    )
    KAFKA.check("kafka-acls", *at, "--add", "--allow-principal", "User:u", "--topic", "t")


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES)
def test_znodes_have_the_access_lists_that_apache_kafka_gives_them(
    release: str, tmp_path: Path
) -> None:
    jaas = jaas_file(tmp_path)
    provider = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
    with run_ensemble(
        tmp_path, release=release, settings=provider, options=[login(jaas)]
    ) as ensemble:
        ours = {
            "zookeeper.connect": f"{ensemble.connect}/cluster",
            "kavka.zookeeper.jaas.file": str(jaas),
            "broker.id": "0",
            **SETTINGS,
        }
        with run_kavka(tmp_path / "ours", ours) as broker:
            use(broker.bootstrap)
            made_by_us = access_lists(f"{ensemble.connect}/cluster")
        with kazoo(ensemble.connect) as client:
            client.delete("/cluster", recursive=True)
        with KAFKA.run_broker(
            tmp_path / "theirs",
            "zookeeper",
            SETTINGS,
            (*SMALL, login(jaas)),
            f"{ensemble.connect}/cluster",
        ) as broker:
            use(broker.bootstrap)
            made_by_kafka = access_lists(f"{ensemble.connect}/cluster")
    both = made_by_us.keys() & made_by_kafka.keys()
    assert {path: made_by_us[path] for path in both} == {path: made_by_kafka[path] for path in both}
    assert made_by_us["/config/users/u"] == {OWNER}
    assert made_by_us["/consumers"] == {OPEN}
    assert made_by_us["/brokers/topics/t/partitions/0/state"] == {OWNER, READERS}
    # Nodes of notifications go again at their own times.
    only = {path for path in made_by_us.keys() ^ made_by_kafka.keys() if "chang" not in path}
    assert only <= {"/migration", "/feature", "/config/client-metrics"}, only


@pytest.mark.long
def test_apache_kafka_logs_in_to_the_served_registry_and_its_tools_migrate_it(
    tmp_path: Path,
) -> None:
    jaas = jaas_file(tmp_path)
    options = (*SMALL, login(jaas))
    with run_served(tmp_path, {"kavka.jaas.file": str(jaas)}) as served:
        connect = f"{served.connect}/cluster"
        with KAFKA.run_broker(
            tmp_path / "kafka", "zookeeper", SETTINGS, options, connect
        ) as broker:
            use(broker.bootstrap)
        protected = access_lists(connect)
        assert protected["/config/users/u"] == {OWNER}
        assert protected["/brokers/topics/t"] == {OWNER, READERS}
        migrate = ["--zookeeper.connect", connect, "--zookeeper.acl"]
        for which in ("unsecure", "secure"):
            done = KAFKA.tool("zookeeper-security-migration", *migrate, which, options=options)
            assert done.code == 0, done
            opened = access_lists(connect)
            if which == "unsecure":
                assert {frozenset(entries) for entries in opened.values()} == {frozenset([OPEN])}
        by_kafkas = access_lists(connect)
        assert by_kafkas["/config/users/u"] == {OWNER}
        environment = {"KAFKA_OPTS": login(jaas)}
        for which in ("unsecure", "secure"):
            ours = run_ours("zookeeper-security-migration", *migrate, which, **environment)
            assert ours.returncode == 0, ours
        assert access_lists(connect) == by_kafkas
        said = KAFKA.tool(
            "zookeeper-shell",
            *("-server", connect),
            stdin="addauth digest alice:pw\nwhoami\nget /config/users/u\nset /controller_epoch 9\n"
            "create /alices x auth::cdrwa\ngetAcl /alices\nquit\n",
        )
        shown = said.out + said.err
        assert "digest: alice" in shown
        assert "Insufficient permission : /config/users/u" in shown
        assert "Insufficient permission : /controller_epoch" in shown
        # The chroot belongs to the brokers.
        assert "Insufficient permission : /alices" in shown


def zookeepers_tls(files: TlsFiles, directory: Path) -> dict[str, object]:
    store = files.authority.sign("zookeeper")
    trust = files.authority.write_pem(directory / "zookeeper-ca.pem")
    return {
        "secureClientPort": free_port(),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": store.write_pkcs12(directory / "zookeeper.p12"),
        "ssl.keyStore.password": PASSWORD,
        "ssl.trustStore.location": trust,
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
    }


@pytest.mark.long
def test_a_certificate_is_a_brokers_identity_at_apache_zookeeper(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path)
    settings = zookeepers_tls(files, tmp_path)
    broker_settings: Mapping[str, str] = {
        "broker.id": "0",
        "zookeeper.connect": f"127.0.0.1:{settings['secureClientPort']}/tls",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": files.client,
        "zookeeper.ssl.truststore.location": files.trust,
        "zookeeper.set.acl": "true",
    }
    with (
        run_ensemble(tmp_path, settings=settings) as ensemble,
        run_kavka(tmp_path / "broker", broker_settings) as broker,
    ):
        KAFKA.check(
            "kafka-topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "t"
        )
        plain = KazooClient(ensemble.connect)
        plain.start(20)
        entries, _stat = plain.get_acls("/tls/brokers/topics/t")
        owner = ("x509", "CN=alice,O=Acme")
        found = {(one.perms, one.id.scheme, one.id.id) for one in entries}
        assert found == {(31, *owner), READERS}
        plain.stop()
        plain.close()
        properties = write_properties(
            tmp_path / "tls.properties",
            {name: text for name, text in broker_settings.items() if ".ssl." in name},
        )
        done = run_ours(
            "zookeeper-shell",
            broker_settings["zookeeper.connect"],
            *("-zk-tls-config-file", str(properties), "whoami"),
        )
        assert done.returncode == 0, done
        assert "x509: CN=alice,O=Acme" in done.stdout
