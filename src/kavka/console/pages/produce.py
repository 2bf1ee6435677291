"""Records that a person writes: a new one, one that was read and changed, and a copy byte for byte."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from kavka.client.consumer.batches import ConsumerRecord
from kavka.client.schemas.codecs import codec_of
from kavka.client.schemas.errors import SchemaError
from kavka.client.schemas.framing import frame
from kavka.client.schemas.registry import SchemaRegistry
from kavka.console.failures import Failure, Refused, bad_request
from kavka.console.formats import shown
from kavka.console.pages.messages import RECORD, record_at
from kavka.console.pages.topics import TOPIC_PATH, describe
from kavka.console.parameters import Arguments, Parameter
from kavka.console.registry import json_text, no_registry
from kavka.console.rendering import part_of_path
from kavka.console.sentences import say
from kavka.console.subject import Action, Outcome, Page, Services

FORMATS: Final = ("text", "json", "schema", "hex", "base64", "null")
_MOST_CHARACTERS: Final = 900_000
_MOST_PREFILLED: Final = 250_000
"""Bytes of a value that a form shows; larger ones are copied."""

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class ProduceForm:
    """The form for a record; `source` is the record that it was filled from."""

    topic: str
    partitions: int
    formats: list[str]
    source: str
    key: str
    key_format: str
    value: str
    value_format: str
    headers: str
    partition: str


def bytes_of(field: str, text: str, form: str) -> bytes | None:
    """Return the bytes of a field, for all formats but `schema`. Raise Refused."""
    try:
        if form == "null":
            return None
        if form == "hex":
            return bytes.fromhex(text.removeprefix("0x"))
        if form == "base64":
            return base64.b64decode("".join(text.split()), validate=True)
        if form == "json":
            json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad_request(
            say("{field} is not {form}: {error}.", field=field, form=form, error=error)
        ) from error
    return text.encode()


def headers_of(text: str) -> Headers:
    """Return the headers of lines `name: value`; `0x…` is hexadecimal, a name alone has no value. Raise Refused."""
    found: Headers = []
    for line in text.splitlines():
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if not name:
            raise bad_request(say("{line!r} is no header such as name: value.", line=line[:100]))
        if not colon:
            found.append((name, None))
        elif value.startswith("0x"):
            found.append((name, bytes_of(say("header {name}", name=name), value, "hex")))
        else:
            found.append((name, value.encode()))
    return found


def header_lines(headers: Headers) -> str:
    """Return headers as such lines."""
    return "\n".join(_header_line(name, value) for name, value in headers)


def _header_line(name: str, value: bytes | None) -> str:
    if value is None:
        return name
    text, form = text_of(value)
    is_plain = form == "text" and text == text.strip() and "\n" not in text and "\r" not in text
    return (
        f"{name}: {text}" if is_plain and not text.startswith("0x") else f"{name}: 0x{value.hex()}"
    )


def text_of(data: bytes | None) -> tuple[str, str]:
    """Return bytes as a form shows them, and the format that gives the same bytes."""
    if data is None:
        return "", "null"
    kind = shown(data, len(data)).kind
    # A form of a browser turns line breaks into CRLF, so that such text would not come back as it was.
    if kind == "binary" or b"\r" in data:
        return data.hex(" "), "hex"
    return data.decode(), "text"


async def _load_form(services: Services, arguments: Arguments) -> ProduceForm:
    topic = await describe(services, arguments.path["topic"])
    given = {name: arguments.text(name) for name in ("key", "value", "headers", "partition")}
    forms = {name: arguments.text(name) for name in ("key_format", "value_format")}
    source = arguments.text("from").strip()
    if source:
        partition, colon, offset = source.partition(":")
        if not colon:
            raise bad_request(
                say("from is {source!r}, not a record such as 0:123.", source=source[:50])
            )
        path = {"topic": topic.name, "partition": partition, "offset": offset}
        record = await record_at(services, Arguments((), {}, path))
        given |= {"headers": header_lines(list(record.headers)), "partition": partition}
        for name, data in (("key", record.key), ("value", record.value)):
            given[name], forms[f"{name}_format"] = await _prefilled(services, name, data)
    return ProduceForm(
        topic=topic.name,
        partitions=len(topic.partitions),
        formats=[one for one in FORMATS if one != "schema" or services.registry is not None],
        source=source,
        **given,
        **forms,
    )


async def _prefilled(services: Services, name: str, data: bytes | None) -> tuple[str, str]:
    if data is not None and len(data) > _MOST_PREFILLED:
        raise bad_request(
            say(
                "The {name} has {data:,} bytes, more than a form takes.",
                name=name,
                data=len(data),
            ),
            say("Copy the record instead."),
        )
    registry = services.registry
    if registry is not None and data:
        try:
            decoded = await registry.in_thread(lambda: registry.decode(data))
        except (SchemaError, ValueError):
            decoded = None
        if decoded is not None:
            return json_text(decoded.value), "schema"
    return text_of(data)


async def _encoded(services: Services, arguments: Arguments, name: str) -> bytes | None:
    text, form = arguments.text(name), arguments.text(f"{name}_format")
    if form != "schema":
        return bytes_of(name, text, form)
    if services.registry is None:
        raise no_registry()
    value = _json_of(name, text)
    subject = f"{arguments.path['topic']}-{name}"

    def encode(client: SchemaRegistry) -> bytes:
        latest = client.version(subject)
        codec = codec_of(latest.schema, client)
        return frame(latest.schema_id, codec.encode(value))

    return await services.registry.ask(encode)


def _json_of(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad_request(say("{name} is no JSON: {error}.", name=name, error=error)) from error


async def _send(
    services: Services,
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    partition: int | None,
) -> Outcome:
    count = len((await describe(services, topic)).partitions)
    if partition is not None and partition >= count:
        raise bad_request(
            say(
                "Topic {topic} has no partition {partition}: it has {count}.",
                topic=topic,
                partition=partition,
                count=count,
            )
        )
    async with services.cluster.producer() as producer:
        written = await producer.send(topic, value, key, partition=partition, headers=headers)
    return Outcome(
        say(
            "The record was written to {topic}, partition {partition}, offset {offset}.",
            topic=topic,
            partition=written.partition,
            offset=written.offset,
        ),
        f"/topics/{part_of_path(topic)}/records/{written.partition}/{written.offset}",
    )


async def _produce(services: Services, arguments: Arguments) -> Outcome:
    return await _send(
        services,
        arguments.path["topic"],
        await _encoded(services, arguments, "key"),
        await _encoded(services, arguments, "value"),
        headers_of(arguments.text("headers")),
        arguments.integer("partition"),
    )


# A copy


@dataclass(frozen=True, slots=True)
class CopyForm:
    """The form for a copy of a record."""

    topic: str
    partition: int
    offset: int
    key_bytes: int | None
    value_bytes: int | None
    headers: int


async def _original(services: Services, arguments: Arguments) -> ConsumerRecord:
    """Return the record to copy. Raise Refused where masks hold: the copy would have what they show in its place."""
    topic = arguments.path["topic"]
    if services.cluster.masks(topic):
        raise Refused(
            Failure(
                403,
                say("Masks hold for you"),
                say(
                    "A copy of a record of {topic} would lack what the masks of this console cover.",
                    topic=topic,
                ),
                say("Ask an administrator for a role that masks do not hold for."),
            )
        )
    return await record_at(services, arguments)


async def _load_copy(services: Services, arguments: Arguments) -> CopyForm:
    record = await _original(services, arguments)
    return CopyForm(
        record.topic,
        record.partition,
        record.offset,
        None if record.key is None else len(record.key),
        None if record.value is None else len(record.value),
        len(record.headers),
    )


async def _copy(services: Services, arguments: Arguments) -> Outcome:
    target = arguments.text("to").strip()
    if not target:
        raise bad_request(say("to is missing: the topic that gets the copy."))
    record = await _original(services, arguments)
    if record.topic == target and not arguments.flag("same"):
        raise Refused(
            Failure(
                409,
                say("The copy would be a second record"),
                say(
                    "{target} is the record's own topic: its readers would see it twice.",
                    target=target,
                ),
                say("Tick that this is meant, or name another topic."),
            )
        )
    headers = list(record.headers)
    partition = arguments.integer("to_partition")
    return await _send(services, target, record.key, record.value, headers, partition)


_PARTITION = Parameter(
    "partition", "integer", "The partition; empty: by the key, as producers do.", minimum=0
)
_PRODUCE = Page(
    path="/topics/{topic}/produce",
    summary="The form for a new record, filled from another one if `from` names it.",
    template="produce.html",
    view=ProduceForm,
    load=_load_form,
    parameters=(
        Parameter("from", "text", "A record of the topic to begin with, such as 0:123."),
        Parameter("key", "text", "The key.", maximum=_MOST_CHARACTERS, is_content=True),
        Parameter("key_format", "choice", "The format of the key.", "null", FORMATS),
        Parameter("value", "text", "The value.", maximum=_MOST_CHARACTERS, is_content=True),
        Parameter(
            "value_format",
            "choice",
            "The format of the value; schema: JSON, written with the newest version of the subject TOPIC-value.",
            "text",
            FORMATS,
        ),
        Parameter(
            "headers",
            "text",
            "Headers, one `name: value` a line; 0x… is hexadecimal.",
            is_content=True,
        ),
        _PARTITION,
    ),
    path_parameters=TOPIC_PATH,
)
_COPY = Page(
    path=f"{RECORD.path}/copy",
    summary="The form for a copy of a record, byte for byte, in another topic.",
    template="record_copy.html",
    view=CopyForm,
    load=_load_copy,
    parameters=(
        Parameter("to", "text", "The topic that gets the copy."),
        Parameter("to_partition", "integer", "Its partition; empty: by the key.", minimum=0),
        Parameter("same", "flag", "It may be the record's own topic.", "false"),
    ),
    path_parameters=RECORD.path_parameters,
)

PAGES = (_PRODUCE, _COPY)
ACTIONS = (
    Action(_PRODUCE, "Write a record.", _produce),
    Action(_COPY, "Write a copy of a record, with its key, value and headers.", _copy),
)
