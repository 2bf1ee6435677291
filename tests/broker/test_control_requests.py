"""A broker's handling of control requests, in every form that they may have."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.ids import TopicId, TopicPartition
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrRequestPartition,
    LeaderAndIsrRequestTopic,
    LeaderAndIsrResponse,
)
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kavka.wire.messages.produce import (
    ProduceRequest,
)
from kavka.wire.messages.stop_replica import (
    StopReplicaRequest,
    StopReplicaRequestPartition,
    StopReplicaRequestTopic,
    StopReplicaRequestTopicState,
    StopReplicaRequestUngroupedPartition,
)
from kavka.wire.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataRequestBroker,
    UpdateMetadataRequestEndpoint,
    UpdateMetadataRequestPartition,
    UpdateMetadataRequestTopic,
)
from kavka.wire.stored import znodes
from support.one_broker import Run, Served
from support.produce import batch, produce_request
from support.waiting import until

ID = TopicId(b"0123456789abcdef")
WHERE = TopicPartition("t", 0)


def lead(
    served: Served, version: int = 7, epoch: int = 0, leader: int | None = None, **more: Any
) -> LeaderAndIsrRequest:
    """Return a LeaderAndIsr of `t-0`, or another `index`, led by the broker itself unless another leader is named."""
    own = served.broker.broker_id
    others = {"replicas": [own, 77], "isr": [own], **more}
    state = LeaderAndIsrRequestPartition(
        topic_name="t" if version < 2 else "",
        partition_index=more.get("index", 0),
        controller_epoch=5,
        leader=own if leader is None else leader,
        leader_epoch=epoch,
        partition_epoch=epoch,
        is_new=version >= 1,
        **{name: value for name, value in others.items() if name in ("replicas", "isr")},
    )
    request = LeaderAndIsrRequest(
        controller_id=own,
        controller_epoch=more.get("controller_epoch", 5),
        broker_epoch=more.get("broker_epoch", -1),
    )
    if version < 2:
        request.ungrouped_partition_states = [state]
    else:
        topic = LeaderAndIsrRequestTopic(topic_name="t", partition_states=[state])
        if version >= 5:
            topic.topic_id = more.get("topic_id", ID)
        request.topic_states = [topic]
    return request


def code_of(response: LeaderAndIsrResponse) -> ErrorCode:
    if response.error_code:
        return ErrorCode.of(response.error_code)
    (result,) = response.partition_errors or response.topics[0].partition_errors
    return ErrorCode.of(result.error_code)


def stop(version: int, epoch: int = -2, *, delete: bool = True) -> StopReplicaRequest:
    request = StopReplicaRequest(controller_id=0, controller_epoch=5)
    if version < 3:
        request.delete_partitions = delete
    if version == 0:
        request.ungrouped_partitions = [
            StopReplicaRequestUngroupedPartition(topic_name="t", partition_index=0)
        ]
    elif version < 3:
        request.topics = [StopReplicaRequestTopic(name="t", partition_indexes=[0])]
    else:
        state = StopReplicaRequestPartition(
            partition_index=0, leader_epoch=epoch, delete_partition=delete
        )
        request.topic_states = [
            StopReplicaRequestTopicState(topic_name="t", partition_states=[state])
        ]
    return request


def update(version: int = 8, leader: int = 3, topic: str = "t", **more: Any) -> Any:
    state = UpdateMetadataRequestPartition(
        topic_name=topic if version < 5 else "",
        partition_index=more.get("index", 0),
        controller_epoch=5,
        leader=leader,
        leader_epoch=more.get("leader_epoch", 4),
        isr=more.get("isr", [3]),
        zk_version=more.get("partition_epoch", 9),
        replicas=more.get("replicas", [3, 4]),
    )
    live = UpdateMetadataRequestBroker(id=3)
    if version == 0:
        live.v0_host, live.v0_port = "h", 9
    else:
        endpoint = UpdateMetadataRequestEndpoint(host="h", port=9, security_protocol=0)
        if version >= 3:
            endpoint.listener = "PLAINTEXT"
        live.endpoints = [endpoint]
    request = UpdateMetadataRequest(controller_id=3, controller_epoch=5, live_brokers=[live])
    if version < 5:
        request.ungrouped_partition_states = [state]
    else:
        named = UpdateMetadataRequestTopic(topic_name=topic, partition_states=[state])
        if version >= 7:
            named.topic_id = more.get("topic_id", ID)
        request.topic_states = [named]
    return request


def versions(key: ApiKey) -> range:
    return range(APIS[key].min_version, APIS[key].max_version + 1)


@pytest.mark.parametrize("version", versions(ApiKey.LEADER_AND_ISR))
def test_broker_leads_a_partition_after_leader_and_isr(run: Run, version: int) -> None:
    async def story(served: Served) -> None:
        response = await served.control_request(lead(served, version), version)
        assert code_of(response) is ErrorCode.NONE
        assert served.broker.replica_manager.find(WHERE).partition.is_leader
        assert (await served.produce("t", b"a")).base_offset == 0
        again = await served.control_request(lead(served, version), version)
        assert code_of(again) is ErrorCode.STALE_CONTROLLER_EPOCH

    run(story)


def test_topic_id_is_filled_in_without_a_new_leader_epoch(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.control_request(lead(served, 4), 4)
        assert code_of(await served.control_request(lead(served, 7), 7)) is ErrorCode.NONE
        assert served.broker.replica_manager.find(WHERE).partition.topic_id == ID

    run(story)


def test_another_topic_of_the_same_name_is_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.control_request(lead(served), 7)
        other = lead(served, 7, 1, topic_id=bytes(15) + b"x")
        assert code_of(await served.control_request(other, 7)) is ErrorCode.INCONSISTENT_TOPIC_ID

    run(story)


@pytest.mark.parametrize(
    ("topic", "partition"), [("../../evil", 0), ("/evil", 0), ("..", 0), ("", 0), ("t", -1)]
)
def test_broker_makes_no_log_whose_directory_could_be_anywhere(
    run: Run, tmp_path: Path, topic: str, partition: int
) -> None:
    async def story(served: Served) -> None:
        request = lead(served)
        request.topic_states[0].topic_name = topic
        request.topic_states[0].partition_states[0].partition_index = partition
        assert (
            code_of(await served.control_request(request, 7)) is ErrorCode.INVALID_TOPIC_EXCEPTION
        )

    run(story)
    made = [path.name for path in tmp_path.rglob("*.log") if path.is_file()]
    assert made == []


def test_broker_refuses_what_it_is_no_replica_of(run: Run) -> None:
    async def story(served: Served) -> None:
        request = lead(served, 7, 0, 77, replicas=[77], isr=[77])
        assert (
            code_of(await served.control_request(request, 7))
            is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    run(story)


def test_old_controller_is_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.control_request(lead(served), 7)
        for request in (
            lead(served, 7, 1, controller_epoch=4),
            StopReplicaRequest(controller_id=0, controller_epoch=4),
            UpdateMetadataRequest(controller_id=0, controller_epoch=4),
        ):
            response = await served.control_request(request)
            assert response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH

    run(story)


def test_control_request_to_a_former_life_of_the_broker_is_refused(run: Run) -> None:
    async def story(served: Served) -> None:
        served.broker.context.broker_epoch = 10
        old, new = lead(served, 7, broker_epoch=9), lead(served, 7, broker_epoch=11)
        assert code_of(await served.control_request(old, 7)) is ErrorCode.STALE_BROKER_EPOCH
        assert code_of(await served.control_request(new, 7)) is ErrorCode.NONE

    run(story)


def test_follower_takes_no_records_from_producers(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.control_request(lead(served), 7)
        await served.produce("t", b"a")
        await served.control_request(lead(served, 7, 1, 77, isr=[77]), 7)
        response = await served.produce("t", b"b")
        assert response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await served.control_request(lead(served, 7, 2), 7)
        assert (await served.produce("t", b"b")).base_offset == 1

    run(story)


def _two_batches() -> ProduceRequest:
    """Return a request with a batch for each of the first two partitions, to be acknowledged by all replicas."""
    return produce_request("t", [(0, batch(b"v")), (1, batch(b"v"))], timeout_ms=60_000)


@pytest.mark.parametrize(
    "make_request",
    [
        pytest.param(lambda served: lead(served, 7, 1, 77, isr=[77]), id="another-leads"),
        pytest.param(lambda served: stop(3), id="deleted"),
    ],
)
def test_produce_waits_on_for_its_other_partitions_when_one_of_them_has_gone(
    run: Run, make_request: Callable[[Any], Any]
) -> None:
    async def story(served: Served) -> None:
        own = served.broker.broker_id
        for index in (0, 1):
            await served.control_request(lead(served, 7, isr=[own, 77], index=index), 7)
        other = await served.another()
        response = asyncio.ensure_future(other.send(_two_batches(), 9))
        await until(lambda: len(served.broker.produce_purgatory) == 1)
        request = make_request(served)
        await served.control_request(request, 3 if isinstance(request, StopReplicaRequest) else 7)
        assert len(served.broker.produce_purgatory) == 1
        await served.control_request(lead(served, 7, 1, isr=[own], index=1), 7)
        rows = (await response).responses[0].partition_responses
        codes = {row.index: ErrorCode.of(row.error_code) for row in rows}
        assert codes == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER, 1: ErrorCode.NONE}

    run(story)


@pytest.mark.parametrize("version", versions(ApiKey.STOP_REPLICA))
def test_stopped_replica_is_deleted_when_the_request_says_so(run: Run, version: int) -> None:
    async def story(served: Served) -> None:
        await served.control_request(lead(served), 7)
        kept = await served.control_request(stop(version, -1, delete=False), version)
        assert kept.partition_errors[0].error_code == ErrorCode.NONE
        assert served.broker.replica_manager.store.get(WHERE) is not None
        gone = await served.control_request(stop(version), version)
        assert gone.partition_errors[0].error_code == ErrorCode.NONE
        assert served.broker.replica_manager.store.get(WHERE) is None

    run(story)


def test_partitions_of_a_deleted_topic_are_not_deleted_one_after_the_other(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the disk, other control requests wait for them: all are renamed before a sync of theirs ends."""
    renamed: list[str] = []
    synced: list[int] = []
    all_renamed = threading.Event()
    fsync, replace = os.fsync, os.replace

    def rename(old: str, new: str) -> None:
        replace(old, new)
        renamed.append(new)
        if len(renamed) == 4:
            all_renamed.set()

    def sync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            synced.append(descriptor)
            assert all_renamed.wait(30)
        fsync(descriptor)

    async def story(served: Served) -> None:
        await served.create("four", 4)
        request = stop(4)
        request.topic_states[0].topic_name = "four"
        request.topic_states[0].partition_states = [
            StopReplicaRequestPartition(partition_index=n, leader_epoch=-2, delete_partition=True)
            for n in range(4)
        ]
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", sync)
            patch.setattr("os.replace", rename)
            gone = await served.control_request(request, 4)
        assert len(synced) <= 2, "those that wait for the disk share a sync"
        assert [(row.partition_index, row.error_code) for row in gone.partition_errors] == [
            (number, ErrorCode.NONE) for number in range(4)
        ]
        assert all(
            served.broker.replica_manager.store.get(TopicPartition("four", number)) is None
            for number in range(4)
        )

    run(story)


