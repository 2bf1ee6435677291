"""Faults of chosen requests: which of them a request meets, without I/O.

A fault is for an API, and perhaps for a topic, a group, a transactional id or a client id; it passes over the first
`after` requests that fit, and ends after `times` of them. A request meets the first fault that fits, in the order in
which they were added.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
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
    named: Mapping[str, str] = field(default_factory=dict)
    """The names that a request has to have in it: a `topic`, a `group`, a `transactional_id`."""
    client_id: str | None = None
    delay_s: float = 0.0
    code: ErrorCode = ErrorCode.NONE
    hits: int = 0


Names = Callable[[str], Collection[str | None]]
"""Returns the topics, groups or transactional ids that a request names; called only where a fault is for one."""


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

    def concern(self, key: ApiKey) -> bool:
        """Return whether there is a fault for an API."""
        return any(fault.key is key for fault in list(self._faults.values()))

    def meet(self, key: ApiKey, client_id: str | None, names: Names) -> RequestFault | None:
        """Return the fault that a request meets, and count it."""
        for fault in list(self._faults.values()):
            if fault.key is not key or fault.client_id not in (None, client_id):
                continue
            if any(name not in names(kind) for kind, name in fault.named.items()):
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
    """Return the API that Kafka calls `name`, as in Produce or OffsetCommit. Raise ValueError or TypeError."""
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is no name of an API; they are texts, as in 'Produce'")
    wanted = name.replace("_", "").lower()
    keys = [ApiKey(key) for key in APIS]
    for key in keys:
        if key.name.replace("_", "").lower() == wanted:
            return key
    names = ["".join(map(str.capitalize, key.name.split("_"))) for key in keys]
    near = get_close_matches(name, names, 1)
    which = f"did you mean {near[0]}?" if near else f"these are: {', '.join(names)}"
    raise ValueError(f"{name!r} is no API; {which}")


def code_named(code: str | int, key: ApiKey) -> ErrorCode:
    """Return an error code for responses of an API, by name or number. Raise ValueError or TypeError."""
    if not isinstance(code, str | int) or isinstance(code, bool):
        raise TypeError(f"{code!r} is no error code: give its name or its number")
    try:
        found = ErrorCode[code] if isinstance(code, str) else _CODES[code]
    except KeyError:
        near = get_close_matches(str(code).upper(), ErrorCode.__members__, 1)
        which = f"did you mean {near[0]}?" if near else "see kavka.errors.ErrorCode"
        raise ValueError(f"{code!r} is no error code; {which}") from None
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
_GROUPS: dict[ApiKey, tuple[str, ...]] = {
    ApiKey.FIND_COORDINATOR: ("key", "coordinator_keys"),
    ApiKey.JOIN_GROUP: ("group_id",),
    ApiKey.SYNC_GROUP: ("group_id",),
    ApiKey.HEARTBEAT: ("group_id",),
    ApiKey.LEAVE_GROUP: ("group_id",),
    ApiKey.OFFSET_COMMIT: ("group_id",),
    ApiKey.OFFSET_FETCH: ("group_id", "groups"),
    ApiKey.ADD_OFFSETS_TO_TXN: ("group_id",),
    ApiKey.TXN_OFFSET_COMMIT: ("group_id",),
}
_TRANSACTIONAL_IDS: dict[ApiKey, tuple[str, ...]] = {
    ApiKey.FIND_COORDINATOR: ("key", "coordinator_keys"),
    ApiKey.INIT_PRODUCER_ID: ("transactional_id",),
    ApiKey.ADD_PARTITIONS_TO_TXN: ("v3_and_below_transactional_id",),
    ApiKey.ADD_OFFSETS_TO_TXN: ("transactional_id",),
    ApiKey.TXN_OFFSET_COMMIT: ("transactional_id",),
    ApiKey.END_TXN: ("transactional_id",),
    ApiKey.PRODUCE: ("transactional_id",),
}
_FIELDS = {"topic": _TOPICS, "group": _GROUPS, "transactional_id": _TRANSACTIONAL_IDS}
"""The fields that hold a request's topics, groups and transactional ids."""
_KEY_TYPES = {"group": 0, "transactional_id": 1}
"""Those of FindCoordinator."""


def names_some(kind: str, key: ApiKey) -> bool:
    """Return whether requests of an API name a `topic`, a `group` or a `transactional_id`."""
    return key in _FIELDS[kind]


def names_in(
    kind: str, key: ApiKey, request: Any, name_of: Callable[[Any], str | None]
) -> list[str | None]:
    """Return the topics, groups or transactional ids that a request names; `name_of` knows topics by their ids."""
    if key is ApiKey.FIND_COORDINATOR and request.key_type != _KEY_TYPES[kind]:
        return []
    found: list[str | None] = []
    for field_name in _FIELDS[kind][key]:
        given = getattr(request, field_name)
        rows = [given] if isinstance(given, str) else given or ()
        found += [row if isinstance(row, str) else _name(kind, row, name_of) for row in rows]
    return found


def _name(kind: str, row: Any, name_of: Callable[[Any], str | None]) -> str | None:
    if kind == "group":
        return str(row.group_id)
    name: str | None = getattr(row, "name", None) or getattr(row, "topic", None)
    return name or name_of(row.topic_id)
