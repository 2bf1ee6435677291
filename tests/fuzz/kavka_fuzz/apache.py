"""Apache Kafka beside ours: the same frames, and for how long another client waits."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka_compat.apache import SHIPPED_BROKER, ApacheKafka
from kavka_compat.artifacts import cache_directory
from kavka_fuzz import contents
from kavka_fuzz.emitter import frame_of
from kavka_fuzz.search import Finding
from kavka_fuzz.stage import Stage
from kavka_fuzz.target import BrokerFailed, exchange
from kavka_fuzz.vocabulary import Known

RELEASE = "3.9"
_PATIENCE_S = 20.0
_READY = "[KafkaServer id=0] started ("
_SETTINGS = {"transaction.state.log.num.partitions": "5", "offsets.topic.num.partitions": "5"}


def is_there() -> bool:
    """Return whether the jars were fetched before."""
    return any(cache_directory(RELEASE).rglob("*.jar"))


def compare(findings: Sequence[Finding], directory: Path, stage: Stage) -> None:
    """Send the frames to an Apache Kafka broker with ZooKeeper, and note what another client of it waited.

    Where that has no response it is not a number, and the next frame goes to another broker. Those for which the stage
    has no time are left out.
    """
    left = list(findings)
    for number in count():
        if not left or stage.is_over:
            return
        with _running(directory / f"broker-{number}", stage) as (port, known):
            while left and not stage.is_over:
                finding = left.pop(0)
                finding.apache_ms = _waited(port, frame_of(finding.recipe, known))
                stage.step()
                if math.isnan(finding.apache_ms):
                    break


@contextmanager
def _running(directory: Path, stage: Stage) -> Iterator[tuple[int, Known]]:
    kafka = ApacheKafka(RELEASE)
    with kafka.run_zookeeper(directory) as zookeeper:
        broker = kafka.start_with_zookeeper(directory, zookeeper, _SETTINGS, SHIPPED_BROKER)
        try:
            broker.process.wait_for(_READY, min(120, stage.seconds_left))
            known = Known(directory=str(broker.log_directory))
            asyncio.run(_prepare(broker.port, known))
            yield broker.port, known
        finally:
            broker.process.kill()  # after such frames it does not always stop


def _waited(port: int, frame: bytes) -> float:
    """Return for how long another client waited; not a number when it had no response in the end."""
    try:
        _outcome, other = exchange(port, frame, None, _PATIENCE_S)
    except (BrokerFailed, OSError):
        return float("nan")
    return other.worst_ms


async def _prepare(port: int, known: Known) -> None:
    peer = await Peer.connect(TcpNetwork(), "127.0.0.1", port, client_id="check")
    try:
        await contents.prepare(peer, known)
    finally:
        peer.close()
