"""UpdateMetadata is encoded once for all brokers, with the bytes that each would be sent alone, and never outdated."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.broker.control.control_request_builder import ControlRequestBuilder
from kavka.broker.control.shared_updates import SharedBodies, SharedUpdateMetadata
from kavka.core.controller.broker_updates import BrokerUpdate, PendingUpdates
from kavka.core.controller.events import (
    BrokerCleared,
    BrokersChanged,
    BrokerSuspected,
    ControlResponseReceived,
    Event,
    Snapshot,
)
from kavka.core.controller.machine import ControllerMachine
from kavka.core.controller.records import StateWritten
from kavka.core.controller.settings import ControllerSettings
from kavka.core.controller.state import Endpoint, LiveBroker, TopicRead
from kavka.errors import ErrorCode, KafkaError
from kavka.ids import TopicId, TopicPartition
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.frame import encode_request
from kavka.wire.messages.update_metadata import UpdateMetadataRequest
from kavka.wire.schema import schema_of
from kavka.wire.stored.znodes import StateNode, TopicNode

BROKERS = range(1, 21)
T0 = TopicPartition("t", 0)
EVERYTHING = tuple(TopicPartition("t", index) for index in range(30))
VERSIONS = list(schema_of(UpdateMetadataRequest).versions)


def live(broker: int, epoch: int = 7) -> LiveBroker:
    endpoint = Endpoint("PLAINTEXT", f"host-{broker}", 9092, "PLAINTEXT")
    return LiveBroker(broker, epoch, (endpoint,), f"rack-{broker % 3}")


def machine_of(topics: int = 1) -> ControllerMachine:
    assigned = {index: [1 + (index + n) % len(BROKERS) for n in range(3)] for index in range(30)}
    states = {index: (StateNode(row[0], 4, 1, row), 7) for index, row in assigned.items()}
    node = TopicNode(TopicId(b"t" * 16), assigned)
    read = {"t": TopicRead(node, 0, states)} if topics else {}
    return ControllerMachine(
        2, Snapshot([live(each) for each in BROKERS], read), ControllerSettings()
    )


class Controller:
    """A machine, and the builders of its brokers."""

    def __init__(self, topics: int = 1) -> None:
        self.machine = machine_of(topics)
        self.bodies = SharedBodies(self.machine)
        self.builders = {
            broker: ControlRequestBuilder(
                self.machine, 1, "PLAINTEXT", 1 << 40 | broker, bodies=self.bodies
            )
            for broker in BROKERS
        }

    def requests(self, broker: int, pending: PendingUpdates) -> Iterator[SharedUpdateMetadata]:
        for request in self.builders[broker].requests(pending):
            if isinstance(request, SharedUpdateMetadata):
                yield request

    def sent(
        self,
        *brokers: int,
        version: int = 8,
        partitions: tuple[TopicPartition, ...] = EVERYTHING,
    ) -> list[list[Any]]:
        """Have brokers shown partitions; return the frames with those."""
        self.machine.outbox.add(BrokerUpdate(brokers, metadata=partitions, live_brokers=True))
        frames = []
        for broker in brokers:
            pending = self.machine.outbox.take(broker)
            assert pending is not None
            *_, request = (each.frame(version, 1, "c") for each in self.requests(broker, pending))
            frames.append(request)
        return frames

    def alone(self, broker: int) -> bytes:
        """Return the bytes of a request that is built and encoded for one broker."""
        request = self.builders[broker].update_metadata(EVERYTHING, {})
        return b"".join(encode_request(request, 8, 1, "c"))  # type: ignore[arg-type]


@pytest.mark.parametrize("version", VERSIONS)
@given(
    epochs=st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=2, max_size=3),
    shown=st.frozensets(st.integers(0, 40), max_size=6),
    deleted=st.frozensets(st.integers(0, 40), max_size=3),
    client_id=st.sampled_from([None, "", "kavka-controller"]),
)
@settings(max_examples=15)
def test_bytes_are_those_of_a_request_encoded_for_one_broker(
    version: int, epochs: list[int], shown: frozenset[int], deleted: frozenset[int], client_id: str
) -> None:
    machine = machine_of()
    bodies = SharedBodies(machine)
    metadata = tuple(TopicPartition("t", index) for index in shown)
    gone = {TopicPartition("gone", index): TopicId(b"g" * 16) for index in deleted}
    machine.outbox.add(BrokerUpdate((1,), metadata=metadata, deleted=gone, live_brokers=True))
    pending = machine.outbox.take(1)
    assert pending is not None
    for epoch in epochs:
        alone = ControlRequestBuilder(machine, 1, "PLAINTEXT", epoch).requests(pending)
        builder = ControlRequestBuilder(machine, 1, "PLAINTEXT", epoch, bodies=bodies)
        for request, shared in zip(alone, builder.requests(pending), strict=True):
            assert request.broker_epoch == epoch
            try:
                expected = b"".join(encode_request(request, version, 9, client_id))  # type: ignore[arg-type]
            except KafkaError:  # a version without topics
                with pytest.raises(KafkaError):
                    shared.frame(version, 9, client_id)
            else:
                assert b"".join(shared.frame(version, 9, client_id)) == expected


def test_the_versions_are_those_of_the_protocol() -> None:
    api = APIS[ApiKey.UPDATE_METADATA]
    assert (VERSIONS[0], VERSIONS[-1]) == (0, 8)
    assert api.max_version == 8


def test_all_brokers_are_sent_one_body_with_their_own_epochs() -> None:
    controller = Controller()
    frames = controller.sent(*BROKERS)
    assert len({id(frame[-1]) for frame in frames}) == 1
    assert len(frames[0][-1]) > 10 * len(frames[0][0])
    for broker, frame in zip(BROKERS, frames, strict=True):
        assert b"".join(frame) == controller.alone(broker)


def calls_of(work: Callable[[], object]) -> int:
    """Return the number of calls of functions, Python's and C's, that some work makes."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def test_work_for_one_broker_more_does_not_depend_on_the_number_of_partitions() -> None:
    controller, work = Controller(), []
    for partitions in (EVERYTHING[:3], EVERYTHING):
        first, *others = (
            calls_of(partial(controller.sent, broker, partitions=partitions))
            for broker in (1, 2, 3)
        )
        assert others[0] == others[1] < first
        work.append(others[0])
    assert work[0] == work[1]


