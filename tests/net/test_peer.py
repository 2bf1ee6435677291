"""The peer against bytes written by hand with the codec."""

import asyncio
import ssl
import struct
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from kavka.errors import ErrorCode, KafkaError
from kavka.net.network import TcpNetwork
from kavka.net.peer import Peer
from kavka.wire.apis import ApiKey
from kavka.wire.codec import CorruptFrame
from kavka.wire.frame import decode_request_header, encode_request, encode_response
from kavka.wire.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApi
from kavka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kavka.wire.messages.list_groups import ListGroupsRequest

SERVED = {ApiKey.API_VERSIONS: (0, 3), ApiKey.HEARTBEAT: (0, 4), ApiKey.LIST_GROUPS: (90, 99)}


def versions(served):
    apis = [
        ApiVersionsResponseApi(api_key=k, min_version=low, max_version=high)
        for k, (low, high) in served.items()
    ]
    return ApiVersionsResponse(api_keys=apis)


class Server:
    """Answers ApiVersions by itself and everything else by `behave(writer, header)`."""

    def __init__(self, behave=None, served=SERVED, oldest=False):
        self.behave = behave
        self.served = served
        self.oldest = oldest  # knows ApiVersions only in version 0; None never answers
        self.headers = []
        self.connections = []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error):
        self.server.close()
        await asyncio.gather(*self.connections)

    async def serve(self, reader, writer):
        self.connections.append(asyncio.current_task())
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                header = decode_request_header(await reader.readexactly(size))
                self.headers.append(header)
                if header.api_key == ApiKey.API_VERSIONS:
                    self.answer_versions(writer, header)
                else:
                    self.behave(writer, header)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            await close(writer)

    def answer_versions(self, writer, header):
        if self.oldest is None:
            return
        answer = versions(self.served)
        version = header.api_version
        if self.oldest and version > 0:
            answer = versions({ApiKey.API_VERSIONS: (0, 0)})
            answer.error_code = ErrorCode.UNSUPPORTED_VERSION
            version = 0
        writer.write(b"".join(encode_response(answer, version, header.correlation_id)))  # type: ignore[arg-type]


async def close(writer):
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def answer(writer, header, code=0):
    response = HeartbeatResponse(error_code=code)
    writer.write(b"".join(encode_response(response, header.api_version, header.correlation_id)))  # type: ignore[arg-type]


def run(server, work):
    async def main():
        async with server:
            peer = await Peer.connect(TcpNetwork(), "127.0.0.1", server.port, client_id="me")
            try:
                return await work(peer)
            finally:
                peer.close()
                await peer.wait_closed()

    return asyncio.run(main())


def heartbeat():
    return HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def test_versions_are_negotiated_and_requests_answered() -> None:
    server = Server(answer)

    async def work(peer):
        assert peer.version_of(ApiKey.HEARTBEAT) == 4
        assert peer.version_of(ApiKey.HEARTBEAT, newest=2) == 2
        assert peer.supports(ApiKey.HEARTBEAT)
        return await peer.send(heartbeat())

    assert run(server, work) == HeartbeatResponse()
    assert [(h.api_key, h.api_version, h.client_id) for h in server.headers] == [
        (ApiKey.API_VERSIONS, 3, "me"),
        (ApiKey.HEARTBEAT, 4, "me"),
    ]


def test_a_broker_that_knows_only_version_0_is_asked_in_it() -> None:
    server = Server(answer, oldest=True)

    async def work(peer):
        await peer.send(heartbeat())

    run(server, work)
    assert [h.api_version for h in server.headers] == [3, 0, 4]


def test_an_api_without_a_common_version_is_refused_before_it_is_sent() -> None:
    async def work(peer):
        with pytest.raises(KafkaError, match="does not serve LIST_GROUPS"):
            peer.post(ListGroupsRequest())
        assert not peer.supports(ApiKey.LIST_GROUPS)

    run(Server(answer), work)


def test_requests_are_pipelined_and_responses_find_their_requests_in_any_order() -> None:
    held = []

    def behave(writer, header):
        held.append(header)
        if len(held) == 3:
            for late in reversed(held):
                answer(writer, late, code=late.correlation_id)

    async def work(peer):
        posted = [peer.post(heartbeat()) for _ in range(3)]
        assert peer.in_flight == 3
        return [r.error_code for r in await asyncio.gather(*posted)]

    assert run(Server(behave), work) == [1, 2, 3]


