"""Prometheus of Debian, unpacked into the cache and not installed: its service would be started."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kavka.monitoring.panels import Dashboard
from kavka_compat.artifacts import MissingTool, cache_directory, fetch_once
from kavka_compat.processes import Running, free_port


def program(name: str) -> Path:
    """Return the path of `prometheus` or `promtool`, fetched on first use."""
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    directory = cache_directory("prometheus-debian")
    fetch_once(directory, b"prometheus", lambda: _fetch(directory))
    return directory / "usr" / "bin" / name


def _fetch(directory: Path) -> None:
    if shutil.which("apt-get") is None:
        raise MissingTool("`apt-get` is needed to fetch Prometheus from Debian")
    directory.mkdir(parents=True, exist_ok=True)
    # As any user: apt's own lists are read, and nothing is installed.
    subprocess.run(["apt-get", "download", "prometheus"], cwd=directory, check=True, timeout=300)
    (package,) = directory.glob("prometheus_*.deb")
    subprocess.run(["dpkg-deb", "-x", str(package), str(directory)], check=True, timeout=120)
    package.unlink()


class Prometheus:
    """A running Prometheus."""

    def __init__(self, process: Running, port: int) -> None:
        self.process = process
        self.port = port

    def query(self, promql: str) -> list[dict[str, str]]:
        """Return the labels of each sample, with the value as `value`."""
        query = urllib.parse.urlencode({"query": promql})
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{query}"
        with urllib.request.urlopen(url, timeout=10) as response:
            result = json.load(response)
        return [{**row["metric"], "value": row["value"][1]} for row in result["data"]["result"]]

    def rules(self) -> list[dict[str, str]]:
        """Return the alert rules with their `health` and `state`."""
        url = f"http://127.0.0.1:{self.port}/api/v1/rules"
        with urllib.request.urlopen(url, timeout=10) as response:
            groups = json.load(response)["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def panels_without_data(self, dashboard: Dashboard) -> list[str]:
        """Return the queries of a dashboard, with all values of its variables, that find nothing and need no event."""
        found = []
        for panel, query in dashboard.queries:
            promql = query.promql.replace("$__rate_interval", "15s")
            promql = re.sub(r"\$[a-z]+", ".*", promql)
            if not self.query(promql) and not query.needs:
                found.append(f"{panel.title}: {promql}")
        return found

    def target_error(self) -> str:
        """Return why the last scrape of the target failed; empty if it did not, or none was."""
        url = f"http://127.0.0.1:{self.port}/api/v1/targets"
        with urllib.request.urlopen(url, timeout=10) as response:
            targets = json.load(response)["data"]["activeTargets"]
        return "".join(str(target["lastError"]) for target in targets)


@contextmanager
def run_prometheus(
    directory: Path, scrape_config: str, rules: Path | None = None
) -> Iterator[Prometheus]:
    """Run Prometheus with one `scrape_configs` entry, in YAML without its indentation, each second."""
    config = directory / "prometheus.yml"
    first, *others = scrape_config.strip().splitlines()
    lines = ["global:", "  scrape_interval: 1s", "  evaluation_interval: 1s"]
    if rules is not None:
        lines += ["rule_files:", f"  - {rules}"]
    lines += ["scrape_configs:", f"  - {first}"]
    config.write_text("\n".join([*lines, *(f"    {line}" for line in others)]) + "\n")
    port = free_port()
    command = [
        str(program("prometheus")),
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    process = Running(command, directory / "prometheus.out")
    try:
        process.wait_for("Server is ready to receive web requests", 60)
        yield Prometheus(process, port)
    finally:
        process.stop()
