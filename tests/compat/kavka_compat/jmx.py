"""The JMX exporter's agent in an Apache Kafka broker, and rules that name its MBeans as the exporter's sample does."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from kavka_compat.artifacts import cache_directory
from kavka_compat.processes import free_port

_VERSION = "1.0.1"
_ARTIFACT = f"io.prometheus.jmx:jmx_prometheus_javaagent:{_VERSION}"
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"

_Labels = Sequence[tuple[str, str]]


def agent() -> Path:
    """Return the agent's jar, fetched from Maven Central on first use."""
    directory = cache_directory(f"jmx-exporter-{_VERSION}")
    jar = directory / f"jmx_prometheus_javaagent-{_VERSION}.jar"
    if not jar.exists():
        words = ["mvn", "-B", "-q", _GOAL, f"-Dartifact={_ARTIFACT}"]
        subprocess.run([*words, f"-DoutputDirectory={directory}"], check=True, timeout=300)
    return jar


def agent_option(directory: Path) -> tuple[str, str]:
    """Return the option of the JVM that serves the metrics, and the page's URL."""
    config = directory / "jmx.yml"
    config.write_text(_rules())
    port = free_port()
    return f"-javaagent:{agent()}=127.0.0.1:{port}:{config}", f"http://127.0.0.1:{port}/metrics"


def _rules() -> str:
    """Write the rules: those with more keys first, for the others fit as well."""
    rules = ["lowercaseOutputName: true", "rules:"]
    rules += _rule(
        "kafka.server<type=(.+), name=(.+), clientId=(.+), topic=(.+), partition=(.*)><>Value",
        "kafka_server_$1_$2",
        [("clientId", "$3"), ("topic", "$4"), ("partition", "$5")],
    )
    # The sample has none for MBeans without a name. The names of the first are those of Strimzi's rules.
    rules += _rule(
        "kafka.server<type=(.+), clientSoftwareName=(.+), clientSoftwareVersion=(.+), listener=(.+),"
        " networkProcessor=(.+)><>connections",
        "kafka_server_$1_connections_software",
        [
            ("clientSoftwareName", "$2"),
            ("clientSoftwareVersion", "$3"),
            ("listener", "$4"),
            ("networkProcessor", "$5"),
        ],
    )
    rules += _rule(
        "kafka.server<type=(group-coordinator-metrics)><>(.+):", "kafka_server_$1_$2", []
    )
    for end, suffix in (("Count", "_total"), ("Value", "")):
        rules += _rule(
            rf"kafka.server<type=(.+), name=(.+)PerSec, clientId=(.+), brokerHost=(.+), brokerPort=(.+)><>{end}",
            f"kafka_server_$1_$2{suffix}",
            [("clientId", "$3"), ("broker", "$4:$5")],
        )
    rules += _rule(
        r"kafka.coordinator.(\w+)<type=(.+), name=(.+)><>Value", "kafka_coordinator_$1_$2_$3", []
    )
    for keys in (2, 1, 0):
        rules += _rules_for(keys)
    rules += _rule(
        "kafka.server<type=(.+), listener=(.+), networkProcessor=(.+)><>(.+):",
        "kafka_server_$1_$4",
        [("listener", "$2"), ("networkProcessor", "$3")],
    )
    return "\n".join(rules) + "\n"


def _rules_for(keys: int) -> list[str]:
    more = "".join(", (.+)=(.*)" for _ in range(keys))
    labels = [(f"${4 + 2 * key}", f"${5 + 2 * key}") for key in range(keys)]
    quantile = ("quantile", f"0.${4 + 2 * keys}")
    return [
        line
        for what, end, suffix, extra in (
            (r"(.+)Percent\w*", "MeanRate", "_percent", []),
            (r"(.+)Percent\w*", "Value", "_percent", []),
            (r"(.+)PerSec\w*", "Count", "_total", []),
            ("(.+)", "Value", "", []),
            ("(.+)", "Count", "_count", []),
            ("(.+)", r"(\d+)thPercentile", "", [quantile]),
        )
        for line in _rule(
            rf"kafka.(\w+)<type=(.+), name={what}{more}><>{end}",
            f"kafka_$1_$2_$3{suffix}",
            [*labels, *extra],
        )
    ]


def _rule(pattern: str, name: str, labels: _Labels) -> list[str]:
    # As in the exporter's sample. Of what is no counter the exporter removes `_total`.
    kind = "COUNTER" if name.endswith("_total") else "GAUGE"
    lines = [f"- pattern: '{pattern}'", f"  name: {name}", f"  type: {kind}"]
    if labels:
        lines += ["  labels:", *(f'    "{label}": "{value}"' for label, value in labels)]
    return lines
