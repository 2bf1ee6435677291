"""Our tools of a cluster beside Apache Kafka's, on the same three brokers.

What only looks is done by both and compared line by line. What changes something is done by Kafka's tool to one topic
and by ours to its twin; then the names are made the same. Left out of the comparison are frames of the JVM, tables of
options, and the order of lines (Kafka's comes out of hash tables).
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kavka.cli.main import main
from kavka_compat.apache import SMALL, ApacheKafka, Finished
from kavka_compat.clusters import RunningCluster, run_cluster, run_kavka_cluster
from kavka_compat.ours import kavka_command
from kavka_compat.registry_shell import typed_into
from support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

KAFKA = ApacheKafka("4.1")
WITH_ZOOKEEPER = ApacheKafka("3.9")

Run = Callable[..., Finished]


_CLUSTERS = {"apache": run_cluster, "kavka": run_kavka_cluster}


@pytest.fixture(scope="module", params=[pytest.param("apache", marks=pytest.mark.long), "kavka"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCluster]:
    """Three brokers of Apache Kafka 3.9, which validate the test, then ours."""
    with _CLUSTERS[request.param](tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def ours(cluster: RunningCluster) -> Run:
    def run(tool: str, *arguments: str, code: int = 0) -> Finished:
        argv = [tool, "--bootstrap-server", cluster.bootstrap, *arguments]
        if tool == "cluster":
            argv = [tool, arguments[0], "--bootstrap-server", cluster.bootstrap, *arguments[1:]]
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            finished = Finished(main(argv), out.getvalue(), err.getvalue())
        assert finished.code == code, f"{tool} {' '.join(arguments)}: {finished}"
        return finished

    return run


@pytest.fixture
def theirs(cluster: RunningCluster) -> Run:
    def run(tool: str, *arguments: str, code: int = 0) -> Finished:
        words = ("--bootstrap-server", cluster.bootstrap, *arguments)
        if tool == "cluster":
            words = (arguments[0], "--bootstrap-server", cluster.bootstrap, *arguments[1:])
        finished = KAFKA.tool(f"kafka-{tool}", *words)
        assert finished.code == code, f"{tool} {' '.join(arguments)}: {finished}"
        return finished

    return run


@pytest.fixture
def same(ours: Run, theirs: Run) -> Run:
    """Run both tools, insist on the same code and lines, return what ours left."""

    def run(tool: str, *arguments: str, code: int = 0) -> Finished:
        mine = ours(tool, *arguments, code=code)
        assert said(mine) == said(theirs(tool, *arguments, code=code))
        return mine

    return run


class Twins:
    """Two topics of one layout: Kafka's tool changes the first, ours the second."""

    def __init__(
        self, name: str, cluster: RunningCluster, ours: Run, theirs: Run, directory: Path
    ) -> None:
        self.names = (f"{name}-a", f"{name}-b")
        self._cluster = cluster
        self._runs = (theirs, ours)
        self._directory = directory

    def create(self, assignment: str, *settings: str) -> None:
        _, ours = self._runs
        for name in self.names:
            ours(
                "topics", "--create", "--topic", name, "--replica-assignment", assignment, *settings
            )
            self._cluster.wait_until_known(name)

    def plan(self, *partitions: dict[str, Any], **more: Any) -> str:
        """Write a document about each topic; the path has TOPIC where the name comes."""
        for name in self.names:
            listed = [{"topic": name, **part} for part in partitions]
            document = json.dumps({"version": 1, "partitions": listed, **more})
            (self._directory / f"{name}.json").write_text(document)
        return str(self._directory / "TOPIC.json")

    def move(self, plan: str, *arguments: str) -> Finished:
        """Begin the moves of a plan, each when no other is in progress."""
        return self.same(
            "reassign-partitions", "--execute", "--reassignment-json-file", plan, *arguments,
            before=self._settle,
        )  # fmt: skip

    def _settle(self) -> None:
        _, ours = self._runs
        wait_until(lambda: "No partition" in ours("reassign-partitions", "--list").out)

    def same(
        self, tool: str, *arguments: str, code: int = 0, before: Callable[[], None] | None = None
    ) -> Finished:
        """Run Kafka's tool about the first topic and ours about the second, and insist on the same lines."""
        left = []
        for name, run in zip(self.names, self._runs, strict=True):
            if before is not None:
                before()
            left.append(run(tool, *(word.replace("TOPIC", name) for word in arguments), code=code))
        kafka, mine = left
        assert said(mine, self.names[1]) == said(kafka, self.names[0])
        return mine


