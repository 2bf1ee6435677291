"""Every field of every request at its extremes, one at a time, and what the broker made of each."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kavka.broker.requests.counters import error_finder
from kavka.errors import ErrorCode
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.frame import decode_response
from kavka.wire.schema import Kind
from kavka_fuzz.emitter import frame_of
from kavka_fuzz.recipes import FORCED_NULL, Place, Recipe, places, plain
from kavka_fuzz.target import Process, Target
from kavka_fuzz.vocabulary import LITERAL, LONGEST_STRING

_INTEGERS = ("min", "minus-two", "minus-one", "zero", "max")
_STRINGS = ("empty", "longest")
_UUIDS = ("zero", "unknown")
_TOO_LARGE = ("topics.num_partitions", "topics.count")
"""Fields whose largest value Apache Kafka tries to carry out: two thousand million partitions."""
_QUIET_S = 0.25
_PATIENCE_S = 20.0


@dataclass(frozen=True)
class Extreme:
    """A request in which one field has an extreme value."""

    recipe: Recipe
    where: str
    value: str | int

    def __str__(self) -> str:
        """Name it."""
        return f"{self.recipe.title} {self.where}={self.value}"


@dataclass
class Verdict:
    """The broker's reaction to one extreme."""

    extreme: Extreme
    outcome: str
    """`answered`, `closed` or `silent`."""
    response: Any = None

    @property
    def errors(self) -> list[int]:
        """Return the error codes in the response."""
        found: list[int] = []
        if self.response is None:
            return found
        find = error_finder(APIS[self.extreme.recipe.api].response())  # type: ignore[arg-type]
        if find is not None:
            find(self.response, found.append)
        return found

    @property
    def is_unknown_error(self) -> bool:
        """Return whether the broker answers UNKNOWN_SERVER_ERROR."""
        return ErrorCode.UNKNOWN_SERVER_ERROR in self.errors


def understood(api: int, version: int) -> Iterator[Extreme]:
    """Yield the requests that can be decoded."""
    yield from _extremes(api, version, damaged=False)


def not_understood(api: int, version: int) -> Iterator[Extreme]:
    """Yield those that cannot: text that is no UTF-8, null where the version has none."""
    yield from _extremes(api, version, damaged=True)


def _extremes(api: int, version: int, *, damaged: bool) -> Iterator[Extreme]:
    base = Recipe(api, version, 0, genes=plain(api, version))
    if not damaged:
        yield Extreme(_alone(base, f"{version}-plain"), "nothing", "plausible")
    for place in places(api, version):
        for value in _damaged(place) if damaged else _values(place):
            if value == "max" and place.path in _TOO_LARGE:
                continue
            genes = {**base.genes, place.path: value}
            name = f"{version}-{place.path}-{value}"
            yield Extreme(_alone(replace(base, genes=genes), name), place.path, value)


def _alone(recipe: Recipe, name: str) -> Recipe:
    """Give a request that waits for the members of its group a group of its own."""
    group = recipe.genes.get("group_id")
    if recipe.api != ApiKey.JOIN_GROUP or group not in (None, "longest"):
        return recipe
    name = name.ljust(LONGEST_STRING, "l") if group else name
    return replace(recipe, genes={**recipe.genes, "group_id": f"{LITERAL}{name}"})


def _values(place: Place) -> list[str | int]:
    null: list[str | int] = ["null"] if place.is_nullable else []
    if not isinstance(place.type, Kind):
        return [0, *null]
    kind = place.type.name
    if kind == "string":
        return [*_STRINGS, *null]
    if kind == "uuid":
        return [*_UUIDS]
    if kind in ("bytes", "records"):
        return ["empty", *null]
    return ["zero", "max"] if kind == "bool" else list(_INTEGERS)


def _damaged(place: Place) -> list[str | int]:
    is_text = isinstance(place.type, Kind) and place.type.name == "string"
    has_null = not isinstance(place.type, Kind) or place.type.name in ("string", "bytes")
    forced = [FORCED_NULL] if has_null and not place.is_nullable and "[]" not in place.path else []
    return [*(["invalid"] if is_text else []), *forced]


def send_all(target: Target, extremes: Sequence[Extreme]) -> list[Verdict]:
    """Send requests one behind the other, and return what became of each.

    When the broker closes the connection, those without a response are sent again, the first of them alone: responses
    that were ready are lost with the connection. One without a response although the broker does nothing was `silent`.
    """
    verdicts: list[Verdict] = []
    left = list(extremes)
    sent = len(left)
    while left:
        answered, is_closed = _pipeline(target, left[:sent])
        verdicts += [Verdict(e, "answered", r) for e, r in zip(left, answered, strict=False)]
        left = left[len(answered) :]
        is_over = len(answered) < sent and (sent == 1 or not is_closed)
        if left and is_over:
            verdicts.append(Verdict(left.pop(0), "closed" if is_closed else "silent"))
        sent = 1 if is_closed and not is_over else len(left)
    return verdicts


def _pipeline(target: Target, extremes: Sequence[Extreme]) -> tuple[list[Any], bool]:
    """Return the responses in order, and whether the broker closed the connection."""
    frames = [
        frame_of(replace(extreme.recipe, correlation_id=number), target.known)
        for number, extreme in enumerate(extremes)
    ]
    data = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    with socket.create_connection(("127.0.0.1", target.port)) as connection:
        connection.settimeout(_QUIET_S)
        received, is_closed = _talk(connection, data, len(extremes), target.system)
    return _responses(received, extremes), is_closed


def _talk(
    connection: socket.socket, data: bytes, count: int, system: Process
) -> tuple[bytes, bool]:
    received = bytearray()
    left = memoryview(data)
    cpu, deadline = system.cpu_ns(), time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        try:
            if len(left):
                left = left[connection.send(left[: 1 << 16]) :]
                connection.settimeout(0 if len(left) else _QUIET_S)
            part = connection.recv(1 << 20)
            if not part:
                return bytes(received), True
            received += part
        except BlockingIOError:
            continue
        except TimeoutError:
            before, cpu = cpu, system.cpu_ns()
            if cpu - before < 20_000_000 and system.is_asleep():
                break
        except OSError:
            return bytes(received), True
        if _complete(received) == count:
            break
    return bytes(received), False


def _complete(received: bytes | bytearray) -> int:
    position = count = 0
    while len(received) - position >= 4:
        (size,) = struct.unpack_from(">i", received, position)
        position += 4 + size
        count += position <= len(received)
    return count


def _responses(received: bytes, extremes: Sequence[Extreme]) -> list[Any]:
    """Return the responses that are complete. A request with acks=0 has none, and is answered by the next one's."""
    position = 0
    by_number: dict[int, Any] = {}
    while len(received) - position >= 4:
        (size,) = struct.unpack_from(">i", received, position)
        frame = received[position + 4 : position + 4 + size]
        position += 4 + size
        if len(frame) < size:
            break
        (number,) = struct.unpack_from(">i", frame)
        recipe = extremes[number].recipe
        response = APIS[recipe.api].response()
        by_number[number] = decode_response(response, recipe.version, frame)[1]
    last = max(by_number, default=-1)
    return [by_number.get(number) for number in range(last + 1)]
