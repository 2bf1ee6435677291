"""`kavka monitoring`: write dashboards for Grafana and alert rules for Prometheus into a directory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kavka.cli.arguments.options import Given, Option, OptionSet
from kavka.monitoring.alerts import rules_yaml
from kavka.monitoring.brokers import BROKERS
from kavka.monitoring.panels import dashboard_json
from kavka.monitoring.topics import GROUPS, PIPELINES, TOPICS

_DASHBOARDS = (BROKERS, TOPICS, GROUPS, PIPELINES)
RULES_FILE = "kavka-alerts.yml"

OPTIONS = OptionSet(
    "Write dashboards for Grafana (JSON) and alert rules for Prometheus (YAML) into a directory.",
    Option("directory", "REQUIRED: the directory; made if it is not there.", "directory"),
    asks_a_broker=False,
)


def main(argv: list[str]) -> int:
    """Run the command; 1 when a file cannot be written."""
    return OPTIONS.run(argv, _act)


def files() -> dict[str, str]:
    """Return the texts of the files by name."""
    texts = {
        f"{each.uid}.json": json.dumps(dashboard_json(each), indent=2) + "\n"
        for each in _DASHBOARDS
    }
    return {**texts, RULES_FILE: rules_yaml()}


def _act(given: Given) -> int:
    directory = Path(given.text("directory"))
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files().items():
            path = directory / name
            path.write_text(text)
            print(path)
    except OSError as error:
        print(f"{error.filename or directory}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0
