"""Steps of docs/how-to/reprocess.md in one project. `test_stream_programs.py` copies them into it."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kavka.pipelines.testing import Pipeline, Record

PAGE = Path(os.environ["PAGES"], "reprocess.md")


def block(language: str, number: int) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.S | re.M)[number]


def results(pipeline: Pipeline, topic: str) -> list[dict[str, Any]]:
    """Return the committed results of a topic, as librdkafka reads them."""
    settings = {
        "bootstrap.servers": pipeline.bootstrap_servers,
        "group.id": "unused",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[dict[str, Any]] = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            consumer.close()
            return found
        found.append(json.loads(message.value()))


def sell(pipeline: Pipeline, first: int, last: int) -> None:
    rows = [
        Record({"sale": f"s{n}", "quantity": n, "price": 10}, partition=n % 2)
        for n in range(first, last)
    ]
    pipeline.feed("sales", rows)


def totals(found: list[dict[str, Any]]) -> dict[str, int]:
    assert len(found) == len({row["sale"] for row in found}), "a sale has two results"
    return {row["sale"]: row["total"] for row in found}


def test_new_code_fills_a_topic_beside_the_live_one_and_a_reader_changes_over(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    project = pipeline.project.directory
    transformations = project / "transformations"
    (transformations / "totals_1.py").write_text(block("python", 0))
    sell(pipeline, 0, 20)
    pipeline.run()
    assert totals(results(pipeline, "totals-1")) == {f"s{n}": 10 for n in range(20)}

    copy = block("sh", 0).partition("kavka topics")[0]
    subprocess.run(["bash", "-euc", copy], cwd=project, check=True)
    sell(pipeline, 20, 30)
    updated = pipeline.run()
    rows_in = {name: flow.rows_in for name, flow in updated.flows.items()}
    assert rows_in == {"write_totals_1": 10, "write_totals_2": 30}
    assert totals(results(pipeline, "totals-1")) == {f"s{n}": 10 for n in range(30)}
    assert totals(results(pipeline, "totals-2")) == {f"s{n}": 10 * n for n in range(30)}

    (transformations / "totals_1.py").unlink()
    sell(pipeline, 30, 40)
    assert list(pipeline.run().flows) == ["write_totals_2"]

    (tmp_path / "reader.py").write_text(block("python", 1))
    reader = runpy.run_path(str(tmp_path / "reader.py"))
    used = results(pipeline, "totals-1")
    ends = reader["next_offsets"](used)
    assert ends == {0: 15, 1: 15}
    used += reader["not_used"](results(pipeline, "totals-2"), ends)
    right = {f"s{n}": 10 if n < 30 else 10 * n for n in range(40)}
    assert totals(used) == right
