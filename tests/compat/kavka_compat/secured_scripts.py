"""Each administrative tool once, with a file of client settings: Kafka's scripts and ours take the same words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol


class Output(Protocol):
    """The output of a tool."""

    @property
    def code(self) -> int:
        """Its exit code."""
        ...

    @property
    def out(self) -> str:
        """Its standard output."""
        ...

    @property
    def err(self) -> str:
        """Its standard error."""
        ...


Run = Callable[..., Output]
"""Runs a tool with words (without `kafka-` and `.sh`), `stdin=` for its input, and returns what it printed."""


class Step(NamedTuple):
    """A call of a tool."""

    tool: str
    words: tuple[str, ...]
    prints: str
    """A text in its output."""
    stdin: str = ""


def steps(at: str, config: str, directory: Path, other_log_dir: str, broker: int = 0) -> list[Step]:
    """Return calls whose order matters, against one broker with two log directories; topic `t` is not there yet.

    `config` is a super user's file of client settings.
    """
    bootstrap = ("--bootstrap-server", at)
    admin = (*bootstrap, "--command-config", config)
    topic = ("--topic", "t")
    bound = ("--offset-json-file", _write(directory / "below.json", _BELOW))
    moved = {"topic": "t", "partition": 0, "replicas": [broker], "log_dirs": [other_log_dir]}
    plan = _write(directory / "plan.json", {"version": 1, "partitions": [moved]})
    move = (*admin, "--reassignment-json-file", plan)
    alice = ("--entity-type", "users", "--entity-name", "alice")
    load = ("--num-records", "500", "--record-size", "100", "--throughput", "-1")
    return [
        Step("topics", (*admin, "--create", *topic, "--partitions", "2"), "Created topic t."),
        Step("topics", (*admin, "--describe", *topic), "PartitionCount: 2"),
        Step("acls", (*admin, "--add", "--allow-principal", "User:a", "--operation", "Read", *topic),
             "(principal=User:a, host=*, operation=READ, permissionType=ALLOW)"),
        Step("acls", (*admin, "--list", *topic), "principal=User:a"),
        Step("configs", (*admin, "--alter", "--add-config", "retention.ms=9000",
             "--entity-type", "topics", "--entity-name", "t"), "Completed updating config for topic t"),
        Step("configs", (*admin, "--alter", "--add-config", "SCRAM-SHA-256=[password=p]", *alice),
             "Completed updating config for user alice"),
        Step("configs", (*admin, "--describe", *alice), "SCRAM-SHA-256=iterations="),
        Step("console-producer", (*bootstrap, "--producer.config", config, *topic), "", "one\ntwo\n"),
        Step("console-consumer", (*bootstrap, "--consumer.config", config, *topic, "--from-beginning",
             "--group", "g", "--max-messages", "2"), "one\n"),
        Step("consumer-groups", (*admin, "--describe", "--group", "g"), "CURRENT-OFFSET"),
        Step("get-offsets", (*admin, *topic), "t:0:"),
        Step("producer-perf-test", (*topic, *load, "--producer-props", f"bootstrap.servers={at}",
             "--producer.config", config), "500 records sent"),
        Step("consumer-perf-test", (*bootstrap, "--consumer.config", config, *topic, "--messages", "500"),
             "start.time"),
        Step("delete-records", (*admin, *bound), "partition: t-1\tlow_watermark: "),
        Step("reassign-partitions", (*move, "--execute"), "Successfully started"),
        Step("log-dirs", (*admin, "--describe", "--topic-list", "t"), f'"logDir":"{other_log_dir}"'),
        Step("reassign-partitions", (*admin, "--list"), "partition reassignments"),
        Step("leader-election", (*bootstrap, "--admin.config", config, "--election-type", "preferred",
             "--all-topic-partitions"), ""),
        Step("transactions", (*admin, "list"), "TransactionalId"),
        Step("broker-api-versions", admin, "Produce(0): 0 to "),
        Step("cluster", ("cluster-id", *bootstrap, "--config", config), "Cluster ID: "),
        Step("features", (*admin, "describe"), "Feature: "),
        Step("topics", (*admin, "--delete", *topic), ""),
    ]  # fmt: skip


_BELOW = {
    "version": 1,
    "partitions": [{"topic": "t", "partition": n, "offset": -1} for n in (0, 1)],
}


def _write(path: Path, document: object) -> str:
    path.write_text(json.dumps(document))
    return str(path)


def insist(run: Run, steps: list[Step]) -> None:
    """Run all steps; each must end well and print what it should."""
    for step in steps:
        done = run(step.tool, *step.words, stdin=step.stdin)
        said = f"{step.tool} {' '.join(step.words)}: {done.code}\n{done.out}\n{done.err}"
        assert done.code == 0, said
        assert step.prints in done.out, said
        assert "secret" not in done.out + done.err, said
