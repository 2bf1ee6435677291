"""`kavka <command> ...`: finds the command's module and calls it, importing nothing else: commands start fast."""

from __future__ import annotations

import importlib
import sys
import warnings

from kavka.cli.text.standard_streams import (
    drop_output,
    is_output_failure,
    is_output_lost,
    open_closed_streams,
    print_anything,
)

COMMANDS: dict[str, str] = {
    "server-start": "start a broker",
    "server-stop": "stop brokers of this machine",
    "zookeeper-server-start": "start a registry that speaks ZooKeeper's protocol",
    "zookeeper-server-stop": "stop the registries of this machine",
    "topics": "create, list, describe, alter and delete topics",
    "configs": "describe and alter the configuration of topics and brokers",
    "console-users": "set the passwords of those that may log in to the console",
    "metrics-users": "set the passwords of those that may read a broker's metrics",
    "acls": "list, add and remove access control lists",
    "delegation-tokens": "create, renew, expire and describe delegation tokens",
    "console-producer": "send lines of standard input to a topic",
    "console-consumer": "print the records of topics",
    "sql": "query topics with SQL",
    "console": "serve pages of a cluster to a browser, and a JSON API",
    "consumer-groups": "list, describe, delete and reset consumer groups",
    "transactions": "list and describe transactions, find and end those that hang",
    "spark-sinks": "list, describe and remove the exactly-once sinks of Spark queries",
    "lake": "see, maintain, audit and reload the lake tables that Spark loads from topics",
    "get-offsets": "print the offsets of partitions",
    "delete-records": "move up the start of partitions",
    "log-dirs": "describe the log directories of brokers",
    "reassign-partitions": "move partitions between brokers and between directories",
    "leader-election": "elect the preferred leaders of partitions, or any live one",
    "preferred-replica-election": "elect the preferred leaders of partitions, as older releases did",
    "replica-verification": "check that the replicas of partitions hold the same records",
    "cluster": "print the cluster's id and endpoints",
    "features": "see and change the features that all brokers of a cluster use",
    "zookeeper-shell": "look at the registry and change it",
    "zookeeper-security-migration": "protect the znodes of a cluster, or open them",
    "dump-log": "print and check the files of a log",
    "broker-api-versions": "print which versions of the protocol brokers speak",
    "producer-perf-test": "measure producing",
    "consumer-perf-test": "measure consuming",
    "e2e-latency": "measure the time from producer to consumer",
    "verifiable-producer": "send numbers, print an event for each answer",
    "verifiable-consumer": "read in a group, print an event for all that happens",
    "storage": "show log directories, make a cluster id",
    "completion": "print what completes these commands in bash, zsh and fish",
    "collect": "collect log files, host metrics and Prometheus pages into a topic",
    "group-metrics": "serve the lag of consumer groups to Prometheus",
    "monitoring": "write dashboards for Grafana and alert rules for Prometheus",
    "pipelines": "make, check, test, run and watch pipelines on Spark",
    "spark-package": "pack kavka for the workers of a Spark cluster",
    "simulate": "run the whole system from a seed, in virtual time",
    "demo": "a live pipeline: web traffic, broker, Spark",
}
"""The commands and what each does; the module in `kavka.cli.commands` is the name with underscores."""

_SERVERS = ("server-start", "zookeeper-server-start", "collect", "group-metrics")
"""Commands that serve: what they print is not what they are for."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 2 not understood."""
    open_closed_streams()
    print_anything()
    words = sys.argv[1:] if arguments is None else arguments
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        drop_output()
        return 0
    except OSError as error:
        if not is_output_failure(error):
            raise
        print(f"kavka: the output cannot be written: {error.strerror}", file=sys.stderr)
        drop_output()
        return 1
    except KeyboardInterrupt:
        # It may have come in `asyncio.run`, which is given a coroutine before it makes the loop that starts it.
        warnings.filterwarnings("ignore", r"coroutine '.*' was never awaited", RuntimeWarning)
        return 130
    if code == 0 and is_output_lost() and words[0] not in _SERVERS:
        print("kavka: the output cannot be written: standard output is closed", file=sys.stderr)
        return 1
    return code


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if words else 2
    name = words[0]
    if name in ("--version", "version"):
        from kavka import __version__

        print(f"kavka {__version__}")
        return 0
    if name not in COMMANDS:
        print(f"kavka: unknown command {name!r}{_hint(name)}", file=sys.stderr)
        return 2
    module = importlib.import_module(f"kavka.cli.commands.{name.replace('-', '_')}")
    try:
        code: int = module.main(words[1:])
    except (
        SystemExit
    ) as end:  # of argparse, after its help or a mistake; what it printed may have been lost
        if isinstance(end.code, str):
            raise
        code = end.code or 0
    return code


def _hint(name: str) -> str:
    """Return the nearest command and where to look, or all commands when none is near."""
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, 1)
    if not near:
        return f"\n\n{_usage()}"
    return f"; did you mean {near[0]!r}? `kavka --help` lists the commands."


def _usage() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())
    return f"usage: kavka <command> [options]\n\ncommands:\n{rows}\n\n`kavka <command> --help` explains each."


if __name__ == "__main__":
    sys.exit(main())
