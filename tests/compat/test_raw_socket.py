"""Bytes that no client sends: garbage, half frames, wrong lengths, unknown keys.

The broker answers as Kafka does, or closes the connection, and continues.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import pytest

from kavka_compat.brokers import Broker
from kavka_compat.raw import (
    API_VERSIONS,
    API_VERSIONS_REQUEST,
    METADATA,
    UNSUPPORTED_VERSION,
    RawConnection,
    frame,
    produce_request,
    request,
    string,
)

pytestmark = pytest.mark.compat

_MIB = 1 << 20
_CORRUPT_MESSAGE, _INVALID_REQUIRED_ACKS, _UNKNOWN_TOPIC = 2, 21, 3


@pytest.fixture
def connection(any_broker: Broker) -> Iterator[RawConnection]:
    """A connection; afterwards the broker must still answer others."""
    with RawConnection.to(any_broker) as raw:
        yield raw
    _assert_serves(any_broker)


def _assert_serves(broker: Broker) -> None:
    assert broker.process.alive(), broker.process.text()[-3000:]
    with RawConnection.to(broker) as raw:
        raw.send(API_VERSIONS_REQUEST)
        assert raw.read_response() is not None


def _header(key: int, version: int, client_id_length: int = 3, client_id: bytes = b"raw") -> bytes:
    return struct.pack(">hhih", key, version, 1, client_id_length) + client_id


_LAST_WORDS = {
    "negative size": struct.pack(">i", -1),
    "smallest size": struct.pack(">i", -(1 << 31)),
    "size zero": struct.pack(">i", 0),
    "size above socket.request.max.bytes": struct.pack(">i", 100 * _MIB + 1),
    "largest size": struct.pack(">i", (1 << 31) - 1),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030102000100") + bytes(64),
    "a frame of one byte": frame(b"\x00"),
    "a header cut in its client id": frame(_header(METADATA, 1, client_id=b"r")),
    "a negative length of the client id": frame(_header(METADATA, 1, -2, b"")),
    "an unknown API key": request(999, 0),
    "a negative API key": request(-1, 0),
    "a version of Metadata from the future": request(METADATA, 99, bytes(8)),
    "a negative version of Metadata": request(METADATA, -1, bytes(8)),
    "an API for brokers and controllers only": request(52, 0, bytes(8)),
    "an array that claims two thousand million topics": request(
        METADATA, 1, struct.pack(">i", (1 << 31) - 1)
    ),
    "a null where an array must be": request(2, 1, struct.pack(">ii", -1, -1)),
    "a string longer than the frame": request(METADATA, 1, struct.pack(">ih", 1, 30_000) + b"abc"),
    "a null where a string must be": request(METADATA, 1, struct.pack(">ih", 1, -1)),
    "text that is not UTF-8, then too little": request(
        METADATA, 1, struct.pack(">ih", 2, 2) + b"\xff\xfe"
    ),
    "a body that ends early": request(METADATA, 5, struct.pack(">i", 0)),
    "compact varint without end": frame(_header(METADATA, 9) + b"\x00" + b"\xff" * 12),
    "compact array that claims 256 million": frame(
        _header(METADATA, 9) + b"\x00" + b"\xff\xff\xff\x7f"
    ),
    "tagged fields that claim more than there is": frame(
        _header(METADATA, 9) + b"\x01\x00\xff\xff\x03"
    ),
}


@pytest.mark.parametrize("words", _LAST_WORDS.values(), ids=_LAST_WORDS.keys())
def test_broker_closes_the_connection_on(words: bytes, connection: RawConnection) -> None:
    connection.send(words)
    assert connection.read_response() is None


def test_unknown_version_of_api_versions_is_answered_in_version_0(
    connection: RawConnection,
) -> None:
    connection.send(request(API_VERSIONS, 99, b"\x00anything"))
    response = connection.read_response()
    assert response is not None
    correlation_id, body = response
    error, count, key, lowest, highest = struct.unpack(">hihhh", body[:12])
    assert (correlation_id, error, count, key) == (1, UNSUPPORTED_VERSION, 1, API_VERSIONS)
    assert lowest == 0
    assert highest >= 3
    connection.send(API_VERSIONS_REQUEST)
    assert connection.read_response() is not None


def test_bytes_behind_a_request_are_ignored(connection: RawConnection) -> None:
    # librdkafka's Metadata of all topics, as it is on the wire
    all_topics = bytes.fromhex("00000000010000")
    connection.send(frame(_header(METADATA, 12) + b"\x00" + all_topics))
    assert connection.read_response() is not None
    connection.send(request(METADATA, 1, struct.pack(">i", 0) + b"and more"))
    assert connection.read_response() is not None


def test_half_a_frame_and_goodbye_does_no_harm(any_broker: Broker) -> None:
    for length in range(1, len(API_VERSIONS_REQUEST)):
        with RawConnection.to(any_broker) as raw:
            raw.send(API_VERSIONS_REQUEST[:length])
    _assert_serves(any_broker)


def test_frame_may_come_byte_by_byte(connection: RawConnection) -> None:
    for byte in API_VERSIONS_REQUEST:
        connection.send(bytes([byte]))
    assert connection.read_response() is not None


def test_requests_in_one_packet_are_answered_in_their_order(connection: RawConnection) -> None:
    requests = [
        request(API_VERSIONS, 0, correlation_id=n)
        if n % 2
        else request(METADATA, 1, struct.pack(">i", 0), n)
        for n in range(200)
    ]
    connection.send(b"".join(requests))
    responses = [connection.read_response() for _ in requests]
    assert [response[0] for response in responses if response] == list(range(200))


def test_good_requests_before_garbage_are_answered(connection: RawConnection) -> None:
    connection.send(API_VERSIONS_REQUEST)
    assert connection.read_response() is not None
    connection.send(b"\xff" * 64)
    assert connection.read_response() is None


def test_api_versions_lists_what_clients_need(connection: RawConnection) -> None:
    connection.send(API_VERSIONS_REQUEST)
    response = connection.read_response()
    assert response is not None
    count = struct.unpack(">i", response[1][2:6])[0]
    ranges = {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", response[1][6:])}
    assert len(ranges) == count
    assert {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22} <= ranges.keys()
    assert ranges[0][0] == 0, "librdkafka before 2.11 would send without compression"


def _produced(raw: RawConnection, topic: str, batch: bytes, acks: int = 1) -> int:
    """Return the error code of the only partition."""
    raw.send(produce_request(topic, batch, acks))
    response = raw.read_response()
    assert response is not None
    body = response[1]
    position = 4 + 2 + len(topic) + 4 + 4
    return int(struct.unpack(">h", body[position : position + 2])[0])


def _some_batch() -> bytearray:
    """Return a batch of one record, value `v`, with a right checksum."""
    import crc32c

    record = bytes([14, 0, 0, 0, 1, 2]) + b"v" + b"\x00"
    tail = (
        struct.pack(">hiqqqhii", 0, 0, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, 1) + record
    )
    head = struct.pack(">qiib", 0, 4 + 1 + 4 + len(tail), -1, 2)
    return bytearray(head + struct.pack(">I", crc32c.crc32c(tail)) + tail)


def _create(broker: Broker, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    deadline = time.monotonic() + 60
    while _end_offset(broker, topic) != 0:  # the controller may know of it before the leader does
        assert time.monotonic() < deadline, "the new topic has no leader"


def test_batches_are_refused_with_kafkas_codes(
    any_broker: Broker, connection: RawConnection, fresh_name: str
) -> None:
    _create(any_broker, fresh_name)
    good = _some_batch()
    flipped = bytearray(good)
    flipped[-2] ^= 1
    assert _produced(connection, fresh_name, bytes(good)) == 0
    assert _produced(connection, fresh_name, bytes(flipped)) == _CORRUPT_MESSAGE
    assert _produced(connection, fresh_name, bytes(good), acks=5) == _INVALID_REQUIRED_ACKS
    assert _produced(connection, fresh_name + "-not-there", bytes(good)) == _UNKNOWN_TOPIC


@pytest.mark.parametrize("cut", [5, 16, 40, 64])
def test_batch_that_is_cut_short_is_not_appended(
    cut: int, any_broker: Broker, fresh_name: str
) -> None:
    _create(any_broker, fresh_name)
    with RawConnection.to(any_broker) as raw:
        raw.send(produce_request(fresh_name, bytes(_some_batch()[:cut])))
        response = raw.read_response()
    if response is not None:
        position = 4 + 2 + len(fresh_name) + 4 + 4
        error, offset = struct.unpack(">hq", response[1][position : position + 10])
        assert error != 0
        assert offset == -1
    assert _end_offset(any_broker, fresh_name) == 0


def _end_offset(broker: Broker, topic: str) -> int:
    """Ask ListOffsets version 1 for the latest offset of partition 0."""
    latest = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, 0, -1)
    with RawConnection.to(broker) as raw:
        raw.send(request(2, 1, latest))
        response = raw.read_response()
    assert response is not None
    return int(struct.unpack(">q", response[1][-8:])[0])


def test_no_response_comes_for_acks_0(
    any_broker: Broker, connection: RawConnection, fresh_name: str
) -> None:
    _create(any_broker, fresh_name)
    connection.send(produce_request(fresh_name, bytes(_some_batch()), acks=0, correlation_id=7))
    connection.send(request(API_VERSIONS, 0, correlation_id=8))
    response = connection.read_response()
    assert response is not None
    assert response[0] == 8
    assert _end_offset(any_broker, fresh_name) == 1


def test_two_hundred_silent_connections_are_borne(any_broker: Broker) -> None:
    silent = [RawConnection.to(any_broker) for _ in range(200)]
    _assert_serves(any_broker)
    for raw in silent:
        raw.socket.close()


def test_client_that_reads_nothing_costs_bounded_memory(any_broker: Broker) -> None:
    before = any_broker.process.resident_bytes()
    with RawConnection.to(any_broker) as raw:
        raw.socket.settimeout(2)
        many = API_VERSIONS_REQUEST * 1000
        try:
            for _ in range(2000):
                raw.socket.sendall(many)
        except TimeoutError:
            pass  # the broker stopped reading: this is what must happen
        else:
            pytest.fail("the broker read 2 million requests whose answers no client read")
        assert any_broker.process.resident_bytes() - before < 64 * _MIB
    _assert_serves(any_broker)
