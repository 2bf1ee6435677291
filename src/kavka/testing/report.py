"""What the report of a failed test says about the brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.testing.host_process import log_tail
from kavka.testing.topic import describe

if TYPE_CHECKING:
    from kavka.testing.cluster import Cluster
    from kavka.testing.plugin import Runtime

_MAX_TOPICS = 5


def sections(runtime: Runtime) -> list[tuple[str, str]]:
    """Return titles and texts."""
    found = []
    topics = [text for cluster in runtime.open for text in _topics(cluster)]
    if topics:
        found.append(("Kafka topics of the test", "\n".join(topics)))
    lines = runtime.options.log_lines
    if lines:
        tail = log_tail(runtime.log_file, runtime.log_start, lines)
        found.append(("Kafka brokers' log of the test", tail or "(nothing was logged)"))
    if runtime.options.keep_data != "never":
        found.append(("Kafka brokers' data", str(runtime.directory)))
    return found


def _topics(cluster: Cluster) -> list[str]:
    try:
        if cluster.is_closed or cluster.running != cluster.numbers:
            return []
        return [describe(topic) for topic in list(cluster.topics.values())[-_MAX_TOPICS:]]
    except Exception as error:  # noqa: BLE001 - the report is about the test's failure, not about this one
        return [f"the topics cannot be read: {error}"]
