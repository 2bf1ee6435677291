"""Requests that close their connection, and connections that are refused, are counted and can raise an alarm."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from kavka.broker.api import heartbeat
from kavka.wire.apis import ApiKey
from kavka.wire.frame import encode_request
from kavka.wire.messages.heartbeat import HeartbeatRequest
from kavka.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kavka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.one_broker import Served

ON = {"kavka__metrics__port": "0"}
REFUSED = "kavka_network_requests_refused_total"
FAILED = "kavka_network_requests_failed_total"
CONNECTIONS = "kavka_network_connections_refused_total"


async def closes(served: Served, data: bytes) -> None:
    """Send bytes on a connection of their own, which the broker must close without a response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    try:
        writer.write(data)
        assert await reader.read() == b""
    except ConnectionError:
        pass
    finally:
        writer.close()


def encoded(request: Any, version: int) -> bytes:
    return b"".join(bytes(part) for part in encode_request(request, version, 1, "test"))  # type: ignore[arg-type]


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def head(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, 1, -1)


def label(request: str, reason: str) -> str:
    return f'{{request="{request}",reason="{reason}"}}'


def test_a_refused_request_counts_by_api_and_reason(run: Any, page: Any) -> None:
    names = [MetadataRequestTopic(name="") for _ in range(400_000)]
    protocols = [JoinGroupRequestProtocol(name=f"p{n}", metadata=b"") for n in range(2000)]
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    cases = [
        (framed(head(ApiKey.HEARTBEAT, 0)), label("Heartbeat", "corrupt")),
        (framed(b"\x00"), label("Unknown", "corrupt")),
        (framed(head(ApiKey.HEARTBEAT, 99) + b"\0"), label("Heartbeat", "unsupported_version")),
        (framed(head(9999, 0)), label("Unknown", "unsupported_version")),
        (struct.pack(">i", 200_000_000), label("Unknown", "frame_size")),
        (encoded(MetadataRequest(topics=names), 1), label("Metadata", "decoded_size")),
        (encoded(join, 2), label("JoinGroup", "count")),
    ]

    async def story(served: Served) -> None:
        found = await page(served.broker)
        assert [found[name] for name in (REFUSED, FAILED, CONNECTIONS)] == [0, 0, 0]
        for data, _ in cases:
            await closes(served, data)
        found = await page(served.broker)
        counted = {name: value for name, value in found.items() if name.startswith(REFUSED)}
        assert counted == {REFUSED: len(cases), **{REFUSED + labels: 1 for _, labels in cases}}

    run(story, kavka__request__decoded__max__bytes=str(9 << 20), **ON)


def test_a_response_that_is_too_large_counts_as_refused(run: Any, page: Any) -> None:
    async def story(served: Served) -> None:
        names = [MetadataRequestTopic(name=f"{n:0240}") for n in range(6000)]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        await closes(served, encoded(request, 9))
        found = await page(served.broker)
        assert found[REFUSED + label("Metadata", "response_size")] == 1

    run(story, kavka__response__max__bytes=str(1 << 20), **ON)


@pytest.mark.parametrize("failure", ["io_error", "internal_error"])
def test_requests_that_the_broker_gives_up_are_counted(
    run: Any, page: Any, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    async def full(context: object, request: object) -> None:
        raise OSError("disk full")

    def faulty(context: object, request: object) -> None:
        raise ZeroDivisionError

    async def story(served: Served) -> None:
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        await closes(served, encoded(request, 0))
        found = await page(served.broker)
        assert found[FAILED + label("Heartbeat", failure)] == 1

    monkeypatch.setattr(heartbeat, "handle", {"io_error": full, "internal_error": faulty}[failure])
    run(story, **ON)


def test_refused_connections_are_counted_by_their_setting(run: Any, page: Any) -> None:
    async def story(served: Served) -> None:
        await closes(served, b"")
        found = await page(served.broker)
        assert found[CONNECTIONS + '{setting="max.connections.per.ip"}'] == 1

    run(story, max__connections__per__ip="1", **ON)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            struct.pack(">i", 200_000_000),
            "frame of 200000000 bytes, allowed are 0 to 104857600: raise socket.request.max.bytes",
        ),
        (struct.pack(">i", -2), "frame of -2 bytes, allowed are 0 to 104857600"),
    ],
)
def test_a_frame_above_the_limit_names_the_setting(
    run: Any, caplog: pytest.LogCaptureFixture, data: bytes, said: str
) -> None:
    async def story(served: Served) -> None:
        await closes(served, data)

    run(story)
    (record,) = [r.getMessage() for r in caplog.records if "connection closed" in r.getMessage()]
    assert record.endswith(f"reason={said}")
