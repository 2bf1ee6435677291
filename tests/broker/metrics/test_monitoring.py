"""Dashboards and alert rules use names of our pages, and docs/ names every metric and every rule."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.metrics.page import families
from kavka.broker.metrics.samples import OpenTransactions, Samples
from kavka.cli.commands.monitoring import RULES_FILE, files
from kavka.cli.main import main
from kavka.collect.group_page import GroupPage
from kavka.ids import TopicPartition
from kavka.metrics.rates import Rates
from kavka.monitoring.alerts import ALERTS
from kavka.monitoring.brokers import BROKERS
from kavka.monitoring.topics import GROUPS, PIPELINES, TOPICS
from kavka.spark.queries.metrics import families as pipeline_families
from support.one_broker import Served

ROOT = Path(__file__).parents[3]
ON = {"kavka.metrics.port": "0"}
DASHBOARDS = (BROKERS, TOPICS, GROUPS, PIPELINES)
METRIC = re.compile(r"\b(?:kafka|kavka|process|python)_[a-z0-9_]+")
CONDITIONAL = re.compile(
    r"kavka_(audit|authorizer|sasl)_\w+|kavka_delegation_tokens|kavka_tls_handshake_failures_total"
    r"|kafka_server_(produce|fetch)_(byte_rate|throttle_time)"
)
"""Names of brokers with security or quotas, which the broker of this test lacks."""


def names_in(promql: str) -> set[str]:
    """Return the metrics of a query, without what stands in quotes or is a label of `by (...)`."""
    without_text = re.sub(r'"[^"]*"', "", promql)
    return set(METRIC.findall(without_text))


def documented() -> set[str]:
    """Return the names of docs/reference/metrics.md and docs/how-to/grafana.md, with their braces expanded."""
    found: set[str] = set()
    for page in ("reference/metrics.md", "how-to/grafana.md", "how-to/pipelines.md"):
        text = (ROOT / "docs" / page).read_text().partition("## Missing metrics")[0]
        prefix = ""
        for span in re.findall(r"`([^`\n]+)`", text):
            for name in expanded(span):
                if name.startswith(("...", "_")):
                    found.update(resolved(prefix, name.removeprefix("...")))
                elif METRIC.match(name) or name.endswith("*"):
                    found.add(name)
                    prefix = name
    return found


def expanded(text: str) -> list[str]:
    """Return a name for each choice of braces: `a_{b,c}`."""
    parts = re.split(r"\{([^{}]*)\}", text)
    choices = [part.split(",") if place % 2 else [part] for place, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


def resolved(prefix: str, rest: str) -> Iterator[str]:
    """Yield the names that `_rest` behind another one may stand for: any beginning of that one, and the rest."""
    for match in re.finditer("_", prefix):
        yield prefix[: match.start()] + rest


def test_names_of_queries_are_on_the_pages_and_every_name_is_documented(run: Any) -> None:
    async def story(served: Served) -> None:
        sources = served.broker.metrics_sources()
        page = list(families(sources, 1.0, Rates(0), Samples()))
        names = {family.name for family in page}
        groups = {f.name for f in GroupPage({}, re.compile(""), print).families()}
        known = names | groups | {family.name for family in pipeline_families(())}
        used = {
            name
            for dashboard in DASHBOARDS
            for _panel, query in dashboard.queries
            for name in names_in(query.promql)
        } | {name for alerts in ALERTS.values() for a in alerts for name in names_in(a.promql)}
        assert sorted(n for n in used - known if not CONDITIONAL.fullmatch(n)) == []
        described = documented()
        assert sorted(n for n in known - described if not is_covered(n, described)) == []

    run(story, **ON)


def is_covered(name: str, described: set[str]) -> bool:
    return any(each.endswith("*") and name.startswith(each[:-1]) for each in described)


def test_every_panel_has_a_place_of_its_own_in_the_grid() -> None:
    for dashboard in DASHBOARDS:
        taken: set[tuple[int, int]] = set()
        panels = json.loads(files()[f"{dashboard.uid}.json"])["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        for place in (panel["gridPos"] for panel in panels):
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken
            assert place["x"] + place["w"] <= 24
            taken |= cells


def test_the_command_writes_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "new" / "monitoring"
    assert main(["monitoring", "--directory", str(directory)]) == 0
    printed = capsys.readouterr().out.split()
    assert printed == [str(directory / name) for name in files()]
    assert (directory / RULES_FILE).read_text() == files()[RULES_FILE]


def test_a_directory_that_cannot_be_made_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["monitoring", "--directory", str(tmp_path / "file")]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_the_table_of_alarms_has_the_rules() -> None:
    """The conditions of docs/how-to/monitor.md are rules, in its short names and without the thresholds' reasons."""
    text = (ROOT / "docs" / "how-to" / "monitor.md").read_text()
    table = text.partition("## Alarms")[2].partition("\n## What the log says")[0]
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \| ([^|]+) \|", table, re.MULTILINE)
    assert len(rows) > 30
    rules = [a for alerts in ALERTS.values() for a in alerts]
    for conditions, duration, severity in rows:
        for condition in re.findall(r"`([^`]+)`", conditions):
            if not re.search("[<>=]", condition) or condition == "min.insync.replicas":
                continue
            full = re.sub(r"\bR_", "kafka_server_replicamanager_", condition)
            full = re.sub(r"\bC_", "kafka_controller_kafkacontroller_", full)
            metrics = names_in(full)
            same = [a for a in rules if metrics <= names_in(a.promql)]
            if full == "up == 0":
                same = [a for a in rules if a.name == "BrokerIsDown"]
            assert same, f"no rule for {condition}"
            lasting = duration.strip().replace(" ", "")
            lasting = "0s" if lasting == "0" else lasting
            assert (lasting, severity) in {(a.duration, a.severity) for a in same}, condition


def test_ages_of_transactions_count_from_the_first_look() -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    seen = OpenTransactions()
    seen.turn(0, [(first, [5]), (second, [])])
    seen.turn(10, [(first, [5, 9]), (second, [3])])
    assert (seen.late(15, 10), seen.late(21, 10)) == (1, 2)
    seen.turn(20, [(first, [9]), (second, [3])])
    assert seen.late(20, 10) == 0
    assert seen.late(21, 10) == 2
    seen.turn(30, [(first, []), (second, [])])
    assert seen.late(1000, 10) == 0


def test_a_query_with_an_event_says_which() -> None:
    needing = [(d.uid, p.title) for d in DASHBOARDS for p, q in d.queries if q.needs]
    assert ("kavka-brokers", "Denied by ACLs") in needing
    assert len(needing) < 15
