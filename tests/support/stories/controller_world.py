"""A registry, brokers that handle its requests, and the controller between them, all in one hand.

The world is the shell: it writes records as multis into a tree of znodes, loads another controller from that tree, and
hands control requests to brokers, which know what they were sent and nothing else. A controller can die after any
write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kavka.broker.control.control_request_builder import ControlRequestBuilder
from kavka.broker.control.shared_updates import SharedBodies
from kavka.core.controller.broker_updates import BrokerUpdate, PartitionSet, PendingUpdates
from kavka.core.controller.events import (
    AlterPartitionRequested,
    BrokersChanged,
    ControlResponseReceived,
    CreateTopicRequested,
    DeletionsMarked,
    Elected,
    Event,
    IsrChange,
    PartitionsRead,
    PreferredElectionNodeRead,
    ReassignmentNodeRead,
    Snapshot,
    TopicsChanged,
)
from kavka.core.controller.machine import ControllerMachine
from kavka.core.controller.records import Record, TopicRemoved, operations_of
from kavka.core.controller.replies import (
    IsrReply,
    Reply,
)
from kavka.core.controller.settings import ControllerSettings
from kavka.core.controller.state import LiveBroker, TopicRead
from kavka.core.controller.step import ControllerDecision
from kavka.core.machine import SendReply
from kavka.core.znodes import Create, Delete, Operation, Refusal, SetData, ZnodeTree
from kavka.errors import ErrorCode
from kavka.ids import TopicId, TopicPartition
from kavka.wire.frame import encode_request
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import StateNode, TopicNode


class Died(Exception):
    """The controller died between two writes."""


class Replica:
    """A broker's view of a partition."""

    def __init__(self) -> None:
        self.leader = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()


