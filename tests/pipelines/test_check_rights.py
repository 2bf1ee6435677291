"""Rights on a project's topics are looked at before a run, on a broker with ACLs."""

import asyncio

import pytest

from kavka.client import blocking
from kavka.client.admin.acls import (
    AclBinding,
    AclEntry,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from kavka.pipelines.broker_checks import BrokerChecks
from kavka.pipelines.checkpoints import Checkpoints
from kavka.pipelines.definitions import (
    Definitions,
    FlowDefinition,
    Location,
    OutputDefinition,
    TopicRead,
)
from kavka.pipelines.testing.topics import create_topics
from kavka.testing.local_cluster import LocalCluster

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def allowed(topic: str, user: str, operation: AclOperation) -> AclBinding:
    pattern = ResourcePattern(AclResourceType.TOPIC, topic, PatternType.LITERAL)
    return AclBinding(pattern, AclEntry(user, "*", operation, AclPermission.ALLOW))


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    with LocalCluster(directory, brokers=1, settings=SETTINGS) as running:
        topics = dict.fromkeys(("open", "readable", "seen", "closed"), 1)
        asyncio.run(create_topics(running.bootstrap_servers, topics))
        with blocking.Admin({"bootstrap.servers": running.bootstrap_servers}) as admin:
            me = "User:ANONYMOUS"
            admin.create_acls(
                [
                    allowed("readable", me, AclOperation.READ),
                    allowed("seen", me, AclOperation.DESCRIBE),
                    allowed("closed", "User:ann", AclOperation.ALL),
                ]
            )
        yield running.bootstrap_servers


def findings(servers: str, source: str, sink: str) -> list[str]:
    at = {"kafka.bootstrap.servers": servers}
    read = TopicRead("kavka", {**at, "subscribe": source}, True)
    flow = FlowDefinition("alerts", "out", Location("a.py", 3), (read,))
    output = OutputDefinition("out", "sink", Location("a.py", 1), "kavka", {**at, "topic": sink})
    checks = BrokerChecks(Definitions([output], [flow]), Checkpoints(None))
    return [str(found) for found in asyncio.run(checks.run())]


def test_topics_that_may_be_used_have_no_findings(servers):
    assert findings(servers, "open", "open") == []
    assert findings(servers, "readable", "open") == []


@pytest.mark.parametrize(
    ("source", "sink", "line", "said"),
    [
        ("seen", "open", 3, "may not read the topic seen: allow it with `kavka acls"),
        ("closed", "open", 3, "may not read the topic closed: allow it"),
        ("open", "readable", 1, "--operation Write --topic readable`"),
        ("open", "closed", 1, "may not write into the topic closed"),
    ],
)
def test_a_right_that_is_missing_is_an_error_at_its_line(servers, source, sink, line, said):
    [found] = findings(servers, source, sink)
    assert found.startswith(f"a.py:{line}: error: the user of this project ")
    assert said in found
