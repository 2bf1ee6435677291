"""A throttle time that is written into an encoded response, for every API and version."""

from __future__ import annotations

import pytest

from kavka.wire.apis import APIS, ApiKey
from kavka.wire.frame import EncodedResponse, encode_response, with_throttle_time

ENCODED = [
    (key, version)
    for key in (ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.HEARTBEAT)
    for version in range(APIS[key].min_version, APIS[key].max_version + 1)
]


@pytest.mark.parametrize(("key", "version"), ENCODED)
def test_the_frame_is_that_of_a_message_with_the_throttle_time(key: ApiKey, version: int) -> None:
    response = APIS[key].response()
    plain = b"".join(map(bytes, encode_response(response(), version, 7)))  # type: ignore[arg-type]
    message = response(throttle_time_ms=1234)
    expected = b"".join(map(bytes, encode_response(message, version, 7)))  # type: ignore[arg-type]
    frame = with_throttle_time(EncodedResponse(plain), response, version, 1234)
    assert bytes(frame) == expected