class ModelBroker:
    """A broker that handles control requests as Kafka's do."""

    def __init__(self, broker_id: int, epoch: int) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.replicas: dict[TopicPartition, Replica] = {}
        self.broken: set[TopicPartition] = set()
        self.refuses_deletion = False
        self.shown: set[TopicPartition] = set()
        self._topic_ids: dict[str, TopicId] = {}

    def handle(
        self, updates: PendingUpdates, machine: ControllerMachine
    ) -> ControlResponseReceived:
        self.shown -= set(updates.deleted)
        changed = {w: self._lead_or_follow(w, machine) for w in updates.leader_and_isr}
        self._show(updates, machine)
        deleted: dict[TopicPartition, ErrorCode] = {}
        for topic_partition, stop in updates.stops.items():
            replica = self.replicas.get(topic_partition)
            if replica is not None and 0 <= stop.leader_epoch < replica.leader_epoch:
                continue
            if stop.deletes and self.refuses_deletion:
                deleted[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
                continue
            self.replicas.pop(topic_partition, None)
            if stop.deletes:
                deleted[topic_partition] = ErrorCode.NONE
        return ControlResponseReceived(self.broker_id, self.epoch, changed, deleted)

    def _show(self, updates: PendingUpdates, machine: ControllerMachine) -> None:
        """Of another topic of the same name nothing is shown any more."""
        for topic_partition in updates.metadata:
            if machine.state.assignment(topic_partition) is None:
                continue
            topic_id = machine.state.topics[topic_partition.topic].topic_id
            if self._topic_ids.get(topic_partition.topic) != topic_id:
                self.shown = {one for one in self.shown if one.topic != topic_partition.topic}
                self._topic_ids[topic_partition.topic] = topic_id
            self.shown.add(topic_partition)

    def _lead_or_follow(
        self, topic_partition: TopicPartition, machine: ControllerMachine
    ) -> ErrorCode:
        if topic_partition in self.broken:
            return ErrorCode.KAFKA_STORAGE_ERROR
        assignment = machine.state.effective_assignment(topic_partition)
        leadership = machine.state.leadership(topic_partition)
        if assignment is None or leadership is None:
            return ErrorCode.NONE
        leads = leadership.node.leader == self.broker_id
        assert not leads or self.broker_id in assignment.replicas, (
            f"leads and is no replica: {topic_partition}"
        )
        replica = self.replicas.setdefault(topic_partition, Replica())
        if leadership.node.leader_epoch <= replica.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        replica.leader = leadership.node.leader
        replica.leader_epoch = leadership.node.leader_epoch
        replica.partition_epoch = leadership.partition_epoch
        replica.replicas = assignment.replicas
        return ErrorCode.NONE


class World:
    """Everything; `machine` rules it."""

    def __init__(self) -> None:
        self.tree = ZnodeTree()
        self.now_ms = 0
        self.unclean: set[str] = set()
        self.settings = ControllerSettings(
            allows_unclean=self.unclean.__contains__,
            new_topic_id=lambda: TopicId((1000 + self.next_token()).to_bytes(16)),
            rebalances=False,
        )
        self.brokers: dict[int, ModelBroker] = {}
        self.away: dict[int, ModelBroker] = {}
        self.slow: set[int] = set()
        self.hasty: set[int] = set()
        """Slow brokers that take their requests between the next decision and its first write."""
        self.replies: dict[int, Reply] = {}
        self.token = 0
        self.lives: int | None = None
        """Number of writes after which the controller dies; None is no limit."""
        self.registry_refusals: list[str] = []
        self.never_updated: set[tuple[int, str]] = set()
        """Brokers, and topics that were deleted while they were suspect, by a controller that is dead."""
        self._not_updated_yet: set[tuple[int, str]] = set()
        self.rewrites = 0
        for path in ("/cluster", *znodes.PERSISTENT_ROOTS, "/admin"):
            parts = path.split("/")[1:]
            for depth in range(len(parts)):
                part = "/" + "/".join(parts[: depth + 1])
                if self.tree.stat(part) is None:
                    self.write([Create(part)])
        self.write([Create(znodes.CONTROLLER_EPOCH, b"0")])
        self.machine = ControllerMachine(0, Snapshot(), self.settings)
        self._bodies: tuple[ControllerMachine, SharedBodies] | None = None

    # -- the registry

    def write(self, operations: list[Operation]) -> Refusal | None:
        txn = self.tree.prepare(operations, 1, self.now_ms)
        if isinstance(txn, Refusal):
            return txn
        if txn.changes:
            self.tree.apply(txn)
        return None

    def _wanted(self, operations: list[Operation]) -> list[Operation]:
        """Leave out, as the shell does, wishes that are to be taken away and are gone already."""
        return [
            operation
            for operation in operations
            if isinstance(operation, Create)
            or not operation.path.startswith("/admin/")
            or self.tree.stat(operation.path) is not None
        ]

    def must_write(self, *operations: Operation) -> None:
        refusal = self.write(list(operations))
        assert refusal is None, refusal

    def below(self, path: str) -> list[str]:
        found: list[str] = []
        for child in self.tree.children(path) or ():
            found += self.below(f"{path}/{child}")
        return [*found, path] if self.tree.stat(path) is not None else []

    def remains_of(self, topic: str) -> list[str]:
        return [
            *self.below(znodes.topic_path(topic)),
            *self.below(znodes.config_path("topics", topic)),
        ]

    def read_state(self, topic_partition: TopicPartition) -> tuple[StateNode, int] | None:
        path = znodes.state_path(*topic_partition)
        stat = self.tree.stat(path)
        if stat is None:
            return None
        return StateNode.decode(self.tree.data(path) or b""), stat.version

    def read_topic(self, name: str) -> TopicRead:
        path = znodes.topic_path(name)
        stat = self.tree.stat(path)
        assert stat is not None
        node = TopicNode.decode(self.tree.data(path) or b"")
        names = self.tree.children(f"{path}/partitions")
        states = {p: self.read_state(TopicPartition(name, p)) for p in node.assignment}
        return TopicRead(
            node,
            stat.version,
            {p: read for p, read in states.items() if read is not None},
            names is not None,
            frozenset(int(n) for n in names or ()),
        )

    def topics(self) -> list[str]:
        return self.tree.children(znodes.TOPICS) or []

    def snapshot(self) -> Snapshot:
        moves = self.tree.data(znodes.REASSIGN_PARTITIONS)
        elections = self.tree.data(znodes.PREFERRED_ELECTION)
        return Snapshot(
            self.registered(),
            {name: self.read_topic(name) for name in self.topics()},
            self.tree.children(znodes.DELETED_TOPICS) or (),
            None if moves is None else znodes.decode_reassignments(moves),
            None if elections is None else znodes.decode_partitions(elections),
        )

    def registered(self) -> list[LiveBroker]:
        return [LiveBroker(b.broker_id, b.epoch) for b in self.brokers.values()]

    # -- the shell

    def elect(
        self,
        bounced: Iterable[int] = (),
        returned: Mapping[int, frozenset[TopicPartition]] | None = None,
    ) -> None:
        """Let another controller take over."""
        self.never_updated |= self._not_updated_yet
        epoch = int(self.tree.data(znodes.CONTROLLER_EPOCH) or b"0") + 1
        self.must_write(SetData(znodes.CONTROLLER_EPOCH, str(epoch).encode()))
        self.machine = ControllerMachine(epoch, self.snapshot(), self.settings)
        self.handle(Elected(frozenset(bounced), returned or {}))

    def handle(self, event: Event) -> None:
        """Handle an event to its end, with all that it leads to."""
        for _ in range(10):
            if self._commit(self.machine.handle(event, self.now_ms)):
                break
            self.rewrites += 1
        else:
            raise AssertionError(f"never written: {event}")
        self.run_due()

    def run_due(self) -> None:
        while True:
            deadline = self.machine.deadline_ms()
            if deadline is not None and deadline <= self.now_ms:
                self._commit(self.machine.tick(self.now_ms))
            elif not self._deliver():
                return

    def _commit(self, decision: ControllerDecision) -> bool:
        hasty = self.hasty & self.slow
        self.hasty.clear()
        self.slow -= hasty
        replies = [
            reply for broker in sorted(hasty) if (reply := self._update_broker(broker)) is not None
        ]
        is_written = self._write_all(decision)
        for reply in replies:
            self._commit(self.machine.handle(reply, self.now_ms))
        return is_written

    def _write_all(self, decision: ControllerDecision) -> bool:
        for number, record in enumerate(decision.records):
            if self.lives is not None:
                if self.lives == 0:
                    raise Died
                self.lives -= 1
            below = self.remains_of(record.topic) if isinstance(record, TopicRemoved) else ()
            refusal = self.write(self._wanted(operations_of(record, below)))
            if refusal is not None:
                self.registry_refusals.append(f"refused {refusal.error.name} {refusal.path}")
                self.machine.version_conflict(decision, number)
                self._reread()
                return False
            if isinstance(record, TopicRemoved):
                suspects = self.machine.state.suspects
                self._not_updated_yet |= {(broker, record.topic) for broker in suspects}
            self.machine.apply(record)
            self.note(record)
        for effect in decision.effects:
            if isinstance(effect, BrokerUpdate):
                self.machine.outbox.add(effect)
            elif isinstance(effect, SendReply):
                self.replies[effect.token] = effect.reply
                self.noted_reply(effect.token, effect.reply)
        return True

    def _reread(self) -> None:
        reads = {name: self.read_topic(name) for name in self.topics()}
        self._quietly(
            PartitionsRead(
                {
                    TopicPartition(name, p): read.states.get(p)
                    for name, read in reads.items()
                    for p in read.node.assignment
                }
            )
        )
        self._quietly(TopicsChanged(reads))
        self._quietly(DeletionsMarked(self.tree.children(znodes.DELETED_TOPICS) or ()))

    def _quietly(self, event: Event) -> None:
        """Pass the read znodes to the machine; its writes are decided again later."""
        self.machine.handle(event, self.now_ms)

    def _deliver(self) -> bool:
        delivered = False
        for broker_id in self.machine.outbox.waiting():
            if broker_id in self.slow:
                continue
            reply = self._update_broker(broker_id)
            if reply is not None:
                delivered = True
                self._commit(self.machine.handle(reply, self.now_ms))
        return delivered

    def _update_broker(self, broker_id: int) -> ControlResponseReceived | None:
        """Let a broker handle the request that waits for it."""
        broker = self.brokers.get(broker_id)
        updates = self.machine.outbox.take(broker_id)
        if updates is None or broker is None:
            return None
        self.note_updates(broker_id, updates)
        self._check_shared_bodies(broker.epoch, updates)
        return broker.handle(updates, self.machine)

    def _check_shared_bodies(self, epoch: int, updates: PendingUpdates) -> None:
        """Compare the metadata that a broker is sent, and that of everything, with requests that are encoded now."""
        if self._bodies is None or self._bodies[0] is not self.machine:
            self._bodies = self.machine, SharedBodies(self.machine)
        _, bodies = self._bodies
        alone = ControlRequestBuilder(self.machine, 0, "PLAINTEXT", epoch)
        sharing = ControlRequestBuilder(self.machine, 0, "PLAINTEXT", epoch, bodies=bodies)
        everything = PartitionSet(self.machine.state.topic_partitions())
        for shown in (updates.metadata, everything):
            pending = PendingUpdates(True, updates.deleted, metadata=shown)
            both = zip(alone.requests(pending), sharing.requests(pending), strict=True)
            for request, shared in both:
                encoded = encode_request(request, 8, 1, None)
                assert b"".join(shared.frame(8, 1, None)) == b"".join(encoded)  # type: ignore[arg-type]

    def note(self, record: Record) -> None:
        """Note a write."""

    def note_updates(self, broker: int, updates: PendingUpdates) -> None:
        """Note a control request."""

    def noted_reply(self, token: int, reply: Reply) -> None:
        """Note a reply."""

    # -- brokers

    def start(self, broker: int) -> None:
        self.brokers[broker] = ModelBroker(broker, self._next_epoch())
        self.handle(BrokersChanged(self.registered()))

    def kill(self, broker: int) -> None:
        self.brokers.pop(broker, None)
        self.handle(BrokersChanged(self.registered()))

    def _next_epoch(self) -> int:
        # Any write takes a zxid: registrations have one each.
        self.must_write(SetData("/cluster", b""))
        return self.tree.zxid

    def next_token(self) -> int:
        self.token += 1
        return self.token

    def propose(
        self, topic_partition: TopicPartition, leader: int, isr: Iterable[int]
    ) -> IsrReply | None:
        """Have a leader that believes to be one propose an in-sync set."""
        replica = self.brokers[leader].replicas[topic_partition]
        token = self.next_token()
        change = IsrChange(
            topic_partition.topic,
            topic_partition.partition,
            replica.leader_epoch,
            replica.partition_epoch,
            tuple(isr),
        )
        self.handle(AlterPartitionRequested(token, leader, self.brokers[leader].epoch, [change]))
        reply = self.replies.get(token)
        if not isinstance(reply, IsrReply):
            return None
        for outcome in reply.outcomes:
            if outcome.node is not None and outcome.node.leader_epoch == replica.leader_epoch:
                replica.partition_epoch = outcome.partition_epoch
        return reply

    def catch_up(self) -> bool:
        """Let every leader propose those of its replicas that follow it; return whether anything changed."""
        changed = False
        for broker_id in sorted(self.brokers):
            for topic_partition in sorted(self.brokers[broker_id].replicas):
                changed = self._catch_up(broker_id, topic_partition) or changed
        return changed

    def _catch_up(self, broker_id: int, topic_partition: TopicPartition) -> bool:
        broker = self.brokers[broker_id]
        replica = broker.replicas.get(topic_partition)
        if replica is None or replica.leader != broker_id:
            return False
        if not self.machine.state.is_online(broker_id, topic_partition, or_leaving=True):
            return False  # it may propose without limit, and is refused
        following = [
            other
            for other in replica.replicas
            if other in self.brokers
            and self.machine.state.is_online(other, topic_partition, or_leaving=other == broker_id)
            and (theirs := self.brokers[other].replicas.get(topic_partition)) is not None
            and theirs.leader_epoch == replica.leader_epoch
        ]
        read = self.read_state(topic_partition)
        if read is None or sorted(read[0].in_sync_replicas) == sorted(following):
            return False
        self.propose(topic_partition, broker_id, following)
        # One that is notified late of its deposition, or of its topic's deletion, is refused without limit.
        return self.read_state(topic_partition) != read

    def settle(self) -> None:
        """Let time pass until nothing moves any more."""
        for _ in range(100):
            self.run_due()
            self.announce()
            if not self.catch_up():
                return
        raise AssertionError("the cluster does not come to rest")

    def announce(self) -> None:
        """Let the watches fire for what is in the tree and the machine does not know."""
        names = self.topics()
        unknown = {n: self.read_topic(n) for n in names if n not in self.machine.state.topics}
        gone = [n for n in self.machine.state.topics if n not in names]
        if unknown or gone:
            self.handle(TopicsChanged(unknown, gone))
        marks = self.tree.children(znodes.DELETED_TOPICS) or []
        if any(mark not in self.machine.state.deletions for mark in marks):
            self.handle(DeletionsMarked(marks))
        moves = self.tree.data(znodes.REASSIGN_PARTITIONS)
        if moves is not None and not self.machine.state.reassignment_node:
            self.handle(ReassignmentNodeRead(znodes.decode_reassignments(moves)))
        elections = self.tree.data(znodes.PREFERRED_ELECTION)
        if elections is not None:
            self.handle(PreferredElectionNodeRead(znodes.decode_partitions(elections)))

    def forget(self, path: str) -> None:
        self.must_write(Delete(path))


__all__ = ["CreateTopicRequested", "Died", "World"]