def test_what_brokers_report_meanwhile_keeps_the_body() -> None:
    controller = Controller()
    ((*_, before),) = controller.sent(1)
    for event in (
        BrokerCleared(2, 7),
        ControlResponseReceived(1, 7, dict.fromkeys(EVERYTHING, ErrorCode.NONE)),
    ):
        controller.machine.handle(event, 0)
        ((*_, after),) = controller.sent(2)
        assert after is before


FAILED = {T0: ErrorCode.KAFKA_STORAGE_ERROR}


@pytest.mark.parametrize(
    "events",
    [
        [BrokersChanged([live(each) for each in BROKERS if each != 3])],
        [BrokersChanged([live(each, 8 if each == 3 else 7) for each in BROKERS])],
        [BrokerSuspected(3, 7)],
        [BrokerSuspected(3, 7), BrokerCleared(3, 7)],
        [ControlResponseReceived(1, 7, FAILED)],
        [ControlResponseReceived(1, 7, FAILED), ControlResponseReceived(1, 7, {T0: ErrorCode.NONE})],
    ],
)  # fmt: skip
def test_after_a_change_the_body_is_another(events: list[Event]) -> None:
    controller = Controller()
    for event in events:
        controller.sent(1)
        decision = controller.machine.handle(event, 0)
        ((*_, after),) = controller.sent(1)
        assert b"".join(controller.sent(1)[0]) == controller.alone(1)
        for record in decision.records:
            controller.machine.apply(record)
            ((*head, body),) = controller.sent(1)
            assert body is not after
            assert b"".join([*head, body]) == controller.alone(1)


def test_a_written_state_is_sent() -> None:
    controller = Controller()
    controller.sent(1)
    node, version = controller.machine.state.topics["t"].leadership[0]
    controller.machine.apply(StateWritten(T0, node._replace(leader=2, leader_epoch=5), version))
    frame = controller.sent(1)[0]
    assert b"".join(frame) == controller.alone(1)


def test_four_bodies_are_kept_until_they_are_outdated() -> None:
    controller = Controller()
    (first,) = controller.sent(1)  # live brokers, and everything
    (other_version,) = controller.sent(2, version=7)
    assert controller.sent(3)[0][-1] is first[-1]
    assert controller.sent(3, version=7)[0][-1] is other_version[-1]
    controller.sent(4, version=6)
    assert controller.sent(3)[0][-1] is not first[-1]
    (kept,) = controller.sent(5)
    controller.machine.tick(0)
    controller.bodies.drop_outdated()
    assert controller.sent(5)[0][-1] is not kept[-1]


def test_brokers_that_were_sent_a_leader_before_share_the_body_of_a_new_controller() -> None:
    """A new controller elects leaders first: each broker has some partitions when it is to be sent all."""
    controller = Controller()
    outbox = controller.machine.outbox
    outbox.partition_changed(T0, BROKERS)
    outbox.partition_changed(EVERYTHING[9], [3])
    frames = controller.sent(*BROKERS)
    assert len({id(frame[-1]) for frame in frames}) == 1
    assert b"".join(frames[3]) == controller.alone(4)