@pytest.fixture
def twins(
    fresh_name: str, cluster: RunningCluster, ours: Run, theirs: Run, tmp_path: Path
) -> Twins:
    return Twins(fresh_name, cluster, ours, theirs, tmp_path)


def said(finished: Finished, topic: str = "") -> list[str]:
    """Return what a tool wrote, but for what is only Java's, sorted."""
    lines = []
    for line in [*finished.out.splitlines(), *finished.err.splitlines()]:
        if line.startswith("Option ") and line.endswith(("Description", " ")):
            break
        if line.strip() and not _JAVAS.match(line):
            lines.append(line.replace(topic, "TOPIC") if topic else line)
    return sorted(line.rstrip() for line in lines)


_JAVAS = re.compile(
    r"\tat |Caused by: |\t\.\.\. \d+ more|\tSuppressed: |\[.*\] WARN \[AdminClient "
)


def fill(cluster: RunningCluster, topic: str, partition: int, size: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
    for _ in range(size // 10_000):
        producer.produce(topic, os.urandom(10_000), partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0


# Moves


def test_a_plan_is_generated_in_kafkas_form(
    ours: Run, theirs: Run, twins: Twins, tmp_path: Path
) -> None:
    twins.create("0:1,1:2,2:0")
    topic = twins.names[0]
    path = tmp_path / "move.json"
    path.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    words = ("--generate", "--topics-to-move-json-file", str(path), "--broker-list")
    for brokers, *more in [("0,1,2",), ("0,2",), ("1,0", "--disable-rack-aware")]:
        mine = ours("reassign-partitions", *words, brokers, *more)
        kafka = theirs("reassign-partitions", *words, brokers, *more)
        assert mine.lines[:4] == kafka.lines[:4]  # the assignment that is, and the heading
        assert len(mine.lines) == len(kafka.lines) == 5
        for finished in (mine, kafka):
            proposed = json.loads(finished.lines[4])
            assert [part["partition"] for part in proposed["partitions"]] == [0, 1, 2]
            for part in proposed["partitions"]:
                assert list(part) == ["topic", "partition", "replicas", "log_dirs"]
                assert part["log_dirs"] == ["any", "any"]
                assert len(set(part["replicas"])) == 2
                assert set(part["replicas"]) <= {int(broker) for broker in brokers.split(",")}


def test_moves_are_begun_throttled_and_verified_as_kafka_does(same: Run, twins: Twins) -> None:
    twins.create("0:1,1:2")
    path = twins.plan({"partition": 0, "replicas": [2, 1]})
    plan = ("--reassignment-json-file", path)
    begun = twins.move(path, "--throttle", "1000000")
    assert "The inter-broker throttle limit was set to 1000000 B/s" in begun.lines
    verify = ("reassign-partitions", "--verify", *plan)
    wait_until(lambda: "still in progress" not in twins.same(*verify, "--preserve-throttles").out)
    described = twins.same(
        "configs", "--describe", "--entity-type", "topics", "--entity-name", "TOPIC"
    )
    assert "leader.replication.throttled.replicas=0:0,0:1 " in described.out
    assert "follower.replication.throttled.replicas=0:2 " in described.out
    throttled = same("configs", "--describe", "--entity-type", "brokers", "--entity-name", "2")
    assert "follower.replication.throttled.rate=1000000" in throttled.out
    done = twins.same(*verify)
    assert done.lines[-2:] == [
        "Clearing broker-level throttles on brokers 0,1,2",
        f"Clearing topic-level throttles on topic {twins.names[1]}",
    ]
    cleared = same("configs", "--describe", "--entity-type", "brokers", "--entity-name", "2")
    assert "throttled" not in cleared.out
    cancelled = twins.same("reassign-partitions", "--cancel", *plan)
    assert cancelled.lines[0] == "None of the specified partition reassignments are active."


def test_moves_under_way_are_listed_and_cancelled_as_kafka_does(
    same: Run, ours: Run, twins: Twins, cluster: RunningCluster
) -> None:
    # Held back from the beginning: --throttle alone would be a race of its news with the move.
    held = ("leader.replication.throttled.replicas=*", "follower.replication.throttled.replicas=*")
    twins.create("0:1", "--config", held[0], "--config", held[1])
    for name in twins.names:
        fill(cluster, name, 0, 4_000_000)
    rates = "leader.replication.throttled.rate=1000,follower.replication.throttled.rate=1000"
    for broker in ("0", "1", "2"):
        one = ("--entity-type", "brokers", "--entity-name", broker)
        ours("configs", "--alter", *one, "--add-config", rates)
    plan = ("--reassignment-json-file", twins.plan({"partition": 0, "replicas": [2, 1]}))
    execute = ("reassign-partitions", "--execute", *plan, "--throttle", "1000", "--additional")
    twins.same(*execute)
    listed = same("reassign-partitions", "--list")
    assert listed.lines == [
        "Current partition reassignments:",
        *(f"{name}-0: replicas: 2,1,0. adding: 2. removing: 0." for name in twins.names),
    ]
    refused = twins.same("reassign-partitions", "--execute", *plan, code=1)
    assert "there is an existing partition assignment" in refused.out
    twins.same(*execute)
    verified = twins.same("reassign-partitions", "--verify", *plan)
    assert f"Reassignment of partition {twins.names[1]}-0 is still in progress." in verified.lines
    described = twins.same(
        "topics", "--describe", "--topic", "TOPIC", "--under-replicated-partitions"
    )
    assert described.out == ""
    moving = ours("topics", "--describe", "--topic", twins.names[1]).out
    assert "\tAdding Replicas: 2\tRemoving Replicas: 0\t" in moving
    cancel = ("reassign-partitions", "--cancel", *plan, "--preserve-throttles")
    assert "Successfully cancelled partition reassignment for: " in twins.same(*cancel).out
    stopped = twins.same("reassign-partitions", "--verify", *plan)
    assert "but replica set is 1,0 rather than 2,1." in stopped.out
    assert same("reassign-partitions", "--list").lines == ["No partition reassignments found."]


def test_replicas_are_moved_between_directories_as_kafka_does(
    twins: Twins, ours: Run, cluster: RunningCluster
) -> None:
    twins.create("1:0")
    home = cluster.brokers[1].log_directory.parent
    for directory in ("logs", "more"):
        parts = {"partition": 0, "replicas": [1, 0], "log_dirs": [f"{home}/{directory}", "any"]}
        plan = twins.plan(parts)
        begun = twins.move(plan, "--replica-alter-log-dirs-throttle", "100000000")
        assert f"Successfully started moving log directory to {home}/{directory} for" in begun.out
        verify = ("reassign-partitions", "--verify", "--reassignment-json-file", plan)
        wait_until(lambda verify=verify: "completed successfully" in twins.same(*verify).out)  # type: ignore[misc]
    shown = json.loads(ours("log-dirs", "--describe", "--topic-list", twins.names[1]).lines[-1])
    [at] = [
        log_dir["logDir"] for log_dir in shown["brokers"][1]["logDirs"] if log_dir["partitions"]
    ]
    assert at == f"{home}/more"
    elsewhere = {"partition": 0, "replicas": [1, 0], "log_dirs": ["/nowhere", "any"]}
    plan = ("--reassignment-json-file", twins.plan(elsewhere))  # type: ignore[assignment]
    stays = twins.same("reassign-partitions", "--verify", *plan)
    assert "is not being moved from log dir" in stays.out
    twins.same("reassign-partitions", "--execute", *plan, code=1)
    twins.same("reassign-partitions", "--cancel", *plan)


def test_a_move_that_an_operator_writes_into_the_registry_happens(
    cluster: RunningCluster, ours: Run, same: Run, fresh_name: str
) -> None:
    """As Kafka's tools before 2.4 did: `/admin/reassign_partitions`, here by ZooKeeper's own shell.

    Of the two wishes one makes no sense: that one is dropped, and the znode goes when the other is fulfilled.
    """
    ours("topics", "--create", "--topic", fresh_name, "--replica-assignment", "0:1")
    cluster.wait_until_known(fresh_name)
    fill(cluster, fresh_name, 0, 1_000_000)
    at = f"{fresh_name}-0"
    homes = [broker.log_directory.parent for broker in cluster.brokers]
    (log,) = homes[1].glob(f"*/{at}/*.log")
    wait_until(lambda: log.stat().st_size > 1_000_000)
    wishes = [{"topic": fresh_name, "partition": 0, "replicas": [2, 1]}, {**PART, "replicas": [1]}]
    wish = json.dumps({"version": 1, "partitions": wishes})
    assert f"Created {WISHES}\n" in typed(cluster, f"create {WISHES} '{wish}'")
    moved = re.compile(r"Leader: [12]\tReplicas: 2,1\tIsr: (1,2|2,1)\t")
    describe = ("topics", "--describe", "--topic", fresh_name)
    wait_until(lambda: moved.search(ours(*describe).out) is not None)
    wait_until(lambda: f"Node does not exist: {WISHES}" in typed(cluster, f"get {WISHES}"))
    assert same("reassign-partitions", "--list").lines == ["No partition reassignments found."]
    (copy,) = homes[2].glob(f"*/{at}/*.log")
    assert copy.read_bytes() == log.read_bytes()
    wait_until(lambda: not list(homes[0].glob(f"*/{at}")))


WISHES = "/admin/reassign_partitions"


def typed(cluster: RunningCluster, line: str) -> str:
    """Return what ZooKeeper's shell says when one line is typed."""
    command = WITH_ZOOKEEPER.command(
        "zookeeper-shell", ["-server", cluster.zookeeper], SMALL, "OFF"
    )
    script = f"{line}\nquit\n"
    done = subprocess.run(
        command, input=script, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


PART = {"topic": "none", "partition": 0}


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"version": 2, "partitions": []}, "Not supported version field value 2"),
        ({"partitions": []}, "Partition reassignment list cannot be empty"),
        ({"version": 1}, "Partition reassignment list cannot be empty"),
        ({"partitions": [{**PART, "replicas": []}]}, "Partition replica list cannot be empty"),
        ({"partitions": [{**PART, "replicas": [1, 1]}]}, "none-0 contains multiple entries for 1"),
        ({"partitions": [{**PART, "replicas": [1]}] * 2}, "contains duplicate topic partitions: none-0"),
        ({"partitions": [{**PART, "replicas": [1], "log_dirs": []}]}, "is different from size of log dirs list []"),
        ({"partitions": [{**PART, "replicas": [7]}]}, "Unknown broker id 7"),
        ({"partitions": [{**PART, "replicas": [1]}]}, "Topic none not found."),
    ],
)  # fmt: skip
def test_plans_that_make_no_sense_are_refused_as_kafka_does(
    same: Run, tmp_path: Path, document: Any, sentence: str
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    words = ("--execute", "--reassignment-json-file", str(path))
    assert sentence in same("reassign-partitions", *words, code=1).lines[0]


# Elections


def test_preferred_leaders_are_elected_as_kafka_does(twins: Twins, same: Run, ours: Run) -> None:
    twins.create("0:1,1:2")
    plan = twins.plan({"partition": 0, "replicas": [1, 0]}, {"partition": 1, "replicas": [2, 1]})
    twins.move(plan)
    elect = ("leader-election", "--election-type", "preferred")
    elected = twins.same(*elect, "--topic", "TOPIC", "--partition", "0")
    assert elected.lines == [
        f"Successfully completed leader election (PREFERRED) for partitions {twins.names[1]}-0"
    ]
    again = twins.same(*elect, "--path-to-json-file", plan)
    assert f"Valid replica already elected for partitions {twins.names[1]}-0" in again.lines
    assert f"for partitions {twins.names[1]}-1" in again.out
    ours(*elect, "--all-topic-partitions")  # whatever other tests have left
    assert same(*elect, "--all-topic-partitions").out == ""
    described = twins.same("topics", "--describe", "--topic", "TOPIC", "--under-min-isr-partitions")
    assert described.out == ""
    missing = same(*elect, "--topic", "none", "--partition", "0", code=1)
    assert "UnknownTopicOrPartitionException" in missing.out


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--election-type preferred",
        "--election-type other --all-topic-partitions",
        "--election-type preferred --topic t",
        "--election-type preferred --all-topic-partitions --partition 0",
        "--election-type preferred --path-to-json-file /nowhere",
    ],
)
def test_elections_that_make_no_sense_are_refused_as_kafka_does(same: Run, words: str) -> None:
    same("leader-election", *words.split(), code=1)


