"""The tools of a cluster on three brokers of this process; tests/compat hold their lines beside Apache Kafka's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kavka.cli.json_lines.tool_shapes import REPLICA_LAG
from kavka.cli.main import main
from kavka.client.blocking import Producer
from kavka.testing.local_cluster import LocalCluster

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {"auto.leader.rebalance.enable": "false"}
    with LocalCluster(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        yield running


@pytest.fixture
def tool(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Run a tool, insist on its exit code, return what it wrote."""

    def run(name: str, *arguments: str, code: int = 0, bootstrap: bool = True) -> str:
        capsys.readouterr()
        at = ("--bootstrap-server", cluster.bootstrap_servers) if bootstrap else ()
        done = main([name, *arguments, *at])
        out, err = capsys.readouterr()
        assert done == code, f"{name} {arguments}: {out}{err}"
        return f"{out}{err}"

    return run


def create(tool: Tool, topic: str, assignment: str, *settings: str) -> str:
    options = [word for setting in settings for word in ("--config", setting)]
    tool("topics", "--create", "--topic", topic, "--replica-assignment", assignment, *options)
    return topic


def fill(cluster: LocalCluster, topic: str, records: int = 10, size: int = 100) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"}) as producer:
        for _ in range(records):
            producer.append(topic, bytes(size), partition=0)
        producer.flush(10_000)


def plan(directory: Path, topic: str, *replicas: list[int], **more: object) -> str:
    parts = [
        {"topic": topic, "partition": number, "replicas": brokers, **more}
        for number, brokers in enumerate(replicas)
    ]
    path = directory / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": parts}))
    return str(path)


def until_done(cluster: LocalCluster, tool: Tool, *verify: str) -> str:
    cluster.until(lambda: "in progress" not in tool(*verify, "--preserve-throttles"))
    return tool(*verify)


def test_a_broker_is_drained_by_a_generated_plan(
    cluster: LocalCluster, tool: Tool, tmp_path: Path
) -> None:
    topic = create(tool, "drained", "1:2,2:3,3:1")
    fill(cluster, topic)
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"topics": [{"topic": topic}], "version": 1}))
    words = ("--topics-to-move-json-file", str(topics), "--broker-list", "1,2")
    proposed = tool("reassign-partitions", "--generate", *words).splitlines()[-1]
    path = tmp_path / "proposed.json"
    path.write_text(proposed)
    document = ("--reassignment-json-file", str(path))
    begun = tool("reassign-partitions", "--execute", *document, "--throttle", "10000000")
    assert begun.endswith(
        "The inter-broker throttle limit was set to 10000000 B/s\n"
        "Successfully started partition reassignments for drained-0,drained-1,drained-2\n"
    )
    done = until_done(cluster, tool, "reassign-partitions", "--verify", *document)
    assert done.count(" is completed.\n") == 3
    assert "Clearing broker-level throttles on brokers 1,2,3\n" in done
    describe = ("topics", "--describe", "--topic", topic)
    cluster.until(lambda: "throttled" not in tool(*describe))  # every broker learns of it by itself
    assert {*re.findall(r"Replicas: (\S+)", tool(*describe))} <= {"1,2", "2,1"}


def test_a_move_is_listed_changed_and_cancelled(
    cluster: LocalCluster, tool: Tool, tmp_path: Path
) -> None:
    held = ("leader.replication.throttled.replicas=*", "follower.replication.throttled.replicas=*")
    topic = create(tool, "held", "1:2", *held)
    fill(cluster, topic, records=30, size=100_000)
    rates = "leader.replication.throttled.rate=100,follower.replication.throttled.rate=100"
    for broker in ("1", "2", "3"):
        one = ("--entity-type", "brokers", "--entity-name", broker)
        tool("configs", "--alter", *one, "--add-config", rates)
    document = ("--reassignment-json-file", plan(tmp_path, topic, [3, 2]))
    tool("reassign-partitions", "--execute", *document, "--throttle", "100")
    assert tool("reassign-partitions", "--list") == (
        "Current partition reassignments:\nheld-0: replicas: 3,2,1. adding: 3. removing: 1.\n"
    )
    refused = tool("reassign-partitions", "--execute", *document, code=1)
    assert refused.startswith("Cannot execute because there is an existing partition assignment.")
    tool("reassign-partitions", "--execute", "--additional", *document, "--throttle", "200")
    shown = tool("configs", "--describe", "--entity-type", "brokers", "--entity-name", "3")
    assert "  follower.replication.throttled.rate=200 " in shown
    cancelled = tool("reassign-partitions", "--cancel", *document)
    assert cancelled == (
        "Successfully cancelled partition reassignment for: held-0\n"
        "None of the specified partition moves are active."
        "Clearing broker-level throttles on brokers 1,2,3\n"
        "Clearing topic-level throttles on topic held\n"
    )
    assert tool("reassign-partitions", "--list") == "No partition reassignments found.\n"
    shown = tool("configs", "--describe", "--entity-type", "brokers", "--entity-name", "3")
    assert "throttled" not in shown


def test_a_directory_that_a_broker_does_not_have_is_refused(tool: Tool, tmp_path: Path) -> None:
    topic = create(tool, "housed", "1")
    document = plan(tmp_path, topic, [1], log_dirs=["/nowhere"])
    words = ("--execute", "--reassignment-json-file", document)
    printed = tool("reassign-partitions", *words, code=1)
    assert "Error: Failed to alter dir for housed-0-1\n" in printed


