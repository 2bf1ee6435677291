"""Options of the sink, and the name that an exactly-once sink keeps over restarts. Pure.

Every refusal is a ConnectorError of one sentence.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kavka.client.config import PRODUCER
from kavka.spark.errors import ConnectorError
from kavka.spark.options import (
    SELECTIONS,
    SINK_NAMES,
    SOURCE_NAMES,
    boolean,
    client_settings,
    filled,
    lower_names,
    refuse_unknown,
)

_TWO_PHASE_COMMIT = "transaction.two.phase.commit.enable"
_MAX_SINK_ID = 200
_SINK_ID = re.compile(r"[a-zA-Z0-9._-]+")
_FORBIDDEN_TO_SINK = {
    "key.serializer": "keys are written as binary; cast them in the data frame",
    "value.serializer": "values are written as binary; cast them in the data frame",
}


@dataclass(frozen=True, slots=True)
class ExactlyOnceOptions:
    """Checked options of a sink that writes each row exactly once."""

    sink_id: str
    """Begins the names of its transactional ids and of its decision topic; the same after each restart."""
    write_id: str | None
    """Names one `df.write`: the last one that is in the topic is not written again."""
    accepts_other_writes: bool
    """True if a query with another checkpoint may continue with this sink."""
    two_phase_commit: bool | None
    """True if brokers must never abort a prepared transaction; None uses it where they offer it."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Checked options of a write."""

    topic: str | None
    """The topic of all rows; None uses the column `topic`."""
    client: dict[str, str]
    exactly_once: ExactlyOnceOptions | None = None
    """None: each row is written at least once."""


def parse_sink(options: Mapping[str, str], *, streaming: bool = True) -> SinkOptions:
    """Check the options of `df.write` or `df.writeStream`. Raise ConnectorError.

    includeHeaders decides nothing here: as in Spark's sink, headers are written whenever there is a column of them.
    """
    given = lower_names(options)
    is_also_read = any(name.lower() in given for name in SELECTIONS)
    refuse_unknown(given, (*SINK_NAMES, *(SOURCE_NAMES if is_also_read else ())))
    boolean(given, "includeHeaders", False)
    client = client_settings(given, _FORBIDDEN_TO_SINK, PRODUCER)
    exactly_once = _exactly_once(given, client, streaming)
    if exactly_once is not None:
        client.pop(_TWO_PHASE_COMMIT, None)
    return SinkOptions(filled(given, "topic"), client, exactly_once)


def _exactly_once(
    given: Mapping[str, str], client: Mapping[str, str], streaming: bool
) -> ExactlyOnceOptions | None:
    guarantee = given.get("deliveryguarantee", "at-least-once").lower()
    if guarantee not in ("at-least-once", "exactly-once"):
        raise ConnectorError(
            f"deliveryGuarantee must be at-least-once or exactly-once, not {guarantee!r}."
        )
    if guarantee == "at-least-once":
        for name in ("sinkId", "writeId", "onNewCheckpoint"):
            if name.lower() in given:
                raise ConnectorError(
                    f"The option {name} means nothing without deliveryGuarantee exactly-once."
                )
        return None
    for name in ("transactional.id", "enable.idempotence", "acks"):
        if name in client:
            raise ConnectorError(f"deliveryGuarantee exactly-once chooses kafka.{name} itself.")
    if streaming and "writeid" in given:
        raise ConnectorError("The option writeId is of batch writes; a stream has its checkpoint.")
    on_new = given.get("onnewcheckpoint", "fail").lower()
    if on_new not in ("fail", "reset") or ("onnewcheckpoint" in given and not streaming):
        raise ConnectorError(
            f"onNewCheckpoint must be fail or reset, and is of streams; not {on_new!r}."
        )
    return ExactlyOnceOptions(
        sink_id=_sink_id(given, streaming),
        write_id=filled(given, "writeId"),
        accepts_other_writes=not streaming or on_new == "reset",
        two_phase_commit=None
        if _TWO_PHASE_COMMIT not in client
        else boolean({_TWO_PHASE_COMMIT: client[_TWO_PHASE_COMMIT]}, _TWO_PHASE_COMMIT, False),
    )


def _sink_id(given: Mapping[str, str], streaming: bool) -> str:
    """Return the option sinkId; without, what a stream's checkpoint gives: its place is the same after a restart."""
    name = filled(given, "sinkId")
    if name is not None:
        if not is_sink_id(name):
            raise ConnectorError(
                f"sinkId begins the name of a topic: at most 200 letters, digits, '.', '_', '-', not {name!r}."
            )
        return name
    checkpoint = filled(given, "checkpointLocation")
    if not streaming or checkpoint is None:
        raise ConnectorError(
            "deliveryGuarantee exactly-once needs the option sinkId, the same at each start"
            + ("." if not streaming else ", or checkpointLocation as an option of the writer.")
        )
    return name_of_checkpoint("kavka-sink", checkpoint)


def name_of_checkpoint(prefix: str, location: str) -> str:
    """Return a name for a query by the place of its checkpoint, which is the same after a restart."""
    path = re.sub(r"^file:/+", "/", location.strip()).rstrip("/")
    return f"{prefix}-{hashlib.sha256(path.encode()).hexdigest()[:16]}"


def is_sink_id(text: str) -> bool:
    """Return whether a sink may have this name: it begins the name of a topic."""
    return len(text) <= _MAX_SINK_ID and _SINK_ID.fullmatch(text) is not None
