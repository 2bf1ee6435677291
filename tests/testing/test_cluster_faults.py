"""The faults of the plugin's brokers, as a client meets them, over PLAINTEXT and TLS."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from kavka.client import TopicPartition
from kavka.client.blocking import Consumer, Producer
from kavka.errors import KafkaError
from kavka.testing import Cluster, StartCluster, Topic
from kavka.testing.secured import SecurityOptions
from kavka.testing.waiting import NotInTime


@pytest.fixture(scope="module", params=["PLAINTEXT", "SASL_SSL"])
def shared(request: pytest.FixtureRequest, kavka_start: StartCluster) -> Iterator[Cluster]:
    secured: dict[str, Any] = {"users": {"app": "secret"}, "tls": True}
    with kavka_start(brokers=1, **(secured if request.param == "SASL_SSL" else {})) as cluster:
        yield cluster


@pytest.fixture
def broker(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.reset()


@pytest.fixture
def topic(broker: Cluster) -> Topic:
    return broker.topic("t")


def producer(broker: Cluster, **settings: Any) -> Producer:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({**broker.client_settings("kavka", mechanism="PLAIN"), **named})


@contextmanager
def consuming(broker: Cluster, topic: Topic) -> Iterator[Consumer]:
    settings = {
        "group.id": broker.unique("g"),
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": 50,
    }
    with Consumer({**broker.client_settings("kavka"), **settings}) as consumer:
        consumer.subscribe([topic.name])
        yield consumer


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["drop_request", "drop_response", "delay", "fail", "hang"])
def test_a_producer_writes_once_in_spite_of(kind: str, broker: Cluster, topic: Topic) -> None:
    more: dict[str, list[Any]] = {"delay": [0.05], "fail": ["NOT_LEADER_OR_FOLLOWER"]}
    fault = getattr(broker, kind)("Produce", *more.get(kind, []), times=1)
    with producer(broker, request_timeout_ms=500 if kind == "hang" else 30_000) as writing:
        offsets = [writing.send(topic.name, value).offset for value in (b"a", b"b")]
    assert (fault.hits, offsets, topic.values()) == (1, [0, 1], [b"a", b"b"])


def test_without_idempotence_a_lost_response_doubles_a_record(
    broker: Cluster, topic: Topic
) -> None:
    broker.drop_response("Produce", times=1)
    with producer(broker, enable_idempotence=False) as writing:
        writing.send(topic.name, b"a")
    assert topic.values() == [b"a", b"a"]


def test_a_fault_of_one_topic_leaves_others_alone(broker: Cluster, topic: Topic) -> None:
    other = broker.topic("other")
    fault = broker.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic=topic)
    with producer(broker) as writing:
        writing.send(other.name, b"a")
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            writing.send(topic.name, b"a")
        fault.remove()
        writing.send(topic.name, b"b")
    assert (topic.values(), other.values()) == ([b"b"], [b"a"])


def test_a_fault_of_one_group_or_transactional_id_leaves_others_alone(
    broker: Cluster, topic: Topic
) -> None:
    commits = broker.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", group="failing")
    ends = broker.fail("EndTxn", "INVALID_TXN_STATE", transactional_id="failing")
    for name in ("working", "failing"):
        with producer(broker, transactional_id=name) as writing:
            writing.init_transactions()
            writing.begin_transaction()
            writing.send(topic.name, name.encode())
            with pytest.raises(KafkaError) if name == "failing" else nullcontext():
                writing.commit_transaction()
        with (
            Consumer({**broker.client_settings("kavka"), "group.id": name}) as consumer,
            pytest.raises(KafkaError) if name == "failing" else nullcontext(),
        ):
            consumer.commit({TopicPartition(topic.name, 0): 1})
    assert (commits.hits, ends.hits) == (1, 1)
    assert (topic.committed("working"), topic.committed("failing")) == ({0: 1}, {})
    assert topic.values() == [b"working"]


@pytest.mark.parametrize("of_topic", [False, True])
def test_a_fetch_that_waits_in_a_session_can_fail(
    of_topic: bool, broker: Cluster, topic: Topic
) -> None:
    topic.send("a")
    with consuming(broker, topic) as consumer:
        assert next(consumer).value == b"a"
        before = broker.requests("Fetch")
        broker.wait_for(lambda: broker.requests("Fetch") > before)  # now it is a session's
        fault = broker.fail(
            "Fetch", "NOT_LEADER_OR_FOLLOWER", times=2, topic=topic if of_topic else None
        )
        fault.wait_until_hit(2)
        topic.send("b")
        assert next(consumer).value == b"b"


def test_refused_connections_and_none_while_the_broker_is_dead(broker: Cluster) -> None:
    host, _, port = broker.bootstrap_servers.partition(":")
    with broker.refuse_connections(), pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    socket.create_connection((host, int(port))).close()
    broker.kill()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    with broker.refuse_connections():
        broker.start()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))
    socket.create_connection((host, int(port))).close()


def test_cut_off_clients_wait_and_the_helpers_do_not(broker: Cluster, topic: Topic) -> None:
    with producer(broker, linger_ms=0) as writing:
        writing.send(topic.name, b"a")
        with broker.cut_off_clients():
            future = writing.append(topic.name, b"b", want_future=True)
            assert future is not None
            assert topic.send("c") == 1
            assert not future.done()
        assert future.result(30).offset == 2
    assert topic.values() == [b"a", b"c", b"b"]


@pytest.mark.slow
def test_a_slow_network_takes_its_time_and_loses_nothing(broker: Cluster, topic: Topic) -> None:
    large = bytes(range(256)) * 200
    began = time.monotonic()
    with broker.slow_network(latency_s=0.01, bytes_per_second=200_000), producer(broker) as writing:
        writing.send(topic.name, large)
    assert time.monotonic() - began > len(large) / 200_000
    with broker.slow_network(bytes_per_second=200_000), consuming(broker, topic) as consumer:
        assert next(consumer).value == large


def test_a_full_disk_refuses_records_and_the_reset_gives_it_back(
    broker: Cluster, topic: Topic
) -> None:
    topic.send("a")
    broker.fill_disk()
    limits = {"delivery_timeout_ms": 500, "request_timeout_ms": 400}
    with producer(broker, **limits) as writing, pytest.raises((KafkaError, TimeoutError)):
        writing.send(topic.name, b"b")
    broker.reset()
    assert topic.send("c") == 1
    assert topic.values() == [b"a", b"c"]


def test_what_a_fault_cannot_be_is_refused(broker: Cluster, topic: Topic) -> None:
    with pytest.raises(ValueError, match="'Write' is no API"):
        broker.delay("Write", 1)
    with pytest.raises(ValueError, match="'BROKEN' is no error code"):
        broker.fail("Produce", "BROKEN")
    with pytest.raises(ValueError, match="topic=: requests of Heartbeat name none"):
        broker.hang("Heartbeat", topic=topic)
    with pytest.raises(TypeError, match="fail: 'time' chooses no requests; these do: times, after"):
        broker.fail("Produce", "UNKNOWN_SERVER_ERROR", time=2)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="there is no broker 2, only"):
        broker.kill(2)
    with pytest.raises(ValueError, match="there is no broker True, only"):
        broker.kill(True)
    with pytest.raises(TypeError, match="replication_factor='1': give a whole number"):
        broker.topic(replication_factor="1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is no broker 2, only"):
        broker.cut(1, 2)
    with pytest.raises(RuntimeError, match="broker 1 runs already"):
        broker.start()


@pytest.mark.parametrize(
    ("api", "code", "which", "message"),
    [
        ("Produce", None, {}, "None is no error code: give its name or its number"),
        ("Produce", True, {}, "True is no error code"),
        (0, "UNKNOWN_SERVER_ERROR", {}, "0 is no name of an API"),
        ("Produce", "UNKNOWN_SERVER_ERROR", {"times": "2"}, "times='2': give a whole number"),
        ("Produce", "UNKNOWN_SERVER_ERROR", {"times": 0}, "times=0: give a number from 1 on"),
        ("Produce", "UNKNOWN_SERVER_ERROR", {"after": -1}, "after=-1: give a number from 0 on"),
        ("Produce", "UNKNOWN_SERVER_ERROR", {"broker": "1"}, r"there is no broker '1', only \[1\]"),
    ],
)
def test_a_fault_of_wrong_values_is_refused_where_it_is_put_in(
    broker: Cluster, api: Any, code: Any, which: Any, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        broker.fail(api, code, **which)


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan")])
def test_a_delay_is_a_time_that_ends(broker: Cluster, seconds: float) -> None:
    with pytest.raises(ValueError, match="give a number from 0 on; `hang` answers never"):
        broker.delay("Produce", seconds)


def test_a_network_is_slow_by_numbers(broker: Cluster) -> None:
    wrong: dict[str, Any]
    for wrong in ({}, {"latency_s": -1}, {"latency_s": float("inf")}, {"bytes_per_second": "x"}):
        with pytest.raises(ValueError, match=r"above 0|could not convert string to float: 'x'"):
            broker.slow_network(**wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"brokers": "2"}, "brokers='2': give a whole number"),
        ({"settings": "a=b"}, "settings='a=b': give names and values, as in {'name': 'value'}"),
        ({"settings": {1: 2}}, "settings: names are texts, not 1"),
        ({"users": ["app"]}, r"users=\['app'\]: give names and values"),
        ({"users": {"app": 1}}, "users={'app': 1}: names and passwords are texts"),
        ({"tls": "yes"}, "tls='yes': give True or False"),
        (
            {"settings": {"min.insync.replica": 2}},
            "no setting min.insync.replica; did you mean min.insync.replicas?",
        ),
    ],
)
def test_arguments_of_wrong_types_are_refused(
    kavka_start: StartCluster, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        kavka_start(**options)


def test_a_wait_for_what_is_no_number_and_no_function_is_refused(topic: Topic) -> None:
    with pytest.raises(TypeError, match=r"wait_for\('tea'\): give a number, or a function of"):
        topic.wait_for("tea")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"wait_for\(True\): give a number"):
        topic.wait_for(True)
    with pytest.raises(ValueError, match="timeout_s=nan: it would wait without end"):
        topic.wait_for(1, timeout_s=float("nan"))


def test_what_the_matter_is_with_brokers_is_known(broker: Cluster) -> None:
    assert broker.troubles() == []
    broker.pause()
    assert broker.troubles() == ["broker 1 is paused"]
    broker.resume()
    broker.fill_disk().remove()
    assert broker.troubles() == ["broker 1 has lost its log directory, as its disk was full"]
    broker.kill()
    assert broker.troubles() == ["broker 1 does not run"]


def test_one_value_is_not_taken_for_many(topic: Topic) -> None:
    with pytest.raises(TypeError, match="'tea' is one value: `send` writes it"):
        topic.send_many("tea")
    with pytest.raises(TypeError, match=r"\('key', 'value', 'header'\): give \(key, value\)"):
        topic.send_many([("key", "value", "header")])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"a dictionary: give its .items\(\)"):
        topic.send_many({"key": "value"})
    assert topic.records() == []


def test_a_topic_that_does_not_exist_is_not_read_to_its_end(broker: Cluster) -> None:
    missing = broker.existing_topic(broker.unique("missing"))
    with pytest.raises(NotInTime, match=r"to its end: committed {}, ends {}"):
        missing.wait_until_read("g", timeout_s=0)


def test_a_group_without_members_is_waited_for(broker: Cluster) -> None:
    broker.wait_for_group(broker.unique("g"), 0)
    with pytest.raises(TypeError, match="members='1': give a whole number"):
        broker.wait_for_group("g", "1")  # type: ignore[arg-type]


def test_a_closed_cluster_says_so(kavka_start: StartCluster) -> None:
    with kavka_start() as cluster:
        topic = cluster.topic("t")
    with pytest.raises(RuntimeError, match="the cluster is closed: its `with` or its test has"):
        topic.records()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"client_certificates": True}, "client_certificates=True needs tls=True"),
        ({"authorization": True}, "authorization=True needs users="),
        ({"users": {"app": ""}}, "user 'app': no password"),
        ({"users": {"app": 'a"b'}}, "one of these in it"),
        ({"users": {"kavka-testing": "a"}}, "is the fixture's own user"),
    ],
)
def test_security_that_does_not_go_together_is_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        SecurityOptions(**options)


def test_settings_name_what_a_cluster_does_not_have(broker: Cluster) -> None:
    with pytest.raises(ValueError, match="the cluster has no user 'eve'"):
        broker.client_settings(user="eve")
    with pytest.raises(ValueError, match="'kafkajs' is not known; these are: confluent-kafka, "):
        broker.client_settings("kafkajs")
    with pytest.raises(RuntimeError, match="start it with authorization=True"):
        broker.allow("app", "Read", topic="t")
