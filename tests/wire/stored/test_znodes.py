"""Names and payloads of znodes as Apache Kafka 3.9 writes them."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.ids import NO_TOPIC_ID, TopicPartition
from kavka.wire.stored import znodes


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("plain-name_1.x", "plain-name_1.x"),
        ("CN=a b*~/ü", "CN%3Da%20b%2A%7E%2F%C3%BC"),
        ("a+b%", "a%2Bb%25"),
        (znodes.DEFAULT_ENTITY, "<default>"),
    ],
)
def test_names_of_entities_are_quoted_as_kafka_does(name: str, node: str) -> None:
    assert znodes.config_path("users", name) == f"/config/users/{node}"
    assert znodes.entity_name(node) == name


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_every_name_of_an_entity_comes_back(name: str) -> None:
    node = znodes.config_path("clients", name).removeprefix("/config/clients/")
    assert "/" not in node
    assert unquote(node) == name
    assert znodes.entity_name(node) == name


def test_a_topic_of_an_old_cluster_has_no_id_and_moves_nothing() -> None:
    found = znodes.TopicNode.decode(b'{"version":1,"partitions":{"0":[1,2]}}')
    assert found == znodes.TopicNode(NO_TOPIC_ID, {0: [1, 2]})


def test_the_recovery_state_is_written_only_while_it_lasts() -> None:
    state = znodes.StateNode(1, 5, 3, [1, 2])
    assert json.loads(state.encode()) == {
        "controller_epoch": 3,
        "leader": 1,
        "version": 1,
        "leader_epoch": 5,
        "isr": [1, 2],
    }
    recovering = state._replace(recovering=True)
    assert json.loads(recovering.encode())["leader_recovery_state"] == 1
    assert znodes.StateNode.decode(recovering.encode()) == recovering


def test_a_change_of_settings_is_read_in_both_forms() -> None:
    assert znodes.decode_config_change(znodes.encode_config_change("topics/t")) == "topics/t"
    older = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert znodes.decode_config_change(older) == "topics/t"


def test_moves_and_partitions_come_back() -> None:
    moves = {TopicPartition("t", 0): (1, 2), TopicPartition("t", 1): (2,)}
    assert znodes.decode_reassignments(znodes.encode_reassignments(moves)) == moves
    assert znodes.decode_partitions(znodes.encode_partitions(moves)) == list(moves)


def test_a_block_of_producer_ids_has_its_numbers_as_texts() -> None:
    block = znodes.ProducerIdBlock(1, 2000, 2999)
    assert json.loads(block.encode()) == {
        "version": 1,
        "broker": 1,
        "block_start": "2000",
        "block_end": "2999",
    }
    assert znodes.ProducerIdBlock.decode(block.encode()) == block


def test_numbers_that_were_written_as_texts_are_numbers() -> None:
    state = b'{"controller_epoch":"1","leader":"2","version":1,"leader_epoch":"3","isr":["2","1"]}'
    assert znodes.StateNode.decode(state) == znodes.StateNode(2, 3, 1, [2, 1])
    topic = znodes.TopicNode.decode(b'{"version":1,"partitions":{"0":["1",2]}}')
    assert topic.assignment == {0: [1, 2]}
    moves = b'{"partitions":[{"topic":"t","partition":"0","replicas":["1",2]}]}'
    assert znodes.decode_reassignments(moves) == {TopicPartition("t", 0): (1, 2)}


@pytest.mark.parametrize(
    "values", ["[1.5]", "[true]", "[null]", "[[1]]", '"12"', "[2147483648]", '["one"]', "null"]
)
def test_state_that_no_message_could_carry_is_not_understood(values: str) -> None:
    data = f'{{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":1,"isr":{values}}}'
    with pytest.raises((ValueError, TypeError)):
        znodes.StateNode.decode(data.encode())


@pytest.mark.parametrize(
    "partitions",
    ['{"0":[]}', '{"0":null}', '{"0":"12"}', '{"-1":[1]}', '{"0":[1.5]}', "[[1]]", '{"x":[1]}'],
)
def test_topic_without_replicas_that_could_lead_is_not_understood(partitions: str) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        znodes.TopicNode.decode(f'{{"version":1,"partitions":{partitions}}}'.encode())


def test_replica_that_is_named_twice_is_one() -> None:
    assert znodes.TopicNode.decode(b'{"partitions":{"0":[1,2,1]}}').assignment == {0: [1, 2]}


@pytest.mark.parametrize(
    "fields",
    [
        '"endpoints":["PLAINTEXT://h:1"],"rack":7',
        '"endpoints":[7]',
        '"endpoints":["PLAINTEXT://h:1"],"port":"x"',
        '"endpoints":["A://h:1"],"features":{"f":{"min_version":1,"max_version":70000}}',
    ],
)
def test_broker_that_cannot_be_sent_to_others_is_not_decoded(fields: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        znodes.BrokerNode.decode(f"{{{fields}}}".encode())


def test_settings_that_are_no_texts_are_taken_as_such() -> None:
    data = b'{"config":{"a":5,"b":true,"c":"x","d":0.5}}'
    assert znodes.decode_config(data) == {"a": "5", "b": "true", "c": "x", "d": "0.5"}
    with pytest.raises(TypeError):
        znodes.decode_config(b'{"config":{"a":[5]}}')
