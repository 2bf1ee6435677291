"""Other people's clients write and read with every codec, with and without keys, headers and groups."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kavka_compat.brokers import Broker
from kavka_compat.clients import CLIENTS, CODECS, Client, Librdkafka, Message

# the deprecations are those of the libraries' own code
pytestmark = [pytest.mark.compat, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

_ALL = [make() for make in CLIENTS]
_LIBRARIES = [client for client in _ALL if client.name != "kcat"]
every_client = pytest.mark.parametrize("client", _ALL, ids=lambda client: client.name)
every_library = pytest.mark.parametrize("client", _LIBRARIES, ids=lambda client: client.name)


def _create(broker: Broker, topic: str, partitions: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def _plain(count: int) -> list[Message]:
    return [Message(b"value %d" % n, b"key %d" % (n % 7), (("h", b"1"),)) for n in range(count)]


@pytest.mark.parametrize("codec", CODECS)
@every_client
def test_what_one_client_writes_every_client_reads(
    client: Client, codec: str, any_broker: Broker, fresh_name: str
) -> None:
    _create(any_broker, fresh_name)
    messages = _plain(100)
    client.produce(any_broker.bootstrap, fresh_name, messages, codec, idempotent=False)
    for reader in _ALL:
        found = reader.consume(any_broker.bootstrap, fresh_name, 100)
        assert sorted(f.message for f in found) == sorted(messages), reader.name


_ODD = [
    Message(b"no key"),
    Message(b"", b""),
    Message(None, b"tombstone"),
    Message(b"\x00\xff" * 5000, b"binary\n"),
    Message(b"twice", b"k", (("same", b"1"), ("same", b"2"), ("", b""))),
    Message("žluťoučký kůň".encode(), "klíč".encode(), (("hlavička", b"\x00"),)),
]


@pytest.mark.parametrize("codec", ["none", "lz4"])
@every_library
def test_odd_records_come_back_as_they_were(
    client: Client, codec: str, any_broker: Broker, fresh_name: str
) -> None:
    _create(any_broker, fresh_name, partitions=1)
    client.produce(any_broker.bootstrap, fresh_name, _ODD, codec, idempotent=True)
    for reader in _LIBRARIES:
        found = reader.consume(any_broker.bootstrap, fresh_name, len(_ODD))
        assert [f.message for f in found] == _ODD, reader.name
        assert [f.offset for f in found] == list(range(len(_ODD)))


@every_client
def test_idempotent_producer_keeps_order(
    client: Client, any_broker: Broker, fresh_name: str
) -> None:
    _create(any_broker, fresh_name, partitions=1)
    messages = [Message(b"%05d" % n) for n in range(3000)]
    client.produce(any_broker.bootstrap, fresh_name, messages, "none", idempotent=True)
    found = Librdkafka().consume(any_broker.bootstrap, fresh_name, 3000)
    assert [f.message.value for f in found] == [m.value for m in messages]


@every_client
def test_group_goes_on_where_it_stopped(
    client: Client, any_broker: Broker, fresh_name: str
) -> None:
    _create(any_broker, fresh_name, partitions=2)
    first, second = _plain(20), [Message(b"later %d" % n, b"k%d" % n) for n in range(20)]
    client.produce(any_broker.bootstrap, fresh_name, first, "none", idempotent=False)
    found = client.consume(any_broker.bootstrap, fresh_name, 20, group=fresh_name)
    assert sorted(f.message for f in found) == sorted(first)
    client.produce(any_broker.bootstrap, fresh_name, second, "none", idempotent=False)
    found = client.consume(any_broker.bootstrap, fresh_name, 20, group=fresh_name)
    assert sorted(f.message for f in found) == sorted(second)


@every_library
def test_time_stamps_are_the_producers(client: Client, any_broker: Broker, fresh_name: str) -> None:
    _create(any_broker, fresh_name, partitions=1)
    start = 1_700_000_000_000
    messages = [Message(b"v", timestamp_ms=start + n * 1000) for n in range(10)]
    client.produce(any_broker.bootstrap, fresh_name, messages, "zstd", idempotent=False)
    found = client.consume(any_broker.bootstrap, fresh_name, 10)
    assert [f.message.timestamp_ms for f in found] == [m.timestamp_ms for m in messages]


@every_client
def test_first_write_creates_the_topic(client: Client, any_broker: Broker, fresh_name: str) -> None:
    client.produce(any_broker.bootstrap, fresh_name, _plain(5), "none", idempotent=False)
    assert len(client.consume(any_broker.bootstrap, fresh_name, 5)) == 5


@every_library
def test_records_of_a_megabyte_fit(client: Client, any_broker: Broker, fresh_name: str) -> None:
    _create(any_broker, fresh_name, partitions=1)
    messages = [Message(bytes([n]) * 990_000) for n in range(5)]
    client.produce(any_broker.bootstrap, fresh_name, messages, "none", idempotent=False)
    found = client.consume(any_broker.bootstrap, fresh_name, 5)
    assert [f.message for f in found] == messages
