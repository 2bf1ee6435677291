"""kafka-python's own tests against our brokers: a pytest plugin, and the run of it.

Their fixture starts Apache Kafka by its scripts; the plugin lets it start a broker of ours in its place, with the
listener, the user and the certificates that a test asks for. Tests that ask for nothing get the transport of `run`.
"""

from __future__ import annotations

import os
import sys
import types
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from kavka.client.admin import ScramUpsertion
from kavka.client.blocking import Admin
from kavka_compat.environments import sources
from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running, free_port
from kavka_compat.suites import run_suite
from support.certificates import Authority

_TRANSPORT, _MECHANISM = "KAVKA_TRANSPORT", "KAVKA_MECHANISM"


def run(
    modules: list[str], directory: Path, transport: str = "PLAINTEXT", mechanism: str = ""
) -> dict[str, str]:
    """Run modules of their integration tests; return `PASSED` or another outcome by test."""
    source = sources("kafka-python", version("kafka-python"))
    return run_suite(
        "kafka_python_suite",
        [f"test/integration/test_{name}_integration.py" for name in modules],
        source,
        directory / "report.txt",
        prefix="test/integration/",
        environment={
            "KAFKA_VERSION": "3.9.0",
            "KAFKA_ROOT": str(directory),
            _TRANSPORT: transport,
            _MECHANISM: mechanism,
        },
    )


def _settings(fixture: Any) -> dict[str, str]:
    """Return the settings of the broker that a fixture of theirs asks for."""
    inner = free_port()
    settings = {
        "listeners": f"CLIENTS://localhost:{fixture.port},INNER://127.0.0.1:{inner}",
        "listener.security.protocol.map": f"CLIENTS:{fixture.transport},INNER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "log.dirs": str(fixture.tmp_dir / "data"),
        "num.partitions": str(fixture.partitions),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
    }
    if fixture.sasl_enabled:
        settings["sasl.enabled.mechanisms"] = fixture.sasl_mechanism
        settings["listener.name.clients.plain.sasl.jaas.config"] = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'user_{fixture.broker_user}="{fixture.broker_password}";'
        )
    if fixture.ssl_enabled:
        fixture.ssl_dir = str(fixture.tmp_dir.ensure("ssl", dir=True))
        authority = Authority()
        authority.write_pem(Path(fixture.ssl_dir) / "ca-cert")
        settings["ssl.keystore.type"] = "PEM"
        settings["ssl.keystore.location"] = authority.sign().write_pem(
            Path(fixture.ssl_dir) / "broker.pem"
        )
    fixture.inner = f"127.0.0.1:{inner}"
    return settings


class _Child:
    """A broker of ours, as their fixture uses a service."""

    def __init__(self, fixture: Any) -> None:
        settings = _settings(fixture)
        overrides = [p for name, text in settings.items() for p in ("--override", f"{name}={text}")]
        output = Path(str(fixture.tmp_dir)) / "server.out"
        self._process = Running(kavka_command("server-start", *overrides), output)
        self._process.wait_for("ready: ", 60)
        if fixture.sasl_enabled and fixture.sasl_mechanism.startswith("SCRAM"):
            upsertion = ScramUpsertion(
                fixture.broker_user,
                fixture.sasl_mechanism,
                fixture.broker_password,
                iterations=4096,
            )
            with Admin({"bootstrap.servers": fixture.inner}) as admin:
                found = admin.alter_user_scram_credentials([upsertion])
            assert found == {fixture.broker_user: None}

    def stop(self) -> None:
        self._process.stop()

    def dump_logs(self) -> None:
        """Show what a failed test needs."""
        print(self._process.text())


def _replace(fixtures: Any) -> None:
    """Let their fixture start a broker of ours."""
    kind = fixtures.KafkaFixture

    def instance(broker_id: int, zookeeper: Any = None, **given: Any) -> Any:
        given.setdefault("transport", os.environ[_TRANSPORT])
        if given["transport"].startswith("SASL"):
            given.setdefault("sasl_mechanism", os.environ[_MECHANISM])
        fixture = kind("localhost", None, broker_id, **given)
        fixture.open()
        return fixture

    def start(self: Any) -> None:
        if not self.running:
            self.tmp_dir.ensure(dir=True)
            self.child = _Child(self)
            self.running = True

    def start_in_new_directory(self: Any) -> None:
        if self.tmp_dir is None:
            self.tmp_dir = fixtures.py.path.local.mkdtemp()
        start(self)

    def get_topic_names(self: Any) -> list[str]:
        with Admin({"bootstrap.servers": self.inner}) as admin:
            return list(admin.list_topics())

    def dump_logs(self: Any) -> None:
        self.child.dump_logs()

    kind.instance = staticmethod(instance)
    kind.start, kind.open = start, start_in_new_directory
    kind.get_topic_names, kind.dump_logs = get_topic_names, dump_logs


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    """Make their tests importable, whose package has the name of one of Python's own, and replace the fixture."""
    package = types.ModuleType("test")
    package.__path__ = [str(early_config.rootpath / "test")]
    service = types.ModuleType("test.service")
    vars(service).update(ExternalService=None, SpawnedService=None)
    sys.modules.update({"test": package, "test.service": service})
    _replace(import_module("test.integration.fixtures"))
