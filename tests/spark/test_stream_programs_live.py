"""Templates and new versions as they are run: by Spark's own command, once, and all the time beside the old version."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from kavka.pipelines.project import make_project
from support.committed import committed_messages
from support.spark.pipeline_commands import run_process, run_stock
from support.spark.standalone import environment
from support.spark.topic_filling import make_topic_at
from support.waiting import wait_until

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [
    pytest.mark.spark,
    pytest.mark.compat,
    pytest.mark.long,
    pytest.mark.timeout(1800),
]

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
PATIENCE_S = 600
Rows = list[tuple[str, dict[str, Any]]]
"""Topic and JSON of records."""
FIRST: dict[str, Rows] = {
    "enrichment": [
        ("shop-customers", {"key": "ann", "name": "Ann", "country": "IT"}),
        ("shop-orders", {"id": "1", "customer": "ann", "amount": 1}),
        ("shop-orders", {"id": "2", "customer": "bob", "amount": 2}),
    ],
    "ranking": [
        ("shop-votes", {"user": "ann", "item": "tea", "vote": 1}),
        ("shop-views", {"item": "tea", "clicked": True}),
    ],
}
OUT = {"enrichment": "shop-enriched", "ranking": "shop-scores"}


def kavka(*arguments: str | Path) -> str:
    """Run a command that succeeds; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "kavka", *map(str, arguments)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def running(project: Path) -> Iterator[None]:
    """Keep a pipeline running; at the end it stops by itself after SIGTERM."""
    with run_process(project, "--continuous", master="local[1]") as process:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, (project / "run.log").read_text()


def send(broker: Broker, rows: Rows) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for topic, row in rows:
        key = row.get("key") or row.get("user") or row.get("customer")
        producer.produce(topic, json.dumps(row).encode(), key)
    assert producer.flush(30) == 0


def committed(broker: Broker, topic: str) -> list[dict[str, Any]]:
    """Return the values of a topic with one partition, in order."""
    found = committed_messages(broker.bootstrap, topic, [0])
    return [json.loads(message.value()) for message in found]


@pytest.mark.parametrize("template", list(FIRST))
def test_a_template_runs_with_the_stock_command_and_with_ours(
    template: str, broker: Broker, tmp_path: Path
) -> None:
    project = tmp_path / "shop"
    kavka(
        "pipelines", "init", project, "--template", template, "--bootstrap-server", broker.bootstrap
    )
    page = (PAGES / f"template-{template}.md").read_text()
    for words in re.findall(r"^kavka (topics .*)$", page, re.M):
        kavka(*words.replace("localhost:9092", broker.bootstrap).split())
    assert "no findings" in kavka("pipelines", "check", "--project", project)

    send(broker, FIRST[template])
    run_stock(project)
    assert len(committed(broker, OUT[template])) == 1

    send(broker, FIRST[template][:2])
    kavka("pipelines", "run", "--project", project, "--master", "local[1]")
    assert len(committed(broker, OUT[template])) == 2
    with running(project):
        send(broker, FIRST[template][:2])
        wait_until(lambda: len(committed(broker, OUT[template])) >= 3, PATIENCE_S)
    last = committed(broker, OUT[template])[-1]
    if template == "enrichment":
        assert last["country"] == "IT"
        assert [row["id"] for row in committed(broker, "shop-unmatched")] == ["2"]
    else:
        assert (last["up"], last["clicked"], last["shown"]) == (1, 3, 3)


def test_a_new_version_runs_beside_the_live_one(broker: Broker, tmp_path: Path) -> None:
    first, second = versions(broker, tmp_path)
    for topic in ("sales", "totals-1", "totals-2"):
        make_topic_at(broker.bootstrap, topic, 1)
    sold = 0

    def sell() -> bool:
        nonlocal sold
        rows = [{"sale": f"s{n}", "quantity": n, "price": 10} for n in range(sold, sold + 7)]
        send(broker, [("sales", row) for row in rows])
        sold += len(rows)
        return True

    def is_even(topic: str) -> bool:
        return sell() and len(committed(broker, topic)) > max(0, sold - 70)

    with ExitStack() as live:
        live.enter_context(running(first))
        wait_until(lambda: is_even("totals-1"), PATIENCE_S)
        with running(second):
            wait_until(lambda: is_even("totals-2"), PATIENCE_S)  # the old one goes on meanwhile
            live.close()
            wait_until(lambda: len(committed(broker, "totals-2")) == sold, PATIENCE_S)
            sell()
            wait_until(lambda: len(committed(broker, "totals-2")) == sold, PATIENCE_S)
    old, new = committed(broker, "totals-1"), committed(broker, "totals-2")
    ends = max(row["offset"] for row in old) + 1
    assert [row["sale"] for row in old] == [f"s{n}" for n in range(len(old))]
    used = [*old, *(row for row in new if row["offset"] >= ends)]
    assert [row["sale"] for row in used] == [f"s{n}" for n in range(sold)]
    assert [row["total"] for row in new] == [10 * n for n in range(sold)]


def versions(broker: Broker, directory: Path) -> tuple[Path, Path]:
    """Make two projects: the code of the page, and its new version."""
    code, _ = re.findall(
        r"^```python\n(.*?)^```", (PAGES / "reprocess.md").read_text(), re.S | re.M
    )
    code = code.replace("localhost:9092", broker.bootstrap)
    newer = code.replace("VERSION = 1", "VERSION = 2")
    newer = newer.replace('TOTAL = "sale.price"', 'TOTAL = "sale.price * sale.quantity"')
    found = []
    for name, text in (("first", code), ("second", newer)):
        make_project(directory / name, "blank", broker.bootstrap)
        for path in [*(directory / name).glob("transformations/*")]:
            path.unlink()
        (directory / name / "transformations" / "totals.py").write_text(text)
        found.append(directory / name)
    return found[0], found[1]
