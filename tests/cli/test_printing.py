"""Lines and tables, byte for byte."""

from __future__ import annotations

import pytest

from kavka.cli.admin.topic_table import Problems, partition_line, replication_factor, topic_line
from kavka.cli.arguments.config_entries import entry_line
from kavka.cli.commands.broker_api_versions import api_lines
from kavka.cli.commands.cluster import endpoint_lines
from kavka.cli.commands.log_dirs import log_dir_json
from kavka.cli.groups.description import assignment_text
from kavka.cli.groups.tables import Column, table
from kavka.cli.text.java_errors import java_name, spelt_together
from kavka.client.admin.configs import ConfigEntry, ConfigSynonym
from kavka.client.admin.eligible_leaders import EligibleLeaders
from kavka.client.admin.nodes import LogDir, LogDirReplica
from kavka.client.admin.reassignments import Reassignment
from kavka.client.metadata import BrokerAddress, PartitionMetadata, TopicMetadata
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from kavka.values import replace
from kavka.wire.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApi


def _partition(leader: int, in_sync: tuple[int, ...]) -> PartitionMetadata:
    replicas = (BrokerId(0), BrokerId(1))
    isr = tuple(BrokerId(broker) for broker in in_sync)
    return PartitionMetadata(0, BrokerId(leader), LeaderEpoch(1), replicas, isr, (), ErrorCode.NONE)


def _moving(leader: int, in_sync: tuple[int, ...]) -> PartitionMetadata:
    return replace(_partition(leader, in_sync), replicas=tuple(map(BrokerId, (2, 0, 1))))


def test_columns_grow_with_their_cells_and_the_last_is_not_padded() -> None:
    columns = [Column("GROUP", 7), Column("N", 3, grows=False), Column("REST", 0)]
    assert table(columns, [["g" * 9, 12345, "x"], ["g", 1, ""]]) == (
        "GROUP     N   REST\nggggggggg 12345 x\ng         1   \n"
    )


def test_a_topic_is_printed_with_its_own_settings() -> None:
    topic = TopicMetadata("t", TopicId(bytes(15) + b"\5"), False, (_partition(0, (0, 1)),))
    settings = [ConfigEntry("a", "1", 1, False, False), ConfigEntry("b", None, 4, True, False)]
    assert topic_line(topic, settings, 2) == (
        "Topic: t\tTopicId: AAAAAAAAAAAAAAAAAAAABQ\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: a=1,b=None"
    ).replace("None", "null")


def test_a_partition_is_printed_with_leader_and_replicas() -> None:
    assert partition_line("t", _partition(-1, (1,)), EligibleLeaders((0,), ())) == (
        "\tTopic: t\tPartition: 0\tLeader: none\tReplicas: 0,1\tIsr: 1\tElr: 0\tLastKnownElr: "
    )
    assert partition_line("t", _partition(0, (0, 1)), None).endswith(
        "\tLeader: 0\tReplicas: 0,1\tIsr: 0,1\tElr: N/A\tLastKnownElr: N/A"
    )


@pytest.mark.parametrize(
    ("problems", "leader", "in_sync", "expected"),
    [
        (Problems(under_replicated=True), 0, (0,), True),
        (Problems(under_replicated=True), 0, (0, 1), False),
        (Problems(unavailable=True), -1, (0, 1), True),
        (Problems(unavailable=True), 1, (0, 1), True),
        (Problems(unavailable=True), 0, (0, 1), False),
        (Problems(under_min_isr=True), 0, (0,), True),
        (Problems(under_min_isr=True), 0, (0, 1), False),
        (Problems(under_min_isr=True), -1, (0, 1), True),
        (Problems(under_min_isr=True), 1, (0, 1), True),
        (Problems(at_min_isr=True), -1, (0,), False),
        (Problems(at_min_isr=True), 0, (0, 1), True),
        (Problems(at_min_isr=True, under_replicated=True), 0, (0,), True),
    ],
)
def test_problems_of_partitions_are_found(
    problems: Problems, leader: int, in_sync: tuple[int, ...], expected: bool
) -> None:
    assert problems.has(_partition(leader, in_sync), live={0}, min_isr=2) is expected


