"""Answers of running brokers to the bodies of `damaged_bodies`, and their table.

Run as a program (`make damaged-bodies`), it asks Apache Kafka 3.9 and 4.1 and kavka, and writes the table again. It
fails when the two releases do not agree: the table has one row for both.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from kavka.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from kavka.wire.messages.produce import (
    ProduceResponse,
)
from kavka_compat.apache import ApacheKafka
from kavka_compat.asking import ask, until, wait_until_all_know_all
from kavka_compat.brokers import Broker
from kavka_compat.damaged_bodies import (
    Body,
    all_series,
    batch,
    rewritten_series,
    write_table,
)
from kavka_compat.ours import run_kavka
from support.produce import produce_request

PRODUCE_VERSION: Final = 9
_RELEASES: Final = ("3.9", "4.1")


def create_topic(address: str, name: str, partitions: int, **configs: str) -> None:
    """Create a topic at a lone broker, with configs whose dots are written as `__`, and wait until it is led.

    The bodies are of long ago: retention, which brokers look at every five minutes, and Apache Kafka's first after half
    a minute, would delete them before they are read.
    """
    configs = {"retention__ms": "-1"} | configs
    topic = CreateTopicsRequestTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreateTopicsRequestConfig(name=key.replace("__", "."), value=value)
            for key, value in configs.items()
        ],
    )
    wait_until_all_know_all([address])
    (created,) = ask(address, CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
    assert created.error_code == 0, created
    ends = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsRequestTopic(
                name=name,
                partitions=[
                    ListOffsetsRequestPartition(partition_index=index, timestamp=-1)
                    for index in range(partitions)
                ],
            )
        ],
    )

    def all_are_led() -> bool:
        (found,) = ask(address, ends).topics
        return all(row.error_code == 0 for row in found.partitions)

    until(all_are_led, what=f"all partitions of {name} are led")


def produce_bodies(address: str, topic: str, partitions: int, bodies: Sequence[Body]) -> list[int]:
    """Produce each body as a batch of its own, to the partitions in turn; return the codes that were answered."""
    batches = [batch(body) for body in bodies]
    return asyncio.run(_produce(address, topic, partitions, batches))


async def _produce(
    address: str, topic: str, partitions: int, batches: Sequence[bytes]
) -> list[int]:
    host, _colon, port = address.rpartition(":")
    peer = await Peer.connect(TcpNetwork(), host, int(port))
    codes: list[int] = []
    try:
        for at in range(0, len(batches), partitions):
            in_turn = enumerate(batches[at : at + partitions])
            request = produce_request(topic, in_turn, acks=1)
            response = await peer.send(request, PRODUCE_VERSION, timeout_ms=60_000)
            codes += codes_of(response)
    finally:
        peer.close()
        await peer.wait_closed()
    return codes


def codes_of(response: ProduceResponse) -> list[int]:
    """Return the codes of the only topic, in the order of its partitions."""
    (topic,) = response.responses
    rows = sorted(topic.partition_responses, key=lambda row: row.index)
    assert [row.index for row in rows] == list(range(len(rows)))
    return [row.error_code for row in rows]


def run_any(name: str, directory: Path) -> AbstractContextManager[Broker]:
    """Run a broker of ours (`kavka`), or of a release of Apache Kafka."""
    directory.mkdir(parents=True, exist_ok=True)
    return run_kavka(directory) if name == "kavka" else ApacheKafka(name).run_broker(directory)


def ask_all(address: str, topic: str = "damaged", partitions: int = 100) -> dict[str, list[int]]:
    """Produce every body of every series to a new topic; return the codes by series."""
    create_topic(address, topic, partitions)
    series = all_series()
    codes = iter(
        produce_bodies(address, topic, partitions, [b for bs in series.values() for b in bs])
    )
    responses = {name: [next(codes) for _ in bodies] for name, bodies in series.items()}
    return responses | ask_rewritten(address, topic, partitions)


def ask_rewritten(address: str, topic: str, partitions: int) -> dict[str, list[int]]:
    """Produce bodies to topics of other codecs; return the codes by series."""
    responses = {}
    for name, (codec, bodies) in rewritten_series().items():
        other = f"{topic}-{codec}"
        create_topic(address, other, partitions, compression__type=codec)
        responses[name] = produce_bodies(address, other, partitions, bodies)
    return responses


def main() -> None:
    """Write the table."""
    responses = {}
    with tempfile.TemporaryDirectory() as directory:
        for name in (*_RELEASES, "kavka"):
            with run_any(name, Path(directory, name)) as broker:
                responses[name] = ask_all(broker.bootstrap)
    older, newer = (responses[release] for release in _RELEASES)
    differing = [name for name in older if older[name] != newer[name]]
    if differing:
        sys.exit(f"error: Apache Kafka 3.9 and 4.1 do not agree on: {'; '.join(differing)}")
    write_table(older, responses["kavka"])
    print(f"{sum(map(len, older.values()))} bodies asked of three brokers")


if __name__ == "__main__":
    main()