def test_a_late_response_closes_the_connection_for_all_requests() -> None:
    async def work(peer):
        slow = peer.post(heartbeat(), timeout_ms=20)
        other = peer.post(heartbeat(), timeout_ms=60_000)
        with pytest.raises(TimeoutError, match="did not answer in 20 ms"):
            await slow
        with pytest.raises(ConnectionError, match="too late"):
            await other
        assert peer.is_closed
        with pytest.raises(ConnectionError):
            peer.post(heartbeat())

    run(Server(lambda writer, header: None), work)


def test_a_request_has_its_own_time_whatever_waits_beside_it() -> None:
    """One timer serves all: a shorter time moves it, and one that is answered leaves the rest theirs."""
    answered: list[int] = []

    def behave(writer, header):
        if header.correlation_id == 1:
            answered.append(header.correlation_id)
            answer(writer, header)

    async def work(peer):
        await peer.post(heartbeat(), timeout_ms=20)
        long = peer.post(heartbeat(), timeout_ms=60_000)
        short = peer.post(heartbeat(), timeout_ms=40)
        with pytest.raises(TimeoutError, match="did not answer in 40 ms"):
            await short
        with pytest.raises(ConnectionError, match="too late"):
            await long

    run(Server(behave), work)
    assert answered == [1]


class Receiver:
    """Takes a response, and may send the next request meanwhile."""

    def __init__(self, then=None):
        self.outcome: asyncio.Future[HeartbeatResponse] = asyncio.get_running_loop().create_future()
        self.then = then

    def done(self):
        return self.outcome.done()

    def set_result(self, result):
        self.outcome.set_result(result)
        if self.then is not None:
            self.then()

    def set_exception(self, exception):
        self.outcome.set_exception(exception)


def post_to(peer, receiver):
    encode = partial(encode_request, heartbeat())
    peer.post_to(receiver, ApiKey.HEARTBEAT, 4, 60_000, encode)


def test_a_receiver_sends_the_next_request_before_anything_else_runs() -> None:
    order: list[str] = []

    async def work(peer):
        second = Receiver()

        def then():
            post_to(peer, second)
            order.append("posted")

        first = Receiver(then)
        first.outcome.add_done_callback(lambda _: order.append("callbacks"))
        post_to(peer, first)
        assert await first.outcome == HeartbeatResponse()
        assert await second.outcome == HeartbeatResponse()

    run(Server(answer), work)
    assert order == ["posted", "callbacks"]


def test_a_receiver_learns_that_there_will_be_no_response() -> None:
    async def work(peer):
        receiver = Receiver()
        post_to(peer, receiver)
        with pytest.raises(ConnectionError, match="was lost"):
            await receiver.outcome

    run(Server(lambda writer, header: writer.close()), work)


def test_a_callback_has_the_response_before_anything_else_runs() -> None:
    seen: list[Any] = []
    handled: list[dict[str, Any]] = []

    async def work(peer):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: handled.append(context))
        came = loop.create_future()

        def call(response, error):
            seen.append((response, error))
            loop.call_soon(seen.append, "later")
            if len(seen) == 1:
                peer.post_then(heartbeat(), 4, 60_000, call)
                raise ValueError("of the callback")
            came.set_result(None)

        peer.post_then(heartbeat(), 4, 60_000, call)
        await came
        peer.post_then(heartbeat(), 4, 60_000, lambda *outcome: seen.append(outcome))
        peer.close()

    run(Server(answer), work)
    assert seen[0] == (HeartbeatResponse(), None)
    assert seen[1:3] == ["later", (HeartbeatResponse(), None)]
    response, error = seen[-1] if seen[-1] != "later" else seen[-2]
    assert response is None
    assert isinstance(error, ConnectionError)
    assert [str(context["exception"]) for context in handled] == ["of the callback"]


