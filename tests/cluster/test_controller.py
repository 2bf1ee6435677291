"""Three brokers and their controller: leaders die, partitions move, controllers change."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.control.controller_term import ControllerTerm
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.registry.local_session import LocalSession
from kavka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
)
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestTopic,
)
from kavka.wire.messages.delete_topics import DeleteTopicsRequest
from kavka.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from kavka.wire.messages.elect_leaders import ElectLeadersRequest
from kavka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from kavka.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import StateNode

Run = Any
Cluster = Any
WHERE = TopicPartition("t", 0)


def moved(name: str, replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
    row = AlterPartitionReassignmentsRequestPartition(partition_index=0, replicas=replicas)
    topic = AlterPartitionReassignmentsRequestTopic(name=name, partitions=[row])
    return AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=10_000)


def follower_of(cluster: Cluster) -> int:
    """A broker that does not rule."""
    return next(number for number in cluster.brokers if number != cluster.controller)


def test_first_broker_rules_and_all_know_it(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        assert cluster.controller == 1
        assert {b.metadata.controller_id for b in cluster.brokers.values()} == {1}

    run(story)


def test_new_topic_is_not_published_before_it_is_led(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        row = CreateTopicsRequestAssignment(partition_index=0, broker_ids=[2, 3])
        topic = CreateTopicsRequestTopic(
            name="t", num_partitions=-1, replication_factor=-1, assignments=[row]
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        async with cluster.brokers[2].control_requests._lock:  # it applies no request meanwhile
            asked = asyncio.ensure_future(cluster.send(cluster.controller, request))
            await cluster.until(lambda: cluster.hosts(3, WHERE), "3 follows")
            assert {cluster.partition_metadata(number, WHERE) for number in cluster.brokers} == {
                None
            }
            assert not asked.done()
        assert (await asked).topics[0].error_code == ErrorCode.NONE
        assert cluster.partition_metadata(cluster.controller, WHERE).leader == 2
        assert cluster.partition(2, WHERE).is_leader

    run(story)


def test_records_survive_the_death_of_their_leader(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [2, 3, 1])
        await cluster.must_produce(WHERE, b"before")
        await cluster.kill(2)
        await cluster.must_produce(WHERE, b"after")
        assert cluster.leader(WHERE) == 3
        assert await cluster.read(WHERE) == [b"before", b"after"]
        assert (
            cluster.znode_server.tree.stat("/brokers/ids/2") is not None
        )  # long before its session ends

    run(story)


def test_broker_that_comes_back_is_in_sync_again(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [2, 3, 1])
        await cluster.kill(2)
        await cluster.must_produce(WHERE, b"without 2")
        await cluster.start(2)
        await cluster.until(lambda: cluster.in_sync(WHERE) == {1, 2, 3}, "2 is in sync again")
        response = await cluster.send(
            cluster.controller, ElectLeadersRequest(topic_partitions=None)
        )
        (topic,) = response.replica_election_results
        assert [row.error_code for row in topic.partition_result] == [ErrorCode.NONE]
        await cluster.until(lambda: cluster.leader(WHERE) == 2, "2 leads, as is preferred")
        assert await cluster.read(WHERE) == [b"without 2"]

    run(story)


def test_broker_that_comes_back_never_calls_a_topic_unknown(run: Run) -> None:
    """Its controller sends the live brokers before the partitions; librdkafka asks in between."""

    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2], [2, 3])
        number = follower_of(cluster)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        for _ in range(3):
            await cluster.stop(number)
            await cluster.start(number)
            (topic,) = (await cluster.send(number, asked)).topics
            assert topic.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)

    run(story)


def test_partition_moves_under_writes(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2])
        await cluster.must_produce(WHERE, b"a")
        response = await cluster.send(cluster.controller, moved("t", [3, 4]))
        assert response.responses[0].partitions[0].error_code == ErrorCode.NONE
        await cluster.must_produce(WHERE, b"b")
        await cluster.until(
            lambda: cluster.leader(WHERE) == 3 and cluster.in_sync(WHERE) == {3, 4}, "it has moved"
        )
        await cluster.until(
            lambda: not cluster.hosts(1, WHERE) and not cluster.hosts(2, WHERE), "old logs are gone"
        )
        ruling = cluster.brokers[cluster.controller].controller
        await cluster.until(lambda: not ruling.state.finishing, "the move is concluded")
        listed = await cluster.send(cluster.controller, ListPartitionReassignmentsRequest())
        assert listed.topics == []
        await cluster.must_produce(WHERE, b"c")
        assert await cluster.read(WHERE) == [b"a", b"b", b"c"]

    run(story, brokers=4)


def test_move_to_a_dead_broker_is_refused(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2])
        response = await cluster.send(cluster.controller, moved("t", [1, 9]))
        row = response.responses[0].partitions[0]
        assert row.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        response = await cluster.send(cluster.controller, moved("t", None))
        row = response.responses[0].partitions[0]
        assert row.error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    run(story)


def test_others_refuse_what_only_the_controller_may_do(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        other = follower_of(cluster)
        topic = CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1)
        created = await cluster.send(other, CreateTopicsRequest(topics=[topic]))
        deleted = await cluster.send(other, DeleteTopicsRequest(topic_names=["t"]), 5)
        responses = [
            created.topics[0].error_code,
            deleted.responses[0].error_code,
            (await cluster.send(other, moved("t", [1]))).error_code,
            (await cluster.send(other, ListPartitionReassignmentsRequest())).error_code,
            (await cluster.send(other, ElectLeadersRequest(topic_partitions=None))).error_code,
        ]
        assert responses == [ErrorCode.NOT_CONTROLLER] * 5

    run(story)


def test_leader_that_stops_hands_over_first(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [2, 3, 1])
        await cluster.must_produce(WHERE, b"before")
        epoch = cluster.partition(2, WHERE).leader_epoch
        await cluster.stop(2)
        assert cluster.leader(WHERE) == 3
        assert cluster.partition(3, WHERE).leader_epoch == epoch + 1
        await cluster.must_produce(WHERE, b"after")
        assert await cluster.read(WHERE) == [b"before", b"after"]

    run(story)


def test_controller_that_is_killed_is_replaced_before_its_session_ends(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2, 3])
        await cluster.must_produce(WHERE, b"before")
        await cluster.kill(1)
        await cluster.must_produce(WHERE, b"after")
        assert cluster.controller in (2, 3)
        assert cluster.znode_server.tree.stat("/brokers/ids/1") is not None
        assert await cluster.read(WHERE) == [b"before", b"after"]
        await cluster.start(1)
        await cluster.until(lambda: cluster.in_sync(WHERE) == {1, 2, 3}, "1 is in sync again")

    run(story)


def test_next_controller_leaves_alone_what_was_written_after_a_broker_came_back(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("alone", [1])
        await cluster.create("t", [1, 2])
        await cluster.stop(2)
        await cluster.stop(1)
        await cluster.start(
            1, 2
        )  # cleanly: the state of `alone`, of which only 1 is a replica, is not written
        await cluster.until(lambda: cluster.in_sync(WHERE) == {1, 2}, "2 is in sync again")
        before = cluster.partition(1, WHERE).leader_epoch
        while cluster.controller != 2:
            await cluster.brokers[2].registry.delete(znodes.CONTROLLER)
            await cluster.until(lambda: cluster.controller > 0, "a controller is elected")
        await cluster.until(lambda: cluster.brokers[1].metadata.controller_id == 2, "1 knows")
        await cluster.brokers[2].controller.wait_until_published("t")
        assert cluster.leader(WHERE) == 1
        assert cluster.partition(1, WHERE).leader_epoch == before

    run(story, brokers=2)


def test_controller_that_loses_its_session_rules_no_longer(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2, 3])
        cluster.znode_server.expire(cluster.sessions[1]._session_state)
        await cluster.until(lambda: cluster.controller in (2, 3), "another rules")
        await cluster.must_produce(WHERE, b"after")
        await cluster.until(lambda: cluster.in_sync(WHERE) == {1, 2, 3}, "1 is registered again")
        rulers = {b.metadata.controller_id for b in cluster.brokers.values()}
        assert rulers == {cluster.controller}

    run(story)


def test_topic_is_deleted_from_all_brokers(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2, 3])
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000)
        response = await cluster.send(cluster.controller, request, 5)
        assert response.responses[0].error_code == ErrorCode.NONE
        assert not any(cluster.hosts(number, WHERE) for number in cluster.brokers)
        await cluster.until(
            lambda: not any(b.metadata.topics for b in cluster.brokers.values()),
            "no broker shows it",
        )
        await cluster.create("t", [3, 2, 1])

    run(story)


def test_deletion_waits_for_a_broker_that_is_away(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2, 3])
        await cluster.stop(3)
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000)
        response = await cluster.send(cluster.controller, request, 5)
        assert response.responses[0].error_code == ErrorCode.NONE
        assert cluster.znode_server.tree.children("/admin/delete_topics") == ["t"]
        await cluster.start(3)
        await cluster.until(
            lambda: not cluster.znode_server.tree.children("/admin/delete_topics"), "gone"
        )
        assert not cluster.hosts(3, WHERE)

    run(story)


def test_topic_that_is_used_on_any_broker_is_created(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        other = cluster.brokers[follower_of(cluster)]
        await other.topics.create_automatically("used")
        await cluster.until(lambda: cluster.leader(TopicPartition("used", 0)) >= 0, "it is led")

    run(story)


def test_broker_that_is_unreachable_for_a_while_loses_its_leaderships_and_returns(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [2, 3, 1])
        await cluster.must_produce(WHERE, b"before")
        await cluster.deafen(2)
        others = [cluster.brokers[1], cluster.brokers[3]]
        await cluster.until(
            lambda: {int(b.metadata.partition(WHERE).leader) for b in others} == {3}, "3 leads"
        )
        assert cluster.znode_server.tree.stat("/brokers/ids/2") is not None
        await cluster.undeafen(2)
        await cluster.until(lambda: cluster.in_sync(WHERE) == {1, 2, 3}, "2 is in sync again")
        await cluster.must_produce(WHERE, b"after")
        assert cluster.leader(WHERE) == 3
        assert await cluster.read(WHERE) == [b"before", b"after"]

    run(story)


def test_controller_goes_on_when_the_registry_was_away(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        session = cluster.sessions[1]
        session.cut()
        topic = CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=3)
        asking = asyncio.create_task(
            cluster.send(1, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        )
        await cluster.until(lambda: bool(session._pending), "the controller asks the registry")
        assert not asking.done()
        session.heal()
        response = await asking
        assert response.topics[0].error_code == ErrorCode.NONE
        await cluster.until(lambda: cluster.in_sync(WHERE) == {1, 2, 3}, "it is in sync")
        assert cluster.controller == 1

    run(story)


def test_settings_that_one_broker_stores_are_obeyed_by_all(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2, 3])
        change = IncrementalAlterConfigsRequestConfig(name="retention.ms", value="77")
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=2, resource_name="t", configs=[change]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        response = await cluster.send(follower_of(cluster), request)
        assert response.responses[0].error_code == ErrorCode.NONE
        await cluster.until(
            lambda: all(
                b.context.effective_configs.topic("t")["retention.ms"] == 77
                for b in cluster.brokers.values()
            ),
            "all obey",
        )

    run(story)


def test_settings_are_described_as_they_are_stored(run: Run) -> None:
    async def described(cluster: Cluster, number: int) -> dict[str, str | None]:
        asked = DescribeConfigsRequestResource(
            resource_type=2, resource_name="t", configuration_keys=["retention.ms"]
        )
        response = await cluster.send(number, DescribeConfigsRequest(resources=[asked]))
        return {row.name: row.value for row in response.results[0].configs}

    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2, 3])
        path = znodes.config_path("topics", "t")
        data = znodes.encode_config({"retention.ms": "77"})
        await cluster.sessions[1].set(path, data)  # and no broker is sent it
        for number in cluster.brokers:
            assert await described(cluster, number) == {"retention.ms": "77"}
        await cluster.sessions[1].set(path, b"nothing that anybody could read")
        for number in cluster.brokers:
            assert await described(cluster, number) == {"retention.ms": "604800000"}

    run(story)


def test_stored_settings_that_cannot_be_read_stop_neither_elections_nor_other_changes(
    run: Run,
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [2, 3, 1])
        await cluster.create("u", [2, 3, 1])
        session = cluster.sessions[3]
        for settings in ({"retention.ms": "soon"}, {"retention.ms": "77"}):
            for topic, data in (("t", {"unclean.leader.election.enable": "?"}), ("u", settings)):
                await session.set(znodes.config_path("topics", topic), znodes.encode_config(data))
                change = znodes.encode_config_change(f"topics/{topic}")
                await session.create(znodes.CONFIG_CHANGE, change, sequence=True)
        await cluster.until(
            lambda: all(
                b.context.effective_configs.topic("u")["retention.ms"] == 77
                for b in cluster.brokers.values()
            ),
            "all obey what can be read",
        )
        await cluster.kill(2)
        await cluster.until(lambda: cluster.leader(WHERE) == 3, "another leads")

    run(story)


def test_unclean_election_follows_when_it_is_allowed(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [2, 3])
        await cluster.kill(3)
        await cluster.until(lambda: cluster.in_sync(WHERE) == {2}, "3 is out")
        session = cluster.sessions[2]
        await cluster.kill(2)
        cluster.znode_server.expire(session)
        await cluster.start(3)
        await cluster.until(lambda: cluster.partition_metadata(3, WHERE) is not None, "3 knows")
        assert cluster.leader(WHERE) == -1
        change = IncrementalAlterConfigsRequestConfig(
            name="unclean.leader.election.enable", value="true"
        )
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=2, resource_name="t", configs=[change]
        )
        await cluster.send(3, IncrementalAlterConfigsRequest(resources=[resource]))
        await cluster.until(lambda: cluster.leader(WHERE) == 3, "3 leads")

    run(story)


def test_unclean_election_that_is_allowed_while_a_controller_begins_is_not_missed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = ControllerTerm.start

    async def begin_and_allow(term: ControllerTerm, bounced: Collection[int] = ()) -> None:
        """Hear of the setting after the first elections, before the new controller is known."""
        await begin(term, bounced)
        allowed = {"unclean.leader.election.enable": "true"}
        term._channels._control_requests._dynamic_configs.topic_configured("t", allowed)

    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2])
        await cluster.stop(2)
        await cluster.until(lambda: cluster.in_sync(WHERE) == {1}, "2 is out")
        await cluster.stop(1)
        monkeypatch.setattr(ControllerTerm, "start", begin_and_allow)
        await cluster.start(2)
        await cluster.until(lambda: cluster.leader(WHERE) == 2, "2 leads")

    run(story, brokers=2)


def test_replica_on_a_failed_disk_is_led_away_from(run: Run, tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [2, 3, 1])
        (directory,) = {
            r.log.directory
            for r in cluster.brokers[2].replica_manager
            if r.topic_partition == WHERE
        }
        directory.fail(OSError(5, "no disk"))
        await cluster.until(lambda: cluster.leader(WHERE) == 3, "3 leads")
        await cluster.until(lambda: cluster.in_sync(WHERE) == {1, 3}, "2 is out")
        await cluster.must_produce(WHERE, b"after")

    run(story, log__dirs=f"{tmp_path}/%d/one,{tmp_path}/%d/two")


def test_moves_and_elections_are_asked_for_by_znodes_as_well(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [2, 1])
        tools = LocalSession(cluster.znode_server)
        moves = znodes.encode_reassignments({WHERE: [3, 1], TopicPartition("nonexistent", 0): [1]})
        await tools.create(znodes.REASSIGN_PARTITIONS, moves)
        await cluster.until(
            lambda: cluster.znode_server.tree.stat(znodes.REASSIGN_PARTITIONS) is None, "it is done"
        )
        await cluster.until(lambda: cluster.in_sync(WHERE) == {1, 3}, "it has moved")
        wanted = cluster.leader(WHERE)
        await cluster.kill(3)
        await cluster.until(lambda: cluster.leader(WHERE) == 1, "1 leads")
        await cluster.start(3)
        await cluster.until(lambda: cluster.in_sync(WHERE) == {1, 3}, "3 is back")
        await tools.create(znodes.PREFERRED_ELECTION, znodes.encode_partitions([WHERE]))
        await cluster.until(lambda: cluster.leader(WHERE) == 3 == wanted, "the preferred leads")
        assert cluster.znode_server.tree.stat(znodes.PREFERRED_ELECTION) is None

    run(story)


def test_state_of_another_writer_is_read_before_it_is_replaced(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [2, 3, 1])
        path = znodes.state_path(*WHERE)
        tools = LocalSession(cluster.znode_server)
        data, _stat = await tools.get(path)
        state = znodes.StateNode.decode(data)
        await tools.set(path, state._replace(leader_epoch=7, in_sync_replicas=[2, 3]).encode())
        await cluster.kill(2)
        await cluster.until(lambda: cluster.leader(WHERE) == 3, "3 leads")
        assert cluster.partition(3, WHERE).leader_epoch == 8
        await cluster.must_produce(WHERE, b"after")

    run(story)


def test_groups_stay_where_they_are_when_a_follower_of_their_offsets_dies(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("__consumer_offsets", [2, 3, 1], [2, 3, 1])
        groups = cluster.brokers[2].groups
        before = groups.shard_of("g")
        assert not isinstance(before, ErrorCode)
        await cluster.kill(3)
        for index in range(2):
            topic_partition = TopicPartition("__consumer_offsets", index)
            await cluster.until(lambda w=topic_partition: cluster.in_sync(w) == {1, 2}, "3 is out")
        assert groups.shard_of("g") is before

    run(story)


def test_partition_that_cannot_be_followed_keeps_no_other_from_being_followed(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [2, 3], [2, 3])
        other = TopicPartition("t", 1)
        # A bug: what the replication believes of the log is not so.
        cluster.partition(3, WHERE).log_end_offset = 1_000_000
        await cluster.produce(WHERE, b"a", acks=1)
        await cluster.must_produce(other, b"b")
        assert cluster.in_sync(other) == {2, 3}

    run(story)


def test_a_state_that_an_older_leader_wrote_itself_is_taken_up(run: Run) -> None:
    """Before AlterPartition leaders wrote their in-sync sets, and notified the controller by a znode."""

    async def story(cluster: Cluster) -> None:
        await cluster.create("t", [1, 2, 3])
        other = LocalSession(cluster.znode_server, 60_000)
        path = znodes.state_path("t", 0)
        data, stat = await other.get(path)
        before = StateNode.decode(data)
        await other.set(path, before._replace(in_sync_replicas=[1]).encode(), stat.version)
        change = znodes.encode_partitions([WHERE])
        await other.create(f"{znodes.ISR_CHANGES}/isr_change_", change, sequence=True)

        def is_taken_up() -> bool:
            tree = cluster.znode_server.tree
            state, version = StateNode.decode(tree.data(path)), tree.stat(path).version
            leader = cluster.partition(1, WHERE)
            return (
                state.leader_epoch > before.leader_epoch
                and (leader.leader_epoch, leader.partition_epoch) == (state.leader_epoch, version)
                and set(state.in_sync_replicas) == {1, 2, 3}
                and all(
                    set(cluster.partition_metadata(n, WHERE).in_sync_replicas) == {1, 2, 3}
                    for n in cluster.brokers
                )
            )

        await cluster.until(is_taken_up, "the leader knows the state, and took the others in again")
        assert await other.children(znodes.ISR_CHANGES) == []
        await cluster.must_produce(WHERE, b"a")

    run(story)
