"""Bugs that are planted on purpose: each must be found within a few seeds, or the invariants could not fail at all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from kavka.broker.api import produce
from kavka.broker.coordination import group_shard_runtime
from kavka.broker.coordination.group_shard_runtime import GroupShardRuntime
from kavka.core.producer_state import ProducerState
from kavka.ids import TopicPartition
from kavka.simulation.events import Processed
from kavka.simulation.faults import CALM, NETWORK, POWER_WITH_FLUSH, PROCESSES, FaultModel
from kavka.simulation.load.group_members import GROUP, MemberNode
from kavka.simulation.run import BrokerRun
from kavka.simulation.scenario import Scenario
from kavka.simulation.storage_run import StorageRun
from kavka.storage.log.flusher import LogFlusher
from kavka.storage.log.log import Log
from kavka.storage.segment import batch_walk

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(300)]


def hunt(model: FaultModel, seeds: Iterable[int] = range(40), **changes: Any) -> str:
    """Run seeds under `model` until something breaks; return what did."""
    for seed in seeds:
        scenario = Scenario.of(seed)
        scenario = replace(
            scenario, model=model, broker=scenario.broker | model.settings, **changes
        )
        report = BrokerRun(seed, scenario).run()
        if report.broken:
            return report.broken[0]
    return "nothing was found"


def hunt_in_storage(seeds: Iterable[int] = range(150)) -> str:
    for seed in seeds:
        report = StorageRun(seed).run()
        if report.broken:
            return report.broken[0]
    return "nothing was found"


def test_an_acknowledgement_before_the_sync_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "waiting", lambda acks, outcomes: [])
    found = hunt(POWER_WITH_FLUSH, fault_interval_s=0.5, pace_s=0.02)
    # A reader may get a lower high watermark before the audit misses the records.
    assert found.startswith(("AcknowledgedRecordsSurvive", "HighWatermarkOnlyGrows"))


def test_a_broker_that_takes_retries_for_new_batches_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ProducerState, "check", lambda state, header: None)
    found = hunt(NETWORK, fault_interval_s=0.5, pace_s=0.02)
    assert found.startswith(("IdempotentProducersNeverDuplicate", "RecordsKeepTheirOrder"))


def test_a_broker_that_forgets_committed_offsets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_shard_runtime, "from_bytes", lambda key, value: None)
    found = hunt(PROCESSES, group_members=2, fault_interval_s=0.5, pace_s=0.2)
    assert "CommittedOffsetsStay" in found


def test_a_consumer_that_commits_before_it_processes_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def turn(member: MemberNode, consumer: Any) -> None:
        batches = await consumer.poll(timeout_ms=500)
        taken = [
            (TopicPartition(batch.topic, batch.partition), record)
            for batch in batches
            for record in batch.records()
        ]
        if taken:
            await member.commit(
                consumer, {topic_partition: record.offset + 1 for topic_partition, record in taken}
            )
            await asyncio.sleep(1)
        for topic_partition, record in taken:
            member.checker.observe(
                Processed(GROUP, member.client_id, topic_partition, record.offset, record.value)
            )

    monkeypatch.setattr(MemberNode, "_poll_once", turn)
    assert "CommittedRecordsWereProcessed" in hunt(PROCESSES, group_members=3, fault_interval_s=0.3)


def test_a_coordinator_that_never_answers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupShardRuntime, "commit_ready", lambda shell: None)
    assert "NothingWaitsForEver" in hunt(CALM, range(3), group_members=2, liveness_s=60.0)


def test_recovery_without_checksums_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_walk, "batch_crc", lambda buffer, header: header.crc)
    assert hunt_in_storage() != "nothing was found"


def test_a_flush_that_does_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def skip(log: Log, *args: Any) -> None:
        return None

    monkeypatch.setattr(LogFlusher, "sync", skip)
    assert "it must hold" in hunt_in_storage()


def test_a_segment_whose_name_is_not_synced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.simulation.disk.SimDisk.commit_names", lambda disk, path: None)
    assert hunt_in_storage() != "nothing was found"


def test_without_a_planted_bug_nothing_is_found() -> None:
    assert hunt(CALM, range(3)) == "nothing was found"
    assert hunt_in_storage(range(10)) == "nothing was found"
