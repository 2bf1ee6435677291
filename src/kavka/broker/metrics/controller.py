"""The controller: Kafka's KafkaController and ControllerStats. Brokers that are not the controller report 0."""

from __future__ import annotations

from collections.abc import Iterator

from kavka.broker.metrics.sources import MetricsSources
from kavka.core.controller import events
from kavka.core.controller.state import ClusterState
from kavka.metrics.families import Family, counter, gauge, summarized, summary

_CONTROLLER = "kafka_controller_kafkacontroller_"
_STATS = "kafka_controller_controllerstats_"

_EVENTS: dict[str, tuple[type, ...]] = {
    "leaderelection": (events.BrokersChanged, events.BrokerSuspected, events.BrokerCleared),
    "controllerchange": (events.Elected,),
    "topicchange": (
        events.TopicsChanged,
        events.CreateTopicRequested,
        events.CreatePartitionsRequested,
    ),
    "topicdeletion": (events.DeletionsMarked, events.DeleteTopicRequested),
    "partitionreassignment": (events.ReassignmentRequested, events.ReassignmentNodeRead),
    "listpartitionreassignment": (events.ListReassignmentsRequested,),
    "manualleaderbalance": (events.ElectionRequested, events.PreferredElectionNodeRead),
    "isrchange": (events.AlterPartitionRequested, events.PartitionsRead),
    "controlledshutdown": (events.ControlledShutdownRequested,),
    "leaderandisrresponsereceived": (events.ControlResponseReceived,),
    "logdirchange": (events.LogDirFailed,),
    "uncleanleaderelectionenable": (events.UncleanEnabled,),
}
"""Kafka's names of controller states, with the events handled in each."""


def families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the families."""
    controller = sources.controller
    active = int(controller.is_active)
    help = "1 on the broker that is the controller; the sum over the cluster must be 1."
    yield gauge(f"{_CONTROLLER}activecontrollercount", help, active)
    yield from _of_state(controller.state if active else ClusterState())
    waiting = controller.event_queue_size
    name = "kafka_controller_controllereventmanager_eventqueuesize"
    yield gauge(name, "Events that wait for the controller.", waiting)
    counts = controller.counts
    name = "kafka_controller_controllereventmanager_eventqueuetimems"
    help = "How long events waited until the controller handled them, in ms."
    yield summary(name, help, summarized([counts.queued]))
    help = "Leaders that were elected without having been in sync: records may be lost."
    yield counter(f"{_STATS}uncleanleaderelections_total", help, counts.unclean_elections)
    name = "kavka_controller_leader_elections_total"
    yield counter(name, "Leaders that this controller elected, of partitions.", counts.elections)
    for state, kinds in _EVENTS.items():
        names = [kind.__name__ for kind in kinds]
        timings = [counts.events[name] for name in names if name in counts.events]
        help = f"Events of the controller ({', '.join(names)}) and how long they took, in ms."
        yield summary(f"{_STATS}{state}rateandtimems", help, summarized(timings))


def _of_state(state: ClusterState) -> Iterator[Family]:
    offline, imbalanced, partitions = _counted(state)
    replicas = sum(
        len(assignment.replicas)
        for name in state.deletions
        if (topic := state.topics.get(name)) is not None
        for assignment in topic.assignments.values()
    )
    failed = sum(len(deletion.failed) for deletion in state.deletions.values())
    blocked = sum(bool(deletion.failed) for deletion in state.deletions.values())
    for name, value, help in (
        ("activebrokercount", len(state.reachable), "Brokers that are registered and answer."),
        ("fencedbrokercount", len(state.suspects), "Brokers that are registered and refuse."),
        ("globaltopiccount", len(state.topics), "Topics of the cluster."),
        ("globalpartitioncount", partitions, "Partitions of the cluster."),
        ("offlinepartitionscount", offline, "Partitions without a leader."),
        (
            "preferredreplicaimbalancecount",
            imbalanced,
            "Partitions that another than their first replica leads.",
        ),
        ("topicstodeletecount", len(state.deletions), "Topics that are being deleted."),
        ("replicastodeletecount", replicas, "Replicas of topics that are being deleted."),
        ("topicsineligibletodeletecount", blocked, "Deletions that a failed replica holds up."),
        ("replicasineligibletodeletecount", failed, "Replicas that could not be deleted."),
    ):
        yield gauge(f"{_CONTROLLER}{name}", help, value)


def _counted(state: ClusterState) -> tuple[int, int, int]:
    """Return how many partitions have no leader, how many another than the preferred one, and how many there are."""
    offline = imbalanced = partitions = 0
    for topic in state.topics.values():
        partitions += len(topic.assignments)
        if topic.name in state.deletions:
            continue
        for number, assignment in topic.assignments.items():
            known = topic.leadership.get(number)
            leader = -1 if known is None else known.node.leader
            offline += not state.is_reachable(leader)
            imbalanced += leader != assignment.replicas[0]
    return offline, imbalanced, partitions
