"""Runs a scenario of the controller: commands in; writes, requests and replies out.

brokers 1 2 3            register them, and elect a controller
elect [bounced=1,2 | returned=1,2 t-0 ...]     let another controller take over
start|kill|bounce N [gone=1,2]      suspect|clear N       slow|quick N (takes no requests | does again)
create t 1,2,3 2,3,1     appear t 1,2,3 (by znode)      grow t 3,1,2      delete t      mark t (by znode)
move t-0=3,4 ...         cancel t-0 ...     moves       move-node t-0=3,4 ...
prefer [t-0 ...]         prefer-node t-0    unclean t-0 ...     allow-unclean t     rebalance on|wait MS
isr t-0 1,2 [leader-epoch=n] [partition-epoch=n] [by=n] [epochs=a,b] [recovering=1]     catch-up
shutdown N [epoch=n]     break N t-0    mend N t-0    refuse-deletion N    disk N
conflict t-0 (another process writes the state)    state    tree
spoil t (its state cannot be decoded)    restore t
vanish t [unmarked] (another process deletes its znodes, and its mark)
"""

from __future__ import annotations

from kavka.core.controller.broker_updates import PendingUpdates
from kavka.core.controller.events import (
    AlterPartitionRequested,
    BrokerCleared,
    BrokerSuspected,
    ControlledShutdownRequested,
    CreatePartitionsRequested,
    CreateTopicRequested,
    DeleteTopicRequested,
    ElectionKind,
    ElectionRequested,
    IsrChange,
    ListReassignmentsRequested,
    LogDirFailed,
    ReassignmentRequested,
    TopicToCreate,
    UncleanEnabled,
)
from kavka.core.controller.records import (
    AssignmentWritten,
    DeletionDropped,
    DeletionMarked,
    PreferredElectionTaken,
    ReassignmentNodeWritten,
    Record,
    StateCreated,
    StateWritten,
    TopicCreated,
    TopicRemoved,
    deletion_path,
)
from kavka.core.controller.replies import (
    IsrReply,
    PartitionsReply,
    ReassignmentsReply,
    Reply,
    ShutdownReply,
    TopicReply,
    Verdict,
)
from kavka.core.controller.state import Assignment, TopicRead
from kavka.core.znodes import Create, SetData
from kavka.errors import ErrorCode
from kavka.ids import TopicId, TopicPartition
from kavka.values import replace
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import StateNode, TopicNode
from support.stories import controller_world


def partition_of(text: str) -> TopicPartition:
    topic, partition = text.rsplit("-", 1)
    return TopicPartition(topic, int(partition))


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",")) if text else ()


def listed(values: object) -> str:
    return ",".join(str(value) for value in values)  # type: ignore[attr-defined]


