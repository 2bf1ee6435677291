"""Kafka's scripts, and ours, over SASL_SSL against a broker of ours with ACLs: each once, by `--command-config`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kavka_compat.apache import ApacheKafka, Finished
from kavka_compat.brokers import Broker
from kavka_compat.our_tools import our_tool
from kavka_compat.ours import launch_kavka
from kavka_compat.processes import free_port
from kavka_compat.secured import Secured
from kavka_compat.secured_scripts import Run, insist, steps
from support.access import AUTHORIZER

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]

_PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret"}


@contextmanager
def run_secured(directory: Path, secured: Secured) -> Iterator[Broker]:
    """Run a broker that has no listener but SASL_SSL, and denies what no ACL allows."""
    port = free_port()
    settings = {
        "listeners": f"SASL_SSL://127.0.0.1:{port}",
        "log.dirs": f"{directory}/logs,{directory}/more",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        **secured.broker_settings("admin"),
    }
    if secured.mechanism != "PLAIN":
        for user, password in secured.passwords.items():
            words = ("--log-dir", f"{directory}/logs", "--alter", "--entity-type", "users")
            stored = f"{secured.mechanism}=[password={password}]"
            our_tool("configs", *words, "--entity-name", user, "--add-config", stored)
    broker = launch_kavka(directory, settings, port)
    try:
        broker.process.wait_for("ready: SASL_SSL://", 60)
        yield broker
    finally:
        broker.process.stop()


def _kafkas(kafka: ApacheKafka) -> Run:
    def run(tool: str, *words: str, stdin: str = "") -> Finished:
        return kafka.tool(f"kafka-{tool}", *words, stdin=stdin, seconds=120)

    return run


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_kafkas_scripts_work_over_sasl_ssl(tmp_path: Path, mechanism: str) -> None:
    secured = Secured(tmp_path, _PASSWORDS, mechanism)
    run = _kafkas(ApacheKafka("3.9"))
    with run_secured(tmp_path, secured) as broker:
        config = secured.properties("admin")
        insist(run, steps(broker.bootstrap, config, tmp_path, f"{tmp_path}/more"))
        latency = (broker.bootstrap, "t", "20", "all", "100", config)
        measured = run("e2e-latency", *latency)
        assert measured.code == 0, str(measured)
        at = ("--bootstrap-server", broker.bootstrap, "--command-config")
        denied = run("topics", *at, secured.properties("alice"), "--create", "--topic", "new")
        assert denied.code == 1
        assert "AuthorizationException" in denied.out + denied.err
        secured.passwords["alice"] = "a guess"
        refused = run("topics", *at, secured.properties("alice"), "--list")
        assert refused.code == 1
        assert "SaslAuthenticationException" in refused.out + refused.err
        log = broker.process.text()
        assert "authentication failed" in log
        assert "secret" not in log
        assert "Traceback" not in log


def test_our_tools_work_over_sasl_ssl_as_processes(tmp_path: Path) -> None:
    secured = Secured(tmp_path, _PASSWORDS)
    with run_secured(tmp_path, secured) as broker:
        config = secured.properties("admin")
        insist(our_tool, steps(broker.bootstrap, config, tmp_path, f"{tmp_path}/more"))