def test_a_partition_under_reassignment_is_printed_with_added_and_removed_replicas() -> None:
    part = _moving(0, (0,))
    move = Reassignment((2, 0, 1), adding=(2,), removing=(0, 1))
    line = partition_line("t", part, None, move)
    assert "\tReplicas: 2,0,1\tIsr: 0\tAdding Replicas: 2\tRemoving Replicas: 0,1\tElr: N/A" in line
    assert "Adding" not in partition_line("t", part, None)


def test_replicas_that_come_do_not_count_while_a_partition_moves() -> None:
    part = _moving(0, (0, 1))
    move = Reassignment((2, 0, 1), adding=(2,), removing=())
    under = Problems(under_replicated=True)
    assert replication_factor(part, move) == 2
    assert not under.has(part, live={0}, min_isr=1, move=move)
    assert under.has(part, live={0}, min_isr=1)
    over = replace(part, replicas=(BrokerId(5),))  # the move has ended since it was asked for
    assert replication_factor(over, move) == 1


def test_a_setting_is_printed_with_its_synonyms() -> None:
    synonyms = (ConfigSynonym("a", "1", 1), ConfigSynonym("log.a", None, 5))
    assert entry_line(ConfigEntry("a", "1", 1, False, False, synonyms)) == (
        "  a=1 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:a=1, DEFAULT_CONFIG:log.a=null}"
    )
    assert entry_line(ConfigEntry("b", None, 9, True, False)) == (
        "  b=null sensitive=true synonyms={}"
    )


def test_an_assignment_is_grouped_by_topic() -> None:
    parts = [TopicPartition("u", 0), TopicPartition("t", 1), TopicPartition("t", 0)]
    assert assignment_text(parts) == "t:0,1;u:0"


def test_endpoints_are_a_table_as_wide_as_its_cells() -> None:
    brokers = [
        BrokerAddress(BrokerId(0), "a-long-host", 9092),
        BrokerAddress(BrokerId(10), "b", 19092, "rack"),
    ]
    assert endpoint_lines(brokers) == [
        "ID         HOST        PORT       RACK STATE      ENDPOINT_TYPE  ",
        "0          a-long-host 9092       null unfenced   broker         ",
        "10         b           19092      rack unfenced   broker         ",
    ]


def test_versions_are_printed_with_the_usable_one() -> None:
    apis = [(18, 0, 4), (3, 0, 99), (1, 90, 99), (28, 0, 5), (999, 1, 1)]
    response = ApiVersionsResponse(
        error_code=0,
        api_keys=[
            ApiVersionsResponseApi(api_key=key, min_version=first, max_version=last)
            for key, first, last in apis
        ],
    )
    lines = api_lines(response)
    assert "ApiVersions(18): 0 to 4 [usable: 4]" in lines
    assert "Metadata(3): 0 to 99 [usable: 12]" in lines
    assert "Fetch(1): 90 to 99 [unusable: node too new]" in lines
    assert "Produce(0): UNSUPPORTED" in lines
    assert lines[-1] == "UNKNOWN(999): 1"


def test_errors_have_the_names_of_javas_exceptions() -> None:
    package = "org.apache.kafka.common.errors."
    assert java_name(ErrorCode.TOPIC_ALREADY_EXISTS) == package + "TopicExistsException"
    assert java_name(ErrorCode.INVALID_TOPIC_EXCEPTION) == package + "InvalidTopicException"
    assert java_name(ErrorCode.NOT_COORDINATOR) == package + "NotCoordinatorException"
    error = KafkaError(ErrorCode.NON_EMPTY_GROUP, "group g: not empty")
    assert spelt_together(error) == package + "GroupNotEmptyException: group g: not empty"
    assert (
        spelt_together(error, by_code=True)
        == package + "GroupNotEmptyException: The group is not empty."
    )


def test_a_log_directory_shows_the_topics_that_are_asked_for() -> None:
    replicas = {TopicPartition(t, 0): LogDirReplica(7, 0, False) for t in ("b", "a")}
    shown = log_dir_json("/logs", LogDir(None, replicas, 1, 1), {"a"})
    assert shown == {
        "partitions": [{"partition": "a-0", "size": 7, "offsetLag": 0, "isFuture": False}],
        "error": None,
        "logDir": "/logs",
    }
    broken = LogDir(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), {}, -1, -1)
    assert log_dir_json("/logs", broken, set())["error"] == (
        "org.apache.kafka.common.errors.KafkaStorageException"
    )
