"""Calls of our tools and of Apache Kafka 4.1's on the same broker: the same exit code, the same lines.

Lines are compared without their order (Kafka's comes out of hash tables), frames of the JVM, tables of options, the
logger's times and names. Not in the table, because they differ on purpose (decision 076): options that do not exist
(Kafka shows a stack), `--version`, refusals of `kafka-acls` (Kafka prints them on standard output, with a stack), JSON
that is none (Jackson's words), versions that only one of both clients speaks, calls for which Kafka waits a minute. The
tools of 3.9 have faults that 4.1's have not, `Topic 'Optional[t]'` and tables without ends of lines among them: ours
are as 4.1's, and what differs from 3.9's is written down, so that anything else is noticed, but for the ends of lines
of its tables, whose rows come in any order.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kavka.cli.main import main
from kavka_compat.apache import ApacheKafka, Finished
from kavka_compat.brokers import Broker

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(900)]

KNOWN = Path(__file__).with_name("line_by_line_3.9.txt")
"""Differences from the tools of 3.9, below `==` and the reason: a call, lines of 3.9 alone (-), of ours alone (+)."""
WAITS_IN_3_9 = ("configs --describe --entity-type brokers --entity-name 7",)
"""Calls in which the client of 3.9 looks for the broker for longer than a minute."""
CALLS = """
topics --list
topics --list --exclude-internal --topic BASE
topics --list --topic none
topics --list --partitions 3
topics --create --list
topics --create --topic TWIN --partitions 2 --config retention.ms=60000
topics --create --topic TWIN
topics --create --topic TWIN_a.b --partitions 1
topics --create --topic TWIN --if-not-exists
topics --create --topic a/b
topics --create --topic TWINr --replication-factor 3
topics --create --topic TWINr --partitions 0
topics --create --topic TWINr --config nope=1
topics --create --topic TWINr --config nope
topics --create --topic TWINm --replica-assignment 0,0 --config retention.ms=1 --config cleanup.policy=compact
topics --create --topic TWINr --replica-assignment 0:0
topics --create --topic TWINr --replica-assignment 0,7
topics --create --topic TWINr --replica-assignment 0 --partitions 1
topics --create --topic TWINr --partitions x
topics --create --topic TWINr --partitions -1
topics --create --topic TWINr --replication-factor 0
topics --create --topic TWINr --if-exists
topics --create --topic .
topics --create --topic __consumer_offsets
topics --describe --topic TWINm
topics --alter --topic TWINm --partitions 3 --replica-assignment 0,0,0
topics --alter --topic TWINm --partitions 4 --replica-assignment 0,0,0,9
topics --alter --topic TWINm
topics --alter --topic TWINm --config retention.ms=5
topics --delete --topic TWINm
topics --describe --topic BASE
topics --describe --topic none
topics --describe --topic none --if-exists
topics --describe --topic BASE --at-min-isr-partitions
topics --describe --topic BASE --unavailable-partitions
topics --describe --topic BASE --under-min-isr-partitions --at-min-isr-partitions
topics --describe --topic BASE --partition-size-limit-per-response 1
topics --describe --topic-id 7vZ5Tg1pQ2-0Jc3bT1dYxw
topics --describe --topic TWIN --topics-with-overrides
topics --describe --under-replicated-partitions
topics --alter --topic TWIN --partitions 4
topics --alter --topic TWIN --partitions 1
topics --alter --topic none --partitions 4
topics --delete --topic TWIN
topics --delete --topic none
topics
topics --help
consumer-groups --list --state
consumer-groups --describe --group BASE
consumer-groups --describe --group none
consumer-groups --describe --group BASE --members
consumer-groups --describe --group BASE --state
consumer-groups --describe
consumer-groups --describe --group BASE --members --state
consumer-groups --describe --group BASE --verbose
consumer-groups --describe --group BASE --members --verbose
consumer-groups --describe --group BASE --state --verbose
consumer-groups --describe --group none --members
consumer-groups --describe --group none --state
consumer-groups --describe --group BASE --group none
consumer-groups --describe --group BASE --state Empty
consumer-groups --describe --group BASE --all-groups
consumer-groups --describe --group BASE --topic BASE
consumer-groups --describe --group BASE --timeout 10000 --execute --to-earliest
consumer-groups --list --group BASE
consumer-groups --list --type nope
consumer-groups --reset-offsets --group BASE --topic BASE --to-earliest
consumer-groups --reset-offsets --group BASE --topic BASE --to-earliest --dry-run
consumer-groups --reset-offsets --group BASE --topic BASE:0 --to-offset 99 --dry-run
consumer-groups --reset-offsets --group BASE --all-topics --to-current --export --dry-run
consumer-groups --reset-offsets --group BASE --topic none --to-latest --dry-run
consumer-groups --reset-offsets --group BASE --topic BASE --dry-run
consumer-groups --reset-offsets --group BASE --to-latest --dry-run
consumer-groups --reset-offsets --group TWIN --topic BASE:0 --to-datetime 2023-11-14T22:13:24.000 --execute
consumer-groups --reset-offsets --group TWIN --topic BASE:0 --shift-by 1 --execute
consumer-groups --reset-offsets --group TWIN --topic BASE --to-earliest --execute
consumer-groups --reset-offsets --group TWIN --topic BASE --to-latest --execute --export
consumer-groups --reset-offsets --group TWIN --topic BASE:0,1 --to-offset 1 --execute
consumer-groups --reset-offsets --group TWIN --topic BASE:0: --to-offset 1 --execute
consumer-groups --reset-offsets --group TWIN --topic BASE: --to-offset 1 --dry-run
consumer-groups --reset-offsets --group TWIN --topic BASE:x --to-offset 1 --dry-run
consumer-groups --reset-offsets --group TWIN --topic BASE --to-offset -5 --execute
consumer-groups --reset-offsets --group TWIN --all-topics --to-current --execute
consumer-groups --reset-offsets --group TWIN --all-topics --shift-by -1000 --execute
consumer-groups --reset-offsets --group TWIN --all-topics --shift-by 1000 --execute
consumer-groups --reset-offsets --group TWINn --topic BASE:0 --to-current --dry-run
consumer-groups --reset-offsets --group TWINn --topic BASE:0 --shift-by 1 --dry-run
consumer-groups --reset-offsets --group TWIN --topic BASE --by-duration PT1S --dry-run
consumer-groups --reset-offsets --group TWIN --topic BASE --by-duration -PT1H --dry-run
consumer-groups --reset-offsets --group TWIN --topic BASE --to-datetime 2023-11-14T22:13:24.000+0200 --dry-run
consumer-groups --reset-offsets --group TWIN --topic BASE --to-datetime 2023-11-14T22:13:24.000Z --dry-run
consumer-groups --reset-offsets --group TWIN --topic BASE --to-datetime 2099-01-01T00:00:00.000 --dry-run
consumer-groups --reset-offsets --group TWIN --from-file FILES/short.csv --execute
consumer-groups --reset-offsets --group none --from-file FILES/short.csv --dry-run --export
consumer-groups --reset-offsets --topic BASE:0 --to-earliest --dry-run
consumer-groups --reset-offsets --group TWIN --topic BASE --to-earliest --to-latest --dry-run
consumer-groups --reset-offsets --group TWIN --topic BASE --to-earliest --dry-run --execute
consumer-groups --delete-offsets --group TWIN --topic BASE:0 --topic BASE:9
consumer-groups --delete-offsets --group TWIN
consumer-groups --delete-offsets --group TWIN --topic BASE:0
consumer-groups --delete-offsets --group TWIN --topic none
consumer-groups --delete --group TWIN
consumer-groups --delete --group none
configs --describe --entity-type topics --entity-name BASE
configs --describe --entity-type topics --entity-name none
configs --describe --topic BASE --all
configs --describe --entity-type brokers
configs --describe --entity-type brokers --entity-default
configs --describe --entity-type users
configs --describe --entity-type brokers --entity-name 7
configs --describe --entity-type ips
configs --describe --entity-type clients --entity-default
configs --describe --user-defaults
configs --alter --entity-type clients --entity-name TWIN --add-config consumer_byte_rate=5
configs --describe --entity-type clients --entity-name TWIN
configs --alter --entity-type clients --entity-name TWIN --delete-config consumer_byte_rate
configs --alter --topic TWIN --add-config-file FILES/missing.properties
configs
configs --describe --entity-type nope
configs --alter --topic BASE --add-config retention.ms=x
configs --alter --topic BASE --add-config nope=x
configs --alter --topic BASE --delete-config nope
configs --alter --topic BASE
configs --alter --entity-type users --entity-name TWIN --add-config SCRAM-SHA-256=[password=s]
configs --describe --entity-type users --entity-name TWIN
configs --alter --entity-type users --entity-name TWIN --delete-config SCRAM-SHA-256
configs --alter --entity-type users --entity-name TWIN --add-config producer_byte_rate=10
configs --alter --entity-type users --entity-name TWIN --delete-config producer_byte_rate
get-offsets --topic BASE
get-offsets --topic BASE --time earliest
get-offsets --topic BASE --time -3
get-offsets --topic BASE --time 0
get-offsets --topic BASE --time 99999999999999
get-offsets --topic-partitions BASE:0,BASE:1-
get-offsets --topic-partitions BASE:-1
get-offsets --topic BASE --partitions 0,1
get-offsets --topic BASE --partitions x
get-offsets --topic-partitions BASE:0 --topic BASE
get-offsets --topic BASE --time max-timestamp
get-offsets --topic none
get-offsets --topic BASE --time soon
get-offsets --topic BASE --partitions 7
delete-records --offset-json-file FILES/records.json
delete-records --offset-json-file FILES/bad.json
delete-records --offset-json-file FILES/missing.json
log-dirs --describe --broker-list 9
leader-election --election-type preferred --topic BASE --partition 0
leader-election --election-type unclean --topic none --partition 0
leader-election --election-type nope --all-topic-partitions
leader-election --election-type preferred
leader-election --election-type preferred --topic BASE
leader-election --election-type preferred --topic BASE --partition 99
leader-election --all-topic-partitions
leader-election --election-type preferred --path-to-json-file FILES/bad.json
reassign-partitions --list
reassign-partitions
reassign-partitions --generate --topics-to-move-json-file FILES/topics.json
reassign-partitions --execute --reassignment-json-file FILES/missing.json
reassign-partitions --execute --reassignment-json-file FILES/moves.json --throttle 1000
reassign-partitions --verify --reassignment-json-file FILES/moves.json --preserve-throttles
reassign-partitions --generate --topics-to-move-json-file FILES/topics.json --broker-list 0
reassign-partitions --execute --reassignment-json-file FILES/moves.json
reassign-partitions --verify --reassignment-json-file FILES/moves.json
reassign-partitions --cancel --reassignment-json-file FILES/moves.json
transactions list
transactions describe --transactional-id none
transactions list --duration-filter 5
transactions abort --topic BASE --partition 0 --start-offset 99
transactions describe-producers --topic BASE --partition 0
transactions find-hanging --broker-id 0
transactions find-hanging
features describe
features upgrade --feature nope=1
features upgrade --feature transaction.version=2
features disable --feature nope
cluster cluster-id
cluster unregister --id 0
cluster list-endpoints
acls --add --topic BASE
"""


@pytest.fixture
def base(kavka_broker: Broker, fresh_name: str, tmp_path: Path) -> str:
    """A topic with ten records, and a group of that name."""
    at = ("--bootstrap-server", kavka_broker.bootstrap)
    assert main(["topics", *at, "--create", "--topic", fresh_name, "--partitions", "2"]) == 0
    producer = Producer({"bootstrap.servers": kavka_broker.bootstrap})
    for number in range(10):
        time_ms = 1_700_000_000_000 + number * 1000
        producer.produce(fresh_name, b"v", partition=number % 2, timestamp=time_ms)
    assert producer.flush(30) == 0
    reset = ("--reset-offsets", "--group", fresh_name, "--topic", fresh_name, "--to-offset", "2")
    assert main(["consumer-groups", *at, *reset, "--execute"]) == 0
    part = {"topic": fresh_name, "partition": 0}
    for name, document in (
        ("records", {"partitions": [{**part, "offset": 0}], "version": 1}),
        ("topics", {"topics": [{"topic": fresh_name}], "version": 1}),
        ("moves", {"partitions": [{**part, "replicas": [0]}], "version": 1}),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    (tmp_path / "bad.json").write_text("not json")
    (tmp_path / "short.csv").write_text(f"{fresh_name},0,1\n{fresh_name},1,0\n")
    return fresh_name


def _by_tool() -> dict[str, list[str]]:
    """Return the calls of each tool, in order."""
    found: dict[str, list[str]] = {}
    for call in CALLS.strip().splitlines():
        found.setdefault(call.split()[0], []).append(call)
    return found


@pytest.mark.parametrize("tool", _by_tool())
def test_calls_leave_the_lines_of_kafkas_tool(
    tool: str, kavka_broker: Broker, base: str, tmp_path: Path
) -> None:
    assert differences("4.1", tool, kavka_broker, base, tmp_path) == {}


@pytest.mark.parametrize("tool", _by_tool())
def test_what_differs_from_the_tools_of_3_9_is_known(
    tool: str, kavka_broker: Broker, base: str, tmp_path: Path
) -> None:
    known = {call: lines for call, lines in known_differences().items() if call.split()[0] == tool}
    assert known.keys() <= set(_by_tool()[tool])
    found = differences("3.9", tool, kavka_broker, base, tmp_path)
    assert found == known, "\n\n".join("\n".join([call, *found[call]]) for call in found)


def known_differences() -> dict[str, list[str]]:
    """Return the lines of one side alone, for each call of `KNOWN`."""
    found: dict[str, list[str]] = {}
    reason = call = ""
    for line in KNOWN.read_text().splitlines():
        if line.startswith("== "):
            reason = line
        elif line.startswith(("- ", "+ ")):
            found[call].append(line)
        elif line:
            call = line
            assert reason, "say why it differs"
            assert call not in found, call
            found[call] = []
    return found


def differences(
    release: str, tool: str, broker: Broker, base: str, files: Path
) -> dict[str, list[str]]:
    """Make the calls of a tool in both ways; return the lines that only Kafka's (-) or ours (+) wrote, by call."""
    kafka = ApacheKafka(release)
    kafkas = _as_lines if release == "3.9" else _as_it_is
    found = {}
    for call in _by_tool()[tool]:
        if release == "3.9" and call in WAITS_IN_3_9:
            continue
        _, *rest = call.replace("BASE", base).replace("FILES", str(files)).split()
        action = [rest.pop(0)] if tool == "cluster" else []
        at = [*action, "--bootstrap-server", broker.bootstrap]
        names = (f"{base}-theirs", f"{base}-our-own")
        theirs_words, our_words = (
            [*at, *(word.replace("TWIN", twin) for word in rest)] for twin in names
        )
        places = {base: "BASE", str(files): "FILES", broker.bootstrap: "BROKER"}
        places[str(broker.port)] = "PORT"
        theirs, ours = (
            said(finished, {twin: "TWIN", **places})
            for twin, finished in zip(
                names,
                (kafkas(kafka.tool(f"kafka-{tool}", *theirs_words)), _ours(tool, our_words)),
                strict=True,
            )
        )
        if theirs != ours:
            found[call] = [
                *(f"- {line}" for line in sorted(theirs - ours)),
                *(f"+ {line}" for line in sorted(ours - theirs)),
            ]
    return found


