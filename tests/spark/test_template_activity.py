"""The template `activity`: the commands of its page over a log that plain Python counts as well.

Its own test is run by test_testing_pipelines, where Spark has started.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Message

from kavka.client.dead_letters import dead_letter_of
from kavka.demo.line import combined
from kavka.pipelines.project import make_project
from support.committed import committed_messages
from support.spark.standalone import environment

if TYPE_CHECKING:
    from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.compat, pytest.mark.timeout(600)]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "template-activity.md"


def blocks(language: str) -> list[str]:
    """Return the blocks of the page that name this test."""
    fence = rf"<!-- run by tests/spark/{Path(__file__).name} -->\n```{language}\n(.*?)^```"
    return re.findall(fence, PAGE.read_text(), re.S | re.M)


def run(command: list[str], directory: Path) -> str:
    """Run a command in a folder, with this environment's programs; return what it prints."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=directory, env=environment() | {"PATH": programs}, capture_output=True, text=True,
        check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def committed(bootstrap: str, topic: str) -> list[Message]:
    """Return the committed messages of a topic with two partitions."""
    return committed_messages(bootstrap, topic, range(2))


def rows(project: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table's files, read without Spark."""
    import pyarrow.dataset as ds

    directory = project / "storage" / "tables" / name
    found: list[dict[str, Any]] = ds.dataset(directory, format="parquet").to_table().to_pylist()
    return found


def test_the_page_has_what_the_project_has(tmp_path: Path) -> None:
    make_project(tmp_path / "site", "activity", "localhost:9092")
    page = PAGE.read_text()
    sources = "".join(
        path.read_text() for path in (tmp_path / "site" / "transformations").iterdir()
    )
    views = re.findall(r"MATERIALIZED VIEW (\w+)|@dp.materialized_view\ndef (\w+)", sources)
    names = [first or second for first, second in views]
    assert len(names) == 5
    for name in [*names, *(f"site-{topic}" for topic in ("limits", "feed", "alerts", "sessions"))]:
        assert f"`{name}`" in page, name


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_pages_commands_count_a_log_as_plain_python_does(
    broker: Broker, tmp_path: Path
) -> None:
    commands = [text.replace("localhost:9092", broker.bootstrap) for text in blocks("sh")]
    made, collected, checked, stock = commands
    lines = collected.split("<<END\n")[1].split("END\n")[0]
    start_ms = time.time_ns() // 1_000_000 - 300_000
    texts = [
        combined(
            f"10.0.0.{n % 50}", start_ms + n * 20, f"GET /p/{n % 37}", 200 + n % 7 * 50, n, "-", "-"
        )
        for n in range(10_000)
    ]
    texts += [combined("thief", start_ms, "POST /login", 401, 5, "-", "-")] * 150
    run(["bash", "-ec", made], tmp_path)
    (tmp_path / "more.log").write_text("\n".join(texts) + "\n")
    more = (
        collected.split("END\n")[-1]
        .replace("access.log", "more.log")
        .replace("--name site", "--name more")
    )
    run(["bash", "-ec", collected], tmp_path)
    run(["bash", "-ec", more], tmp_path)
    said = run(["bash", "-ec", checked], tmp_path)
    assert "no findings" in said
    site = tmp_path / "site"
    [code] = blocks("python")
    before = run([sys.executable, "-c", code], site)
    assert [int(number) for number in before.split()[-4:]] == [10_153, 1, 1, 0]
    run(["bash", "-ec", stock], site)
    assert run([sys.executable, "-c", code], site) == before

    pages = Counter(text.split()[6] for text in texts)
    pages.update(
        line.split()[5].partition("?")[0] for line in lines.splitlines()[:3]
    )  # $now is one word
    assert Counter(row["page"] for row in rows(site, "events")) == pages
    counted = rows(site, "requests_by_minute")
    minutes = {f"{row['minute']:%d/%b/%Y:%H:%M}": row["requests"] for row in counted}
    for minute, count in Counter(text.split("[")[1][:17] for text in texts).items():
        assert minutes.pop(minute) - count in (0, 3)
    assert sum(minutes.values()) in (0, 3)

    [bad] = committed(broker.bootstrap, "site-quarantine")
    assert b"this is no access log" in bad.value()
    assert dead_letter_of(bad.headers()).message == "not in combined log format"
    limited = [message.key() for message in committed(broker.bootstrap, "site-limits")]
    assert limited == [b"thief"]
    feed = committed(broker.bootstrap, "site-feed")
    assert len(feed) == sum(text.split()[8] in ("200", "250") for text in texts) + 2
    times: dict[bytes | None, list[str]] = defaultdict(list)
    for message in feed:
        value = message.value()
        assert value is not None
        times[message.key()].append(json.loads(value)["time"])
    assert len(times) > 2
    assert all(of_actor == sorted(of_actor) for of_actor in times.values())
