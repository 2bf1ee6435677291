"""Compare the codec with those of kafka-python and aiokafka: `python bench/codec.py`.

Medians of rounds that alternate between the libraries, in processor time, which other programs do not
disturb. All read and write the same bytes, which is asserted: 54 kB of metadata (100 topics of 12 partitions;
version 12, and 5, the newest of aiokafka), and a produce request of four batches of 16 KiB (version 9, and 8 for
aiokafka). What the imports left on the heap is hidden from the garbage collector: it would count for the codec that
happens to wake it.
"""

from __future__ import annotations

import gc
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

from kavka.wire.codec import decode, encode
from kavka.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)

with warnings.catch_warnings():
    # kafka-python reads its schemas by a call that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from aiokafka.protocol.metadata import MetadataResponse_v5
    from aiokafka.protocol.produce import ProduceRequest_v8
    from kafka.protocol.metadata import MetadataResponse as KafkaPythonMetadata
    from kafka.protocol.producer import ProduceRequest as KafkaPythonProduce

ROUNDS = 15
Work = Callable[[], Any]


def metadata() -> MetadataResponse:
    """Return the response of a cluster with 100 topics of 12 partitions."""
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node, host=f"broker-{node}.example.org", port=9092)
            for node in range(3)
        ],
        cluster_id="a-cluster-of-three",
        controller_id=1,
        topics=[_topic(number) for number in range(100)],
    )


def _topic(number: int) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(
            partition_index=index,
            leader_id=index % 3,
            leader_epoch=-1,
            replica_nodes=[0, 1, 2],
            isr_nodes=[0, 1, 2],
        )
        for index in range(12)
    ]
    return MetadataResponseTopic(name=f"topic-{number}", partitions=partitions)


def produce() -> ProduceRequest:
    """Return a request with four batches of 16 KiB."""
    partitions = [ProduceRequestPartition(index=i, records=bytes(16384)) for i in range(4)]
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[ProduceRequestTopic(name="topic", partition_data=partitions)],
    )


def _works(message: Any, version: int, kafka_python: Any, aiokafka: Any) -> dict[str, Any]:
    """Return what to time, as (decode, encode) by library; None stands for a library without the version."""
    cls = type(message)
    data = b"".join(encode(message, version))  # type: ignore[arg-type]
    print(f"\n{cls.__name__} v{version}, {len(data):,} bytes")
    theirs = kafka_python.decode(data, version=version)
    theirs._header = None  # what its decoder leaves out and its encoder asks for
    assert bytes(theirs.encode(version=version)) == data
    works: dict[str, tuple[Work, Work]] = {
        "kavka": (lambda: decode(cls, version, data), lambda: encode(message, version)),
        "kafka-python": (
            lambda: kafka_python.decode(data, version=version),
            lambda: theirs.encode(version=version),
        ),
    }
    if aiokafka is not None:
        old = aiokafka.decode(data)
        assert old.encode() == data
        works["aiokafka"] = (lambda: aiokafka.decode(data), old.encode)
    return works


def _seconds(work: Work, repeats: int) -> float:
    start = time.thread_time()
    for _ in range(repeats):
        work()
    return (time.thread_time() - start) / repeats


def _report(works: dict[str, tuple[Work, Work]], repeats: int) -> None:
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(ROUNDS):
        for name, directions in works.items():
            for direction, work in enumerate(directions):
                times.setdefault((name, direction), []).append(_seconds(work, repeats))
    print(f"{'':14}{'decode':>12}{'encode':>12}   (microseconds, median of {ROUNDS} rounds)")
    for name in works:
        shown = (statistics.median(times[name, direction]) * 1e6 for direction in (0, 1))
        print(f"{name:14}" + "".join(f"{each:12,.1f}" for each in shown))


def main() -> None:
    """Print a table for each message."""
    gc.freeze()
    _report(_works(metadata(), 12, KafkaPythonMetadata, None), 10)
    _report(_works(metadata(), 5, KafkaPythonMetadata, MetadataResponse_v5), 10)
    _report(_works(produce(), 9, KafkaPythonProduce, None), 2000)
    _report(_works(produce(), 8, KafkaPythonProduce, ProduceRequest_v8), 2000)


if __name__ == "__main__":
    main()