def test_stop_of_an_older_leader_epoch_is_fenced(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.control_request(lead(served, 7, 3), 7)
        response = await served.control_request(stop(4, 2), 4)
        assert response.partition_errors[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert served.broker.replica_manager.store.get(WHERE) is not None

    run(story)


@pytest.mark.parametrize("version", versions(ApiKey.UPDATE_METADATA))
def test_clients_see_what_the_controller_said_last(run: Run, version: int) -> None:
    async def story(served: Served) -> None:
        response = await served.control_request(update(version), version)
        assert response.error_code == ErrorCode.NONE
        seen = await served.send(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        assert [(b.node_id, b.host, b.port) for b in seen.brokers] == [(3, "h", 9)]
        assert seen.controller_id == 3
        (partition,) = seen.topics[0].partitions
        assert (partition.leader_id, partition.leader_epoch) == (3, 4)
        assert (partition.replica_nodes, partition.isr_nodes) == ([3, 4], [3])
        assert partition.offline_replicas == [4]

    run(story)


@pytest.mark.parametrize(
    "later", [{"leader_epoch": 3, "partition_epoch": 12}, {"partition_epoch": 8}]
)
def test_an_update_that_a_later_one_has_overtaken_changes_nothing(
    run: Run, later: dict[str, Any]
) -> None:
    async def story(served: Served) -> None:
        for request in (update(), update(leader=4, isr=[4], **later)):
            response = await served.control_request(request, 8)
            assert response.error_code == ErrorCode.NONE
        seen = await served.send(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        (partition,) = seen.topics[0].partitions
        assert (partition.leader_id, partition.leader_epoch) == (3, 4)
        assert partition.isr_nodes == [3]

    run(story)


@pytest.mark.parametrize("version", versions(ApiKey.UPDATE_METADATA))
def test_replica_that_was_moved_away_unseen_is_deleted(run: Run, version: int) -> None:
    async def story(served: Served) -> None:
        await served.control_request(lead(served, 7, 3), 7)
        await served.control_request(update(version), version)
        assert served.broker.replica_manager.store.get(WHERE) is None
        assert served.broker.replica_manager.find(WHERE) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(story)


@pytest.mark.parametrize(
    "news",
    [
        {"leader_epoch": 3},
        {"replicas": [3, 0]},
        {"topic_id": bytes(15) + b"x"},
        {"leader": 0},
    ],
    ids=[
        "of the epoch that it obeys",
        "that counts it in",
        "of another topic of that name",
        "that has it lead",
    ],
)
def test_replica_stays_whatever_else_is_said(run: Run, news: dict[str, Any]) -> None:
    async def story(served: Served) -> None:
        await served.control_request(lead(served, 7, 3), 7)
        await served.control_request(update(**news))
        assert served.broker.replica_manager.store.get(WHERE) is not None

    run(story)


def test_topic_under_deletion_is_forgotten(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.control_request(update())
        await served.control_request(update(leader=-2))
        assert "t" not in served.broker.metadata.topics
        assert served.broker.metadata.name_of(ID) is None

    run(story)


def test_new_topic_of_the_same_name_takes_the_place_of_the_old(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.control_request(update(index=1))
        other = bytes(15) + b"x"
        await served.control_request(update(topic_id=other))
        assert served.broker.metadata.name_of(ID) is None
        assert len(served.broker.metadata.topics["t"].partitions) == 1

    run(story)


@pytest.mark.parametrize("index", [-1, -(2**31), 1_000_000, 2**31 - 1])
def test_metadata_of_a_partition_that_cannot_be_is_refused(run: Run, index: int) -> None:
    async def story(served: Served) -> None:
        response = await served.control_request(update(index=index), 8)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert "t" not in served.broker.metadata.topics

    run(story)


def test_broker_leads_nothing_whose_in_sync_set_is_without_it(run: Run) -> None:
    async def story(served: Served) -> None:
        control_requests = served.broker.control_requests
        response = await control_requests.leader_and_isr(lead(served, isr=[77]))
        assert code_of(response) is ErrorCode.INVALID_REQUEST
        assert code_of(await control_requests.leader_and_isr(lead(served))) is ErrorCode.NONE

    run(story)


def test_settings_that_cannot_be_read_prevent_no_leadership(run: Run) -> None:
    async def story(served: Served) -> None:
        config = znodes.encode_config({"retention.ms": "soon", "segment.bytes": "9999"})
        await served.broker.registry.create(znodes.config_path("topics", "t"), config)
        assert (
            code_of(await served.broker.control_requests.leader_and_isr(lead(served)))
            is ErrorCode.NONE
        )
        values = served.broker.context.effective_configs.topic("t")
        assert (values["retention.ms"], values["segment.bytes"]) == (7 * 24 * 3600_000, 9999)

    run(story)


def test_replica_that_is_being_made_obeys_what_is_set_meanwhile(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_reached, may_go_on = threading.Event(), threading.Event()

    async def story(served: Served) -> None:
        disk = served.broker.environment.disk
        make = disk.make_directories

        def held(path: str) -> None:
            is_reached.set()
            may_go_on.wait(20)
            make(path)

        monkeypatch.setattr(disk, "make_directories", held)
        making = asyncio.ensure_future(served.broker.control_requests.leader_and_isr(lead(served)))
        await until(is_reached.is_set)
        overrides = {"retention.ms": "7000", "min.insync.replicas": "2"}
        served.broker.dynamic_configs.topic_configured("t", overrides)
        may_go_on.set()
        assert code_of(await making) is ErrorCode.NONE
        replica = served.broker.replica_manager.find(WHERE)
        assert replica.log.config.retention_ms == 7000
        assert replica.partition.min_insync_replicas == 2

    run(story)


def test_replica_obeys_settings_before_its_topic_is_shown(run: Run) -> None:
    async def story(served: Served) -> None:
        await served.control_request(lead(served), 7)
        assert "t" not in served.broker.metadata.topics
        replica = served.broker.replica_manager.find(WHERE)
        served.broker.dynamic_configs.topic_configured("t", {"retention.ms": "7000"})
        assert replica.log.config.retention_ms == 7000
        served.broker.dynamic_configs.broker_configured(
            {"log.segment.bytes": "9999"}, default=False
        )
        assert (replica.log.config.retention_ms, replica.log.config.segment_bytes) == (7000, 9999)

    run(story)


def set_in_registry(served: Served, overrides: dict[str, str], *, is_new: bool = False) -> Any:
    """Store what `t` overrides, as another broker does."""
    path, data = znodes.config_path("topics", "t"), znodes.encode_config(overrides)
    registry = served.broker.registry
    return registry.create(path, data) if is_new else registry.set(path, data)


@pytest.mark.parametrize("is_shown", [False, True])
def test_topic_that_is_created_again_unseen_does_not_obey_the_settings_of_the_old(
    run: Run, is_shown: bool
) -> None:
    async def story(served: Served) -> None:
        await set_in_registry(served, {"retention.ms": "1"}, is_new=True)
        if is_shown:
            await served.control_request(update())
        else:
            await served.control_request(lead(served), 7)
            await served.control_request(stop(4), 4)
        assert served.broker.context.effective_configs.topic("t")["retention.ms"] == 1
        await set_in_registry(served, {"retention.ms": "2", "min.insync.replicas": "2"})
        other = bytes(15) + b"x"
        assert (
            code_of(await served.control_request(lead(served, topic_id=other), 7)) is ErrorCode.NONE
        )
        replica = served.broker.replica_manager.find(WHERE)
        assert replica.log.config.retention_ms == 2
        assert replica.partition.min_insync_replicas == 2

    run(story)


def test_topic_without_id_that_is_not_published_has_its_settings_read_again(run: Run) -> None:
    async def story(served: Served) -> None:
        await set_in_registry(served, {"retention.ms": "1"}, is_new=True)
        await served.control_request(lead(served, 4), 4)
        replica = served.broker.replica_manager.find(WHERE)
        assert replica.log.config.retention_ms == 1
        await set_in_registry(served, {"retention.ms": "2"})
        await served.control_request(update(4, served.broker.broker_id), 4)
        assert replica.log.config.retention_ms == 2
        await set_in_registry(served, {"retention.ms": "3"})
        await served.control_request(lead(served, 4, 1), 4)
        assert replica.log.config.retention_ms == 2  # the change is passed on

    run(story)


def test_change_of_a_topic_that_is_gone_says_nothing_of_the_next_one(run: Run) -> None:
    async def story(served: Served) -> None:
        registry, configs = served.broker.registry, served.broker.context.effective_configs
        for topic in ("gone", "u"):
            if topic == "u":
                await served.topic("u")
                await registry.set(
                    znodes.config_path("topics", "u"), znodes.encode_config({"retention.ms": "3"})
                )
            change = znodes.encode_config_change(f"topics/{topic}")
            await registry.create(znodes.CONFIG_CHANGE, change, sequence=True)
        await until(lambda: configs.topic("u")["retention.ms"] == 3)
        assert not configs.knows("gone")
        await served.create("gone", cleanup__policy="compact", min__insync__replicas="2")
        replica = served.broker.replica_manager.find(TopicPartition("gone", 0))
        assert replica.cleanup_policy == {"compact"}
        assert replica.partition.min_insync_replicas == 2

    run(story)


def test_settings_that_a_topic_left_behind_are_not_loaded(run: Run) -> None:
    async def leaves(served: Served) -> None:
        await set_in_registry(served, {"retention.ms": "1"}, is_new=True)
        await served.create("u", retention__ms="2")

    async def starts(served: Served) -> None:
        configs = served.broker.context.effective_configs
        assert (configs.knows("t"), configs.topic("u")["retention.ms"]) == (False, 2)
        await served.create("t", retention__ms="3")
        assert served.broker.replica_manager.find(WHERE).log.config.retention_ms == 3

    run(leaves)
    run(starts)
