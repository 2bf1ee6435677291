"""The controller's machine: elections, reassignments, deletions, and pending updates of brokers.

    event -> handle -> records -> one multi after another, each fenced by the controller epoch -> apply
                    -> effects: answers to requests, and what is dirty for brokers (`outbox`)

A multi that finds another version than expected changes nothing: the controller term reads the znodes again, passes
them to the machine (`PartitionsRead`, `TopicsChanged`, `DeletionsMarked`) and handles the event again. So every event
may be handled twice. Work that became due by applying (a reassignment is complete, a deletion can continue) is done by
`tick`.

A machine lives for one election. Source: Kafka 3.9's `KafkaController` and its state machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kavka.core.controller import brokers, isr, reassignment, topic_changes
from kavka.core.controller.broker_updates import BrokerUpdate, Effect, Outbox
from kavka.core.controller.election import led_by
from kavka.core.controller.events import (
    AlterPartitionRequested,
    BrokerCleared,
    BrokersChanged,
    BrokerSuspected,
    ControlledShutdownRequested,
    ControlResponseReceived,
    CreatePartitionsRequested,
    CreateTopicRequested,
    DeleteTopicRequested,
    DeletionsMarked,
    Elected,
    ElectionKind,
    ElectionRequested,
    Event,
    ListReassignmentsRequested,
    LogDirFailed,
    PartitionsRead,
    PreferredElectionNodeRead,
    ReassignmentNodeRead,
    ReassignmentRequested,
    Snapshot,
    TopicsChanged,
    UncleanEnabled,
)
from kavka.core.controller.leadership import elect, rebalance, update_leaderships
from kavka.core.controller.record_application import PendingWork, apply_record
from kavka.core.controller.records import (
    AssignmentWritten,
    DeletionMarked,
    PreferredElectionTaken,
    Record,
    StateWritten,
)
from kavka.core.controller.replies import (
    PartitionsReply,
    TopicReply,
    Verdict,
    refused,
)
from kavka.core.controller.settings import ControllerSettings
from kavka.core.controller.state import (
    ClusterState,
    Leadership,
)
from kavka.core.controller.step import ControllerDecision, Step
from kavka.core.machine import Decision, SendReply
from kavka.errors import ErrorCode
from kavka.ids import NO_TOPIC_ID, TopicPartition
from kavka.values import replace


class ControllerMachine:
    """Implements `core.machine`; its log is the registry. The first event is `Elected`."""

    def __init__(self, epoch: int, snapshot: Snapshot, settings: ControllerSettings) -> None:
        """Load what the registry has; `epoch` is of this election."""
        self.epoch = epoch
        self.state = ClusterState()
        self.outbox = Outbox()
        self.revision = 0
        """Grows whenever the metadata of partitions or brokers may have changed: what was built at another revision is
        outdated.
        """
        self._settings = settings
        self._snapshot = snapshot
        self._pending = PendingWork()
        self._needs_update = False
        self._rebalance_ms: int | None = None
        self._handled: Event | None = None
        self._conflicting_event: Event | None = None
        """The last event with a version conflict: what was read after it is newer than the event."""
        self._updated: dict[int, set[TopicPartition]] = {}
        """Replicas that the current decision took from `_due.returned`."""
        # The last change of brokers, and which replicas it found back that were not written to be away yet.
        self._returned_brokers: tuple[BrokersChanged | None, dict[int, set[TopicPartition]]] = (
            None,
            {},
        )
        for live in snapshot.brokers:
            self.state.brokers[live.broker_id] = live
        for name, read in snapshot.topics.items():
            self.state.put_topic(name, read)
        self._handlers: dict[type, Callable[[Step, Any], object]] = {
            Elected: self._elected,
            BrokersChanged: self._brokers_changed,
            BrokerSuspected: self._broker_suspected,
            BrokerCleared: self._broker_cleared,
            TopicsChanged: self._topics_changed,
            DeletionsMarked: self._deletions_marked,
            ReassignmentNodeRead: reassignment.request_by_znode,
            PreferredElectionNodeRead: self._preferred_election_read,
            PartitionsRead: self._partitions_read,
            LogDirFailed: brokers.probe_log_dirs,
            UncleanEnabled: self._unclean_enabled,
            ControlResponseReceived: self._control_response_received,
            CreateTopicRequested: topic_changes.create,
            CreatePartitionsRequested: topic_changes.add_partitions,
            DeleteTopicRequested: topic_changes.request_deletion,
            ReassignmentRequested: reassignment.request,
            ListReassignmentsRequested: reassignment.list_reassignments,
            ElectionRequested: self._election_requested,
            AlterPartitionRequested: isr.change,
            ControlledShutdownRequested: brokers.shut_down,
        }

    # -- the contract of a machine

    def handle(self, event: Event, now_ms: int) -> ControllerDecision:
        """Decide what an event leads to."""
        if isinstance(event, Elected):
            self._rebalance_ms = now_ms + self._settings.rebalance_first_ms
        self._handled, self._updated = event, {}
        self.revision += self._may_change_metadata(event)
        step = self._step()
        self._handlers[type(event)](step, event)
        return step.decision()

    def _may_change_metadata(self, event: Event) -> bool:
        """Return whether handling an event may change the metadata of partitions or brokers.

        Every broker causes the first two while a new controller sends it everything: if all is well they change none.
        """
        match event:
            case BrokerCleared(broker):
                return broker in self.state.suspects
            case ControlResponseReceived(broker, _, leader_and_isr, deleted):
                has_failed = any(code is not ErrorCode.NONE for code in leader_and_isr.values())
                return has_failed or bool(deleted or self.state.offline_replicas.get(broker))
            case _:
                return True

    def apply(self, record: Record) -> None:
        """Apply a written record, and note the brokers that need an update."""
        self.revision += 1
        apply_record(self.state, self.outbox, self._pending, record)

    def failed(
        self,
        decision: ControllerDecision,
        error: ErrorCode,
        now_ms: int,
        reason: str | None = None,
    ) -> ControllerDecision:
        """Reply to the requests of a decision that could not be written with the reason, or with what Kafka says."""
        self.revision += 1
        said = reason or error.message
        replies: list[Effect] = []
        for effect in decision.effects:
            if isinstance(effect, SendReply):
                replies.append(SendReply(effect.token, refused(effect.reply, error, said)))
        for record in decision.records:
            if isinstance(record, DeletionMarked):
                verdict = TopicReply(Verdict(error, said))
                tokens = self.state.waiting_deletions.pop(record.topic, [])
                replies += [SendReply(token, verdict) for token in tokens]
        self._forget_unwritten(decision.records)
        self._needs_update = True
        return Decision((), tuple(replies))

    def version_conflict(self, decision: ControllerDecision, applied: int) -> None:
        """Keep the broker updates of a decision that met a version conflict after `applied` records.

        Its event is handled again, which decides on the unwritten rest again, and answers.
        """
        self.revision += 1
        self._conflicting_event = self._handled
        written = {
            getattr(record, "topic_partition", None) for record in decision.records[:applied]
        }
        for broker, partitions in self._updated.items():
            self._pending.returned.setdefault(broker, set()).update(partitions - written)
        self._needs_update |= bool(self._updated)
        self._forget_unwritten(decision.records[applied:])
        for replicas in self._returned_brokers[1].values():
            replicas.difference_update(written)
        assigned = {r.topic for r in decision.records[:applied] if isinstance(r, AssignmentWritten)}
        for record in decision.records[applied:]:
            if isinstance(record, StateWritten) and record.topic_partition.topic in assigned:
                # the next try may find nothing left to do
                self._pending.written_by_others[record.topic_partition] = None
                self._needs_update = True
        missing = {
            getattr(record, "topic_partition", None) for record in decision.records[applied:]
        }
        for effect in decision.effects:
            if not isinstance(effect, SendReply):
                stops = {w: stop for w, stop in effect.stops.items() if w not in missing}
                self.outbox.add(replace(effect, stops=stops))

    def _forget_unwritten(self, records: Iterable[Record]) -> None:
        """Forget which moves were to be finished by states that are not written."""
        for record in records:
            if isinstance(record, StateWritten):
                self.state.forget_unwritten_finish(record.topic_partition)

    def tick(self, now_ms: int) -> ControllerDecision:
        """Handle one event that is due."""
        self.revision += 1
        self._updated = {}
        step = self._step()
        ready = self.outbox.unpublished.take_ready(now_ms)
        if ready:
            self._publish(step, ready)
        elif self._needs_update:
            self._needs_update = False
            self._update_all_leaderships(step)
        elif self._pending.deletions:
            name = next(iter(self._pending.deletions))
            del self._pending.deletions[name]
            topic_changes.advance_deletion(step, name)
        elif self._pending.reassignments:
            due, self._pending.reassignments = self._pending.reassignments, {}
            reassignment.complete(step, due)
        elif self._rebalance_ms is not None and self._rebalance_ms <= now_ms:
            self._rebalance_ms = now_ms + self._settings.rebalance_interval_ms
            if self._settings.rebalances:
                rebalance(step)
        return step.decision()

    def deadline_ms(self) -> int | None:
        """Return when something is due; what applying made due is due at once."""
        if self._needs_update or self._pending:
            return 0
        deadlines = (self._rebalance_ms, self.outbox.unpublished.deadline_ms())
        return min((ms for ms in deadlines if ms is not None), default=None)

    def _step(self) -> Step:
        return Step(self.state, self._settings, self.epoch)

    # -- deciding

    def _elected(self, step: Step, event: Elected) -> None:
        snapshot = self._snapshot
        self._mark_due(topic_changes.marked(step, DeletionsMarked(snapshot.deletions)))
        for topic in self.state.topics.values():
            if topic.topic_id == NO_TOPIC_ID:
                topic_changes.name_topic(step, topic.name)
        away = {broker: set(self.state.by_broker.get(broker, ())) for broker in event.bounced}
        for broker, partitions in event.returned.items():
            away.setdefault(broker, set()).update(partitions)
        brokers.start_brokers(step, away)
        if snapshot.reassignments is not None:
            reassignment.request_by_znode(step, ReassignmentNodeRead(snapshot.reassignments))
        if snapshot.preferred_elections is not None:
            elections = PreferredElectionNodeRead(snapshot.preferred_elections)
            self._preferred_election_read(step, elections)

    def _update_all_leaderships(self, step: Step) -> None:
        partitions = list(self.state.topic_partitions())
        self._updated, self._pending.returned = self._pending.returned, {}
        brokers.mark_returned(step, self._updated)
        update_leaderships(step, partitions)
        foreign, self._pending.written_by_others = self._pending.written_by_others, {}
        for topic_partition in foreign:
            # Its leader knows another partition epoch, and listens to a new leader epoch only.
            node = step.node(topic_partition)
            if node is not None and not step.state.is_deleting(topic_partition.topic):
                step.put_node(topic_partition, led_by(node, node.leader, node.in_sync_replicas))
        for topic_partition in partitions:
            assignment = step.assignment(topic_partition)
            if assignment is not None and assignment.is_reassigning:
                self._pending.reassignments[topic_partition] = None
        self._mark_due(self.state.deletions)

    def _mark_due(self, topics: object) -> None:
        assert isinstance(topics, (list, dict))
        self._pending.deletions.update(dict.fromkeys(topics))

    def _brokers_changed(self, step: Step, event: BrokersChanged) -> None:
        # Its first try had a version conflict; the returned brokers are known already.
        if event is self._returned_brokers[0]:
            brokers.mark_returned(step, self._returned_brokers[1])
            return
        away: dict[int, set[TopicPartition]] = {}
        for live in event.brokers:
            known = self.state.brokers.get(live.broker_id)
            if known is not None and known.epoch != live.epoch:
                self.outbox.forget_broker(live.broker_id)  # what was dirty is of its life before
                away[live.broker_id] = set(self.state.by_broker.get(live.broker_id, ()))
        self._returned_brokers = (event, away)
        brokers.update_brokers(step, event)
        self._after_broker_change()

    def _broker_suspected(self, step: Step, event: BrokerSuspected) -> None:
        brokers.suspect_broker(step, event)
        self._after_broker_change()

    def _broker_cleared(self, step: Step, event: BrokerCleared) -> None:
        brokers.clear_suspicion(step, event)
        self._after_broker_change()

    def _after_broker_change(self) -> None:
        for broker in self.outbox.waiting():
            if not self.state.is_reachable(broker):
                self.outbox.forget_broker(broker)
        self._pending.reassignments.update(dict.fromkeys(self.state.finishing))
        self._mark_due(self.state.deletions)

    def _topics_changed(self, step: Step, event: TopicsChanged) -> None:
        if event is not self._conflicting_event:
            for name in event.removed:
                self.outbox.unpublished.forget(name)
            foreign = topic_changes.adopt_topics(step, event)
            self._pending.written_by_others.update(dict.fromkeys(foreign))
            for broker, partitions in topic_changes.returned(step, event).items():
                self._pending.returned.setdefault(broker, set()).update(partitions)
            self._needs_update |= bool(foreign)
        topic_changes.change(step, event)

    def _deletions_marked(self, step: Step, event: DeletionsMarked) -> None:
        self._mark_due(topic_changes.marked(step, event))

    def _preferred_election_read(self, step: Step, event: PreferredElectionNodeRead) -> None:
        for topic_partition in dict.fromkeys(event.partitions):
            elect(step, topic_partition, ElectionKind.PREFERRED)
        step.after.append(PreferredElectionTaken())

    def _partitions_read(self, step: Step, event: PartitionsRead) -> None:
        for topic_partition, read in event.states.items():
            topic = self.state.topics.get(topic_partition.topic)
            if topic is None:
                continue
            known = topic.leadership.pop(topic_partition.partition, None)
            if read is None:
                continue
            topic.leadership[topic_partition.partition] = Leadership(*read)
            topic.has_partitions = True
            topic.partition_nodes.add(topic_partition.partition)
            if known is None or known.partition_epoch != read[1]:
                self._pending.written_by_others[topic_partition] = None
                self.state.finishing.pop(topic_partition, None)
        self._needs_update = True

    def _unclean_enabled(self, step: Step, event: UncleanEnabled) -> None:
        if event.topic is None:
            update_leaderships(step, list(self.state.topic_partitions()))
        elif event.topic in self.state.topics:
            update_leaderships(step, self.state.topics[event.topic].partitions())

    def _control_response_received(self, step: Step, event: ControlResponseReceived) -> None:
        brokers.note_log_dirs(step, event)
        self._mark_due(topic_changes.note_deleted(step, event))
        self._pending.reassignments.update(dict.fromkeys(reassignment.note_deleted(step, event)))
        known = self.state.brokers.get(event.broker)
        if known is None or known.epoch != event.broker_epoch:
            return
        for topic_partition in event.leader_and_isr:
            node = step.node(topic_partition)
            if node is not None and node.leader == event.broker:
                self.outbox.unpublished.leader_responded(topic_partition)

    def _publish(self, step: Step, partitions: list[TopicPartition]) -> None:
        """Publish partitions that are led now."""
        shown = [
            topic_partition
            for topic_partition in partitions
            if not step.state.is_deleting(topic_partition.topic)
        ]
        shown = [
            topic_partition for topic_partition in shown if step.node(topic_partition) is not None
        ]
        if shown:
            step.update_brokers(BrokerUpdate(tuple(step.state.reachable), metadata=tuple(shown)))

    def _election_requested(self, step: Step, event: ElectionRequested) -> None:
        asked = self.state.topic_partitions() if event.partitions is None else event.partitions
        verdicts = {
            topic_partition: elect(step, topic_partition, event.kind)
            for topic_partition in dict.fromkeys(asked)
        }
        if event.partitions is None:
            needless = ErrorCode.ELECTION_NOT_NEEDED
            verdicts = {w: v for w, v in verdicts.items() if v.code is not needless}
        step.reply(event.token, PartitionsReply(verdicts))
