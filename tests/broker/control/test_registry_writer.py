"""Records on their way into the registry, and the election that allows to write them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kavka.broker.control.election import Election
from kavka.broker.control.registry_writer import (
    ControllerMovedError,
    RegistryWriter,
    VersionConflict,
    WriteRefused,
)
from kavka.broker.control.watched_registry import WatchedRegistry
from kavka.broker.environment import OsEnvironment
from kavka.core.controller.records import (
    AssignmentWritten,
    DeletionDropped,
    DeletionMarked,
    PreferredElectionTaken,
    Record,
    StateCreated,
    StateWritten,
    TopicCreated,
    TopicRemoved,
)
from kavka.core.controller.state import Assignment
from kavka.core.znodes import Create, Event, SetData
from kavka.ids import BrokerId, TopicId, TopicPartition
from kavka.registry.interface import ensure_paths
from kavka.registry.local_session import LocalSession
from kavka.registry.znode_server import ZnodeServer
from kavka.wire.stored import znodes
from kavka.wire.stored.znodes import StateNode

NODE = StateNode(1, 0, 1, [1])


def created(name: str, partitions: int) -> list[Record]:
    assignments = {p: Assignment((1,)) for p in range(partitions)}
    states = [StateCreated(TopicPartition(name, p), NODE, False, True) for p in range(partitions)]
    return [TopicCreated(name, TopicId(name.encode().ljust(16)), assignments, {}), *states]


class Hands:
    """A registry, the session of a broker, and what was applied."""

    def __init__(self) -> None:
        environment = OsEnvironment()
        self.clock = environment.clock
        self.znode_server = ZnodeServer(environment.clock, environment.random)
        self.session = LocalSession(self.znode_server)
        self.applied: list[Record] = []

    async def prepare(self) -> RegistryWriter:
        await ensure_paths(self.session, znodes.PERSISTENT_ROOTS)
        await self.session.create(znodes.CONTROLLER_EPOCH, b"1")
        return RegistryWriter(self.session, 0)

    def data(self, path: str) -> bytes | None:
        return self.znode_server.tree.data(path)

    def election(self, broker: int, session: LocalSession) -> Election:
        async def nothing() -> list[Create]:
            return []

        return Election(session, BrokerId(broker), self.clock, nothing)


def run(story: Callable[[Hands], Awaitable[None]]) -> None:
    async def main() -> None:
        hands = Hands()
        await story(hands)
        await hands.znode_server.close()

    asyncio.run(main())


def test_many_records_go_in_more_than_one_multi() -> None:
    async def story(hands: Hands) -> None:
        writer = await hands.prepare()
        before = hands.znode_server.tree.zxid
        records = created("t", 600)
        await writer.write(records, hands.applied.append)
        assert hands.applied == records
        assert hands.znode_server.tree.zxid == before + 3
        assert len(hands.znode_server.tree.children("/brokers/topics/t/partitions") or ()) == 600

    run(story)


def test_large_records_go_in_more_than_one_multi() -> None:
    async def story(hands: Hands) -> None:
        writer = await hands.prepare()
        await writer.write([*created("a", 1), *created("b", 1)], hands.applied.append)
        before = hands.znode_server.tree.zxid
        many = {p: Assignment((1001, 1002, 1003)) for p in range(12_000)}
        large: list[Record] = [
            AssignmentWritten(name, TopicId(name.encode().ljust(16)), many, 0) for name in "ab"
        ]
        await writer.write(large, lambda _record: None)
        assert hands.znode_server.tree.zxid == before + 2
        assert len(hands.data("/brokers/topics/a") or b"") > 250_000

    run(story)


def test_record_that_the_registry_never_accepts_is_no_version_conflict() -> None:
    async def story(hands: Hands) -> None:
        writer = await hands.prepare()
        await writer.write(created("t", 1), hands.applied.append)
        topic_partition = TopicPartition("t", 0)
        before: list[Record] = [
            StateWritten(topic_partition, NODE, version) for version in range(500)
        ]
        with pytest.raises(WriteRefused) as met:
            await writer.write([*before, *created("no//path", 1)], hands.applied.append)
        assert met.value.applied == 500

    run(story)


def test_deposed_controller_writes_nothing() -> None:
    async def story(hands: Hands) -> None:
        writer = await hands.prepare()
        await hands.session.set(znodes.CONTROLLER_EPOCH, b"2")
        with pytest.raises(ControllerMovedError):
            await writer.write(created("t", 1), hands.applied.append)
        assert hands.applied == []
        assert hands.data("/brokers/topics/t") is None

    run(story)


def test_deposed_controller_takes_no_notification_away_from_the_next_one() -> None:
    async def story(hands: Hands) -> None:
        writer = await hands.prepare()
        watching = WatchedRegistry(hands.session, lambda _what: None, writer.delete)
        for broker in (3, 4):
            data = znodes.encode_log_dir_event(broker)
            path = await hands.session.create(znodes.LOG_DIR_EVENT, data, sequence=True)
            if broker == 3:
                assert await watching.failed_log_dirs() == [3]
                assert hands.data(path) is None
                await hands.session.set(znodes.CONTROLLER_EPOCH, b"2")
        with pytest.raises(ControllerMovedError):
            await watching.failed_log_dirs()
        assert hands.data(path) == data

    run(story)


def test_version_conflict_counts_the_written_records() -> None:
    async def story(hands: Hands) -> None:
        writer = await hands.prepare()
        await writer.write(created("t", 600), hands.applied.append)
        path = znodes.state_path("t", 599)
        await hands.session.set(path, NODE.encode())
        changes: list[Record] = [StateWritten(TopicPartition("t", p), NODE, 0) for p in range(600)]
        with pytest.raises(VersionConflict) as met:
            await writer.write(changes, hands.applied.append)
        assert met.value.applied == 500

    run(story)


def test_settings_that_were_left_behind_are_replaced() -> None:
    async def story(hands: Hands) -> None:
        writer = await hands.prepare()
        await hands.session.create(
            "/config/topics/t", b'{"version":1,"config":{"retention.ms":"1"}}'
        )
        await writer.write(created("t", 1), hands.applied.append)
        assert znodes.decode_config(hands.data("/config/topics/t") or b"") == {}

    run(story)


def test_wish_that_was_taken_away_meanwhile_is_no_obstacle() -> None:
    async def story(hands: Hands) -> None:
        writer = await hands.prepare()
        gone: list[Record] = [PreferredElectionTaken(), DeletionDropped("nonexistent")]
        await writer.write([*gone, *created("t", 1)], hands.applied.append)
        assert hands.data("/brokers/topics/t") is not None

    run(story)


def test_large_topic_is_removed_and_its_mark_last() -> None:
    async def story(hands: Hands) -> None:
        writer = await hands.prepare()
        await writer.write([*created("t", 400), DeletionMarked("t")], hands.applied.append)
        await writer.write([TopicRemoved("t")], hands.applied.append)
        assert hands.znode_server.tree.children(znodes.TOPICS) == []
        assert hands.znode_server.tree.children("/config/topics") == []
        assert hands.znode_server.tree.children(znodes.DELETED_TOPICS) == []

    run(story)


# -- the election


def test_one_of_two_is_elected_and_the_epoch_grows_with_each_election() -> None:
    async def story(hands: Hands) -> None:
        await hands.prepare()
        other = LocalSession(hands.znode_server)
        seen: list[Event] = []
        first = await hands.election(1, hands.session).read_or_elect(seen.append)
        second = await hands.election(2, other).read_or_elect(seen.append)
        assert (first.broker_id, first.is_ours, first.epoch) == (1, True, 2)
        assert (second.broker_id, second.is_ours, second.epoch) == (1, False, 2)
        await hands.session.close()
        assert seen
        third = await hands.election(2, other).read_or_elect(seen.append)
        assert (third.broker_id, third.is_ours, third.epoch) == (2, True, 3)

    run(story)


def test_only_the_controller_that_was_found_dead_is_deposed() -> None:
    async def story(hands: Hands) -> None:
        await hands.prepare()
        other = LocalSession(hands.znode_server)
        election = hands.election(2, other)
        dead = await hands.election(1, hands.session).read_or_elect(lambda _event: None)
        await election.remove_dead(dead)
        assert hands.data(znodes.CONTROLLER) is None
        after = await election.read_or_elect(lambda _event: None)
        assert after.is_ours
        await hands.election(1, hands.session).remove_dead(dead)  # too late: another was elected
        assert hands.data(znodes.CONTROLLER) is not None

    run(story)


def test_first_controller_of_a_registry_begins_with_epoch_one() -> None:
    async def story(hands: Hands) -> None:
        elected = await hands.election(1, hands.session).read_or_elect(lambda _event: None)
        assert (elected.epoch, elected.epoch_version) == (1, 0)
        assert hands.data(znodes.CONTROLLER_EPOCH) == b"1"

    run(story)


def test_epoch_that_grows_during_an_election_is_read_again() -> None:
    async def story(hands: Hands) -> None:
        await hands.prepare()
        await hands.session.multi([SetData(znodes.CONTROLLER_EPOCH, b"7")])
        elected = await hands.election(1, hands.session).read_or_elect(lambda _event: None)
        assert (elected.epoch, elected.epoch_version) == (8, 2)

    run(story)
