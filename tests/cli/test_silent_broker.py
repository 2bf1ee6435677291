"""`kavka consumer-groups` while one broker does not answer: it is named, and the groups of the others are shown."""

from __future__ import annotations

import json

import pytest

from kavka.cli.commands.consumer_groups import main
from kavka.client import NewTopic, TopicPartition, blocking
from kavka.testing.local_cluster import LocalCluster

GROUPS = [f"g{number}" for number in range(8)]


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.kavka_cluster(brokers=2, settings={"offsets.topic.replication.factor": "1"})
def test_a_silent_broker_is_named_and_the_groups_of_the_others_are_shown(
    kavka_cluster: LocalCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    with blocking.Admin({"bootstrap.servers": kavka_cluster.bootstrap_servers}) as admin:
        admin.create_topics([NewTopic("t", 2, 1)])
        for group in GROUPS:
            admin.alter_group_offsets(group, {TopicPartition("t", n): 0 for n in (0, 1)})
    of_brokers = {group: kavka_cluster.coordinator(group) for group in GROUPS}
    silent = kavka_cluster.leader("t", 0)
    shown = [group for group, broker in of_brokers.items() if broker != silent]
    [lost, *_] = [group for group, broker in of_brokers.items() if broker == silent]
    own = kavka_cluster.bootstrap_servers.split(",")[2 - silent]
    at = ["--bootstrap-server", own, "--timeout", "300"]
    kavka_cluster.pause(silent)
    try:
        assert main([*at, "--list"]) == 1
        listed = capfd.readouterr()
        assert listed.out.split() == shown
        why = f"Broker {silent} did not list its groups: no answer in 300 ms"
        assert why in listed.err
        assert main([*at, "--list", "--json"]) == 1
        listed = capfd.readouterr()
        assert [json.loads(line)["group"] for line in listed.out.splitlines()] == shown
        failure = {"code": "REQUEST_TIMED_OUT", "message": why}
        assert json.loads(listed.err.splitlines()[-1])["error"] == failure
        names = [word for group in (shown[0], lost) for word in ("--group", group)]
        assert main([*at, "--describe", *names]) == 1
        described = capfd.readouterr()
        rows = [line.split()[:5] for line in described.out.splitlines() if line.startswith("g")]
        assert rows == [[shown[0], "t", "0", "0", "-"], [shown[0], "t", "1", "0", "0"]]
        assert f"Group '{lost}' was not described: no answer in 300 ms" in described.err
        assert "The end of t-0 is not known" in described.err
    finally:
        kavka_cluster.resume(silent)