class Story(controller_world.World):
    """A world that says what happens."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.next_id = 0
        super().__init__()

    # -- hearing

    def note(self, record: Record) -> None:
        self.out.append("write " + show_record(record))

    def note_updates(self, broker: int, updates: PendingUpdates) -> None:
        self.out.append(f"to {broker}: {show_updates(updates)}")

    def noted_reply(self, token: int, reply: Reply) -> None:
        self.out += show_reply(reply)

    # -- commands

    def command(self, line: str) -> str:
        name, *words = line.split()
        self.out = []
        self.registry_refusals = []
        getattr(self, "do_" + name.replace("-", "_"))(*words)
        refused = list(dict.fromkeys(self.registry_refusals))
        return "\n".join([*refused, *self.out]) or "nothing"

    def do_brokers(self, *ids: str) -> None:
        for broker in ids:
            epoch = self._next_epoch()
            self.brokers[int(broker)] = controller_world.ModelBroker(int(broker), epoch)
        self.elect()

    def do_elect(self, option: str = "", *words: str) -> None:
        if option.startswith("returned="):
            partitions = frozenset(partition_of(word) for word in words)
            brokers = numbers(option.removeprefix("returned="))
            self.elect(returned=dict.fromkeys(brokers, partitions))
        else:
            self.elect(numbers(option.removeprefix("bounced=")))

    def do_start(self, broker: str) -> None:
        self.start(int(broker))

    def do_kill(self, broker: str) -> None:
        self.kill(int(broker))

    def do_bounce(self, broker: str, gone: str = "") -> None:
        for other in numbers(gone.removeprefix("gone=")):
            del self.brokers[other]
        self.start(int(broker))

    def do_suspect(self, broker: str) -> None:
        self.handle(BrokerSuspected(int(broker), self.brokers[int(broker)].epoch))

    def do_clear(self, broker: str) -> None:
        self.handle(BrokerCleared(int(broker), self.brokers[int(broker)].epoch))

    def do_slow(self, broker: str) -> None:
        self.slow.add(int(broker))

    def do_quick(self, broker: str) -> None:
        self.slow.discard(int(broker))
        self.run_due()

    def topic_id(self) -> TopicId:
        self.next_id += 1
        return TopicId(self.next_id.to_bytes(16))

    def do_create(self, name: str, *replicas: str) -> None:
        assignment = {p: numbers(text) for p, text in enumerate(replicas)}
        topic = TopicToCreate(name, self.topic_id(), assignment, {})
        self.handle(CreateTopicRequested(self.next_token(), topic))

    def do_appear(self, name: str, *replicas: str) -> None:
        assignment = {p: list(numbers(text)) for p, text in enumerate(replicas)}
        node = TopicNode(self.topic_id(), assignment)
        if name in self.machine.state.topics:
            node = node._replace(topic_id=self.machine.state.topics[name].topic_id)
            self.must_write(SetData(znodes.topic_path(name), node.encode()))
            self.handle(controller_world.TopicsChanged({name: self.read_topic(name)}))  # type: ignore[attr-defined]
        else:
            self.must_write(Create(znodes.topic_path(name), node.encode()))
            self.must_write(Create(znodes.config_path("topics", name), b""))
            self.announce()

    def do_grow(self, name: str, *replicas: str) -> None:
        known = name in self.topics()
        present = len(self.read_topic(name).node.assignment) if known else 0
        added = {present + at: numbers(text) for at, text in enumerate(replicas)}
        self.handle(CreatePartitionsRequested(self.next_token(), name, added))

    def do_delete(self, name: str) -> None:
        self.handle(DeleteTopicRequested(self.next_token(), name))

    def do_mark(self, name: str) -> None:
        self.must_write(Create(f"{znodes.DELETED_TOPICS}/{name}"))
        self.announce()

    def do_spoil(self, name: str) -> None:
        self.handle(controller_world.TopicsChanged(unreadable=[name]))  # type: ignore[attr-defined]

    def do_restore(self, name: str) -> None:
        self.handle(controller_world.TopicsChanged({name: self.read_topic(name)}))  # type: ignore[attr-defined]

    def do_vanish(self, name: str, unmarked: str = "") -> None:
        mark = deletion_path(name)
        for path in [*self.remains_of(name), *([mark] if unmarked else [])]:
            self.forget(path)
        self.announce()

    def do_forbid_deletion(self) -> None:
        self.settings = replace(self.settings, allows_deletion=False)
        self.elect()

    def do_move(self, *words: str) -> None:
        moves = [word.split("=") for word in words]
        targets = {partition_of(partition): numbers(to) for partition, to in moves}
        self.handle(ReassignmentRequested(self.next_token(), targets))

    def do_cancel(self, *words: str) -> None:
        targets = {partition_of(word): None for word in words}
        self.handle(ReassignmentRequested(self.next_token(), targets))

    def do_moves(self, *words: str) -> None:
        asked = [partition_of(word) for word in words] or None
        self.handle(ListReassignmentsRequested(self.next_token(), asked))

    def do_move_node(self, *words: str) -> None:
        moves = [word.split("=") for word in words]
        targets = {partition_of(partition): numbers(to) for partition, to in moves}
        self.must_write(Create(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignments(targets)))
        self.announce()

    def do_prefer(self, *words: str) -> None:
        asked = [partition_of(word) for word in words] or None
        self.handle(ElectionRequested(self.next_token(), ElectionKind.PREFERRED, asked))

    def do_prefer_node(self, *words: str) -> None:
        asked = [partition_of(word) for word in words]
        self.must_write(Create(znodes.PREFERRED_ELECTION, znodes.encode_partitions(asked)))
        self.announce()

    def do_unclean(self, *words: str) -> None:
        asked = [partition_of(word) for word in words] or None
        self.handle(ElectionRequested(self.next_token(), ElectionKind.UNCLEAN, asked))

    def do_allow_unclean(self, name: str) -> None:
        self.unclean.add(name)
        self.handle(UncleanEnabled(name))

    def do_rebalance(self, _: str) -> None:
        self.settings = replace(self.settings, rebalances=True)
        self.elect()

    def do_wait(self, ms: str) -> None:
        self.now_ms += int(ms)
        self.run_due()

    def do_isr(self, where_text: str, isr: str, *options: str) -> None:
        topic_partition = partition_of(where_text)
        given = dict(option.split("=") for option in options)
        node, version = self.read_state(topic_partition)  # type: ignore[misc]
        by = int(given.get("by", node.leader))
        change = IsrChange(
            topic_partition.topic,
            topic_partition.partition,
            int(given.get("leader-epoch", node.leader_epoch)),
            int(given.get("partition-epoch", version)),
            numbers(isr),
            numbers(given.get("epochs", "")),
            given.get("recovering") == "1",
        )
        epoch = int(given.get("broker-epoch", self.brokers[by].epoch if by in self.brokers else 0))
        self.handle(AlterPartitionRequested(self.next_token(), by, epoch, [change]))

    def do_catch_up(self) -> None:
        self.settle()

    def do_shutdown(self, broker: str, epoch: str = "") -> None:
        given = epoch.removeprefix("epoch=")
        known = self.brokers[int(broker)].epoch if int(broker) in self.brokers else 0
        number = int(given) if given else known
        self.handle(ControlledShutdownRequested(self.next_token(), int(broker), number))

    def do_break(self, broker: str, *words: str) -> None:
        self.brokers[int(broker)].broken |= {partition_of(word) for word in words}
        self.handle(LogDirFailed([int(broker)]))

    def do_refuse_deletion(self, broker: str) -> None:
        self.brokers[int(broker)].refuses_deletion = True

    def do_conflict(self, where_text: str) -> None:
        path = znodes.state_path(*partition_of(where_text))
        node = StateNode.decode(self.tree.data(path) or b"")
        self.must_write(SetData(path, node.encode()))

    def do_state(self) -> None:
        for name in self.topics():
            read = self.read_topic(name)
            for partition in sorted(read.node.assignment):
                assignment = self.machine.state.assignment(TopicPartition(name, partition))
                state = read.states.get(partition)
                shown = "no leader yet" if state is None else f"{show_node(state[0])} v{state[1]}"
                replicas = "unknown" if assignment is None else show_assignment(assignment)
                self.out.append(f"{name}-{partition} on {replicas}: {shown}")
        marks = self.tree.children(znodes.DELETED_TOPICS) or []
        if marks:
            self.out.append("to delete: " + " ".join(marks))

    def do_beliefs(self, broker: str) -> None:
        for topic_partition, replica in sorted(self.brokers[int(broker)].replicas.items()):
            role = "leads" if replica.leader == int(broker) else f"follows {replica.leader}"
            self.out.append(f"{role} {topic_partition} epoch {replica.leader_epoch}")


# -- showing


def show_node(node: StateNode) -> str:
    text = f"leader {node.leader} epoch {node.leader_epoch} isr {listed(node.in_sync_replicas)}"
    return text + (" recovering" if node.recovering else "")


def show_assignment(assignment: Assignment) -> str:
    text = listed(assignment.replicas)
    if assignment.adding:
        text += f" adding {listed(assignment.adding)}"
    if assignment.removing:
        text += f" removing {listed(assignment.removing)}"
    return text


def show_record(record: Record) -> str:
    match record:
        case TopicCreated():
            partitions = " ".join(show_assignment(a) for a in record.assignments.values())
            return f"topic {record.topic} of {partitions}"
        case AssignmentWritten():
            shown = "; ".join(f"{p}: {show_assignment(a)}" for p, a in record.assignments.items())
            return f"{record.topic} assigned {shown}"
        case StateCreated(topic_partition, node):
            return f"{topic_partition} first {show_node(node)}"
        case StateWritten(topic_partition, node):
            return f"{topic_partition} {show_node(node)}"
        case DeletionMarked(topic):
            return f"{topic} to be deleted"
        case DeletionDropped(topic):
            return f"{topic} not to be deleted"
        case TopicRemoved(topic):
            return f"{topic} removed"
        case ReassignmentNodeWritten(remaining):
            return "moves by znode: " + (" ".join(str(w) for w in remaining) or "done")
        case PreferredElectionTaken():
            return "preferred election by znode: done"


def show_updates(updates: PendingUpdates) -> str:
    parts = []
    if updates.live_brokers:
        parts.append("brokers")
    if updates.deleted:
        parts.append("gone " + " ".join(str(w) for w in updates.deleted))
    if updates.leader_and_isr:
        shown = [f"{w}{' (new)' if new else ''}" for w, new in updates.leader_and_isr.items()]
        parts.append("obey " + " ".join(shown))
    if updates.metadata:
        parts.append("show " + " ".join(str(w) for w in updates.metadata))
    if updates.stops:
        shown = [f"{w}{' and delete' if s.deletes else ''}" for w, s in updates.stops.items()]
        parts.append("stop " + " ".join(shown))
    return "; ".join(parts)


def show_verdict(verdict: Verdict) -> str:
    if verdict.code is ErrorCode.NONE:
        return "NONE"
    return f"{verdict.code.name} ({verdict.message})"


def show_reply(reply: Reply) -> list[str]:
    match reply:
        case TopicReply(verdict):
            return [f"answer {show_verdict(verdict)}"]
        case PartitionsReply(verdicts):
            return [f"answer {w} {show_verdict(v)}" for w, v in verdicts.items()] or ["answer none"]
        case ReassignmentsReply(moving):
            shown = [f"answer {w} on {show_assignment(Assignment(*m))}" for w, m in moving.items()]
            return shown or ["answer nothing moves"]
        case IsrReply(error, outcomes):
            if error is not ErrorCode.NONE:
                return [f"answer {error.name}"]
            return [
                f"answer {o.topic}-{o.partition} {o.error.name}"
                + ("" if o.node is None else f" {show_node(o.node)} v{o.partition_epoch}")
                for o in outcomes
            ]
        case ShutdownReply(error, remaining):
            left = " ".join(str(w) for w in remaining) or "nothing"
            return [f"answer {error.name}, still leads {left}"]


__all__ = ["Story", "TopicRead"]
