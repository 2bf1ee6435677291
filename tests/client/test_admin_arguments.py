"""Arguments of the admin client: authorized operations, all members of a group, offsets of several groups."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kavka.client import (
    AclOperation,
    ConfigOp,
    ConfigResource,
    KafkaError,
    NewTopic,
    ResourceType,
    TopicPartition,
    blocking,
)

AT = TopicPartition("t", 0)


def operations(described: Any) -> Any:
    return described.authorized_operations


def test_authorized_operations_are_returned_where_they_are_asked_for(broker, settings):
    reading = settings | {"group.id": "g"}
    with (
        blocking.Admin(settings, network=broker) as admin,
        blocking.Consumer(reading, network=broker) as consumer,
    ):
        consumer.commit({AT: 0})
        asked: Any = {"include_authorized_operations": True}
        topic = admin.describe_topics(["t"], **asked)["t"]
        assert operations(topic) >= {AclOperation.READ, AclOperation.WRITE}
        assert AclOperation.READ in operations(admin.describe_topics(**asked)["t"])
        assert AclOperation.CREATE in operations(admin.describe_cluster(**asked))
        assert AclOperation.DELETE in operations(admin.describe_groups(["g"], **asked)["g"])
        assert operations(admin.describe_topics(["t"])["t"]) is None
        assert operations(admin.describe_cluster()) is None
        assert operations(admin.describe_groups(["g"])["g"]) is None


def test_all_members_of_a_group_are_removed(broker, settings):
    reading = settings | {"group.id": "g", "enable.auto.commit": False}
    with (
        blocking.Admin(settings, network=broker) as admin,
        blocking.Consumer(reading, network=broker) as consumer,
    ):
        assert admin.remove_members("g") == {}
        consumer.subscribe(["t"])
        while not consumer.assignment():
            consumer.poll(100)
        removed = admin.remove_members("g", reason="maintenance")
        assert list(removed.values()) == [None]
        assert admin.describe_groups(["g"])["g"].members == []


def test_offsets_of_several_groups_are_asked_for_at_once(broker, settings):
    with blocking.Admin(settings, network=broker) as admin:
        for number in (1, 2):
            assert admin.alter_group_offsets(f"g{number}", {AT: number}) == {AT: None}
        found: Any = admin.list_offsets_of_groups(["g1", "g2", "g3"])
        assert {name: {at: one.offset for at, one in of.items()} for name, of in found.items()} == {
            "g1": {AT: 1},
            "g2": {AT: 2},
            "g3": {},
        }
        chosen: Any = admin.list_offsets_of_groups({"g1": [AT], "g2": None})
        assert [chosen[name][AT].offset for name in ("g1", "g2")] == [1, 2]


@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.delete_topics("orders"),
        lambda admin: admin.describe_topics("orders"),
        lambda admin: admin.eligible_leaders("orders"),
        lambda admin: admin.describe_groups("billing"),
        lambda admin: admin.delete_groups("billing"),
        lambda admin: admin.list_offsets_of_groups("billing"),
        lambda admin: admin.remove_members("billing", "instance"),
        lambda admin: admin.list_groups(states="Stable"),
        lambda admin: admin.describe_transactions("payments"),
        lambda admin: admin.fence_producers("payments"),
        lambda admin: admin.list_transactions(states="Ongoing"),
        lambda admin: admin.describe_user_scram_credentials("alice"),
        lambda admin: admin.delete_topics([b"orders"]),
    ],
)
def test_a_text_in_the_place_of_a_list_is_refused_and_nothing_is_sent(broker, settings, call):
    with blocking.Admin(settings, network=broker) as admin:
        admin.create_topics([NewTopic(letter, 1, 1) for letter in "order"])
        with pytest.raises(TypeError, match="is a list of names"):
            call(admin)
        assert set(admin.list_topics()) >= set("order")


def test_settings_of_topics_are_numbers_and_booleans_too(broker, settings):
    topic = ConfigResource(ResourceType.TOPIC, "u")
    with blocking.Admin(settings, network=broker) as admin:
        new = NewTopic("u", 1, 1, configs={"retention.ms": 5000, "preallocate": True})
        [made] = admin.create_topics([new]).values()
        assert not isinstance(made, Exception)
        admin.incremental_alter_configs({topic: [ConfigOp("segment.ms", 7000)]})
        entries: Any = admin.describe_configs([topic])[topic]
        found = {entry.name: entry.value for entry in entries}
        assert [found[name] for name in ("retention.ms", "preallocate", "segment.ms")] == [
            "5000",
            "true",
            "7000",
        ]
        with pytest.raises(TypeError, match=r"value of retention.ms is list, not text or a number"):
            admin.create_topics([NewTopic("v", configs={"retention.ms": cast("Any", [1])})])


def test_names_in_the_place_of_new_topics_are_refused(broker, settings):
    with blocking.Admin(settings, network=broker) as admin:
        wrong: Any = ["orders"]
        with pytest.raises(TypeError, match="new_topics is a list of NewTopic: 'orders' is str"):
            admin.create_topics(wrong)


def test_a_forced_end_of_a_transaction_fences_its_producer(broker, settings):
    writing = settings | {"transactional.id": "payments"}
    with (
        blocking.Admin(settings, network=broker) as admin,
        blocking.Producer(writing, network=broker) as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"v")
        admin.force_terminate_transaction("payments")
        with pytest.raises(KafkaError):
            producer.commit_transaction()
        [described] = admin.describe_transactions(["payments"]).values()
        assert described.state in ("CompleteAbort", "Empty")
        with pytest.raises(KafkaError, match="INVALID_REQUEST"):
            admin.force_terminate_transaction("")