def _as_it_is(finished: Finished) -> Finished:
    return finished


def _as_lines(finished: Finished) -> Finished:
    return Finished(finished.code, with_ends_of_lines(finished.out), finished.err)


def _ours(tool: str, words: list[str]) -> Finished:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([tool, *words])
    return Finished(code, out.getvalue(), err.getvalue())


_ONE_LINE = re.compile(
    r"^(?:GROUP +TOPIC +PARTITION +NEW-OFFSET +|TOPIC +PARTITION +STATUS +)(?=\S)", re.MULTILINE
)
_ROW = re.compile(r" +(?=\S+ +\S+ +\d+ +\d+\b)| +(?=\S+ +\d+ +(?:Successful|Error))")


def with_ends_of_lines(text: str) -> str:
    """Give the tables of 3.9's consumer-groups, which are one line, the ends of lines of 4.1's."""
    lines = []
    for line in text.splitlines():
        head = _ONE_LINE.match(line)
        rows = [] if head is None else map(str.strip, _ROW.split(" " + line[head.end() :]))
        lines += [line] if head is None else [head[0], *rows]
    return "\n".join(lines)


_JAVAS = re.compile(
    r"\tat |Caused by: |\t\.\.\. \d+ more|\tSuppressed: |\[.*\] \w+ \[AdminClient | \(org\.apache"
)
_LOGGED = re.compile(r"^\[[\d: ,-]+\] (\w+ .*?)(?: \([\w.]+\))?$")


def said(finished: Finished, names: Mapping[str, str]) -> set[str]:
    """Return the exit code and what was written, but for what is only one side's; each line with its stream.

    `names` are of this run, and what stands for them in a line.
    """
    lines = {f"code {finished.code}"}
    for stream, text in (("out", finished.out), ("err", finished.err)):
        for line in text.splitlines():
            if re.match(r"Option\s+Description", line):
                break
            if line.strip() and not _JAVAS.match(line):
                plain = _LOGGED.sub(r"\1", line).rstrip()
                for name, stands_for in names.items():
                    plain = plain.replace(name, stands_for)
                plain = re.sub(r"TopicId: \S+", "TopicId: ID", plain)
                # Columns are as wide as their longest cell.
                lines.add(f"{stream}: {re.sub(' +', ' ', plain)}")
    return lines
