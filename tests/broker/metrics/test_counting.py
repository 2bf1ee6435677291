"""A broker's page counts what is done to the broker, under the names that the JMX exporter gives Kafka's metrics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.broker.metrics.page import families
from kavka.broker.metrics.requests import request_name
from kavka.broker.partitions.traffic import TopicTraffic, Traffic
from kavka.broker.requests.counters import error_finder, error_steps
from kavka.core.shards import partition_for
from kavka.errors import ErrorCode
from kavka.ids import TopicPartition
from kavka.metrics.families import lines
from kavka.wire.apis import ApiKey
from kavka.wire.messages.api_versions import ApiVersionsRequest
from kavka.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from kavka.wire.messages.delete_topics import DeleteTopicsRequest
from kavka.wire.messages.fetch import FetchResponse, FetchResponsePartition, FetchResponseTopic
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.heartbeat import HeartbeatRequest
from kavka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kavka.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from kavka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kavka.wire.messages.update_metadata import UpdateMetadataResponse
from support.one_broker import SILENT, Served
from support.waiting import eventually, until

ON = {"kavka.metrics.port": "0"}
TOPICS = "kafka_server_brokertopicmetrics_"
REQUESTS = "kafka_network_requestmetrics_"
MANAGER = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"


def join_request(**fields: Any) -> JoinGroupRequest:
    """Return a request to join the group g, with other fields where they are given."""
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        **fields,
    )


async def find_coordinator(served: Served) -> None:
    """Return when the group g has a coordinator."""
    find = FindCoordinatorRequest(key="g")
    await eventually(lambda: served.send(find, 2), lambda response: not response.error_code)


def test_what_is_produced_and_fetched_is_counted_by_topic_and_for_all(run: Any, page: Any) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.topic("u")
        await served.produce("t", b"a", b"b", b"c")
        await served.produce("u", b"d")
        size = len((await served.fetch("t")).records)
        found = await page(served.broker)
        assert found[TOPICS + 'messagesin_total{topic="t"}'] == 3
        assert found[TOPICS + "messagesin_total"] == 4
        assert found[TOPICS + 'bytesin_total{topic="t"}'] == size
        assert found[TOPICS + 'bytesout_total{topic="t"}'] == size
        assert found[TOPICS + 'bytesout_total{topic="u"}'] == 0
        assert found[TOPICS + 'totalproducerequests_total{topic="t"}'] == 1
        assert found[TOPICS + 'totalfetchrequests_total{topic="t"}'] == 1
        assert found['kafka_log_log_logendoffset{topic="t",partition="0"}'] == 3
        assert found['kafka_log_log_size{topic="t",partition="0"}'] == size

    run(story, **ON)


def test_a_fetch_that_waits_counts_what_it_is_answered_only(run: Any, page: Any) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        other = await served.another()
        fetch = asyncio.ensure_future(other.fetch("t", max_wait_ms=30_000))
        await served.until_a_fetch_waits()
        found = await page(served.broker)
        assert (
            found['kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Fetch"}']
            == 1
        )
        assert found["kavka_network_requests_in_work"] == 1
        await served.produce("t", b"a")
        size = len((await fetch).records)
        found = await page(served.broker)
        assert found[TOPICS + 'bytesout_total{topic="t"}'] == size > 0
        assert found[REQUESTS + 'totaltimems_count{request="Fetch"}'] == 1
        assert found[REQUESTS + 'remotetimems_count{request="Fetch"}'] == 1

    run(story, **ON)


def test_refused_batches_are_counted_as_rejected_or_failed(run: Any, page: Any) -> None:
    async def story(served: Served) -> None:
        topic = CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1)
        await served.send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        refused = await served.produce("t", b"x" * 5000)
        assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
        found = await page(served.broker)
        assert found[TOPICS + 'bytesrejected_total{topic="t"}'] > 5000
        assert found[TOPICS + 'failedproducerequests_total{topic="t"}'] == 0
        assert found[TOPICS + 'messagesin_total{topic="t"}'] == 0
        assert found[REQUESTS + 'errors_total{request="Produce",error="MESSAGE_TOO_LARGE"}'] == 1

    run(story, **ON, message__max__bytes="1000")


def test_too_few_replicas_in_sync_fail_a_produce_and_show_on_the_partition(
    run: Any, page: Any
) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        topic_partition = next(iter(served.broker.replica_manager)).topic_partition
        partition = served.broker.replica_manager.find(topic_partition).partition
        partition.replicas = (*partition.replicas, 7)  # as if another broker were missing
        refused = await served.produce("t", b"x", acks=-1)
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        found = await page(served.broker)
        assert found[TOPICS + 'failedproducerequests_total{topic="t"}'] == 1
        assert found[MANAGER + "underminisrpartitioncount"] == 1
        assert found[MANAGER + "underreplicatedpartitions"] == 1
        assert found[MANAGER + "atminisrpartitioncount"] == 0
        assert found['kafka_cluster_partition_underminisr{topic="t",partition="0"}'] == 1
        assert found['kafka_cluster_partition_insyncreplicascount{topic="t",partition="0"}'] == 1
        assert found['kafka_cluster_partition_replicascount{topic="t",partition="0"}'] == 2

    run(story, **ON, min__insync__replicas="2")


def test_requests_are_counted_by_version_with_their_errors_and_times(run: Any, page: Any) -> None:
    async def story(served: Served) -> None:
        for _ in range(3):
            heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            await served.send(heartbeat, 3)
        await served.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
        found = await page(served.broker)
        assert found[REQUESTS + 'requests_total{request="Heartbeat",version="3"}'] == 3
        assert found[REQUESTS + 'requests_total{request="Heartbeat",version="4"}'] == 1
        assert found[REQUESTS + 'errors_total{request="Heartbeat",error="NOT_COORDINATOR"}'] == 4
        for part in ("total", "local", "remote"):
            assert found[f'{REQUESTS}{part}timems_count{{request="Heartbeat"}}'] == 4

    run(story, **ON)


def test_requests_are_counted_but_not_timed_where_no_metrics_are_served(run: Any) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        await served.send(heartbeat, 3)
        other = await served.another()
        fetch = asyncio.ensure_future(other.fetch("t", max_wait_ms=30_000))
        await served.until_a_fetch_waits()
        await served.produce("t", b"a")
        await fetch
        traffic = served.broker.dispatcher.traffic()
        assert traffic[ApiKey.HEARTBEAT].versions[3] == 1
        assert traffic[ApiKey.HEARTBEAT].errors == {ErrorCode.NOT_COORDINATOR: 1}
        for each in traffic.values():
            assert each.immediate.count == 0
            assert each.total is None

    run(story)


def test_connections_are_counted_while_they_are_open_and_after(run: Any, page: Any) -> None:
    sockets = "kafka_server_socket_server_metrics_"
    listener = '{listener="PLAINTEXT",networkProcessor="0"}'

    async def story(served: Served) -> None:
        other = await served.another()
        await other.topic("t")
        before = await page(served.broker)
        assert before[sockets + "connection_count" + listener] == 2
        other.peer.close()
        async with asyncio.timeout(30):
            while len(served.broker.dispatcher.connections) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0)
        after = await page(served.broker)
        assert after[sockets + "connection_count" + listener] == 1
        assert after[sockets + "connection_creation_total" + listener] == 2
        assert after[sockets + "connection_close_total" + listener] == 1
        sent = sockets + "outgoing_byte_total" + listener
        assert after[sent] >= before[sent] > 0
        came = sockets + "incoming_byte_total" + listener
        assert after[came] >= before[came] > 0

    run(story, **ON)


def test_a_deleted_topic_leaves_the_page_and_the_sum_keeps_it(run: Any, page: Any) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a", b"b")
        await served.send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000), 5)
        await until(lambda: not served.broker.replica_manager.traffic.topics)
        found = await page(served.broker)
        assert TOPICS + 'messagesin_total{topic="t"}' not in found
        assert found[TOPICS + "messagesin_total"] == 2
        assert found[MANAGER + "partitioncount"] == 0

    run(story, **ON)


def test_the_controller_counts_topics_partitions_brokers_and_elections(run: Any, page: Any) -> None:
    async def story(served: Served) -> None:
        topic = CreateTopicsRequestTopic(name="t", num_partitions=3, replication_factor=1)
        await served.send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        found = await page(served.broker)
        assert found[CONTROLLER + "activecontrollercount"] == 1
        assert found[CONTROLLER + "activebrokercount"] == 1
        assert found[CONTROLLER + "globaltopiccount"] == 1
        assert found[CONTROLLER + "globalpartitioncount"] == 3
        assert found[CONTROLLER + "offlinepartitionscount"] == 0
        assert found["kavka_controller_leader_elections_total"] == 3
        stats = "kafka_controller_controllerstats_"
        assert found[stats + "uncleanleaderelections_total"] == 0
        assert found[stats + "controllerchangerateandtimems_count"] == 1
        assert found[stats + "topicchangerateandtimems_count"] >= 1
        assert found[MANAGER + "leadercount"] == found[MANAGER + "partitioncount"] == 3

    run(story, **ON)


def test_groups_are_counted_by_state(run: Any, page: Any) -> None:
    groups = "kafka_coordinator_group_groupmetadatamanager_"

    async def story(served: Served) -> None:
        await find_coordinator(served)
        join = join_request()
        await eventually(lambda: served.send(join, 3), lambda response: not response.error_code)
        found = await page(served.broker)
        assert found[groups + "numgroups"] == 1
        assert found[groups + "numgroupscompletingrebalance"] == 1
        assert found[groups + "numgroupsstable"] == 0

    run(story, **ON)


def test_connections_are_counted_by_the_software_of_their_clients(run: Any, page: Any) -> None:
    def labels(name: str, version: str) -> str:
        software = f'clientSoftwareName="{name}",clientSoftwareVersion="{version}"'
        return f'{{{software},listener="PLAINTEXT",networkProcessor="0"}}'

    async def story(served: Served) -> None:
        shown = "kafka_server_socket_server_metrics_connections_software"
        for number in range(110):
            client = await served.another()
            versions = ApiVersionsRequest(
                client_software_name="old", client_software_version=f"0.{max(number, 4)}"
            )
            await client.send(versions, 3)
        wrong = ApiVersionsRequest(client_software_name="-", client_software_version="1")
        await served.send(wrong, 3)
        found = await page(served.broker)
        series = {name: value for name, value in found.items() if name.startswith(shown)}
        assert series[shown + labels("old", "0.4")] == 5
        assert len(series) == 101
        assert series[shown + labels("other", "other")] == sum(series.values()) - 5 - 99
        assert sum(series.values()) == len(served.broker.dispatcher.connections) == 111

    run(story, **ON)


def test_commits_and_rebalances_of_groups_are_counted(run: Any, page: Any) -> None:
    metrics = "kafka_server_group_coordinator_metrics_"

    async def story(served: Served) -> None:
        await served.topic("t")
        await find_coordinator(served)
        join = join_request(group_instance_id="static")
        joined = await eventually(
            lambda: served.send(join, 5), lambda response: not response.error_code
        )
        member = {"member_id": joined.member_id, "generation_id": joined.generation_id}
        part = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
        sync = SyncGroupRequest(
            group_id="g", group_instance_id="static", assignments=[part], **member
        )
        assert (await served.send(sync, 3)).error_code == 0
        rows = [OffsetCommitRequestPartition(partition_index=n, committed_offset=0) for n in (0, 1)]
        topics = [OffsetCommitRequestTopic(name="t", partitions=rows)]
        commit = OffsetCommitRequest(
            group_id="g",
            topics=topics,
            member_id=joined.member_id,
            generation_id_or_member_epoch=joined.generation_id,
        )
        assert not (await served.send(commit, 6)).topics[0].partitions[0].error_code
        # A static member that comes back gets its part without a rebalance.
        again = await served.send(join, 5)
        assert (again.error_code, again.generation_id) == (0, joined.generation_id)
        found = await page(served.broker)
        assert found[metrics + "group_completed_rebalance_count"] == 1
        assert found[metrics + "offset_commit_count"] == 1
        assert found[metrics + "offset_commit_rate"] > 0

    run(story, **ON)


def test_a_rebalance_is_not_counted_when_all_members_leave_before_the_assignment(
    run: Any, page: Any
) -> None:
    def join(member_id: str = "") -> JoinGroupRequest:
        return join_request(member_id=member_id)

    async def story(served: Served) -> None:
        await find_coordinator(served)
        leader = await eventually(
            lambda: served.send(join(), 3), lambda response: not response.error_code
        )
        other = await served.another()
        joining = asyncio.ensure_future(other.send(join(), 3))
        (shard,) = (s for s in served.broker.groups.shards() if "g" in s.machine._groups)
        group = shard.machine._groups["g"]
        await until(lambda: len(group.members) == 2)
        await served.send(join(leader.member_id), 3)
        joined = await joining
        sync = SyncGroupRequest(
            group_id="g", member_id=joined.member_id, generation_id=joined.generation_id
        )
        syncing = asyncio.ensure_future(other.send(sync, 3))
        await until(lambda: group.members[joined.member_id].sync_token is not None)
        leaving = [LeaveGroupRequestMember(member_id=m.member_id) for m in (leader, joined)]
        await served.send(LeaveGroupRequest(group_id="g", members=leaving), 4)
        assert (await syncing).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        found = await page(served.broker)
        shown = "kafka_server_group_coordinator_metrics_group_completed_rebalance_count"
        assert found["kafka_coordinator_group_groupmetadatamanager_numgroupsempty"] == 1
        assert found[shown] == 0

    run(story, **ON)


def test_a_rebalance_whose_assignment_is_committed_after_its_timeout_is_counted_once(
    run: Any, page: Any
) -> None:
    shown = "kafka_server_group_coordinator_metrics_group_completed_rebalance_count"

    async def story(served: Served) -> None:
        await find_coordinator(served)
        join = join_request()
        joined = await eventually(
            lambda: served.send(join, 3), lambda answer: not answer.error_code
        )
        number = partition_for("g", served.broker.config.integer("offsets.topic.num.partitions"))
        replica = served.replica(TopicPartition("__consumer_offsets", number))
        await served.add_silent_follower(replica)
        sync = SyncGroupRequest(
            group_id="g", member_id=joined.member_id, generation_id=joined.generation_id
        )
        assert (await served.send(sync, 3)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert (await page(served.broker))[shown] == 0
        replica.partition.followers[SILENT].log_end_offset = replica.log.log_end_offset
        served.broker.replica_manager.metadata_changed((), are_brokers_others=True)
        assert replica.partition.high_watermark == replica.log.log_end_offset == 1
        assert (await page(served.broker))[shown] == 1

    run(story, **ON, offsets__commit__timeout__ms="20")


def test_a_flush_is_timed(run: Any, page: Any) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        await served.produce("t", b"a")
        found = await page(served.broker)
        assert found["kafka_log_logflushstats_logflushrateandtimems_count"] >= 1

    run(story, **ON, log__flush__interval__messages="1")


def test_timings_grow_old_while_the_page_is_served(run: Any, page: Any) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        traffic = served.broker.dispatcher.traffic()[ApiKey.METADATA]
        traffic.immediate.record(50)
        name = REQUESTS + 'totaltimems{request="Metadata",quantile="0.999"}'
        assert (await page(served.broker))[name] == 50
        for _ in range(12):  # two minutes, without waiting for them
            served.broker.exposition._window_over()
        assert (await page(served.broker))[name] == 0

    run(story, **ON)


def test_every_name_is_of_kafka_of_the_process_or_ours(run: Any) -> None:
    async def story(served: Served) -> None:
        await served.topic("t")
        for family in families(served.broker.metrics_sources(), 1.0):
            assert family.name.startswith(("kafka_", "kavka_", "process_", "python_")), family.name
            assert family.help.endswith("."), family.name
            assert list(lines(family)) or family.name.startswith(
                ("kafka_server_fetcher", REQUESTS)
            ), family.name

    run(story, **ON)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (ApiKey.PRODUCE, "Produce"),
        (ApiKey.LEADER_AND_ISR, "LeaderAndIsr"),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch"),
        (ApiKey.INIT_PRODUCER_ID, "InitProducerId"),
    ],
)
def test_requests_have_kafkas_names(key: ApiKey, name: str) -> None:
    assert request_name(key) == name


def test_errors_are_found_at_every_depth() -> None:
    partitions = [FetchResponsePartition(error_code=3), FetchResponsePartition(error_code=0)]
    response = FetchResponse(error_code=70, responses=[FetchResponseTopic(partitions=partitions)])
    found: list[int] = []
    find = error_finder(FetchResponse)
    assert find is not None
    find(response, found.append)
    assert found == [70, 3]


def test_errors_of_a_large_response_are_found_in_steps() -> None:
    partitions = [FetchResponsePartition(error_code=code) for code in (3, 0, 6)]
    response = FetchResponse(error_code=70, responses=[FetchResponseTopic(partitions=partitions)])
    found: list[int] = []
    steps = error_steps(FetchResponse)
    assert steps is not None
    after_each = [list(found) for _ in steps(response, found.append)]
    assert after_each[:2] == [[70, 3], [70, 3]]
    assert after_each[-1] == found == [70, 3, 6]
    assert error_steps(UpdateMetadataResponse) is not None


def test_a_response_without_errors_has_none() -> None:
    find = error_finder(UpdateMetadataResponse)
    assert find is not None
    find(UpdateMetadataResponse(), pytest.fail)  # type: ignore[arg-type]


def test_replicas_of_a_topic_share_its_counters_until_the_last_one_leaves() -> None:
    traffic = Traffic()
    one, two = traffic.join("t"), traffic.join("t")
    assert one is two
    one.bytes_in += 5
    traffic.leave("t")
    assert traffic.topics == {"t": one}
    traffic.leave("t")
    assert traffic.topics == {}
    again = traffic.join("t")
    again.bytes_in += 2
    assert traffic.total().bytes_in == 7


def test_the_sum_takes_every_counter() -> None:
    one, two = TopicTraffic(), TopicTraffic()
    for number, name in enumerate(TopicTraffic.__slots__):
        setattr(one, name, number)
    two.add(one)
    two.add(one)
    assert [getattr(two, name) for name in TopicTraffic.__slots__] == [
        2 * number for number in range(len(TopicTraffic.__slots__))
    ]
