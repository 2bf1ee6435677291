"""A served registry on a socket, frame by frame: sessions, order, watches, refusals, bad clients."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kavka.core.znodes import EventType, ZnodeError
from kavka.net.clock import SystemClock, SystemRandom
from kavka.registry.registry_server_config import RegistryServerConfig
from kavka.registry.znode_server import ZnodeServer
from kavka.settings.declaration import InvalidSetting
from kavka.storage.disk.os_disk import OsDisk
from kavka.wire.zookeeper.jute import encode
from kavka.wire.zookeeper.messages import (
    AUTH_XID,
    NOTIFICATION_XID,
    PING_XID,
    SET_WATCHES_XID,
    AuthRequest,
    ConnectRequest,
    CreateRequest,
    ErrorResponse,
    GetDataResponse,
    MultiHeader,
    OpCode,
    PathVersionRequest,
    PathWatchRequest,
    SetDataRequest,
    SetWatches2Request,
    WatcherEvent,
    WatchTypeRequest,
)
from support.zookeeper_frames import Client, create, multi, serving

UNIMPLEMENTED, INVALID_ACL, AUTH_FAILED, NO_WATCHER = -6, -114, -115, -121


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


@pytest.mark.parametrize(
    ("asked_ms", "granted_ms"), [(1, 4_000), (10_000, 10_000), (10**6, 40_000), (-5, 4_000)]
)
def test_session_time_outs_lie_between_two_and_twenty_ticks(asked_ms: int, granted_ms: int) -> None:
    async def story() -> None:
        async with serving() as server:
            _client, response = await Client.connected(server.port, timeout_ms=asked_ms)
            assert response.timeout_ms == granted_ms
            assert response.session_id != 0

    run(story())


def test_a_client_older_than_3_4_gets_no_read_only_field() -> None:
    async def story() -> None:
        async with serving() as server:
            client, response = await Client.connected(server.port, tail=b"")
            assert response.session_id != 0
            assert (await client.ask(OpCode.PING, xid=PING_XID)).error == 0

    run(story())


def test_a_session_goes_on_on_another_connection_which_takes_its_place() -> None:
    async def story() -> None:
        async with serving() as server:
            first, begun = await Client.connected(server.port)
            await first.ask(OpCode.CREATE, create("/here", flags=1))
            second, again = await Client.connected(
                server.port, session_id=begun.session_id, password=begun.password
            )
            assert again.session_id == begun.session_id
            assert await first.is_closed()
            assert (await second.ask(OpCode.EXISTS, PathWatchRequest("/here", False))).error == 0

    run(story())


@pytest.mark.parametrize("change", [{"password": b"guess"}, {"password": None}, {"session_id": 99}])
def test_a_session_is_not_resumed_with_a_wrong_password(change: dict[str, Any]) -> None:
    async def story() -> None:
        async with serving() as server:
            _first, begun = await Client.connected(server.port)
            known = {"session_id": begun.session_id, "password": begun.password}
            thief, refused = await Client.connected(server.port, **{**known, **change})
            assert (refused.session_id, refused.timeout_ms) == (0, 0)
            assert await thief.is_closed()

    run(story())


def test_a_client_that_has_seen_more_than_this_server_is_turned_away() -> None:
    async def story() -> None:
        async with serving() as server:
            client = await Client.open(server.port)
            client.send_frame(bytes(encode(ConnectRequest(0, 7, 10_000, 0, bytes(16)))))
            assert await client.is_closed()

    run(story())


def test_closing_a_session_removes_its_ephemeral_nodes_and_the_connection() -> None:
    async def story() -> None:
        async with serving() as server:
            client, _begun = await Client.connected(server.port)
            await client.ask(OpCode.CREATE, create("/here", flags=1))
            assert (await client.ask(OpCode.CLOSE_SESSION)).error == 0
            assert await client.is_closed()
            assert "/here" not in server.znode_server.tree
            assert server.znode_server.sessions() == []

    run(story())


def test_a_silent_session_expires_and_its_connection_is_closed() -> None:
    async def story() -> None:
        async with serving({"tickTime": "10"}) as server:
            client, _begun = await Client.connected(server.port, timeout_ms=1)
            await client.ask(OpCode.CREATE, create("/here", flags=1))
            assert await client.is_closed()
            assert "/here" not in server.znode_server.tree

    run(story())


def test_responses_and_events_come_in_order() -> None:
    async def story() -> None:
        async with serving() as server:
            client, _begun = await Client.connected(server.port)
            await client.ask(OpCode.CREATE, create("/a", b"old"))
            client.send(OpCode.GET_DATA, PathWatchRequest("/a", True))
            client.send(OpCode.SET_DATA, SetDataRequest("/a", b"new", -1))
            client.send(OpCode.GET_DATA, PathWatchRequest("/a", False))
            replies = [await client.receive() for _ in range(4)]
            assert [reply.xid for reply in replies] == [2, NOTIFICATION_XID, 3, 4]
            assert replies[0].read(GetDataResponse).data == b"old"
            event = replies[1].read(WatcherEvent)
            assert event == WatcherEvent(EventType.DATA_CHANGED.value, 3, "/a")
            assert replies[3].read(GetDataResponse).data == b"new"

    run(story())


def test_a_multi_that_is_refused_says_which_operation_did_it() -> None:
    async def story() -> None:
        async with serving() as server:
            client, _begun = await Client.connected(server.port)
            body = multi(
                (OpCode.CREATE, create("/a")),
                (OpCode.CHECK, PathVersionRequest("/a", 5)),
                (OpCode.DELETE, PathVersionRequest("/a", -1)),
            )
            reply = await client.ask(OpCode.MULTI, body)
            codes = []
            while not (header := reply.read(MultiHeader)).done:
                assert header.type == OpCode.ERROR
                codes.append(reply.read(ErrorResponse).error)
            assert codes == [0, ZnodeError.BAD_VERSION, ZnodeError.RUNTIME_INCONSISTENCY]
            assert "/a" not in server.znode_server.tree

    run(story())


def test_several_nodes_are_read_at_once_each_with_its_own_outcome() -> None:
    async def story() -> None:
        async with serving() as server:
            client, _begun = await Client.connected(server.port)
            await client.ask(OpCode.CREATE, create("/a", b"data"))
            body = multi(
                (OpCode.GET_DATA, PathWatchRequest("/a", False)),
                (OpCode.GET_CHILDREN, PathWatchRequest("/missing", False)),
            )
            reply = await client.ask(OpCode.MULTI_READ, body)
            assert reply.read(MultiHeader).type == OpCode.GET_DATA
            assert reply.read(GetDataResponse).data == b"data"
            assert reply.read(MultiHeader).error == ZnodeError.NO_NODE
            assert reply.read(ErrorResponse).error == ZnodeError.NO_NODE
            assert reply.read(MultiHeader).done

    run(story())


@pytest.mark.parametrize(
    ("kind", "request_", "error"),
    [
        (OpCode.CREATE, create("/missing/a"), ZnodeError.NO_NODE),
        (OpCode.CREATE, create("no slash"), ZnodeError.BAD_ARGUMENTS),
        (OpCode.CREATE, create("/a", flags=9), ZnodeError.BAD_ARGUMENTS),
        (OpCode.CREATE, create("/a", flags=4), UNIMPLEMENTED),
        (OpCode.CREATE2, create("/a", flags=5), UNIMPLEMENTED),
        (OpCode.CREATE_CONTAINER, create("/a", flags=4), UNIMPLEMENTED),
        (OpCode.CREATE, CreateRequest("/a", b"", [], 0), INVALID_ACL),
        (OpCode.DELETE, PathVersionRequest("/", -1), ZnodeError.BAD_ARGUMENTS),
        (OpCode.GET_DATA, PathWatchRequest("/missing", True), ZnodeError.NO_NODE),
        (OpCode.REMOVE_WATCHES, WatchTypeRequest("/a", 3), NO_WATCHER),
        (OpCode.ADD_WATCH, WatchTypeRequest("/a", 7), ZnodeError.BAD_ARGUMENTS),
        (OpCode.RECONFIG, None, UNIMPLEMENTED),
        (12345, None, UNIMPLEMENTED),
    ],
)
def test_what_cannot_be_done_is_refused_and_the_connection_stays(
    kind: int, request_: NamedTuple | bytes | None, error: int
) -> None:
    async def story() -> None:
        async with serving() as server:
            client, _begun = await Client.connected(server.port)
            assert (await client.ask(kind, request_)).error == error
            assert (await client.ask(OpCode.PING, xid=PING_XID)).error == 0

    run(story())


@pytest.mark.parametrize(("scheme", "error"), [("digest", 0), ("ip", 0), ("kerberos", AUTH_FAILED)])
def test_identities_are_taken_and_unknown_schemes_end_the_connection(
    scheme: str, error: int
) -> None:
    async def story() -> None:
        async with serving() as server:
            client, _begun = await Client.connected(server.port)
            request = AuthRequest(0, scheme, b"user:secret")
            assert (await client.ask(OpCode.AUTH, request, AUTH_XID)).error == error
            if error:
                assert await client.is_closed()

    run(story())


def test_watches_that_are_set_again_report_missed_events() -> None:
    async def story() -> None:
        async with serving() as server:
            client, begun = await Client.connected(server.port)
            for path in ("/same", "/changed", "/gone", "/parent", "/late"):
                reply = await client.ask(OpCode.CREATE, create(path))
            seen = reply.zxid
            await client.ask(OpCode.SET_DATA, SetDataRequest("/changed", b"", -1))
            await client.ask(OpCode.DELETE, PathVersionRequest("/gone", -1))
            await client.ask(OpCode.CREATE, create("/parent/child"))
            again, _ = await Client.connected(
                server.port, session_id=begun.session_id, password=begun.password
            )
            request = SetWatches2Request(
                seen, ["/same", "/changed", "/gone"], ["/late", "/never"], ["/parent"], [], ["/"]
            )
            again.send(OpCode.SET_WATCHES2, request, SET_WATCHES_XID)
            events = [(await again.receive()).read(WatcherEvent) for _ in range(4)]
            assert [(EventType(event.type).name, event.path) for event in events] == [
                ("DATA_CHANGED", "/changed"),
                ("DELETED", "/gone"),
                ("CREATED", "/late"),
                ("CHILDREN_CHANGED", "/parent"),
            ]
            assert (await again.receive()).xid == SET_WATCHES_XID
            assert len(server.znode_server.watches) == 3  # /same, /never and the recursive one

    run(story())


@pytest.mark.parametrize(
    ("mode", "kind", "notified"),
    [
        (0, 4, [("DATA_CHANGED", "/a"), ("CHILDREN_CHANGED", "/a"), ("DATA_CHANGED", "/a")]),
        (1, 5, [("DATA_CHANGED", "/a"), ("CREATED", "/a/b"), ("DATA_CHANGED", "/a")]),
    ],
)
def test_added_watches_stay_until_they_are_removed(
    mode: int, kind: int, notified: list[tuple[str, str]]
) -> None:
    async def story() -> None:
        async with serving() as server:
            watching, _ = await Client.connected(server.port)
            writing, _ = await Client.connected(server.port)
            await writing.ask(OpCode.CREATE, create("/a"))
            await watching.ask(OpCode.ADD_WATCH, WatchTypeRequest("/a", mode))
            await writing.ask(OpCode.SET_DATA, SetDataRequest("/a", b"1", -1))
            await writing.ask(OpCode.CREATE, create("/a/b"))
            await writing.ask(OpCode.SET_DATA, SetDataRequest("/a", b"2", -1))
            events = [(await watching.receive()).read(WatcherEvent) for _ in range(3)]
            assert [(EventType(event.type).name, event.path) for event in events] == notified
            wrong = await watching.ask(OpCode.CHECK_WATCHES, WatchTypeRequest("/a", 1))
            assert wrong.error == NO_WATCHER
            right = await watching.ask(OpCode.REMOVE_WATCHES, WatchTypeRequest("/a", kind))
            assert right.error == 0
            await writing.ask(OpCode.SET_DATA, SetDataRequest("/a", b"3", -1))
            assert (await watching.ask(OpCode.PING, xid=PING_XID)).error == 0

    run(story())


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x00\x00\x04abcd",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\x16\x03\x01\x02\x00",
        bytes(64),
    ],
)
def test_garbage_closes_the_connection_and_never_the_server(garbage: bytes) -> None:
    async def story() -> None:
        async with serving() as server:
            stranger = await Client.open(server.port)
            stranger.writer.write(garbage)
            assert await stranger.is_closed()
            _client, response = await Client.connected(server.port)
            assert response.session_id != 0

    run(story())


@pytest.mark.parametrize(
    "payload", [b"", b"\0\0\0\1", bytes(4) + b"\0\0\0\1" + b"\x7f\xff\xff\xff"]
)
def test_a_request_without_sense_closes_its_connection(payload: bytes) -> None:
    async def story() -> None:
        async with serving() as server:
            client, _begun = await Client.connected(server.port)
            client.send_frame(payload)
            assert await client.is_closed()

    run(story())


def test_a_request_above_the_largest_size_closes_its_connection() -> None:
    async def story() -> None:
        async with serving({"jute.maxbuffer": "2048"}) as server:
            client, _begun = await Client.connected(server.port)
            assert (await client.ask(OpCode.CREATE, create("/a", bytes(1024)))).error == 0
            client.send(OpCode.CREATE, create("/b", bytes(2048)))
            assert await client.is_closed()
            assert server.znode_server.tree.children("/") == ["a"]

    run(story())


def test_an_address_has_only_so_many_connections() -> None:
    async def story() -> None:
        async with serving({"maxClientCnxns": "2"}) as server:
            _kept = [await Client.connected(server.port) for _ in range(2)]
            third = await Client.open(server.port)
            assert await third.is_closed()

    run(story())


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    """Its requests wait in its own socket: what the server holds for it stays below the send queue's bound."""

    async def story() -> None:
        async with serving() as server:
            client, _begun = await Client.connected(server.port)
            await client.ask(OpCode.CREATE, create("/big", bytes(500_000)))
            (connection,) = server.connections
            for _ in range(200):
                client.send(OpCode.GET_DATA, PathWatchRequest("/big", False))
            other, _ = await Client.connected(server.port)
            while not connection._flow_control.is_paused:
                assert (await other.ask(OpCode.PING, xid=PING_XID)).error == 0
            assert connection.processor is not None
            assert connection.processor.statistics.received < 100
            for _ in range(200):
                assert len(await client.frame()) > 500_000

    run(story())


