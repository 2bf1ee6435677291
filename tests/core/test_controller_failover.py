"""A controller that dies after any write leaves a tree from which the next one reaches the same end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kavka.core.controller.events import (
    BrokerCleared,
    BrokerSuspected,
    ControlledShutdownRequested,
    CreatePartitionsRequested,
    CreateTopicRequested,
    DeleteTopicRequested,
    ElectionKind,
    ElectionRequested,
    LogDirFailed,
    ReassignmentRequested,
    TopicToCreate,
    UncleanEnabled,
)
from kavka.core.znodes import Create, SetData
from kavka.ids import TopicId, TopicPartition
from kavka.wire.stored import znodes
from support.examples import examples
from support.stories import controller_world

BROKERS = (1, 2, 3, 4)
LONGEST_WAIT_MS = 6000
"""More than new partitions are kept from being shown."""
TOPICS = ("s", "t")

_brokers = st.sampled_from(BROKERS)
_topics = st.sampled_from(TOPICS)
_replicas = st.lists(_brokers, min_size=1, max_size=3, unique=True).map(tuple)
_partitions = st.builds(TopicPartition, _topics, st.integers(0, 2))
_actions = st.one_of(
    st.tuples(st.just("create"), _topics, st.lists(_replicas, min_size=1, max_size=3)),
    st.tuples(st.just("grow"), _topics, st.lists(_replicas, min_size=1, max_size=2)),
    st.tuples(st.just("delete"), _topics),
    st.tuples(st.just("move"), st.dictionaries(_partitions, _replicas, min_size=1, max_size=3)),
    st.tuples(st.just("move_by_znode"), st.dictionaries(_partitions, _replicas, min_size=1)),
    st.tuples(st.just("cancel"), st.lists(_partitions, min_size=1, max_size=3)),
    st.tuples(st.just("kill"), _brokers),
    st.tuples(st.just("start"), _brokers),
    st.tuples(st.just("shut_down"), _brokers),
    st.tuples(st.just("elect"), st.sampled_from(list(ElectionKind))),
    st.tuples(st.just("interfere"), _partitions),
    st.tuples(st.just("settle")),
)
_harm = st.one_of(
    _actions,
    st.tuples(st.just("suspect"), _brokers),
    st.tuples(st.just("clear"), _brokers),
    st.tuples(st.just("break"), _brokers, _partitions),
    st.tuples(st.just("slow"), _brokers),
    st.tuples(st.just("quick"), _brokers),
    st.tuples(st.just("hurry"), _brokers),
    st.tuples(st.just("allow_unclean"), _topics),
    st.tuples(st.just("prefer_by_znode"), st.lists(_partitions, min_size=1, max_size=3)),
    st.tuples(st.just("wait"), st.integers(0, 6000)),
)
"""Also what a controller knows for itself only, so that another one may decide otherwise."""


class Actions:
    """The commands of a script to the controller and its world."""

    def __init__(self, world: Any) -> None:
        self._world = world

    def create(self, name: str, replicas: list[tuple[int, ...]]) -> None:
        topic_id = TopicId(f"{name}-{self._world.next_token()}".encode().ljust(16, b"-"))
        topic = TopicToCreate(name, topic_id, dict(enumerate(replicas)), {})
        self._world.handle(CreateTopicRequested(self._world.next_token(), topic))

    def grow(self, name: str, replicas: list[tuple[int, ...]]) -> None:
        topic = self._world.machine.state.topics.get(name)
        # The second try of a growth that was written must not grow again: names say what is meant.
        added = {10 + at: r for at, r in enumerate(replicas)} if topic is not None else {}
        self._world.handle(CreatePartitionsRequested(self._world.next_token(), name, added))

    def delete(self, name: str) -> None:
        self._world.handle(DeleteTopicRequested(self._world.next_token(), name))

    def move(self, targets: dict[TopicPartition, tuple[int, ...]]) -> None:
        self._world.handle(ReassignmentRequested(self._world.next_token(), targets))

    def move_by_znode(self, targets: dict[TopicPartition, tuple[int, ...]]) -> None:
        if self._world.tree.stat(znodes.REASSIGN_PARTITIONS) is None:
            data = znodes.encode_reassignments(targets)
            self._world.must_write(Create(znodes.REASSIGN_PARTITIONS, data))
        self._world.announce()

    def cancel(self, partitions: list[TopicPartition]) -> None:
        self._world.handle(
            ReassignmentRequested(self._world.next_token(), dict.fromkeys(partitions))
        )

    def shut_down(self, broker: int) -> None:
        known = self._world.machine.state.brokers.get(broker)
        epoch = 0 if known is None else known.epoch
        self._world.handle(ControlledShutdownRequested(self._world.next_token(), broker, epoch))

    def interfere(self, topic_partition: TopicPartition) -> None:
        """Another writer changes a state: it has no version that the controller expects."""
        data = self._world.tree.data(znodes.state_path(*topic_partition))
        if data is not None:
            self._world.must_write(SetData(znodes.state_path(*topic_partition), data))

    def elect(self, kind: ElectionKind) -> None:
        self._world.handle(ElectionRequested(self._world.next_token(), kind, None))

    def start(self, broker: int) -> None:
        """A registered broker has died without notification: the others in sync continue without it."""
        state = self._world.machine.state
        left = [
            topic_partition
            for topic_partition in (
                state.topic_partitions() if broker in self._world.brokers else ()
            )
            if (known := state.leadership(topic_partition)) is not None
            and broker in known.node.in_sync_replicas
            and any(
                other != broker and state.is_online(other, topic_partition)
                for other in known.node.in_sync_replicas
            )
            and not state.is_deleting(topic_partition.topic)
        ]
        self._world.start(broker)
        for topic_partition in left:
            known = state.leadership(topic_partition)
            assert known is None or broker not in known.node.in_sync_replicas, topic_partition

    def suspect(self, broker: int) -> None:
        live = self._world.machine.state.brokers.get(broker)
        if live is not None:
            self._world.handle(BrokerSuspected(broker, live.epoch))

    def clear(self, broker: int) -> None:
        live = self._world.machine.state.brokers.get(broker)
        if live is not None:
            self._world.handle(BrokerCleared(broker, live.epoch))

    def break_disk(self, broker: int, topic_partition: TopicPartition) -> None:
        model = self._world.brokers.get(broker)
        if model is not None:
            model.broken.add(topic_partition)
            model.replicas.pop(topic_partition, None)
            self._world.handle(LogDirFailed([broker]))

    def quick(self, broker: int) -> None:
        self._world.slow.discard(broker)
        self._world.run_due()

    def allow_unclean(self, topic: str) -> None:
        self._world.unclean.add(topic)
        self._world.handle(UncleanEnabled(topic))

    def prefer_by_znode(self, partitions: list[TopicPartition]) -> None:
        if self._world.tree.stat(znodes.PREFERRED_ELECTION) is None:
            data = znodes.encode_partitions(partitions)
            self._world.must_write(Create(znodes.PREFERRED_ELECTION, data))
        self._world.announce()

    def wait(self, milliseconds: int) -> None:
        self._world.now_ms += milliseconds
        self._world.run_due()


def actions_of(world: Any) -> dict[str, Callable[..., None]]:
    actions = Actions(world)
    return {
        "suspect": actions.suspect,
        "clear": actions.clear,
        "break": actions.break_disk,
        "slow": world.slow.add,
        "quick": actions.quick,
        "hurry": world.hasty.add,
        "allow_unclean": actions.allow_unclean,
        "prefer_by_znode": actions.prefer_by_znode,
        "wait": actions.wait,
        "create": actions.create,
        "grow": actions.grow,
        "delete": actions.delete,
        "move": actions.move,
        "move_by_znode": actions.move_by_znode,
        "cancel": actions.cancel,
        "kill": world.kill,
        "start": actions.start,
        "shut_down": actions.shut_down,
        "elect": actions.elect,
        "interfere": actions.interfere,
        "settle": world.settle,
    }


def run(script: list[tuple[Any, ...]], dies_after: int | None) -> Any:
    """Play a script; the controller may die once, and waiting requests are sent to the next one."""
    world = controller_world.World()
    world.lives = dies_after
    actions = actions_of(world)
    steps = [("start", broker) for broker in BROKERS] + script + [("end",)]
    actions["end"] = lambda: end(world)
    for name, *arguments in steps:
        try:
            actions[name](*arguments)
        except controller_world.Died:
            world.lives = None
            leaving = sorted(world.machine.state.shutting_down)
            world.elect()
            for broker in leaving:  # that is not in the registry: a stopping broker asks again
                actions["shut_down"](broker)
            if name != "start":  # the broker is there, it would be another life of it
                actions[name](*arguments)
        check_leaders(world)
    return world


def end(world: Any) -> None:
    """Bring all brokers back, let all replicas catch up, and give each partition its preferred leader."""
    actions, state = actions_of(world), world.machine.state
    for broker in BROKERS:
        actions["quick"](broker)
        actions["clear"](broker)
    for broker in BROKERS:
        live = world.brokers.get(broker)
        if live is None or live.broken or broker in state.shutting_down:
            world.start(broker)
    actions["wait"](LONGEST_WAIT_MS)
    world.settle()
    world.handle(ElectionRequested(world.next_token(), ElectionKind.PREFERRED, None))
    world.settle()


def check_leaders(world: Any) -> None:
    """No two brokers believe to lead in one epoch; a leader that knows its epoch is the newest stands in sync."""
    leaders: dict[tuple[TopicPartition, int], int] = {}
    for broker in world.brokers.values():
        for topic_partition, replica in broker.replicas.items():
            if replica.leader == broker.broker_id:
                other = leaders.setdefault(
                    (topic_partition, replica.leader_epoch), broker.broker_id
                )
                assert other == broker.broker_id
    for name, topic in world.machine.state.topics.items():
        for partition, leadership in topic.leadership.items():
            read = world.read_state(TopicPartition(name, partition))
            if read is not None:
                assert leadership.node == read[0]
            assert leadership.node.in_sync_replicas
            if leadership.node.leader != -1 and world.lives is None:
                assert leadership.node.leader in leadership.node.in_sync_replicas


def picture(world: Any) -> dict[TopicPartition, tuple[Any, ...]]:
    """Return what the registry says at the end, and check that brokers believe it."""
    found: dict[TopicPartition, tuple[Any, ...]] = {}
    for name in world.topics():
        read = world.read_topic(name)
        for partition, replicas in read.node.assignment.items():
            topic_partition = TopicPartition(name, partition)
            node, _version = read.states[partition]
            for broker in replicas:
                replica = world.brokers[broker].replicas[topic_partition]
                assert replica.leader == node.leader
                assert replica.leader_epoch == node.leader_epoch
                assert replica.replicas == tuple(replicas)
            for broker in world.brokers.values():
                assert topic_partition in broker.shown
            found[topic_partition] = (
                replicas,
                read.node.adding.get(partition),
                read.node.removing.get(partition),
                node.leader,
                sorted(node.in_sync_replicas),
            )
    for broker in world.brokers.values():
        # A suspect broker shows a topic that no other stores as deleted, until it starts or the topic is created again.
        stale = {w for w in broker.shown if (broker.broker_id, w.topic) in world.never_updated}
        assert broker.shown - stale == set(found) - stale
    assert world.tree.stat(znodes.REASSIGN_PARTITIONS) is None
    assert not world.tree.children(znodes.DELETED_TOPICS)
    return found


def whole(world: Any) -> dict[TopicPartition, list[int]]:
    """Check that nothing moves, all are in sync and the first replica leads; return the replicas."""
    found: dict[TopicPartition, list[int]] = {}
    for topic_partition, (replicas, adding, removing, leader, in_sync) in picture(world).items():
        assert (adding, removing) == (None, None)
        assert leader == replicas[0]
        assert in_sync == sorted(replicas)
        found[topic_partition] = replicas
    return found


@settings(max_examples=examples(150), deadline=None)
@given(script=st.lists(_actions, max_size=12))
@example(
    script=[
        ("kill", 3),
        ("create", "s", [(1,), (1, 3)]),
        ("interfere", TopicPartition("s", 0)),
        ("move_by_znode", {TopicPartition("s", 0): (1, 2), TopicPartition("s", 1): (1,)}),
    ]
)
@example(
    script=[
        ("create", "t", [(4, 2, 3)]),
        ("move_by_znode", {TopicPartition("t", 0): (1,)}),
        ("interfere", TopicPartition("t", 0)),
        ("cancel", [TopicPartition("t", 0)]),
    ]
)
def test_everything_comes_to_rest_when_all_brokers_are_back(script: list[tuple[Any, ...]]) -> None:
    world = run(script, dies_after=None)
    for topic_partition, replicas in whole(world).items():
        hosting = [b.broker_id for b in world.brokers.values() if topic_partition in b.replicas]
        assert set(hosting) >= set(replicas)


@settings(max_examples=examples(300), deadline=None)
@given(script=st.lists(_actions, min_size=1, max_size=8), dies_after=st.integers(0, 40))
def test_a_controller_that_dies_after_any_write_is_replaced_without_a_trace(
    script: list[tuple[Any, ...]], dies_after: int
) -> None:
    undisturbed = run(script, dies_after=None)
    assert picture(run(script, dies_after)) == picture(undisturbed)


@settings(max_examples=examples(200), deadline=None)
@given(script=st.lists(_harm, max_size=12), dies_after=st.one_of(st.none(), st.integers(0, 40)))
@example(
    script=[("create", "s", [(1, 2)]), ("slow", 1), ("delete", "s"), ("settle",)], dies_after=None
)
@example(
    script=[
        ("create", "t", [(2,), (2,)]),
        ("suspect", 1),
        ("delete", "t"),
        ("create", "t", [(1,)]),
    ],
    dies_after=None,
)
@example(
    script=[
        ("create", "s", [(2,), (2,)]),
        ("suspect", 1),
        ("delete", "s"),
        ("create", "t", [(3,)]),
    ],
    dies_after=7,
)
@example(
    script=[("create", "s", [(1, 2)]), ("slow", 1), ("suspect", 1), ("clear", 1), ("settle",)],
    dies_after=None,
)
@example(
    script=[
        ("create", "t", [(4, 3)]),
        ("slow", 4),
        ("move", {TopicPartition("t", 0): (2, 1)}),
        ("hurry", 4),
        ("move", {TopicPartition("t", 0): (4,)}),
    ],
    dies_after=None,
)
def test_everything_comes_to_rest_whatever_was_suspected_slow_or_broken(
    script: list[tuple[Any, ...]], dies_after: int | None
) -> None:
    whole(run(script, dies_after))
