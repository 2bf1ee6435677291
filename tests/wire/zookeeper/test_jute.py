from typing import NamedTuple, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.wire.zookeeper import messages
from kavka.wire.zookeeper.jute import CorruptPacket, Reader, append, decode, encode

RECORDS = sorted(
    (
        kind
        for kind in vars(messages).values()
        if isinstance(kind, type) and issubclass(kind, tuple) and kind is not tuple
    ),
    key=lambda kind: kind.__name__,
)
PRIMITIVES = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "boolean": st.booleans(),
    "buffer": st.none() | st.binary(max_size=20),
    "ustring": st.text(max_size=20),
}


def _values(hint):
    if getattr(hint, "__origin__", None) is list:
        return st.lists(_values(hint.__args__[0]), max_size=3)
    if hasattr(hint, "__metadata__"):
        return PRIMITIVES[hint.__metadata__[0]]
    return _records(hint)


def _records(kind):
    hints = get_type_hints(kind, include_extras=True)
    return st.tuples(*(_values(hints[name]) for name in kind._fields)).map(kind._make)


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@given(st.data())
def test_a_record_is_read_as_it_was_written(kind, data):
    record = data.draw(_records(kind))

    reader = Reader(encode(record))

    assert decode(kind, reader) == record
    assert reader.remaining == 0


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@given(st.binary(max_size=60))
def test_garbage_is_a_record_or_refused(kind, data):
    try:
        record = decode(kind, Reader(data))
    except CorruptPacket:
        return
    assert isinstance(record, kind)


def test_a_vector_longer_than_the_packet_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(CorruptPacket, match="vector of 2147483647"):
        decode(messages.ChildrenResponse, Reader(b"\x7f\xff\xff\xff"))


def test_records_stand_one_after_another() -> None:
    out = encode(messages.RequestHeader(7, messages.OpCode.GET_DATA))
    append(out, messages.PathWatchRequest("/a", True))

    assert bytes(out) == b"\0\0\0\x07\0\0\0\x04\0\0\0\x02/a\x01"


def test_a_null_vector_is_empty() -> None:
    assert decode(messages.ChildrenResponse, Reader(b"\xff\xff\xff\xff")).children == []


class Nested(NamedTuple):
    header: messages.RequestHeader
    acl: list[messages.Acl]


def test_records_hold_records() -> None:
    nested = Nested(messages.RequestHeader(1, 2), messages.OPEN_ACL)

    assert decode(Nested, Reader(encode(nested))) == nested