def test_sessions_and_ephemerals_survive_a_restart_of_the_server(tmp_path: Path) -> None:
    async def opened() -> ZnodeServer:
        return await ZnodeServer.open(OsDisk(), str(tmp_path), SystemClock(), SystemRandom())

    async def story() -> None:
        znode_server = await opened()
        async with serving(znode_server=znode_server) as server:
            client, begun = await Client.connected(server.port)
            await client.ask(OpCode.CREATE, create("/here", flags=1))
        again = await opened()  # the first server was never closed, as after a crash
        async with serving(znode_server=again) as server:
            client, kept = await Client.connected(
                server.port, session_id=begun.session_id, password=begun.password, last_zxid_seen=2
            )
            assert kept.session_id == begun.session_id
            assert (await client.ask(OpCode.EXISTS, PathWatchRequest("/here", False))).error == 0
            await client.ask(OpCode.CLOSE_SESSION)
            assert "/here" not in again.tree
        await again.close()
        await znode_server.close()

    run(story())


class FailingDisk(OsDisk):
    """Refuses every sync once it `is_full`."""

    is_full = False

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return await super().run(work, *args)


def test_a_registry_whose_disk_fails_acknowledges_nothing_more(tmp_path: Path) -> None:
    async def story() -> None:
        disk = FailingDisk()
        znode_server = await ZnodeServer.open(disk, str(tmp_path), SystemClock(), SystemRandom())
        failures: list[OSError] = []
        znode_server.on_failure = failures.append
        async with serving(znode_server=znode_server) as server:
            reading, _ = await Client.connected(server.port)
            writing, _ = await Client.connected(server.port)
            disk.is_full = True
            writing.send(OpCode.CREATE, create("/lost"))
            assert await writing.is_closed()
            assert [failure.errno for failure in failures] == [errno.ENOSPC]
            reading.send(OpCode.EXISTS, PathWatchRequest("/lost", False))
            assert await reading.is_closed()
        await znode_server.close()

    run(story())


