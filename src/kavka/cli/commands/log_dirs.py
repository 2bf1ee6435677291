"""`kavka log-dirs`: print the log directories of brokers as JSON, as `kafka-log-dirs.sh` does."""

from __future__ import annotations

import sys
from typing import Any

from kavka.cli.admin.connection import with_admin
from kavka.cli.arguments.options import JSON, BadValue, Given, Option, OptionSet, whole_number
from kavka.cli.json_lines import shapes
from kavka.cli.json_lines.lines import print_outcomes
from kavka.cli.json_rows.topics import log_dir_rows
from kavka.cli.text.java_errors import java_name, spelt_together
from kavka.client.admin.admin import Admin
from kavka.client.admin.nodes import LogDir

OPTIONS = OptionSet(
    "This tool helps to query log directory usage on the specified brokers.",
    Option("describe", "REQUIRED: describe the directories."),
    Option("topic-list", "The topics, as t1,t2; without it all.", "topics"),
    Option("broker-list", "The brokers, as 0,1,2; without it all.", "brokers"),
    JSON,
)


def main(argv: list[str]) -> int:
    """Run the command; 1 when a broker does not exist or cannot be asked."""
    return OPTIONS.run(argv, _act)


def _act(given: Given) -> int:
    given.require("bootstrap-server", "describe")

    async def act(admin: Admin) -> int:
        return await _describe(admin, given)

    return with_admin(given, act, _failed)


def _failed(error: Exception) -> int:
    print(spelt_together(error), file=sys.stderr)
    return 1


async def _describe(admin: Admin, given: Given) -> int:
    import json

    known = sorted(broker.broker_id for broker in (await admin.describe_cluster()).brokers)
    wanted = sorted(_numbers(given.one("broker-list"))) or list(known)
    missing = [broker for broker in wanted if broker not in known]
    if missing:
        raise BadValue(
            f"ERROR: The given brokers do not exist from --broker-list: {_listed(missing)}. "
            f"Current existent brokers: {_listed(known)}"
        )
    topics = {topic for topic in (given.one("topic-list") or "").split(",") if topic}
    if given.has("json"):
        rows = log_dir_rows(await admin.describe_log_dirs(wanted), topics)
        return print_outcomes(shapes.LOG_DIR, rows)
    print("Querying brokers for log directories information")
    found = await admin.describe_log_dirs(wanted)
    print(f"Received log directory information from brokers {_listed(wanted)}")
    brokers = []
    for broker, log_dirs in found.items():
        if isinstance(log_dirs, Exception):
            raise log_dirs
        shown = [log_dir_json(path, log_dir, topics) for path, log_dir in log_dirs.items()]
        brokers.append({"broker": broker, "logDirs": shown})
    print(json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":")))
    return 0


def _numbers(text: str | None) -> set[int]:
    try:
        return {whole_number(number, 32) for number in (text or "").split(",") if number}
    except ValueError:
        raise BadValue(f'For input string: "{text}"') from None


def _listed(brokers: list[Any]) -> str:
    return ",".join(map(str, brokers))


def log_dir_json(path: str, log_dir: LogDir, topics: set[str]) -> dict[str, Any]:
    """Return a directory as Kafka's tool shows it; without `topics` all replicas are in it."""
    replicas = [
        {
            "partition": str(topic_partition),
            "size": replica.size,
            "offsetLag": replica.offset_lag,
            "isFuture": replica.is_future,
        }
        for topic_partition, replica in sorted(log_dir.replicas.items())
        if not topics or topic_partition.topic in topics
    ]
    error = None if log_dir.error is None else java_name(log_dir.error.code)
    return {"partitions": replicas, "error": error, "logDir": path}
