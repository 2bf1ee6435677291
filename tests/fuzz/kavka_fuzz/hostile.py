"""Attacks of no real client: random bytes, torn frames, lies about lengths, floods, sockets that are half closed.

Each attack is a connection. The broker may answer or close; it says at most once that it closed it, and never with a
traceback.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from kavka.wire.apis import APIS
from kavka_fuzz.emitter import frame_of
from kavka_fuzz.recipes import drawn, served_versions
from kavka_fuzz.target import BrokerFailed, Target
from kavka_fuzz.vocabulary import Known

_AT_ONCE = 20
_PATIENCE_S = 10.0
_QUIET_S = 0.05
_QUIET_CPU_NS = 5_000_000
_FLOOD = 3_000
_LARGEST_CLIENT_ID = 32_767
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_NO_SUCH_API = 9_999
_CLOSED = "WARNING connection "


@dataclass(frozen=True)
class Attack:
    """Bytes for a connection of their own."""

    name: str
    data: bytes
    half_close: bool = False
    """True if the sending side is closed behind them."""
    vanish: bool = False
    """True if the connection is reset behind them, without a check of the response."""


def attacks(random: Random, known: Known) -> Iterator[Attack]:
    """Yield attacks without end."""
    kinds = (
        _random_bytes,
        _random_frame,
        _cut,
        _longer_than_it_says,
        _damaged,
        _damaged,
        _lying,
        _lying,
        _wrong_version,
        _large_client_id,
        _half_closed,
        _vanishing,
    )
    while True:
        yield random.choice(kinds)(random, known)


def floods(random: Random, known: Known) -> Iterator[Attack]:
    """Yield a few attacks of thousands of requests, one behind the other, without reading the responses."""
    yield Attack("flood of ApiVersions", _API_VERSIONS * _FLOOD, vanish=True)
    yield Attack("flood, then half closed", _API_VERSIONS * _FLOOD, half_close=True)
    small = b"".join(_sized(_request(random, known)) for _ in range(300))
    yield Attack("flood of all APIs", small, vanish=True)


def _sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def _request(random: Random, known: Known) -> bytes:
    """Return a small request as a client could send it."""
    recipe = drawn(random, *random.choice(served_versions()))
    return frame_of(type(recipe)(recipe.api, recipe.version, 300, recipe.fill, recipe.genes), known)


def _random_bytes(random: Random, known: Known) -> Attack:
    return Attack("random bytes", random.randbytes(random.choice((1, 3, 4, 100, 5_000))), True)


def _random_frame(random: Random, known: Known) -> Attack:
    return Attack("random frame", _sized(random.randbytes(random.choice((0, 1, 8, 11, 300)))))


def _cut(random: Random, known: Known) -> Attack:
    frame = _request(random, known)
    return Attack("cut frame", _sized(frame)[: random.randrange(len(frame) + 4)], half_close=True)


def _longer_than_it_says(random: Random, known: Known) -> Attack:
    frame = _request(random, known)
    size = random.randrange(len(frame))
    return Attack("frame longer than it says", struct.pack(">i", size) + frame, half_close=True)


def _damaged(random: Random, known: Known) -> Attack:
    """Change some bytes behind the header."""
    frame = bytearray(_request(random, known))
    for _ in range(random.choice((1, 1, 3, 10))):
        frame[random.randrange(8, len(frame)) if len(frame) > 8 else -1] = random.randrange(256)
    return Attack("damaged bytes", _sized(bytes(frame)))


def _lying(random: Random, known: Known) -> Attack:
    """Put an extreme length where some length may be."""
    frame = bytearray(_request(random, known))
    lie = random.choice(
        (b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xfe", b"\xff\xff\xff\xff\x0f")
    )
    position = random.randrange(8, max(9, len(frame) - len(lie)))
    frame[position : position + len(lie)] = lie
    return Attack("lie about a length", _sized(bytes(frame)))


def _wrong_version(random: Random, known: Known) -> Attack:
    frame = bytearray(_request(random, known))
    key = random.choice((*APIS, 17, 36, _NO_SUCH_API, -1))
    struct.pack_into(">hh", frame, 0, key, random.choice((-1, 100, 32_767, -32_768, 0)))
    return Attack("wrong version", _sized(bytes(frame)))


def _large_client_id(random: Random, known: Known) -> Attack:
    frame = _request(random, known)
    (length,) = struct.unpack_from(">h", frame, 8) if len(frame) >= 10 else (0,)
    rest = frame[10 + max(0, length) :]
    name = random.choice((b"c", "ü".encode(), b"\xff")) * _LARGEST_CLIENT_ID
    name = name[: _LARGEST_CLIENT_ID - 1]
    return Attack("large client id", _sized(frame[:8] + struct.pack(">h", len(name)) + name + rest))


def _half_closed(random: Random, known: Known) -> Attack:
    return Attack("half closed", _sized(_request(random, known)), half_close=True)


def _vanishing(random: Random, known: Known) -> Attack:
    return Attack("vanished", _sized(_request(random, known)), vanish=True)


def attack(target: Target, chosen: list[Attack]) -> list[str]:
    """Carry attacks out, some at a time; return what is wrong with what the broker did, with the attacks' names."""
    faults: list[str] = []
    for first in range(0, len(chosen), _AT_ONCE):
        group = chosen[first : first + _AT_ONCE]
        target.log_lines()
        _carry_out(target, group)
        target.check_alive()
        faults += _judged(target.log_lines(), group)
    return faults


