"""The audit log: the newest lines of the topic that brokers write, one JSON object a record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kavka.client.consumer.batches import ConsumerRecord
from kavka.console.pages.brokers import SEARCH, settings_or_error
from kavka.console.pages.messages import newest_of
from kavka.console.parameters import Arguments, Parameter
from kavka.console.search import Bounds
from kavka.console.sentences import NOTHING, Sentence, say
from kavka.console.subject import Page, Services
from kavka.console.views.messages import SilentPartitions
from kavka.console.views.paging import searched

EVENTS = ("denied", "administrative", "authenticated", "authentication_failed", "dropped")
_SETTING = "kavka.audit.topic"
_SCAN = 20_000
_KNOWN = ("time", "broker", "event", "principal", "host", "client_id", "listener", "protocol")


@dataclass(frozen=True, slots=True)
class AuditLine:
    """A line of the audit; what it does not say is empty."""

    partition: int
    offset: int
    timestamp_ms: int
    broker: int | None
    event: str
    principal: str
    host: str
    client_id: str
    what: str
    """The request and its subject, in one line."""
    result: str
    """done, failed, denied; empty for others."""
    details: dict[str, str]
    """All else that the line says."""


@dataclass(frozen=True, slots=True)
class AuditList:
    """The newest lines that match; `note` says why there is no audit."""

    topic: str
    note: Sentence
    rows: list[AuditLine]
    reach: str
    unanswered: list[SilentPartitions]
    events: list[str]


def line_of(record: ConsumerRecord) -> AuditLine | None:
    """Return the line of a record, None for a record that is none."""
    try:
        said = json.loads(record.value or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or "event" not in said:
        return None
    event = str(said["event"])
    broker = said.get("broker")
    return AuditLine(
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        broker=broker if isinstance(broker, int) else None,
        event=event,
        principal=str(said.get("principal", "")),
        host=str(said.get("host", "")),
        client_id=str(said.get("client_id", "")),
        what=_what(event, said),
        result="denied" if event == "denied" else str(said.get("result", "")),
        details={
            key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in said.items()
            if key not in _KNOWN
        },
    )


def _what(event: str, said: dict[str, Any]) -> str:
    if event == "dropped":
        return say("{count} lines were too many and are missing", count=said.get("count", "?"))
    if event == "denied":
        return f"{said.get('operation', '')} {said.get('resource_type', '')} {said.get('resource', '')}"
    if event == "administrative":
        subjects = said.get("subjects")
        named = ", ".join(map(str, subjects)) if isinstance(subjects, list) else ""
        return f"{said.get('api', '')} {named}".strip()
    reason = f": {said['reason']}" if said.get("reason") else ""
    return f"{said.get('mechanism', '')}{reason}"


def _keep(arguments: Arguments) -> Callable[[ConsumerRecord], bool]:
    event, has_words = arguments.text("event"), searched(arguments.text("search"))
    principal = arguments.text("principal").strip()

    def keep(record: ConsumerRecord) -> bool:
        if not has_words((record.value or b"").decode(errors="replace")):
            return False
        line = line_of(record)
        if line is None:
            return False
        return (not event or line.event == event) and (not principal or line.principal == principal)

    return keep


async def _topic(services: Services) -> tuple[str, Sentence]:
    """Return the topic of the audit, or why there is none. Raise the error of a broker that may have one."""
    cluster = await services.cluster.ask(lambda admin: admin.describe_cluster())
    answers = await asyncio.gather(
        *(settings_or_error(services, one.broker_id, [_SETTING]) for one in cluster.brokers)
    )
    failed = [one for one in answers if isinstance(one, Exception)]
    for entries in answers:
        if not isinstance(entries, Exception):
            for entry in entries:
                if entry.name == _SETTING and entry.value:
                    return entry.value, NOTHING
    if failed:  # it may be the one that has the setting
        raise failed[0]
    note = say(
        "The brokers write no audit into a topic. kavka's brokers do with the settings kavka.audit.log and "
        "kavka.audit.topic; Apache Kafka's have none. Name a topic that another program writes in the same form, if "
        "there is one."
    )
    return "", note


async def _load(services: Services, arguments: Arguments) -> AuditList:
    topic, note = arguments.text("topic").strip(), NOTHING
    if not topic:
        topic, note = await _topic(services)
    if note:
        return AuditList("", note, [], "", [], list(EVENTS))
    if topic not in await services.cluster.topics():
        note = say(
            "The topic {topic} is not there yet: brokers create it with the first line.",
            topic=topic,
        )
        return AuditList(topic, note, [], "", [], list(EVENTS))
    bounds = Bounds(arguments.number("limit"), _SCAN)
    found = await newest_of(services, topic, _keep(arguments), bounds)
    lines = [line for record in reversed(found.records) if (line := line_of(record)) is not None]
    reach = found.reach
    return AuditList(topic, NOTHING, lines, reach.sentence, reach.unanswered, list(EVENTS))


PAGES = (
    Page(
        path="/audit",
        summary="The newest lines of the audit: denied and administrative actions, and authentications.",
        template="audit.html",
        view=AuditList,
        load=_load,
        parameters=(
            SEARCH,
            Parameter("event", "choice", "Only this event.", "", ("", *EVENTS)),
            Parameter("principal", "text", "Only this principal, such as User:alice."),
            Parameter(
                "topic", "text", "The topic of the audit; empty: the brokers' kavka.audit.topic."
            ),
            Parameter("limit", "integer", "Lines that are wanted.", "100", minimum=1, maximum=1000),
        ),
    ),
)
ACTIONS = ()
