"""Faults of chosen requests: which of them a request meets, without I/O.

A fault is for an API, and perhaps for a topic or a client id; it passes over the first `after` requests that fit, and
ends after `times` of them. A request meets the first fault that fits, in the order in which they were added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kavka.errors import ErrorCode
from kavka.wire.apis import APIS, ApiKey
from kavka.wire.refusals import can_be_refused


class FaultKind(Enum):
    """The ways in which a request fails."""

    DELAY = "delay"
    """The broker gets it later, and what follows on its connection as well."""
    FAIL = "fail"
    """The broker does not get it; the response is an error code."""
    DROP_REQUEST = "drop_request"
    """The connection breaks before the broker gets it."""
    DROP_RESPONSE = "drop_response"
    """The broker carries it out, and the connection breaks before the response."""
    HANG = "hang"
    """It gets no response, nor does what follows on its connection, which stays open."""


@dataclass(slots=True)
class RequestFault:
    """A fault and how often it was met."""

    fault_id: int
    key: ApiKey
    kind: FaultKind
    times: int | None = None
    after: int = 0
    topic: str | None = None
    client_id: str | None = None
    delay_s: float = 0.0
    code: ErrorCode = ErrorCode.NONE
    hits: int = 0


Topics = Callable[[], Iterable[str | None]]
"""Returns the names of a request's topics; called only where a fault is for one."""


class RequestFaults:
    """The faults of one broker."""

    def __init__(self) -> None:
        """Start with none."""
        self._faults: dict[int, RequestFault] = {}
        self._hits: dict[int, int] = {}

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self._faults)

    def has(self, fault_id: int) -> bool:
        """Return whether a fault is in force."""
        return fault_id in self._faults

    def add(self, fault: RequestFault) -> None:
        """Add a fault."""
        self._faults[fault.fault_id] = fault

    def remove(self, fault_id: int) -> None:
        """Remove a fault, if it is there; its hits are still known."""
        fault = self._faults.pop(fault_id, None)
        if fault is not None:
            self._hits[fault_id] = fault.hits

    def clear(self) -> None:
        """Remove all."""
        for fault_id in list(self._faults):
            self.remove(fault_id)

    def hits(self, fault_id: int) -> int:
        """Return how many requests a fault has met."""
        fault = self._faults.get(fault_id)
        return self._hits.get(fault_id, 0) if fault is None else fault.hits

    def concern(self, key: ApiKey, *, topics: bool = False) -> bool:
        """Return whether there is a fault for an API, or with `topics`, one for topics in it."""
        return any(
            fault.key is key and (fault.topic is not None or not topics)
            for fault in list(self._faults.values())
        )

    def meet(self, key: ApiKey, client_id: str | None, topics: Topics) -> RequestFault | None:
        """Return the fault that a request meets, and count it."""
        for fault in list(self._faults.values()):
            if fault.key is not key or fault.client_id not in (None, client_id):
                continue
            if fault.topic is not None and fault.topic not in topics():
                continue
            if fault.after:
                fault.after -= 1
                continue
            if fault.times is not None and fault.hits >= fault.times:
                continue
            fault.hits += 1
            return fault
        return None


def api_named(name: str) -> ApiKey:
    """Return the API that Kafka calls `name`, as in Produce or OffsetCommit. Raise ValueError."""
    wanted = name.replace("_", "").lower()
    keys = [ApiKey(key) for key in APIS]
    for key in keys:
        if key.name.replace("_", "").lower() == wanted:
            return key
    names = ", ".join("".join(map(str.capitalize, key.name.split("_"))) for key in keys)
    raise ValueError(f"{name!r} is no API; these are: {names}")


def code_named(code: str | int, key: ApiKey) -> ErrorCode:
    """Return an error code for responses of an API, by name or number. Raise ValueError."""
    try:
        found = ErrorCode[code] if isinstance(code, str) else _CODES[code]
    except KeyError:
        raise ValueError(f"{code!r} is no error code; see kavka.errors.ErrorCode") from None
    if found is ErrorCode.NONE:
        raise ValueError("NONE is no error")
    if not can_be_refused(key):
        raise ValueError(f"a response of {key.name} with an error code is not known here")
    return found


_CODES = {int(code): code for code in ErrorCode}

_TOPICS: dict[ApiKey, tuple[str, ...]] = {
    ApiKey.PRODUCE: ("topic_data",),
    ApiKey.FETCH: ("topics",),
    ApiKey.LIST_OFFSETS: ("topics",),
    ApiKey.METADATA: ("topics",),
    ApiKey.OFFSET_COMMIT: ("topics",),
    ApiKey.TXN_OFFSET_COMMIT: ("topics",),
    ApiKey.ADD_PARTITIONS_TO_TXN: ("v3_and_below_topics",),
    ApiKey.CREATE_TOPICS: ("topics",),
    ApiKey.DELETE_TOPICS: ("topics", "topic_names"),
}
"""The fields that hold a request's topics."""


def names_topics(key: ApiKey) -> bool:
    """Return whether a fault of an API may be for a topic."""
    return key in _TOPICS


def topics_of(key: ApiKey, request: Any, name_of: Callable[[Any], str | None]) -> list[str | None]:
    """Return the names of a request's topics; `name_of` knows those that it names by id."""
    found: list[str | None] = []
    for field in _TOPICS[key]:
        for topic in getattr(request, field) or ():
            name = topic if isinstance(topic, str) else getattr(topic, "name", None)
            found.append(name or getattr(topic, "topic", None) or name_of(topic.topic_id))
    return found