async def word(port: int, letters: bytes) -> str:
    client = await Client.open(port)
    client.writer.write(letters)
    return (await client.reader.read()).decode()


def test_four_letter_words_are_answered_if_they_are_on_the_list() -> None:
    async def story() -> None:
        async with serving() as server:
            assert "Mode: standalone\nNode count: 1\n" in await word(server.port, b"srvr")
            assert await word(server.port, b"ruok") == (
                "ruok is not executed because it is not in the whitelist.\n"
            )
        async with serving({"4lw.commands.whitelist": "ruok, isro"}) as server:
            assert await word(server.port, b"ruok") == "imok"
            assert await word(server.port, b"isro") == "rw"
            assert "not in the whitelist" in await word(server.port, b"srvr")

    run(story())


def test_a_line_end_behind_a_word_does_not_break_the_connection() -> None:
    """`echo ruok | nc` sends one: a socket that is closed with bytes unread is reset, which nc calls a failure."""

    async def story() -> None:
        async with serving() as server:
            assert await word(server.port, b"ruok\n") == await word(server.port, b"ruok")

    run(story())


def test_four_letter_words_list_sessions_and_watches() -> None:
    async def story() -> None:
        async with serving({"4lw.commands.whitelist": "*"}) as server:
            client, begun = await Client.connected(server.port)
            await client.ask(OpCode.CREATE, create("/here", flags=1))
            await client.ask(OpCode.EXISTS, PathWatchRequest("/here", True))
            assert f"0x{begun.session_id:x}:\n\t/here\n" in await word(server.port, b"dump")
            assert await word(server.port, b"wchs") == (
                "1 connections watching 1 paths\nTotal watches:1\n"
            )
            assert "zk_ephemerals_count\t1\n" in await word(server.port, b"mntr")
            assert f"sid=0x{begun.session_id:x},to=10000" in await word(server.port, b"cons")
            assert f"clientPort={server.port}\n" in await word(server.port, b"conf")
            assert "zookeeper.version=3.9" in await word(server.port, b"envi")
            assert "recved=2" in await word(server.port, b"stat")

    run(story())


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"clientPort": "70000"}, "clientPort"),
        ({"minSessionTimeout": "9000", "maxSessionTimeout": "8000"}, "above maxSessionTimeout"),
        ({"server.1": "a:2888:3888", "server.2": "b:2888:3888"}, "ensemble"),
    ],
)
def test_settings_that_cannot_be_are_refused(texts: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        RegistryServerConfig.parse(texts)


def test_names_that_are_not_known_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    RegistryServerConfig.parse({"clientport": "1", "initLimit": "5"})
    assert "name=clientport; did you mean clientPort?" in caplog.text
