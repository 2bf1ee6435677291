"""Topics that a broker places have no two replicas on one machine while another machine has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kavka.broker.metadata.cache import OFFSETS_TOPIC
from kavka.errors import ErrorCode
from kavka.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from kavka.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from kavka.wire.messages.find_coordinator import FindCoordinatorRequest
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

Run = Callable[..., None]
Cluster = Any

MACHINES = {1: "one", 2: "one", 3: "two", 4: "two"}
HOSTS = {"one": "127.0.0.1", "two": "0x7f000001"}
"""Two names by which the loopback is reached, which are not known to be one machine."""


async def start(cluster: Cluster, racks: Sequence[str] = ("", "", "", "")) -> None:
    """Start two brokers on each machine, in these racks, and wait until all show all."""
    for (number, machine), rack in zip(MACHINES.items(), racks, strict=True):
        cluster.settings.pop("broker.rack", None)
        if rack:
            cluster.settings["broker.rack"] = rack
        cluster.settings["advertised.listeners"] = f"PLAINTEXT://{HOSTS[machine]}:0"
        await cluster.start(number)
    await cluster.until(
        lambda: all(len(broker.metadata.brokers) == 4 for broker in cluster.brokers.values())
    )


def machines_of(cluster: Cluster, topic: str) -> list[set[str]]:
    """Return the machines of each partition, as the controller shows them."""
    shown = cluster.brokers[cluster.controller].metadata.topics[topic]
    return [{MACHINES[int(b)] for b in news.replicas} for news in shown.partitions]


@pytest.mark.parametrize("racks", [("", "", "", ""), ("r", "r", "r", "r"), ("r", "s", "", "")])
def test_created_and_added_partitions_are_on_both_machines(run: Run, racks: Sequence[str]) -> None:
    async def story(cluster: Cluster) -> None:
        await start(cluster, racks)
        topic = CreateTopicsRequestTopic(name="t", num_partitions=8, replication_factor=2)
        response = await cluster.send(
            cluster.controller, CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        )
        assert response.topics[0].error_code == ErrorCode.NONE
        assert machines_of(cluster, "t") == [{"one", "two"}] * 8
        more = CreatePartitionsRequestTopic(name="t", count=12, assignments=None)
        response = await cluster.send(
            cluster.controller, CreatePartitionsRequest(topics=[more], timeout_ms=30_000)
        )
        assert response.results[0].error_code == ErrorCode.NONE
        await cluster.until(lambda: len(machines_of(cluster, "t")) == 12)
        assert machines_of(cluster, "t") == [{"one", "two"}] * 12

    run(story, brokers=0)


def test_topics_made_by_use_are_on_both_machines(run: Run) -> None:
    async def story(cluster: Cluster) -> None:
        await start(cluster)
        asked = next(number for number in MACHINES if number != cluster.controller)
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        await cluster.send(asked, request, 9)
        await cluster.send(asked, FindCoordinatorRequest(key_type=0, coordinator_keys=["x"]))
        shown = cluster.brokers[cluster.controller].metadata.topics
        await cluster.until(lambda: {"t", OFFSETS_TOPIC} <= shown.keys())
        assert machines_of(cluster, "t") == [{"one", "two"}] * 8
        assert machines_of(cluster, OFFSETS_TOPIC) == [{"one", "two"}] * 8

    run(
        story,
        brokers=0,
        num__partitions="8",
        default__replication__factor="2",
        offsets__topic__replication__factor="2",
        offsets__topic__num__partitions="8",
    )
