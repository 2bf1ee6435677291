"""Strangers' requests take no more memory of the broker than its settings say, and others are served meanwhile."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from kavka_compat.brokers import Broker
from kavka_compat.ours import run_kavka
from kavka_compat.raw import API_VERSIONS, FETCH, RawConnection, frame, request, string

pytestmark = pytest.mark.compat

_MIB = 1 << 20
_PIECE = bytes(64 << 10)
_ROOM = 48 * _MIB
"""Growth of a broker that has just started, on its own: handlers are imported, buffers are filled."""


class Flood(threading.Thread):
    """Connections whose clients send as much of one request each as the broker takes, and then nothing more."""

    def __init__(self, port: int, connections: int, size: int, sent_bytes: int) -> None:
        super().__init__(daemon=True)
        self.closed = 0
        self.sent = dict.fromkeys(
            (socket.create_connection(("127.0.0.1", port)) for _ in range(connections)), 0
        )
        self._first = struct.pack(">i", size)
        self._sent_bytes = sent_bytes

    def run(self) -> None:
        """Continue until the broker has closed every connection but one, for which there is room.

        The last two may make no progress in the same time; then the broker closes both.
        """
        with selectors.DefaultSelector() as selector:
            for sock in self.sent:
                sock.sendall(self._first)
                sock.setblocking(False)
                selector.register(sock, selectors.EVENT_WRITE | selectors.EVENT_READ)
            while self.closed < len(self.sent) - 1:
                for key, events in selector.select():
                    sock = key.fileobj  # type: ignore[assignment]
                    assert isinstance(sock, socket.socket)
                    try:
                        self._serve(selector, sock, events)
                    except ConnectionError:
                        selector.unregister(sock)
                        self.closed += 1

    def _serve(self, selector: selectors.BaseSelector, sock: socket.socket, events: int) -> None:
        if events & selectors.EVENT_READ and not sock.recv(100):
            raise ConnectionResetError
        if events & selectors.EVENT_WRITE:
            left = self._sent_bytes - self.sent[sock]
            if left:
                self.sent[sock] += sock.send(_PIECE[:left])
            else:
                selector.modify(sock, selectors.EVENT_READ)

    def close(self) -> None:
        """Close what is open still."""
        for sock in self.sent:
            sock.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """A broker with settings."""
    running: list[Iterator[Broker]] = []

    def start(**settings: str) -> Broker:
        context = run_kavka(tmp_path, {name.replace("_", "."): v for name, v in settings.items()})
        running.append(context)  # type: ignore[arg-type]
        return context.__enter__()

    yield start
    for context in running:
        context.__exit__(None, None, None)  # type: ignore[attr-defined]


def _round_trips(broker: Broker, topic: str, sizes: list[int]) -> list[int]:
    """Produce values of these sizes with acks=all, each acknowledged before the next, and read them back."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "message.max.bytes": 1 << 20,
            "compression.type": "none",
        }
    )
    failures = []
    for size in sizes:
        producer.produce(
            topic,
            bytes(size),
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )
        assert producer.flush(120) == 0
    assert failures == []
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([topic])
        messages: list[Any] = []
        while len(messages) < len(sizes):
            found = consumer.consume(len(sizes) - len(messages), timeout=120)
            assert found, "nothing came"
            messages += found
        return [len(message.value() or b"") for message in messages]
    finally:
        consumer.close()


def test_half_received_requests_take_no_more_than_their_budget_and_others_are_served(
    broker: Callable[..., Broker],
) -> None:
    budget = 320 * _MIB
    ours = broker(kavka_queued_max_request_bytes=str(budget), kavka_queued_request_stall_ms="5000")
    assert _round_trips(ours, "before", [10]) == [10]
    before = ours.process.peak_resident_bytes()
    flood = Flood(ours.port, 12, 99 * _MIB, 98 * _MIB)
    try:
        flood.start()
        sizes = [10, 1000, 200_000, 900_000, 10] * 4
        assert _round_trips(ours, "meanwhile", sizes) == sizes
        flood.join(120)
        assert not flood.is_alive()
        assert flood.closed >= 11  # they have lost what they held
    finally:
        flood.close()
    grown = ours.process.peak_resident_bytes() - before
    assert grown < budget + _ROOM
    assert sum(flood.sent.values()) > budget  # it was more than there was room for
    text = ours.process.text()
    assert "reading of requests slowed" in text
    assert "its half-received request makes no progress, and others need its memory" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("bound", ["kavka_queued_max_request_bytes", "queued_max_request_bytes"])
def test_large_requests_that_come_slowly_all_come_to_their_end(
    broker: Callable[..., Broker], bound: str
) -> None:
    settings = {bound: str(24 * _MIB), "socket_request_max_bytes": str(20 * _MIB)}
    ours = broker(**settings)
    data = request(API_VERSIONS, 0, bytes(16 * _MIB))  # what follows the body is ignored
    connections = [RawConnection.to(ours) for _ in range(12)]
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            connection.socket.setblocking(False)
            selector.register(connection.socket, selectors.EVENT_WRITE, [0])
        while selector.get_map():
            ready = selector.select(60)
            assert ready, "no request goes on"
            for key, _events in ready:
                sent = key.data
                assert isinstance(key.fileobj, socket.socket)
                sent[0] += key.fileobj.send(memoryview(data)[sent[0] : sent[0] + (64 << 10)])
                if sent[0] == len(data):
                    selector.unregister(key.fileobj)
    for connection in connections:
        connection.socket.settimeout(60)
        assert connection.read_response() is not None
        connection.socket.close()


def _fetch(partitions: int) -> bytes:
    """Make a full Fetch of version 7, which asks for a session, of unknown partitions."""
    head = struct.pack(">iiiibii", -1, 0, 1, 1 << 20, 0, 0, 0)
    each = b"".join(struct.pack(">iqqi", index, 0, -1, 1 << 20) for index in range(partitions))
    topics = struct.pack(">i", 1) + string("unknown") + struct.pack(">i", partitions) + each
    return request(FETCH, 7, head + topics + struct.pack(">i", 0))


def _session_id(response: tuple[int, bytes] | None) -> int:
    assert response is not None
    _throttle, error, session_id = struct.unpack(">ihi", response[1][:10])
    assert error == 0
    assert isinstance(session_id, int)
    return session_id


def test_fetches_of_many_unknown_partitions_get_no_session_and_keep_no_memory(
    broker: Callable[..., Broker],
) -> None:
    ours = broker()
    with RawConnection.to(ours) as raw:
        raw.socket.settimeout(120)
        raw.send(_fetch(3))
        assert _session_id(raw.read_response()) != 0
        raw.send(_fetch(100_000))
        assert _session_id(raw.read_response()) == 0
        # The peak, since what is resident at a moment depends on how much of the last request is freed by then.
        before = ours.process.peak_resident_bytes()
        for _ in range(10):
            raw.send(_fetch(100_000))
            assert _session_id(raw.read_response()) == 0
        assert ours.process.peak_resident_bytes() - before < _ROOM


def test_a_broker_says_which_bound_refuses_a_connection(broker: Callable[..., Broker]) -> None:
    ours = broker(max_connections_per_ip="100", max_connections_per_ip_overrides="127.0.0.1:2")
    with RawConnection.to(ours) as first, RawConnection.to(ours) as second:
        for raw in (first, second):
            raw.send(request(API_VERSIONS, 0))
            assert raw.read_response() is not None
        with RawConnection.to(ours) as third:
            third.send(frame(b""))
            assert third.read_response() is None
    ours.process.wait_for("reason=max.connections.per.ip.overrides", 30)
