"""The authorities that a listener names to clients are those that Apache Kafka's names, with the same trust store."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from kavka_compat.apache import ApacheKafka
from kavka_compat.ours import launch_kavka
from kavka_compat.processes import free_port
from support.certificates import Authority

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(400)]

TRUSTED = {"Root", "Between", "Another root", "a broker's own"}


def _settings(directory: Path, ports: dict[str, int]) -> dict[str, str]:
    """Return settings with a listener SSL for each value of `ssl.client.auth`."""
    root = Authority("Root")
    between = Authority("Between", root)
    own = root.sign("a broker's own")
    trusted = [root.certificate, between.certificate, own.chain[0], root.certificate]
    trusted.append(Authority("Another root").certificate)
    store = directory / "trusted.pem"
    store.write_bytes(b"".join(one.public_bytes(Encoding.PEM) for one in trusted))
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    return {
        "listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REQUESTED:SSL,REQUIRED:SSL,NONE:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": root.sign().write_pem(directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(store),
        **{
            f"listener.name.{one.lower()}.ssl.client.auth": one.lower()
            for one in ports
            if one != "PLAINTEXT"
        },
    }


def _named(port: int, version: str) -> set[str]:
    program = shutil.which("openssl")
    assert program is not None
    said = subprocess.run(
        [program, "s_client", "-connect", f"127.0.0.1:{port}", version],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    ).stdout
    assert "BEGIN CERTIFICATE" in said, said
    found = re.search(r"Acceptable client certificate CA names\n((?:.*CN = .*\n)+)", said)
    return set(re.findall("CN = (.*)\n", found[1])) if found else set()


def _all_named(ports: dict[str, int]) -> dict[tuple[str, str], set[str]]:
    return {
        (name, version): _named(port, version)
        for name, port in ports.items()
        if name != "PLAINTEXT"
        for version in ("-tls1_2", "-tls1_3")
    }


def test_the_same_authorities_are_named(tmp_path: Path) -> None:
    ports = {name: free_port() for name in ("PLAINTEXT", "REQUESTED", "REQUIRED", "NONE")}
    settings = _settings(tmp_path, ports)
    with ApacheKafka("3.9").run_broker(tmp_path / "apache", "zookeeper", settings):
        theirs = _all_named(ports)
    broker = launch_kavka(tmp_path / "kavka", settings, ports["PLAINTEXT"])
    try:
        broker.process.wait_for("ready: ", 60)
        ours = _all_named(ports)
    finally:
        broker.process.stop()
    assert ours == theirs
    assert {frozenset(names) for (name, _), names in ours.items() if name != "NONE"} == {
        frozenset(TRUSTED)
    }
    assert not ours["NONE", "-tls1_2"]
