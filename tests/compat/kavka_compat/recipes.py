"""Runs the recipes of docs/explanation/exactly-once.md and kills them at every line.

`python -m kavka_compat.recipes RECIPE BOOTSTRAP SUFFIX` forks one child after another. Each runs the recipe's text
with a trace that kills the process (SIGKILL) when a line is reached for the first or second time; the last child is
left alone until everything is read. Before each child a few orders are written, so that there is something to do.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from kavka.client import NewTopic, TopicPartition
from kavka.client.blocking import Admin, Consumer, Producer

_DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "exactly-once.md"
_FILE = "<recipe>"
_ORDERS = 6
_PARTITIONS = 2
_PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Outcome:
    """The outcome of a recipe that was killed again and again."""

    killed: dict[int, int]
    """By line, how often a child died there."""
    unreached: list[int]
    """Lines with code at which no child died."""
    orders: int
    invoices: list[str]
    """Invoices that readers of committed records see, partition by partition."""

    @property
    def missing(self) -> set[str]:
        """Invoices that were not written."""
        return {_bill(b"%d" % n).decode() for n in range(self.orders)} - set(self.invoices)

    @property
    def repeated(self) -> int:
        """Number of invoices that are too many."""
        return len(self.invoices) - len(set(self.invoices))


def recipe(name: str) -> str:
    """Return the text of a recipe."""
    heading = name.replace("-", " ").capitalize()
    document = _DOCUMENT.read_text()
    found = re.search(rf"^## {heading}\n.*?^```python\n(.*?)^```", document, re.S | re.M)
    assert found, f"{_DOCUMENT} has no recipe {name}"
    return found[1]


def kill_at_every_line(name: str, bootstrap: str, suffix: str, seconds: float = 300) -> Outcome:
    """Run a recipe in a process of its own, and return what came of it."""
    command = [sys.executable, "-m", "kavka_compat.recipes", name, bootstrap, suffix]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd=Path(__file__).resolve().parents[1],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    facts = json.loads(done.stdout.splitlines()[-1])
    killed = {int(line): count for line, count in facts["killed"].items()}
    return Outcome(killed, facts["unreached"], facts["orders"], facts["invoices"])


def _bill(order: bytes) -> bytes:
    return b"invoice of " + order


class _Recipe:
    """One recipe against one broker, with topics and a group of its own."""

    def __init__(self, name: str, bootstrap: str, suffix: str) -> None:
        text = recipe(name).replace("localhost:9092", bootstrap)
        for plain in ("orders", "invoices", "billing"):
            text = text.replace(plain, plain + suffix)
        self.code = compile(text, _FILE, "exec")
        self.bootstrap = bootstrap
        self.orders, self.invoices = "orders" + suffix, "invoices" + suffix
        self.group = "billing" + suffix
        self.written = 0

    def create(self) -> None:
        """Make the topics."""
        with Admin({"bootstrap.servers": self.bootstrap}) as admin:
            topics = [NewTopic(t, _PARTITIONS, 1) for t in (self.orders, self.invoices)]
            for outcome in admin.create_topics(topics).values():
                if isinstance(outcome, Exception):
                    raise outcome

    def order(self) -> None:
        """Write a few orders."""
        with Producer({"bootstrap.servers": self.bootstrap}) as producer:
            for _ in range(_ORDERS):
                content = b"%d" % self.written
                producer.send(self.orders, content, content, partition=self.written % _PARTITIONS)
                self.written += 1

    def invoiced(self) -> list[str]:
        """Return what a reader of committed records sees."""
        reading = {
            "bootstrap.servers": self.bootstrap,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        found: list[str] = []
        with Consumer(reading) as consumer:
            parts = [TopicPartition(self.invoices, n) for n in range(_PARTITIONS)]
            consumer.assign(parts)
            ends = consumer.end_offsets(parts)
            while any(
                consumer.position(topic_partition) < end for topic_partition, end in ends.items()
            ):
                for batch in consumer.poll(1000):
                    found += [record.value.decode() for record in batch.records()]
        return found

    def run_child(self, line: int, hit: int) -> bool:
        """Run the recipe in a child that dies at a line; return whether it did. It ends with 0 when all is read."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self._run(line, hit)
                code = 0
            except BaseException:  # noqa: BLE001  whatever it is, the parent only sees that the child failed
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return True
        assert os.waitstatus_to_exitcode(status) == 0, f"the recipe failed, to die at {line}"
        return False

    def _run(self, line: int, hit: int) -> None:
        signal.alarm(_PATIENCE_SECONDS)  # a recipe that hangs must not hang the test
        hits = 0

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal hits
            if frame.f_code.co_filename != _FILE:
                return None
            if event == "line" and frame.f_lineno == line:
                hits += 1
                if hits == hit:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        with Admin({"bootstrap.servers": self.bootstrap}) as admin:
            parts = [TopicPartition(self.orders, n) for n in range(_PARTITIONS)]

            def running() -> bool:
                found = admin.list_group_offsets(self.group, parts, require_stable=True)
                return sum(position.offset for position in found.values()) < self.written

            sys.settrace(trace)
            try:
                exec(self.code, {"bill": _bill, "running": running, "__name__": "recipe"})
            finally:
                sys.settrace(None)


def _lines(code: CodeType) -> list[int]:
    found = {line for _, _, line in code.co_lines() if line}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.update(_lines(constant))
    return sorted(found)


def main(name: str, bootstrap: str, suffix: str) -> None:
    """Kill the recipe at every line, let it finish, and print what came of it as JSON."""
    this = _Recipe(name, bootstrap, suffix)
    this.create()
    killed: dict[int, int] = {}
    lines = _lines(this.code)
    for line in lines:
        for hit in (1, 2):
            this.order()
            if not this.run_child(line, hit):
                break
            killed[line] = killed.get(line, 0) + 1
    this.order()
    assert not this.run_child(0, 0)
    facts = {
        "killed": killed,
        "unreached": [line for line in lines if line not in killed],
        "orders": this.written,
        "invoices": this.invoiced(),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main(*sys.argv[1:])
