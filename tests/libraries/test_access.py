"""Users of librdkafka that authenticate by SASL, and the ACLs of each; the audit knows them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, TopicPartition, admin

from support.access import AUTHORIZER
from support.sasl import PLAIN_USERS, Server, run_beside

Story = Callable[[Server], None]
Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return what runs a blocking story beside a broker with the super user alice, and returns its audit."""
    settings = {
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:alice",
        "kavka.audit.log": str(tmp_path / "audit.json"),
        "listener.name.clients.plain.sasl.jaas.config": PLAIN_USERS.replace(
            ";", ' user_carol="carol secret";'
        ),
    }

    def run_story(story: Story) -> list[dict[str, Any]]:
        async def on_a_thread(server: Server) -> None:
            await asyncio.to_thread(story, server)

        run_beside(tmp_path, on_a_thread, **settings)
        lines = (tmp_path / "audit.json").read_text().splitlines()
        return [json.loads(line) for line in lines]

    return run_story


def produced(server: Server, user: str, password: str) -> KafkaError | None:
    """Send a record to `orders`; return the error of its delivery."""
    reports: list[KafkaError | None] = []
    producer = confluent_kafka.Producer(server.config(user, password))
    producer.produce("orders", b"v", on_delivery=lambda error, _message: reports.append(error))
    producer.flush(30)
    (error,) = reports
    return error


def consumed(server: Server, user: str, password: str, group: str) -> Any:
    """Return the first message of `orders`, or the error in its place."""
    settings = {"group.id": group, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**server.config(user, password), **settings})
    try:
        consumer.subscribe(["orders"])
        message = consumer.poll(30)
        assert message is not None
        return message.error() or message.value()
    finally:
        consumer.close()


def test_each_user_may_do_what_its_acls_say(run: Run) -> None:
    def story(server: Server) -> None:
        root = admin.AdminClient(server.config("alice", "alice secret"))
        root.create_topics([admin.NewTopic("orders", 1, 1)])["orders"].result(30)
        allow, literal = admin.AclPermissionType.ALLOW, admin.ResourcePatternType.LITERAL
        topic, group = admin.ResourceType.TOPIC, admin.ResourceType.GROUP
        read, write = admin.AclOperation.READ, admin.AclOperation.WRITE
        acls = [
            admin.AclBinding(topic, "orders", literal, "User:bob", "*", write, allow),
            admin.AclBinding(topic, "orders", literal, "User:carol", "*", read, allow),
            admin.AclBinding(group, "billing", literal, "User:carol", "*", read, allow),
        ]
        for outcome in root.create_acls(acls).values():
            outcome.result(30)
        carol = "carol", "carol secret"
        assert produced(server, "bob", "b,o=b") is None
        refused = produced(server, *carol)
        assert refused is not None
        assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert consumed(server, *carol, "billing") == b"v"
        error = consumed(server, *carol, "other")
        assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        # Users see the topics that they may describe, and may change no ACL.
        mine = admin.AdminClient(server.config(*carol))
        assert set(mine.list_topics(timeout=30).topics) == {"orders"}
        (outcome,) = mine.create_acls(acls[:1]).values()
        with pytest.raises(confluent_kafka.KafkaException) as raised:
            outcome.result(30)
        assert raised.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
        consumer = confluent_kafka.Consumer({**server.config("bob", "a guess"), "group.id": "g"})
        consumer.assign([TopicPartition("orders", 0, 0)])
        consumer.poll(1)
        consumer.close()

    audit = run(story)
    seen = {(line["event"], line["principal"], line.get("resource")) for line in audit}
    assert ("authenticated", "User:carol", None) in seen
    assert ("denied", "User:carol", "orders") in seen
    assert ("denied", "User:carol", "other") in seen
    assert ("denied", "User:carol", "kafka-cluster") in seen
    assert ("administrative", "User:alice", None) in seen
    assert any(line["event"] == "authentication_failed" for line in audit)
    assert not any(word in json.dumps(audit) for word in ("secret", "a guess", "b,o=b"))
