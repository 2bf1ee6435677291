"""The parts of a failed test's report that are about the brokers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kavka.testing.cluster import Cluster
from kavka.testing.host_process import log_tail
from kavka.testing.topic import describe

_MAX_TOPICS = 5


def sections(
    clusters: Iterable[Cluster], log_file: Path, log_start: int, log_lines: int
) -> list[tuple[str, str]]:
    """Return titles and texts; the log's is what comes after byte `log_start`, the last lines of it."""
    found = []
    topics = [text for cluster in clusters for text in _topics(cluster)]
    if topics:
        found.append(("Kafka topics of the test", "\n".join(topics)))
    if log_lines:
        tail = log_tail(log_file, log_start, log_lines)
        found.append(("Kafka brokers' log of the test", tail or "(nothing was logged)"))
    return found


def _topics(cluster: Cluster) -> list[str]:
    try:
        if cluster.is_closed or not cluster.topics:
            return []
        troubles = cluster.troubles()
        if troubles:
            return [f"the topics are not read: {', '.join(troubles)}"]
        return [describe(topic) for topic in list(cluster.topics.values())[-_MAX_TOPICS:]]
    except Exception as error:  # noqa: BLE001 - the report is about the test's failure, not about this one
        return [f"the topics cannot be read: {error}"]