def test_partitions_that_are_not_there_are_named(tool: Tool, tmp_path: Path) -> None:
    topic = create(tool, "short", "1")
    document = plan(tmp_path, topic, [1], [1], [1])
    printed = tool("reassign-partitions", "--execute", "--reassignment-json-file", document, code=1)
    assert printed.startswith(
        "Error: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
        "Unable to find partition: short-1, short-2\n"
    )


def test_preferred_leaders_are_elected(cluster: LocalCluster, tool: Tool, tmp_path: Path) -> None:
    topic = create(tool, "elected", "1:2,2:3,3:1")
    document = plan(tmp_path, topic, [2, 1], [3, 2], [1, 3])
    words = ("--reassignment-json-file", document)
    tool("reassign-partitions", "--execute", *words)
    done = tool("reassign-partitions", "--verify", "--wait", *words)
    assert "completed" in done
    one = ("leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0")
    done = "leader election (PREFERRED) for partitions"
    assert tool(*one) == f"Successfully completed {done} elected-0\n"
    assert tool(*one) == "Valid replica already elected for partitions elected-0\n"
    registry = ("--zookeeper", cluster.zookeeper_connect)
    second = tmp_path / "second.json"
    second.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 1}]}))
    words = ("preferred-replica-election", *registry, "--path-to-json-file", str(second))  # type: ignore[assignment]
    assert "for partitions elected-1\n" in tool(*words, bootstrap=False)
    cluster.until(lambda: cluster.leader(topic, 1) == 3)
    rest = tool("leader-election", "--election-type", "preferred", "--all-topic-partitions")
    assert "elected-2" in rest
    gone = tool("preferred-replica-election", "--path-to-json-file", document)
    assert gone == "Valid replica already elected for partitions elected-0, elected-1, elected-2\n"


def test_an_election_in_a_registry_without_a_cluster_fails(
    cluster: LocalCluster, tool: Tool
) -> None:
    words = ("preferred-replica-election", "--zookeeper", f"{cluster.zookeeper_connect}/empty")
    assert tool(*words, code=1, bootstrap=False).startswith("NO_NODE for /brokers/topics\n")


def test_a_negative_timeout_of_the_console_consumer_is_none(
    cluster: LocalCluster, tool: Tool
) -> None:
    topic = create(tool, "waited-for", "1")
    fill(cluster, topic, records=1)
    words = ("--topic", topic, "--from-beginning", "--max-messages", "1", "--timeout-ms", "-1")
    assert "Processed a total of 1 messages\n" in tool("console-consumer", *words)


def test_a_rate_without_end_is_no_rate(tool: Tool) -> None:
    topic = create(tool, "fast", "1")
    words = ("--topic", topic, "--num-records", "10", "--record-size", "10", "--throughput", "inf")
    assert tool("producer-perf-test", *words).startswith("10 records sent")


def test_an_election_of_nothing_fails(tool: Tool) -> None:
    words = ("--election-type", "unclean", "--topic", "none", "--partition", "0")
    printed = tool("leader-election", *words, code=1)
    assert printed.startswith("Error completing leader election (UNCLEAN) for partition: none-0: ")
    assert "1 replica(s) could not be elected\n" in printed


def test_the_clusters_id_and_endpoints_are_printed(cluster: LocalCluster, tool: Tool) -> None:
    assert re.fullmatch(r"Cluster ID: [\w-]{22}\n", tool("cluster", "cluster-id"))
    lines = tool("cluster", "list-endpoints").splitlines()
    assert [line.split()[0] for line in lines] == ["ID", "1", "2", "3"]
    assert tool("cluster", "unregister", "--id", "1") == (
        "The target cluster does not support the broker unregistration API.\n"
    )


def test_replicas_that_differ_are_found(cluster: LocalCluster, tool: Tool) -> None:
    topic = create(tool, "rotten", "1:2:3")
    fill(cluster, topic)
    cluster.until_replicated(topic)
    [segment] = cluster.path.glob(f"broker-2/{topic}-0/*.log")
    with segment.open("r+b") as file:
        file.seek(-5, 2)
        file.write(b"x")
    words = ("--topics-include", topic, "--time", "-2", "--max-wait-ms", "50")
    printed = tool("replica-verification", *words, code=1)
    assert ": verification process is started\n" in printed
    assert f": partition {topic}-0 has unmatched checksum at offset " in printed
    *lags, failure = map(
        json.loads,
        tool(
            "replica-verification", *words, "--report-interval-ms", "-1", "--json", code=1
        ).splitlines(),
    )
    assert failure["error"]["code"] == "CORRUPT_MESSAGE"
    assert all(list(lag) == list(REPLICA_LAG.fields) for lag in lags)


def test_topics_that_no_broker_has_are_not_verified(tool: Tool) -> None:
    printed = tool("replica-verification", "--topics-include", "none", code=1)
    assert "ERROR No topics found. --topics-include if specified," in printed


def test_levels_of_loggers_are_shown_and_changed(tool: Tool) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "2")
    alter = ("configs", "--alter", *loggers)
    name = "kavka.broker.broker"
    changed = tool(*alter, "--add-config", f"{name}=ERROR")
    assert changed == "Completed updating config for broker-logger 2.\n"
    assert f"  {name}=ERROR sensitive=false synonyms={{}}\n" in tool(
        "configs", "--describe", *loggers
    )
    tool(*alter, "--delete-config", name)
    assert f"  {name}=ERROR" not in tool("configs", "--describe", *loggers)
    unknown = tool(*alter, "--add-config", "no.such=INFO", code=1)
    assert "Invalid broker logger(s): no.such" in unknown