def test_what_is_called_after_responses_comes_after_those_that_came_together() -> None:
    seen: list[str] = []
    handled: list[dict[str, Any]] = []
    waiting: list[Any] = []

    def answer_two_at_once(writer, header):
        waiting.append(header)
        if len(waiting) == 2:
            for each in waiting:
                answer(writer, each)

    async def work(peer):
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: handled.append(context))

        def continue_after(response, error):
            seen.append("response")
            loop.call_soon(seen.append, "later")
            peer.call_after_responses(fail)
            peer.call_after_responses(lambda: seen.append("after"))

        def fail():
            seen.append("after")
            raise ValueError("after a response")

        peer.post_then(heartbeat(), 4, 60_000, continue_after)
        last = peer.post(heartbeat())
        await last
        await asyncio.sleep(0)
        peer.call_after_responses(lambda: seen.append("soon"))
        assert seen[-1] != "soon"
        await asyncio.sleep(0)

    run(Server(answer_two_at_once), work)
    assert seen == ["response", "after", "after", "later", "soon"]
    assert [str(context["exception"]) for context in handled] == ["after a response"]


def test_a_connection_whose_reader_failed_is_closed() -> None:
    class Broken(Receiver):
        def set_result(self, result):
            raise AssertionError("a mistake")

    async def work(peer):
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        post_to(peer, Broken())
        behind = peer.post(heartbeat())
        with pytest.raises(ConnectionError, match="could not be taken"):
            await behind
        assert peer.is_closed

    run(Server(answer), work)


def test_a_response_that_our_decoder_fails_on_fails_its_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a mistake")

    async def work(peer):
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        monkeypatch.setattr("kavka.net.peer.decode_response", fail)
        asked, behind = peer.post(heartbeat()), peer.post(heartbeat())
        outcomes = await asyncio.gather(asked, behind, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ConnectionError] * 2

    run(Server(answer), work)


def test_a_receiver_may_close_the_connection_while_more_responses_have_come() -> None:
    failures: list[Exception] = []

    async def work(peer):
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        first, second = Receiver(then=peer.close), Receiver()
        post_to(peer, first)
        post_to(peer, second)
        wanted = b"".join(
            b"".join(encode_response(HeartbeatResponse(), 4, number))  # type: ignore[arg-type]
            for number in (1, 2)
        )
        peer.get_buffer(-1)[: len(wanted)] = wanted
        peer._transport.abort = lambda: failures.append(AssertionError("aborted"))
        peer.buffer_updated(len(wanted))
        assert first.outcome.result() == HeartbeatResponse()
        assert isinstance(second.outcome.exception(), ConnectionError)

    run(Server(lambda writer, header: None), work)
    assert failures == []


def test_a_socket_is_closed_when_its_protocol_cannot_begin() -> None:
    sockets: list[Any] = []

    class Unable(Peer):
        def connection_made(self, transport):
            sockets.append(transport.get_extra_info("socket"))
            raise AssertionError("a mistake")

    async def main() -> None:
        async with Server() as server:
            await Unable.connect(TcpNetwork(), "127.0.0.1", server.port)

    with pytest.raises(AssertionError, match="a mistake"):
        asyncio.run(main())
    assert [sock.fileno() for sock in sockets] == [-1]


def test_large_requests_wait_in_the_memory_that_they_were_given_in() -> None:
    async def work(peer):
        large = bytearray(8 << 20)
        peer._transport.writelines([(8 << 20).to_bytes(4, "big"), large])
        assert any(waiting is large for waiting in peer._transport._queue)
        peer._transport.abort()

    run(Server(answer), work)


def test_a_lost_connection_fails_everything_that_waits() -> None:
    async def work(peer):
        posted = [peer.post(heartbeat()) for _ in range(2)]
        for future in posted:
            with pytest.raises(ConnectionError, match="was lost"):
                await future

    run(Server(lambda writer, header: writer.close()), work)


def test_a_response_that_cannot_be_read_fails_its_request_only() -> None:
    def behave(writer, header):
        if header.correlation_id == 1:
            writer.write(struct.pack(">ii", 4, header.correlation_id))
        else:
            answer(writer, header)

    async def work(peer):
        broken, sound = peer.post(heartbeat()), peer.post(heartbeat())
        with pytest.raises(CorruptFrame):
            await broken
        assert await sound == HeartbeatResponse()

    run(Server(behave), work)


