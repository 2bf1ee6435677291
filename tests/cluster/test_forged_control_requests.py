"""Forged control requests that the registry confirms, full of nonsense: brokers report no fault, and recover.

There is no access control yet: a client that knows the epochs can move leaders and delete replicas. It must not end a
broker's tasks, nor leave anything that a restart does not put right.
"""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import pytest

from kavka.ids import TopicId, TopicPartition
from kavka.wire.messages.leader_and_isr import (
    LeaderAndIsrRequest,
    LeaderAndIsrRequestLeader,
    LeaderAndIsrRequestPartition,
    LeaderAndIsrRequestTopic,
)
from kavka.wire.messages.stop_replica import (
    StopReplicaRequest,
    StopReplicaRequestPartition,
    StopReplicaRequestTopicState,
)
from kavka.wire.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataRequestBroker,
    UpdateMetadataRequestEndpoint,
    UpdateMetadataRequestPartition,
    UpdateMetadataRequestTopic,
)
from support.cluster import Run

REQUESTS = 400
HIGHEST = 2**31 - 1
INTEGERS = (-(2**31), -2, -1, 0, 1, 2, 7, HIGHEST)
NAMES = ("t", "t", "t", "__consumer_offsets", "new", "../x", "", ".", "a" * 250, "Ä", "a b", "\0")
HOSTS = ("127.0.0.1", "", "nowhere.invalid", "a" * 300, "\0")
PORTS = (1, 0, -1, 65_536, HIGHEST)


class Forger:
    """Draws control requests from the present controller."""

    def __init__(self, cluster: Any, seed: int) -> None:
        self._cluster = cluster
        self._random = Random(seed)
        self._topic_id = cluster.brokers[1].metadata.topics["t"].topic_id

    def request(self, number: int) -> Any:
        """Return a control request to a broker, with the epochs that the registry confirms."""
        ruler = self._cluster.controller
        claim = {
            "controller_id": ruler,
            "controller_epoch": self._cluster.brokers[ruler].controller.epoch,
            "broker_epoch": self._cluster.brokers[number].context.broker_epoch,
        }
        draw = self._random.choice((self._leaders, self._stops, self._metadata))
        return draw(claim)

    def _leaders(self, claim: dict[str, Any]) -> LeaderAndIsrRequest:
        addresses = [
            LeaderAndIsrRequestLeader(
                broker_id=n, host_name=self._one(HOSTS), port=self._one(PORTS)
            )
            for n in self._brokers()
        ]
        topics = [
            LeaderAndIsrRequestTopic(
                topic_name=self._one(NAMES),
                topic_id=self._id(),
                partition_states=[self._leader(claim["controller_epoch"]) for _ in range(2)],
            )
        ]
        return LeaderAndIsrRequest(
            **claim, type=self._one((0, 1)), topic_states=topics, live_leaders=addresses
        )

    def _leader(self, controller_epoch: int) -> LeaderAndIsrRequestPartition:
        return LeaderAndIsrRequestPartition(
            partition_index=self._one((0, 1, *INTEGERS)),
            controller_epoch=self._one((controller_epoch, *INTEGERS)),
            leader=self._one((1, 2, 3, -1, -2, 7)),
            leader_epoch=self._one(INTEGERS),
            isr=self._brokers(),
            partition_epoch=self._one(INTEGERS),
            replicas=self._brokers(),
            is_new=self._one((True, False)),
            leader_recovery_state=self._one((0, 1, 7)),
        )

    def _stops(self, claim: dict[str, Any]) -> StopReplicaRequest:
        partitions = [
            StopReplicaRequestPartition(
                partition_index=self._one((0, 1, *INTEGERS)),
                leader_epoch=self._one(INTEGERS),
                delete_partition=self._one((True, False)),
            )
        ]
        state = StopReplicaRequestTopicState(
            topic_name=self._one(NAMES), partition_states=partitions
        )
        return StopReplicaRequest(**claim, topic_states=[state])

    def _metadata(self, claim: dict[str, Any]) -> UpdateMetadataRequest:
        partitions = [
            UpdateMetadataRequestPartition(
                partition_index=self._one((0, 1, -1, 99, HIGHEST)),
                leader=self._one((1, 2, 3, -1, -2, 7)),
                leader_epoch=self._one(INTEGERS),
                isr=self._brokers(),
                replicas=self._brokers(),
                offline_replicas=self._brokers(),
            )
        ]
        topic = UpdateMetadataRequestTopic(
            topic_name=self._one(NAMES), topic_id=self._id(), partition_states=partitions
        )
        return UpdateMetadataRequest(
            **claim,
            topic_states=[topic],
            live_brokers=[self._broker(n) for n in self._brokers()],
        )

    def _broker(self, number: int) -> UpdateMetadataRequestBroker:
        endpoint = UpdateMetadataRequestEndpoint(
            host=self._one(HOSTS),
            port=self._one(PORTS),
            listener=self._one(("PLAINTEXT", "", "OTHER")),
            security_protocol=self._one((0, 3, 99)),
        )
        return UpdateMetadataRequestBroker(
            id=number, endpoints=[endpoint], rack=self._one((None, "", "r" * 300))
        )

    def _brokers(self) -> list[int]:
        return self._random.choices((1, 2, 3, 7, -1, HIGHEST), k=self._random.randrange(4))

    def _id(self) -> TopicId:
        return TopicId(self._one((self._topic_id, bytes(16), b"\1" * 16)))

    def _one(self, values: Any) -> Any:
        return self._random.choice(values)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_forged_requests_cause_no_fault_and_a_restart_puts_everything_right(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    topic_partition = TopicPartition("t", 0)

    async def story(cluster: Any) -> None:
        await cluster.create("t", [1, 2, 3])
        await cluster.until(lambda: cluster.leader(topic_partition) >= 0)
        forger = Forger(cluster, seed=17)
        outcomes = set()
        for turn in range(REQUESTS):
            number = 1 + turn % 3
            try:
                outcomes.add((await cluster.send(number, forger.request(number))).error_code)
            except ConnectionError:  # closed: text that no client could read
                cluster.disconnect(number)
        assert 0 in outcomes
        faults = [
            r.getMessage() for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR
        ]
        assert not faults
        await cluster.stop(1, 2, 3)
        await cluster.start(1, 2, 3)
        await cluster.until(lambda: cluster.leader(topic_partition) >= 0)
        await cluster.must_produce(topic_partition, b"after")

    run(story)
