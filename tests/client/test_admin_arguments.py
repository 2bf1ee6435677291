"""Arguments of the admin client: authorized operations, all members of a group, offsets of several groups."""

from __future__ import annotations

from typing import Any

from kavka.client import AclOperation, TopicPartition, blocking

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