@pytest.mark.parametrize(
    "garbage", [struct.pack(">i", -5), struct.pack(">i", 2**31 - 1), struct.pack(">ii", 4, 777)]
)
def test_a_stream_that_makes_no_sense_is_closed(garbage):
    async def work(peer):
        with pytest.raises(ConnectionError):
            await peer.send(heartbeat())
        assert peer.is_closed

    run(Server(lambda writer, header: writer.write(garbage)), work)


def test_an_unanswered_request_waits_for_nothing() -> None:
    async def work(peer):
        peer.post_without_response(heartbeat())
        assert peer.in_flight == 0

    run(Server(lambda writer, header: None), work)


def test_a_caller_that_gives_up_does_not_disturb_the_others() -> None:
    held = []

    def behave(writer, header):
        held.append(header)
        if len(held) == 2:
            for each in held:
                answer(writer, each)

    async def work(peer):
        given_up = peer.post(heartbeat())
        given_up.cancel()
        assert await peer.send(heartbeat()) == HeartbeatResponse()

    run(Server(behave), work)


def test_a_refused_connection_is_an_os_error() -> None:
    async def main() -> None:
        async with Server() as server:
            port = server.port
        await Peer.connect(TcpNetwork(), "127.0.0.1", port)

    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        asyncio.run(main())


def test_a_silent_broker_is_given_up_in_time() -> None:
    async def main() -> None:
        async with Server(oldest=None) as quiet:
            await Peer.connect(TcpNetwork(), "127.0.0.1", quiet.port, timeout_ms=30)

    with pytest.raises(TimeoutError, match="did not answer in 30 ms"):
        asyncio.run(main())


class SlowServer(Server):
    """Reads nothing after ApiVersions until `goes_on` is set."""

    def answer_versions(self, writer, header):
        super().answer_versions(writer, header)
        self.goes_on = asyncio.Event()

    async def serve(self, reader, writer):
        read = reader.readexactly

        async def slow(count):
            if self.headers:
                await self.goes_on.wait()
            return await read(count)

        reader.readexactly = slow
        await super().serve(reader, writer)


def test_a_peer_is_not_writable_while_the_broker_reads_nothing() -> None:
    server = SlowServer(lambda writer, header: None)

    async def work(peer):
        calls = []
        is_back = asyncio.Event()
        assert peer.is_writable
        large = HeartbeatRequest(group_id="g" * 30_000, generation_id=1, member_id="m")
        for _ in range(5000):
            if not peer.is_writable:
                break
            peer.post_without_response(large)
            await asyncio.sleep(0)
        assert not peer.is_writable
        for callback in (is_back.set, is_back.set, lambda: calls.append(peer.is_writable)):
            peer.call_when_writable(callback)
        server.goes_on.set()
        await asyncio.wait_for(is_back.wait(), 60)
        assert peer.is_writable
        assert calls == [True]

    run(server, work)


def test_a_caller_that_waits_to_write_learns_of_the_loss() -> None:
    async def work(peer):
        lost = []
        peer.pause_writing()
        peer.call_when_writable(lambda: lost.append(peer.is_closed))
        peer.abort()
        assert lost == [True]

    run(Server(), work)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("127.0.0.1", -1),
        ("127.0.0.1", 65_536),
        ("127.0.0.1", 2**31 - 1),
        ("a" * 300, 9092),
        ("a\0b", 9092),
        ("ü" * 64, 9092),
        ("a..b", 9092),
    ],
)
def test_what_is_no_address_does_not_answer(host, port):
    """Addresses are announced by other processes."""
    with pytest.raises(OSError, match=r"is no address|not known|[Nn]o address"):
        asyncio.run(Peer.connect(TcpNetwork(), host, port, client_id="c"))


class Tls:
    async def context(self):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def server_hostname(self, host):
        return host


def test_a_port_that_is_none_is_not_taken_modulo_under_tls() -> None:
    with pytest.raises(ConnectionError, match="ports are 0 to 65535"):
        asyncio.run(TcpNetwork().connect("localhost", 65_536 + 1, lambda: Peer("c"), Tls()))
