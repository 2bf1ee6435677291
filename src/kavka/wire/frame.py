"""Headers of requests and responses, and the four bytes of size before a frame.

    | size i32 | api key i16 | api version i16 | correlation id i32 | client id string? | tags | body |    request
    | size i32 | correlation id i32 | tags | body |                                                      response

Tags are there in flexible versions only. The client id is never compact; ControlledShutdown v0 has none. A response
to ApiVersions never has tags in its header, because a client reads it before it knows what the broker speaks (KIP-511).

Functions that decode take the frame without its size; functions that encode give it with the size.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from struct import Struct
from struct import error as StructError
from typing import NamedTuple, TypeVar

from kavka.io import Buffer, Sendable
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.codec import CorruptFrame, decode, encode_in_slices, encode_into
from kavka.wire.primitives import length_of, skip_tags
from kavka.wire.schema import fields_of, schema_of

M = TypeVar("M")

_REQUEST = Struct(">hhih")
_REQUEST_WITH_SIZE = Struct(">ihhih")
_CLIENT_ID_POSITION = 8
_RESPONSE = Struct(">i")
_RESPONSE_WITH_SIZE = Struct(">ii")
_ERROR_CODE = Struct(">h")
_UNSUPPORTED_VERSION = 35
_THROTTLE_TIME = "throttle_time_ms"
_NEVER = 1 << 15

EncodedResponse = bytearray
"""A response that its maker has encoded: the frame, with its size.

An alias: to append to a subclass takes three times as long, for each Produce.
"""

_FLEXIBLE_FROM = {
    key: _NEVER if api.flexible_from is None else api.flexible_from for key, api in APIS.items()
}


class RequestHeader(NamedTuple):
    """The header that precedes the body of a request."""

    api_key: int
    """The API key, unchecked: it may be unknown."""
    api_version: int
    """Not checked either."""
    correlation_id: int
    client_id: str | None
    body_position: int
    """Position of the body in the frame."""


def decode_request_header(frame: Buffer) -> RequestHeader:
    """Read the header of a request. Raise CorruptFrame when the frame holds none."""
    try:
        api_key, version, correlation_id, length = _REQUEST.unpack_from(frame)
        if version == 0 and api_key == ApiKey.CONTROLLED_SHUTDOWN:
            return RequestHeader(api_key, version, correlation_id, None, _CLIENT_ID_POSITION)
        position = _REQUEST.size
        client_id = None
        if length >= 0:
            position += length
            if position > len(frame):
                raise ValueError("the client id runs past the end")
            client_id = str(frame[_REQUEST.size : position], "utf-8")
        if version >= _FLEXIBLE_FROM.get(api_key, _NEVER):
            count = frame[position]
            position += 1
            if count:
                position = skip_tags(frame, position, count, len(frame))
    except (IndexError, StructError, ValueError) as error:
        raise CorruptFrame("RequestHeader", 2, 0, str(error)) from error
    fields = (api_key, version, correlation_id, client_id, position)
    return tuple.__new__(RequestHeader, fields)


def encode_request(
    message: object, version: int, correlation_id: int, client_id: str | None
) -> list[Sendable]:
    """Return a request as a frame with size and header in its first buffer. Raise as `codec.encode_into`."""
    head = _request_head(type(message), version, correlation_id, client_id)
    return _frame(message, version, head)


def frame_request(
    cls: type,
    version: int,
    correlation_id: int,
    client_id: str | None,
    body: Sequence[bytes],
) -> list[Sendable]:
    """Return a request of class `cls` as `encode_request` does, from an encoded body, whose parts are not copied."""
    head = _request_head(cls, version, correlation_id, client_id)
    return _framed(head, [head, *body], bytearray())


def _request_head(cls: type, version: int, correlation_id: int, client_id: str | None) -> bytearray:
    schema = schema_of(cls)
    assert schema.api_key is not None, f"{schema.name} is not a request"
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    out = bytearray(_REQUEST_WITH_SIZE.pack(0, schema.api_key, version, correlation_id, length))
    out += name
    if version == 0 and schema.api_key == ApiKey.CONTROLLED_SHUTDOWN:
        del out[4 + _CLIENT_ID_POSITION :]
    if version in schema.flexible:
        out.append(0)
    return out


def encode_response(message: object, version: int, correlation_id: int) -> list[Sendable]:
    """Return a response as a frame with size and header in its first buffer. Raise as `codec.encode_into`."""
    return _frame(message, version, _response_head(message, version, correlation_id))


def encode_response_in_slices(
    message: object, version: int, correlation_id: int
) -> Generator[int, None, list[Sendable]]:
    """Encode as `encode_response`, step by step; yield how many bytes were written after each."""
    out = _response_head(message, version, correlation_id)
    parts: list[Sendable] = []
    last = yield from encode_in_slices(message, version, out, parts)
    return _framed(out, parts, last)


def with_throttle_time(
    frame: EncodedResponse, cls: type, version: int, throttle_ms: int
) -> EncodedResponse:
    """Write `throttle_time_ms` into the frame of a response of class `cls`, if its version has that; return it."""
    first = next(field for field in fields_of(cls) if version in field.versions)
    if first.name == _THROTTLE_TIME:
        position = _RESPONSE_WITH_SIZE.size + _has_response_tags(cls, version)
        _RESPONSE.pack_into(frame, position, throttle_ms)
        return frame
    body: Buffer = bytes(frame[_RESPONSE.size :])
    response: object
    correlation_id, response = decode_response(cls, version, body)
    setattr(response, _THROTTLE_TIME, throttle_ms)
    (part,) = encode_response(response, version, correlation_id)
    assert isinstance(part, bytearray)
    frame[:] = part
    return frame


def _response_head(message: object, version: int, correlation_id: int) -> bytearray:
    out = bytearray(_RESPONSE_WITH_SIZE.pack(0, correlation_id))
    if _has_response_tags(type(message), version):
        out.append(0)
    return out


def _has_response_tags(cls: type, version: int) -> bool:
    schema = schema_of(cls)
    return version in schema.flexible and schema.api_key != ApiKey.API_VERSIONS


def _frame(message: object, version: int, out: bytearray) -> list[Sendable]:
    parts: list[Sendable] = []
    return _framed(out, parts, encode_into(message, version, out, parts))


def _framed(out: bytearray, parts: list[Sendable], last: bytearray) -> list[Sendable]:
    """Return a frame with its size, in front of `out`, filled in."""
    if last:
        parts.append(last)
    size = len(out) if len(parts) == 1 else sum(map(length_of, parts))
    # The first part is `out` itself: nothing is put into parts without what was written before it.
    _RESPONSE.pack_into(out, 0, size - 4)
    return parts


def decode_response(cls: type[M], version: int, frame: Buffer) -> tuple[int, M]:
    """Return the correlation id and the message of a response. Raise CorruptFrame when it is not a `cls`.

    A broker that does not know the version of an ApiVersions request answers UNSUPPORTED_VERSION in version 0.
    """
    try:
        (correlation_id,) = _RESPONSE.unpack_from(frame)
        position = _RESPONSE.size
        if _has_response_tags(cls, version):
            position += 1
            count = frame[position - 1]
            if count:
                position = skip_tags(frame, position, count, len(frame))
        elif schema_of(cls).api_key == ApiKey.API_VERSIONS:
            (error_code,) = _ERROR_CODE.unpack_from(frame, position)
            version = 0 if error_code == _UNSUPPORTED_VERSION else version
    except (IndexError, StructError, ValueError) as error:
        raise CorruptFrame("ResponseHeader", version, 0, str(error)) from error
    return correlation_id, decode(cls, version, frame, position)