def _judged(lines: list[str], group: list[Attack]) -> list[str]:
    names = ", ".join(sorted({each.name for each in group}))
    found = [f"{line} [{names}]" for line in lines if _is_fault(line)]
    closed = sum(_CLOSED in line for line in lines)
    if closed > len(group):
        found.append(f"{closed} lines say that {len(group)} connections were closed [{names}]")
    return found


def _is_fault(line: str) -> bool:
    return (
        line.lstrip().startswith("Traceback (most recent")
        or "request failed" in line
        or "] ERROR " in line
    )


def _carry_out(target: Target, group: list[Attack]) -> None:
    """Send all, and wait until each is answered or closed, or the broker does nothing more."""
    sockets: dict[socket.socket, memoryview] = {}
    for each in group:
        connection = socket.create_connection(("127.0.0.1", target.port))
        connection.setblocking(False)
        sockets[connection] = memoryview(each.data)
    by_socket = dict(zip(sockets, group, strict=True))
    deadline = time.monotonic() + _PATIENCE_S
    cpu = target.system.cpu_ns()
    while True:
        if time.monotonic() > deadline:
            raise BrokerFailed(f"still at work after {_PATIENCE_S:.0f} s")
        writers = [each for each, left in sockets.items() if len(left)]
        readers = [each for each in sockets if not by_socket[each].vanish]
        readable, writable, _ = select.select(readers, writers, [], _QUIET_S)
        for connection in writable:
            _send(connection, sockets, by_socket[connection])
        for connection in readable:
            _receive(connection, sockets)
        if not readable and not writable:
            before, cpu = cpu, target.system.cpu_ns()
            if cpu - before < _QUIET_CPU_NS and target.system.is_asleep():
                break
    for connection in sockets:
        connection.close()


def _send(connection: socket.socket, sockets: dict[socket.socket, memoryview], by: Attack) -> None:
    try:
        left = sockets[connection][connection.send(sockets[connection]) :]
    except OSError:
        sockets.pop(connection).release()
        connection.close()
        return
    sockets[connection] = left
    if len(left):
        return
    if by.vanish:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        del sockets[connection]
    elif by.half_close:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)


def _receive(connection: socket.socket, sockets: dict[socket.socket, memoryview]) -> None:
    try:
        data = connection.recv(1 << 20)
    except BlockingIOError:
        return
    except OSError:
        data = b""
    if not data and connection in sockets:
        connection.close()
        del sockets[connection]
