"""Scanners of TLS find nothing of MEDIUM or worse at our ports, but that they do not know the test's authority."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from kavka_compat import scanners
from kavka_compat.ours import kavka_command
from kavka_compat.processes import Running, free_port
from support.in_process import dotted
from support.tls import TlsFiles

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(3600)]

_LISTENERS = ("SSL", "SASL_SSL")
PORTS = (*_LISTENERS, "metrics", "registry")


@contextmanager
def running(directory: Path) -> Iterator[dict[str, int]]:
    """Run a registry and a broker with TLS at each of their ports, for the body of a `with`; yield the ports."""
    files = TlsFiles(directory)
    # testssl.sh calls it HIGH when less than 30 days are left.
    files.broker = files.write("broker.pem", files.authority.sign("broker", end=90))
    ports = {name: free_port() for name in PORTS}
    registry = {
        "dataDir": str(directory / "registry"),
        "secureClientPort": str(ports["registry"]),
        "secureClientPortAddress": "127.0.0.1",
        "ssl.keyStore.location": files.broker,
        "ssl.trustStore.location": files.trust,
        "ssl.clientAuth": "none",
    }
    path = directory / "zoo.cfg"
    path.write_text("".join(f"{name}={text}\n" for name, text in registry.items()))
    with _started(kavka_command("zookeeper-server-start", str(path)), directory / "registry.out"):
        settings = _settings(files, ports)
        overrides = [p for name, text in settings.items() for p in ("--override", f"{name}={text}")]
        with _started(kavka_command("server-start", *overrides), directory / "broker.out"):
            yield ports


@contextmanager
def _started(command: list[str], output: Path) -> Iterator[None]:
    process = Running(command, output)
    try:
        process.wait_for("ready: ", 120)
        yield
    finally:
        process.stop()


def _settings(files: TlsFiles, ports: Mapping[str, int]) -> dict[str, str]:
    users = 'PlainLoginModule required user_alice="alice secret";'
    return {
        **dotted(files.broker_settings()),
        "listeners": ",".join(f"{name}://127.0.0.1:{ports[name]}" for name in _LISTENERS),
        "log.dirs": str(files.directory / "data"),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.{users}"
        ),
        "kavka.metrics.port": str(ports["metrics"]),
        "kavka.metrics.security.protocol": "SSL",
    }


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    with running(tmp_path_factory.mktemp("scanned")) as found:
        yield found


@pytest.mark.parametrize("name", PORTS)
def test_testssl_finds_nothing_of_medium_or_worse(
    ports: dict[str, int], tmp_path: Path, name: str
) -> None:
    grave, checks = scanners.testssl(f"127.0.0.1:{ports[name]}", tmp_path)
    assert grave == []
    assert checks > 80


@pytest.mark.parametrize("name", PORTS)
def test_sslyze_finds_old_versions_and_known_attacks_refused(
    ports: dict[str, int], tmp_path: Path, name: str
) -> None:
    found = scanners.sslyze(f"127.0.0.1:{ports[name]}", tmp_path)
    assert scanners.deviations(found) == []
