"""A broker of Apache Kafka 3.9 and one of ours that reach each other by SASL_SSL only, as their clients reach them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from kavka.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasRequestOp,
)
from kavka.wire.messages.create_acls import CreateAclsRequest
from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import until
from kavka_compat.mixed import Kind, MixedCluster, run_mixed
from kavka_compat.our_tools import our_tool
from kavka_compat.secured import Secured
from kavka_compat.traffic import (
    assert_nothing_is_wrong,
    committed,
    consume,
    create,
    load_on,
    produce,
)
from support.access import AUTHORIZER, acl, creation

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(600)]

KINDS = {0: Kind.APACHE, 1: Kind.KAVKA}
OTHER = {0: 1, 1: 0}
_SETTINGS = {
    "zookeeper.session.timeout.ms": "18000",
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:admin;User:broker-0;User:broker-1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "2",
    "quota.window.num": "2",
}
_PASSWORDS = {
    "admin": "admin-secret",
    "alice": "alice-secret",
    "broker-0": "zero-secret",
    "broker-1": "one-secret",
}


def store_users(secured: Secured, cluster: MixedCluster) -> None:
    """Store the first credentials before any broker runs: one by Kafka's tool, the others by ours."""
    if secured.mechanism == "PLAIN":
        return
    for user in ("broker-1", "broker-0", "admin"):
        config = f"{secured.mechanism}=[password={secured.passwords[user]}]"
        words = ["--zookeeper", cluster.zookeeper, "--alter", "--entity-type", "users"]
        words += ["--entity-name", user, "--add-config", config]
        if user == "broker-1":
            ApacheKafka("3.9").check("kafka-configs", *words)
        else:
            our_tool("configs", *words)


def change_password(cluster: MixedCluster, secured: Secured, user: str, password: str) -> None:
    """Store another password of a user, through the brokers that run."""
    address = cluster.running_addresses[0]
    words = ["--bootstrap-server", address, "--command-config", secured.properties("admin")]
    words += ["--alter", "--entity-type", "users", "--entity-name", user]
    our_tool("configs", *words, "--add-config", f"{secured.mechanism}=[password={password}]")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_each_kind_follows_leads_and_rules_the_other_over_sasl_ssl(
    tmp_path: Path, mechanism: str
) -> None:
    secured = Secured(tmp_path, _PASSWORDS, mechanism)
    prepare = partial(store_users, secured)
    with run_mixed(tmp_path, KINDS, _SETTINGS, secured, prepare) as cluster:
        admin = AdminClient(cluster.client)
        create(cluster, admin, "t", [[0, 1], [1, 0]])
        values = [b"%d" % n for n in range(500)]
        for partition in (0, 1):
            produce(cluster, "t", partition, values)
        assert consume(cluster, "t", "readers", 1000) == {0: values, 1: values}
        assert committed(cluster, "readers") == {0: 500, 1: 500}
        assert cluster.assert_equal_logs("t") > 1000
        chosen = {"partitions": 2, "replication_factor": 2, "min_insync_replicas": 1}
        with load_on(cluster, "moves", **chosen) as load:
            for number in KINDS:
                cluster.wait_in_sync("moves", "__consumer_offsets")
                cluster.make_controller(OTHER[number])
                load.wait_for(50)
                cluster.stop(number)
                until(partial(leads_all, cluster, "moves", OTHER[number]))
                load.wait_for(50)
                cluster.start(number)
            cluster.wait_in_sync("moves", "__consumer_offsets")
            load.wait_for(50)
            assert_nothing_is_wrong(load.finish())
        assert cluster.assert_equal_logs("moves") > 0
        if mechanism != "PLAIN":
            change_password(cluster, secured, "alice", secured.passwords["alice"])
        each_obeys_the_other(cluster, secured)


def leads_all(cluster: MixedCluster, topic: str, number: int) -> bool:
    states = [cluster.state(topic, partition) for partition in cluster.assignment(topic)]
    return all(state is not None and state.leader == number for state in states)


def each_obeys_the_other(cluster: MixedCluster, secured: Secured) -> None:
    """Let alice write and read by ACLs of each kind, then bound her rate by quotas of each kind."""
    alice = {"bootstrap.servers": cluster.bootstrap, **secured.librdkafka("alice")}
    admin = AdminClient(cluster.client)
    for author in KINDS:
        topic = f"of-{author}"
        create(cluster, admin, topic, [[0, 1], [1, 0]])
        for partition in (0, 1):
            assert error_of(alice, topic, partition) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        allow(cluster, author, f"User:alice Write Topic:{topic}", f"User:alice Read Topic:{topic}")
        allow(cluster, author, f"User:alice Read Group:{topic}")
        for partition in (0, 1):
            until(partial(is_written, alice, topic, partition), what=f"{partition} obeys {author}")
        assert read(alice, topic, 2)
        limit(cluster, author, 10_000.0)
        for partition in (0, 1):
            until(partial(is_throttled, alice, topic, partition), what=f"{partition} is slow")
        limit(cluster, author, None)
        for partition in (0, 1):
            until(lambda at=partition, topic=topic: not is_throttled(alice, topic, at))  # type: ignore[misc]
        allow(cluster, author, f"deny User:alice@127.0.0.1 Write Topic:{topic}")
        for partition in (0, 1):
            until(lambda at=partition, topic=topic: not is_written(alice, topic, at))  # type: ignore[misc]


