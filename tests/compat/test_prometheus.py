"""Prometheus scrapes a broker's page over TLS with a password, and its `promtool` finds nothing to complain of."""

from __future__ import annotations

import subprocess
import urllib.request
from pathlib import Path

import pytest

from kavka_compat.ours import kavka_command, run_kavka
from kavka_compat.prometheus import program, run_prometheus
from support.tls import TlsFiles
from support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]

SCRAPE = """
job_name: kavka
scheme: https
basic_auth:
  username: prometheus
  password_file: {password}
tls_config:
  ca_file: {trust}
static_configs:
  - targets: ["127.0.0.1:{port}"]
"""


def test_prometheus_scrapes_over_tls_with_a_password(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path)
    users, password = tmp_path / "users", tmp_path / "password"
    password.write_text("wrong")
    command = kavka_command("metrics-users", "--file", str(users), "--set", "prometheus")
    subprocess.run(command, input="a secret\n", text=True, check=True, timeout=60)
    settings = {
        "kavka.metrics.port": "0",
        "kavka.metrics.security.protocol": "SSL",
        "kavka.metrics.users.file": str(users),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files.broker,
    }
    with run_kavka(tmp_path / "kavka", settings) as broker:
        url = broker.metrics_url
        assert url.startswith("https://")
        port = int(url.rpartition(":")[2].partition("/")[0])
        scrape = SCRAPE.format(password=password, trust=files.trust, port=port)
        with run_prometheus(tmp_path, scrape) as prometheus:
            wait_until(lambda: "401" in prometheus.target_error(), 60)
            assert [row["value"] for row in prometheus.query("up")] == ["0"]
            password.write_text("a secret")
            wait_until(lambda: [row["value"] for row in prometheus.query("up")] == ["1"], 60)
            (row,) = prometheus.query("kafka_server_socket_server_metrics_connection_count")
            assert (row["listener"], row["networkProcessor"]) == ("PLAINTEXT", "0")
            assert prometheus.query("kafka_server_kafkaserver_brokerstate")[0]["value"] == "3"


def test_promtool_takes_the_page(tmp_path: Path) -> None:
    settings = {"kavka.metrics.port": "0"}
    with run_kavka(tmp_path / "kavka", settings) as broker:
        with urllib.request.urlopen(broker.metrics_url, timeout=30) as response:
            page = response.read()
        done = subprocess.run(
            [str(program("promtool")), "check", "metrics"],
            input=page,
            capture_output=True,
            check=False,
            timeout=60,
        )
        # Its rules of style do not fit Kafka's names, which are the contract; what is no format has another code.
        assert done.returncode in (0, 3), done.stderr.decode()
        assert b"error while linting" not in done.stderr
