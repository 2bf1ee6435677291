"""The pytest plugin against a cluster that runs: tests are the same, nothing of others is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kavka.testing import Cluster, existing
from kavka.testing.existing import attached

pytest_plugins = ["pytester"]

ALONE = ("-p", "no:cacheprovider", "-p", "no:randomly", "-W", "error", "-rs")

TESTS = """
import pytest

def test_topics_and_groups(kavka_broker, kavka_topic):
    kavka_topic.send_many(["a", ("k", "b")])
    assert kavka_topic.values() == [b"a", b"b"]
    with kavka_topic.transaction() as transaction:
        transaction.send("c")
    assert len(kavka_topic.wait_for(3)) == 3
    group = kavka_broker.unique("billing")
    from kavka.client.blocking import Consumer
    settings = {**kavka_broker.client_settings("kavka"), "group.id": group}
    with Consumer({**settings, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([kavka_topic.name])
        while kavka_topic.lag(group):
            consumer.poll(100)
            consumer.commit()
    exact = kavka_broker.topic("exact", 2, exact=True)
    assert kavka_broker.leader(exact, 1) in kavka_broker.running == kavka_broker.numbers
    assert kavka_broker.in_sync(exact) == kavka_broker.numbers

def test_a_fault(kavka_broker):
    kavka_broker.fail("Produce", "NOT_ENOUGH_REPLICAS")

def test_a_kill(kavka_broker):
    kavka_broker.kill()

def test_the_disk_of_a_broker(kavka_broker, kavka_topic):
    kavka_broker.log_bytes(1, kavka_topic)

@pytest.mark.kavka_cluster(brokers=1, settings={"min.insync.replicas": "1"})
def test_settings(kavka_cluster):
    raise AssertionError

def test_three_brokers(kavka_cluster):
    raise AssertionError

@pytest.mark.kavka_cluster(brokers=1)
def test_a_cluster_of_one(kavka_cluster):
    kavka_cluster.topic("t").send("x")

def test_fails(kavka_topic):
    kavka_topic.send("seen")
    raise AssertionError
"""


@pytest.mark.slow
def test_tests_run_unchanged_and_leave_what_others_have(
    pytester: pytest.Pytester, kavka_broker: Cluster
) -> None:
    theirs = kavka_broker.topic("theirs")
    theirs.send("kept")
    kavka_broker.helper("begin", 7, "other")  # a transactional id of somebody else
    pytester.makepyfile(TESTS)
    result = pytester.runpytest(
        *ALONE, f"--kavka-bootstrap-servers={kavka_broker.bootstrap_servers}"
    )
    result.assert_outcomes(passed=2, skipped=5, failed=1)
    end = ": needs brokers that the plugin starts, not those of --kavka-bootstrap-servers"
    reasons = [
        "a fault (add fault)",
        "a fault (kill)",
        "a call of a broker's inside (log bytes)",
        "a cluster with settings={'min.insync.replicas': '1'}",
        "a cluster of 3 brokers, and there are 1",
    ]
    for reason in reasons:
        assert reason + end in result.stdout.str()
    result.stdout.fnmatch_lines(["test-fails-* has 1 record, the last ones:"])
    assert kavka_broker.helper("topics") == [theirs.name]
    assert theirs.values() == [b"kept"]
    groups = kavka_broker.helper("group", "billing")
    assert groups == ("Dead", 0)


def test_a_cluster_that_was_not_reached_is_not_tried_again(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tries = []

    def counted(*args: Any) -> Cluster:
        tries.append(args)
        return attached(*args)

    monkeypatch.setattr(existing, "attached", counted)
    (tmp_path / "client.properties").write_text("default.api.timeout.ms=20\n")
    pytester.makepyfile(
        """
        def test_first(kavka_cluster): pass
        def test_second(kavka_cluster): pass
        """
    )
    result = pytester.runpytest(
        *ALONE,
        "--kavka-bootstrap-servers=127.0.0.1:1",
        f"--kavka-command-config={tmp_path / 'client.properties'}",
    )
    result.assert_outcomes(errors=2)
    assert len(tries) == 1
    result.stdout.fnmatch_lines(["E  *RuntimeError: --kavka-bootstrap-servers 127.0.0.1:1: *"] * 2)


def test_wrong_options_are_said(pytester: pytest.Pytester, tmp_path: Path) -> None:
    pytester.makepyfile("def test_nothing(): pass")
    servers = "--kavka-bootstrap-servers=127.0.0.1:1"
    for options, said in (
        (("--kavka-command-config=x",), "give --kavka-bootstrap-servers too"),
        ((servers, "--kavka-command-config=/nowhere"), "--kavka-command-config /nowhere"),
        ((servers, "--kavka-setting=a=b"), "an existing cluster keeps its settings"),
    ):
        result = pytester.runpytest(*ALONE, *options)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert said in result.stderr.str()


def test_a_login_of_a_file_becomes_every_librarys_settings(
    pytester: pytest.Pytester, kavka_start, tmp_path: Path
) -> None:
    with kavka_start(users={"ann": "secret"}) as cluster:
        (tmp_path / "client").write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            "sasl.username=ann\nsasl.password=secret\n"
        )
        pytester.makepyfile(
            """
            def test_it(kavka_topic, kavka_broker):
                kavka_topic.send("x")
                found = kavka_broker.client_settings("kafka-python")
                assert (found["sasl_plain_username"], found["sasl_mechanism"]) == ("ann", "PLAIN")
            """
        )
        result = pytester.runpytest(
            *ALONE,
            f"--kavka-bootstrap-servers={cluster.bootstrap_servers}",
            f"--kavka-command-config={tmp_path / 'client'}",
        )
        result.assert_outcomes(passed=1)
