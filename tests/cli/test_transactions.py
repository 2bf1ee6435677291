"""`kavka transactions` on a broker of this process; tests/compat hold its lines beside Apache Kafka's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from kavka.cli.main import main
from kavka.cli.text.tab_table import tab_table
from kavka.client import NewTopic
from kavka.client.blocking import Admin, Producer
from kavka.testing.local_cluster import LocalCluster

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {"transaction.state.log.num.partitions": "1"}
    directory = tmp_path_factory.mktemp("cluster")
    with LocalCluster(directory, brokers=1, settings=settings) as running:
        with Admin({"bootstrap.servers": running.bootstrap_servers}) as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
        yield running


@pytest.fixture
def tool(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Run the tool, insist on its exit code, return what it wrote."""

    def run(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        done = main(["transactions", "--bootstrap-server", cluster.bootstrap_servers, *arguments])
        out, err = capsys.readouterr()
        assert done == code, f"{arguments}: {out}{err}"
        return f"{out}{err}"

    return run


@pytest.fixture
def opened(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the transactional id of a producer that has an open transaction in t-0."""
    name = f"of-{request.node.name}"
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name}
    with Producer(settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"v")
        yield name


def start_offset(tool: Tool) -> str:
    found = re.search(
        r"\t(\d+) *\t$", tool("describe-producers", "--topic", "t", "--partition", "0"), re.M
    )
    assert found
    return found[1]


def test_tables_are_as_wide_as_their_longest_cells() -> None:
    assert tab_table(("Id", "State"), [("x", 1), ("longer", None)]) == (
        "Id    \tState\t\nx     \t1    \t\nlonger\tNone \t\n"
    )


def test_an_open_transaction_is_listed_and_described(tool: Tool, opened: str) -> None:
    listed = tool("list")
    assert listed.startswith("TransactionalId")
    assert re.search(rf"^{opened} *\t\d+ *\t\d+ *\tOngoing *\t$", listed, re.M)
    described = tool("describe", "--transactional-id", opened).splitlines()
    assert [cell.strip() for cell in described[0].split("\t")[:3]] == [
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
    ]
    assert described[1].split("\t")[8].strip() == "t-0"


def test_long_transactions_alone_can_be_listed(tool: Tool, opened: str) -> None:
    assert opened not in tool("list", "--duration-filter", "3600000")
    assert opened in tool("list", "--duration-filter", "-5")


def test_what_a_coordinator_knows_does_not_hang(tool: Tool, opened: str) -> None:
    found = tool("find-hanging", "--topic", "t", "--max-transaction-timeout", "-1")
    assert found.count("\n") == 1
    assert found.startswith("Topic")


def test_a_transaction_is_aborted_in_one_partition(tool: Tool, opened: str) -> None:
    offset = start_offset(tool)
    assert tool("abort", "--topic", "t", "--partition", "0", "--start-offset", offset) == ""
    assert "None" in tool("describe-producers", "--topic", "t", "--partition", "0")


def test_a_transactional_id_is_terminated_by_force(tool: Tool, opened: str) -> None:
    assert tool("forceTerminateTransaction", "--transactionalId", opened) == ""
    assert "Ongoing" not in tool("describe", "--transactional-id", opened)


def test_refusals_are_kafkas_sentences(tool: Tool) -> None:
    at = ("--topic", "t", "--partition", "0")
    assert tool("describe", "--transactional-id", "nonexistent", code=1) == (
        "Failed to describe transaction state of transactional-id `nonexistent`: DescribeTransactions request for "
        "transactionalId `nonexistent` failed because the ID could not be found. "
        "Enable debug logging for additional detail.\n"
    )
    assert tool("abort", *at, "--start-offset", "12345", code=1) == (
        "Could not find any open transactions starting at offset 12345 on partition t-0\n"
    )
    assert "--start-offset (for brokers on 3.0 or above)" in tool("abort", *at, code=1)
    epochs = ("--producer-id", "1", "--producer-epoch", "0")
    assert tool("abort", *at, *epochs, code=1) == "Missing required argument --coordinator-epoch\n"
    assert "requires either --topic or --broker-id" in tool("find-hanging", code=1)
    assert tool("find-hanging", "--broker-id", "0", "--partition", "0", code=1) == (
        "The --partition argument requires --topic to be provided\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("frob",), "invalid choice: 'frob'"),
        (("list", "--duration-filter", "x"), "could not convert 'x' to Long"),
        (("describe",), "--transactional-id"),
    ],
)
def test_usage_errors_end_with_one(tool: Tool, words: tuple[str, ...], sentence: str) -> None:
    assert sentence in tool(*words, code=1)


def test_the_measurement_commits_what_it_sends(
    cluster: LocalCluster, tool: Tool, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--topic", "t", "--num-records", "3000", "--throughput", "-1", "--record-size", "10"]
    words += ["--bootstrap-server", cluster.bootstrap_servers, "--transactional-id", "measured"]
    assert main(["producer-perf-test", *words, "--transaction-duration-ms", "1"]) == 0
    assert capsys.readouterr().out.startswith("3000 records sent")
    assert "CompleteCommit" in tool("describe", "--transactional-id", "measured")


def test_the_measurement_has_no_transactions_without_duration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--topic", "t", "--num-records", "1", "--throughput", "-1", "--record-size", "10"]
    assert main(["producer-perf-test", *words, "--transaction-duration-ms", "0"]) == 1
    assert capsys.readouterr().err == "--transaction-duration-ms should be greater than zero.\n"