def allow(cluster: MixedCluster, author: int, *texts: str) -> None:
    request = CreateAclsRequest(creations=[creation(acl(text)) for text in texts])
    response = cluster.ask(author, request, 2)
    assert {row.error_code for row in response.results} == {0}


def error_of(settings: Mapping[str, str], topic: str, partition: int) -> int:
    """Return the code with which a record to a partition is refused; 0 when it is written."""
    codes: list[int] = []
    with Producer({**settings, "acks": "all", "message.timeout.ms": "30000"}) as producer:
        try:
            producer.produce(
                topic,
                b"x",
                partition=partition,
                on_delivery=lambda error, _: codes.append(error.code() if error else 0),
            )
        except KafkaException as error:
            return int(error.args[0].code())
        producer.flush(60)
    (code,) = codes
    return code


def is_written(settings: Mapping[str, str], topic: str, partition: int) -> bool:
    code = error_of(settings, topic, partition)
    assert code in (0, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    return code == 0


def read(settings: Mapping[str, str], topic: str, count: int) -> bool:
    """Return whether a group member reads so many records and commits."""
    own = {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    with Consumer({**settings, **own}) as consumer:
        consumer.subscribe([topic])
        left = count
        while left > 0:
            left -= sum(message.error() is None for message in consumer.consume(left, 30))
        consumer.commit(asynchronous=False)
    return True


def limit(cluster: MixedCluster, author: int, rate: float | None) -> None:
    """Set how many bytes a second alice may write, or let her go free."""
    entry = AlterClientQuotasRequestEntry(
        entity=[AlterClientQuotasRequestEntity(entity_type="user", entity_name="alice")],
        ops=[
            AlterClientQuotasRequestOp(
                key="producer_byte_rate", value=rate or 0.0, remove=rate is None
            )
        ],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    (response,) = cluster.ask(author, request).entries
    assert response.error_code == 0, response


def is_throttled(settings: Mapping[str, str], topic: str, partition: int) -> bool:
    """Return whether writing 30 KB at once is answered with a throttle time."""
    seen: list[float] = []

    def throttled(event: Any) -> None:
        seen.append(event.throttle_time)

    with Producer({**settings, "acks": "all", "throttle_cb": throttled}) as producer:
        producer.produce(topic, bytes(30_000), partition=partition)
        assert producer.flush(60) == 0
        producer.poll(0)
    return any(seconds > 0 for seconds in seen)


@pytest.mark.parametrize("number", KINDS, ids=["kafkas", "ours"])
def test_a_broker_that_the_other_kind_refuses_says_why_and_tries_again(
    tmp_path: Path, number: int
) -> None:
    """Its password was changed: it falls out of sync, both logs say why, and a stored password ends it."""
    secured = Secured(tmp_path, _PASSWORDS)
    prepare = partial(store_users, secured)
    other, user = OTHER[number], f"broker-{number}"
    with run_mixed(tmp_path, KINDS, _SETTINGS, secured, prepare) as cluster:
        create(cluster, AdminClient(cluster.client), "t", [[other, number]])
        cluster.make_controller(other)
        cluster.stop(number)
        change_password(cluster, secured, user, _OTHER_PASSWORD)
        produce(cluster, "t", 0, [b"while it was away"])
        cluster.launch(number)
        until(lambda: any(reason in cluster.text(number) for reason in _REASONS), what="its reason")
        until(lambda: "uthentication" in cluster.text(other), what="the other's")
        state = cluster.state("t", 0)
        assert state is not None
        assert state.isr == {other}
        assert cluster.is_running(number)
        change_password(cluster, secured, user, secured.passwords[user])
        cluster.wait_in_sync("t")
        cluster.wait_ready(number)
        assert cluster.assert_equal_logs("t") > 0
        for each in KINDS:
            assert _OTHER_PASSWORD not in cluster.text(each)
            assert "-secret" not in cluster.text(each)
        assert "Traceback" not in cluster.text(1)


_OTHER_PASSWORD = "4711-is-no-word"
_REASONS = (
    "invalid credentials with SASL mechanism SCRAM-SHA-512",
    "SaslAuthenticationException",
)