def test_elections_are_asked_for_as_in_older_releases(
    twins: Twins, ours: Run, cluster: RunningCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    twins.create("0:1")
    plan = twins.plan({"partition": 0, "replicas": [1, 0]})
    twins.move(plan)
    by_api, by_znode = (plan.replace("TOPIC", name) for name in twins.names)
    elected = ours("preferred-replica-election", "--path-to-json-file", by_api)
    assert "Successfully completed leader election (PREFERRED)" in elected.out
    registry = ("--zookeeper", cluster.zookeeper)
    assert main(["preferred-replica-election", *registry, "--path-to-json-file", by_znode]) == 0
    assert f"for partitions {twins.names[1]}-0" in capsys.readouterr().out
    wait_until(
        lambda: "\tLeader: 1\t" in ours("topics", "--describe", "--topic", twins.names[1]).out
    )


# The cluster


def test_the_cluster_is_described_as_kafka_does(same: Run) -> None:
    assert same("cluster", "cluster-id").out.startswith("Cluster ID: ")
    assert len(same("cluster", "list-endpoints").lines) == 4
    same("cluster", "list-endpoints", "--include-fenced-brokers")
    same("cluster", "unregister", "--id", "1")


# Replicas


def verification(cluster: RunningCluster, topic: str) -> tuple[list[str], list[str]]:
    """Return the commands that verify a topic from its beginning: Kafka's and ours."""
    words = ["--broker-list", cluster.bootstrap, "--topics-include", topic, "--time", "-2"]
    words += ["--report-interval-ms", "200", "--max-wait-ms", "100"]
    kafka = WITH_ZOOKEEPER.command("kafka-replica-verification", words, SMALL, "ERROR")
    return kafka, kavka_command("replica-verification", *words)


def reports(command: Sequence[str], wanted: str) -> str:
    """Return the first line of a verification that contains `wanted`, without its time, and interrupt it."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = next(process.stdout)
        assert first.endswith(": verification process is started\n")
        line = next((line for line in process.stdout if wanted in line), "it ended")
        process.send_signal(signal.SIGTERM)
    stamp, _, text = line.partition(": ")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", stamp), line
    return text


def test_replicas_are_compared_as_kafka_does(
    ours: Run, cluster: RunningCluster, fresh_name: str
) -> None:
    ours("topics", "--create", "--topic", fresh_name, "--replica-assignment", "0:1:2")
    cluster.wait_until_known(fresh_name)
    fill(cluster, fresh_name, 0, 100_000)
    found = [reports(command, "max lag is 0 ") for command in verification(cluster, fresh_name)]
    assert (
        found
        == [f"max lag is 0 for partition {fresh_name}-0 at offset 10 among 1 partitions\n"] * 2
    )


def test_replicas_that_differ_are_found_as_kafka_finds_them(
    ours: Run, cluster: RunningCluster, fresh_name: str
) -> None:
    ours("topics", "--create", "--topic", fresh_name, "--replica-assignment", "0:1")
    cluster.wait_until_known(fresh_name)
    fill(cluster, fresh_name, 0, 10_000)
    [segment] = cluster.brokers[1].log_directory.parent.glob(f"*/{fresh_name}-0/*.log")
    wait_until(lambda: segment.stat().st_size > 0)
    with segment.open("r+b") as file:  # the checksum in the header of the follower's batch
        file.seek(17)
        old = file.read(4)
        file.seek(17)
        file.write(bytes(byte ^ 0xFF for byte in old))
    kafka, mine = (reports(command, fresh_name) for command in verification(cluster, fresh_name))
    assert mine == kafka
    assert f"partition {fresh_name}-0 has unmatched checksum at offset 0; replica 0's" in mine


# The registry

STATES = 5
"""Number of states of the registry that are tried, while it changes between two shells."""


def test_the_shell_of_the_registry_says_what_zookeepers_says(
    cluster: RunningCluster, fresh_name: str
) -> None:
    theirs = WITH_ZOOKEEPER.command("zookeeper-shell", ["-server", cluster.zookeeper], SMALL, "OFF")
    ours = kavka_command("zookeeper-shell", cluster.zookeeper)
    root = f"/{fresh_name}"
    # Brokers write into the registry, too: what is compared is said of one state of it.
    for _ in range(STATES):
        before, zookeepers, after = (typed_into(c, root) for c in (ours, theirs, ours))
        if before == after:
            break
    assert zookeepers == after


# Brokers that are gone; these come last


def test_partitions_in_trouble_are_found_as_kafka_finds_them(
    same: Run, ours: Run, cluster: RunningCluster, fresh_name: str
) -> None:
    lone, unled = f"{fresh_name}-lone", f"{fresh_name}-unled"
    create = ("topics", "--create", "--config", "min.insync.replicas=2", "--replica-assignment")
    ours(*create, "2:0,0:1", "--topic", fresh_name)
    ours(*create, "2", "--topic", lone)
    ours("topics", "--create", "--replica-assignment", "2", "--topic", unled)
    for topic in (fresh_name, lone, unled):
        cluster.wait_until_known(topic)
    cluster.brokers[2].process.kill()
    wait_until(lambda: "Leader: none" in ours("topics", "--describe", "--topic", lone).out)
    for report, partitions in [
        ("under-replicated", ["0"]),
        ("under-min-isr", ["0", "0", "0"]),
        ("at-min-isr", ["1", "0"]),
        ("unavailable", ["0", "0"]),
    ]:
        topics = ("--topic", f"{fresh_name}.*")
        shown = same("topics", "--describe", *topics, f"--{report}-partitions").out
        assert re.findall(r"Partition: (\d+)", shown) == partitions
    elect = ("leader-election", "--partition", "0", "--topic")
    preferred = same(*elect, fresh_name, "--election-type", "preferred", code=1)
    assert "PreferredLeaderNotAvailableException" in preferred.out
    unclean = same(*elect, lone, "--election-type", "unclean", code=1)
    assert "EligibleLeadersNotAvailableException" in unclean.out
