"""`python -m kavka.testing.history`: record and judge a workload against any Kafka, or judge a history in a file."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from typing import IO

from kavka.settings.properties import parse_properties
from kavka.testing.history.check import Verdict, check
from kavka.testing.history.lines import read_lines
from kavka.testing.history.operations import MalformedHistory
from kavka.testing.history.promises import Promises
from kavka.testing.history.workload.client import ClientFailed
from kavka.testing.history.workload.load import CLIENTS, run
from kavka.testing.history.workload.settings import Settings

_BROKEN = 1
_NO_VERDICT = 2


def main(argv: list[str]) -> int:
    """Return 0 when nothing forbidden was found, 1 when something was, 2 without a verdict."""
    options = _parser().parse_args(argv)
    for library in ("kavka", "kafka"):  # broken connections are expected
        logging.getLogger(library).setLevel(logging.CRITICAL)
    try:
        verdict = _judge(options.check) if options.check else _run(options)
    except (MalformedHistory, ClientFailed, ModuleNotFoundError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return _NO_VERDICT
    print(verdict.report())
    return 0 if verdict.passed else _BROKEN


def _judge(path: str) -> Verdict:
    with open(path, encoding="utf-8") as lines:
        promises, events = read_lines(lines)
    return check(events, Promises.from_fields(promises))


def _run(options: argparse.Namespace) -> Verdict:
    chosen = Settings(
        bootstrap=options.bootstrap,
        client=options.client,
        topic=options.topic or f"history-{os.getpid()}",
        partitions=options.partitions,
        replication_factor=options.replication_factor,
        min_insync_replicas=options.min_insync_replicas,
        seconds=options.seconds,
        producers=options.producers,
        transactional=options.transactional,
        readers=options.readers,
        members=options.members,
        rate=options.rate,
        seed=options.seed,
        config=_client_config(options.command_config),
    )
    with contextlib.ExitStack() as stack:
        sink: IO[str] | None = None
        if options.output is not None:
            sink = stack.enter_context(open(options.output, "w", encoding="utf-8"))
        return run(chosen, sink=sink)


def _client_config(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    with open(path, encoding="utf-8") as file:
        return parse_properties(file.read())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kavka.testing.history",
        description="Write to a Kafka cluster, read from it, record both, and look for what must not happen. "
        "Faults of the brokers must be over before --seconds are.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--bootstrap", metavar="HOST:PORT,...", help="the cluster")
    source.add_argument("--check", metavar="FILE", help="judge a recorded history instead")
    defaults = Settings("")
    parser.add_argument("--client", choices=sorted(CLIENTS), default=defaults.client)
    parser.add_argument(
        "--command-config", metavar="FILE", help="properties for all clients, by librdkafka's names"
    )
    parser.add_argument("--seconds", type=float, default=defaults.seconds, help="how long to write")
    parser.add_argument("--topic", help="the topic to create (default: a new name)")
    parser.add_argument("--partitions", type=int, default=defaults.partitions)
    parser.add_argument("--replication-factor", type=int, default=defaults.replication_factor)
    parser.add_argument("--min-insync-replicas", type=int, help="of the topic")
    parser.add_argument("--producers", type=int, default=defaults.producers, help="idempotent ones")
    parser.add_argument(
        "--transactional",
        type=int,
        default=defaults.transactional,
        help="producers of transactions",
    )
    parser.add_argument(
        "--readers", type=int, default=defaults.readers, help="consumers that assign"
    )
    parser.add_argument(
        "--members", type=int, default=defaults.members, help="consumers of a group"
    )
    parser.add_argument(
        "--rate", type=float, default=defaults.rate, help="records/s of each producer"
    )
    parser.add_argument("--seed", type=int, default=defaults.seed, help="of the workload's choices")
    parser.add_argument("--output", metavar="FILE", help="write the history there")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
