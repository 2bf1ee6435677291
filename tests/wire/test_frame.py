"""Headers, sizes, and the oddities of ApiVersions and ControlledShutdown."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.wire.codec import CorruptFrame, decode
from kavka.wire.frame import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from kavka.wire.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApi,
)
from kavka.wire.messages.controlled_shutdown import ControlledShutdownRequest
from kavka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kavka.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from kavka.wire.messages.sasl_handshake import SaslHandshakeRequest


def joined(parts: list) -> bytes:  # type: ignore[type-arg]
    return b"".join(parts)


@pytest.mark.parametrize("version", [0, 3, 4])
@pytest.mark.parametrize("client_id", [None, "", "kävka"])
def test_a_request_comes_back(version: int, client_id: str | None) -> None:
    message = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    framed = joined(encode_request(message, version, 77, client_id))
    frame = framed[4:]
    assert int.from_bytes(framed[:4], "big") == len(frame)
    header = decode_request_header(frame)
    assert header == RequestHeader(12, version, 77, client_id, header.body_position)
    assert decode(HeartbeatRequest, version, frame, header.body_position) == message


@pytest.mark.parametrize("version", [0, 4])
def test_a_response_comes_back(version: int) -> None:
    message = HeartbeatResponse(error_code=27)
    framed = joined(encode_response(message, version, -5))
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    assert decode_response(HeartbeatResponse, version, framed[4:]) == (-5, message)


def test_a_client_id_is_not_compact_in_flexible_versions() -> None:
    framed = joined(encode_request(HeartbeatRequest(), 4, 1, "ab"))
    assert framed[4:] == b"\0\x0c\0\x04\0\0\0\x01\0\x02ab\0" + b"\x01" + bytes(4) + b"\x01\x00\x00"


def test_an_api_without_flexible_versions_has_the_short_header() -> None:
    framed = joined(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, None))
    assert framed[4:] == b"\0\x11\0\x01\0\0\0\x01\xff\xff\0\x05PLAIN"


@pytest.mark.parametrize(("version", "header"), [(0, ""), (1, "0002 6162"), (3, "0002 6162 00")])
def test_controlled_shutdown_has_no_client_id_in_its_first_version(
    version: int, header: str
) -> None:
    message = ControlledShutdownRequest(broker_id=2)
    framed = joined(encode_request(message, version, 1, "ab"))
    before_body = b"\0\x07" + bytes([0, version]) + b"\0\0\0\x01" + bytes.fromhex(header)
    assert framed[4:].startswith(before_body + b"\0\0\0\x02")
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    decoded = decode_request_header(framed[4:])
    client_id = "ab" if version else None
    assert decoded == RequestHeader(7, version, 1, client_id, len(before_body))


def test_the_size_counts_records_that_are_parts_of_their_own() -> None:
    partition = ProduceRequestPartition(records=b"x" * 50_000)
    topic = ProduceRequestTopic(name="t", partition_data=[partition])
    parts = encode_request(ProduceRequest(topic_data=[topic]), 9, 1, "c")
    framed = joined(parts)
    assert len(parts) == 3
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4


@pytest.mark.parametrize("version", range(5))
def test_a_response_to_api_versions_never_has_tags_in_its_header(version: int) -> None:
    message = ApiVersionsResponse(api_keys=[ApiVersionsResponseApi(api_key=18, max_version=4)])
    framed = joined(encode_response(message, version, 9))
    assert framed[4:10] == b"\0\0\0\x09\0\0"
    assert decode_response(ApiVersionsResponse, version, framed[4:]) == (9, message)


def test_unsupported_api_versions_is_read_as_version_0() -> None:
    message = ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersionsResponseApi(api_key=18, max_version=2)]
    )
    frame = joined(encode_response(message, 0, 9))[4:]
    assert decode_response(ApiVersionsResponse, 4, frame) == (9, message)


def test_the_header_of_an_api_versions_request_too_new_can_be_read() -> None:
    request = ApiVersionsRequest(client_software_name="n", client_software_version="v")
    frame = bytearray(joined(encode_request(request, 4, 5, "c"))[4:])
    frame[2:4] = b"\0\x63"
    assert decode_request_header(frame)[:4] == (18, 99, 5, "c")


def test_the_header_of_an_unknown_key_can_be_read() -> None:
    header = decode_request_header(b"\x27\x0f\0\x01\0\0\0\x01\xff\xff" + b"rest")
    assert header == RequestHeader(9999, 1, 1, None, 10)


def test_tags_in_headers_are_skipped() -> None:
    frame = b"\0\x0c\0\x04\0\0\0\x01\xff\xff" + b"\x01\x07\x03abc"
    assert decode_request_header(frame).body_position == len(frame)
    response = b"\0\0\0\x01" + b"\x01\x07\x03abc" + b"\0\0\0\0\0\x1b\0"
    assert decode_response(HeartbeatResponse, 4, response)[1].error_code == 27


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x0c\0\x04\0\0\0\x01",
        b"\0\x0c\0\x04\0\0\0\x01\0\x05ab",
        b"\0\x0c\0\x04\0\0\0\x01\0\x01\xff\0",
    ],
)
def test_a_header_that_is_cut_or_not_text_is_corrupt(frame: bytes) -> None:
    with pytest.raises(CorruptFrame, match="RequestHeader"):
        decode_request_header(frame)


@given(st.binary(max_size=40))
def test_arbitrary_frames_are_read_or_corrupt(frame: bytes) -> None:
    with contextlib.suppress(CorruptFrame):
        assert decode_request_header(frame).body_position <= len(frame)
    for version in (0, 4):
        with contextlib.suppress(CorruptFrame):
            decode_response(HeartbeatResponse, version, frame)
        with contextlib.suppress(CorruptFrame):
            decode_response(ApiVersionsResponse, version, frame)
