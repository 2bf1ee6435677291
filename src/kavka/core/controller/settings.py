"""Settings of the controller machine."""

from __future__ import annotations

from collections.abc import Callable

from kavka.ids import NO_TOPIC_ID, TopicId
from kavka.values import frozen


def _never(_topic: str) -> bool:
    return False


def _no_id() -> TopicId:
    return NO_TOPIC_ID


@frozen
class ControllerSettings:
    """Settings that decisions depend on."""

    allows_unclean: Callable[[str], bool] = _never
    """`unclean.leader.election.enable` of a topic, as it is in force."""
    new_topic_id: Callable[[], TopicId] = _no_id
    """Makes the id of a topic that has none."""
    allows_deletion: bool = True
    """`delete.topic.enable`."""
    ignores_offline_replicas_on_delete: bool = False
    """True if a topic can be deleted though a replica of it is on a failed disk: for brokers that rename stray
    logs.
    """
    rebalances: bool = True
    """`auto.leader.rebalance.enable`."""
    rebalance_first_ms: int = 5_000
    rebalance_interval_ms: int = 300_000
    rebalance_percentage: int = 10
    """`leader.imbalance.per.broker.percentage`."""
