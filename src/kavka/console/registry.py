"""The console's way to a schema registry: one client of it, calls in threads, and values that its serializers wrote.

A registry's client blocks, so each call has a thread of a small pool: the loop of the console stays free.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

from kavka.client.schemas.errors import (
    FramingError,
    IncompatibleSchema,
    MissingExtra,
    RegistryError,
    RegistryUnavailable,
    SchemaError,
    SchemaNotFound,
)
from kavka.client.schemas.framing import unframe
from kavka.client.schemas.registry import SchemaRegistry
from kavka.client.schemas.serializers import SchemaDeserializer
from kavka.console.failures import Failure, Refused
from kavka.console.sentences import as_is, say

T = TypeVar("T")

_THREADS: Final = 4


class Decoded(NamedTuple):
    """A key or value that was written with a schema; `value` is what JSON can say of it."""

    value: Any
    schema_id: int
    kind: str
    """AVRO, JSON or PROTOBUF."""


class NotLearned(Exception):
    """A value's schema was not asked for yet."""

    def __init__(self, schema_id: int) -> None:
        """Name the schema."""
        super().__init__(f"schema {schema_id}")
        self.schema_id = schema_id


class Registry:
    """A schema registry."""

    def __init__(self, settings: Mapping[str, str], timeout_ms: int) -> None:
        """Take settings as `SchemaRegistry` has them; nothing is asked yet. Raise ValueError for a wrong one."""
        self.url = settings.get("url", "")
        given = {"request.timeout.ms": str(timeout_ms * 3 // 4), **settings}
        self._client = SchemaRegistry(given)
        self._deserializer = SchemaDeserializer(self._client, validate_json=False)
        self._learned: set[int] = set()
        self._pool = ThreadPoolExecutor(_THREADS, "kavka-console-registry")

    def close(self) -> None:
        """Take no more calls; those in progress end by their own timeout."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def ask(self, call: Callable[[SchemaRegistry], T]) -> T:
        """Return what a call of the client returns. Raise Refused for what the registry refuses."""
        try:
            return await self.in_thread(lambda: call(self._client))
        except SchemaError as error:
            raise Refused(_failure_of(error, self.url)) from error

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Return what a function returns that blocks."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def decode(self, data: bytes | None) -> Decoded | None:
        """Return a value that a registry's serializer wrote, None for other bytes. It blocks.

        Raise SchemaError, ValueError.
        """
        if data is None:
            return None
        try:
            framed = unframe(data)
        except FramingError:
            return None
        kind = self._client.schema(framed.schema_id).kind
        try:
            value = as_json(self._deserializer(data))
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        self._learned.add(framed.schema_id)
        return Decoded(value, framed.schema_id, kind)

    def decode_learned(self, data: bytes) -> Any:
        """Return a value whose schema is known, for filters; it does not block. Raise NotLearned, ValueError."""
        framed = unframe(data)
        if framed.schema_id not in self._learned:
            raise NotLearned(framed.schema_id)
        return as_json(self._deserializer(data))

    def learn(self, schema_ids: set[int]) -> None:
        """Ask for schemas; those that cannot be had are passed over. It blocks."""
        for schema_id in schema_ids:
            try:
                self._deserializer.codec(schema_id)
            except SchemaError:
                continue
            self._learned.add(schema_id)


def as_json(value: Any) -> Any:
    """Return a decoded value as JSON has it: messages as objects, bytes in base 64, times in ISO 8601."""
    if hasattr(value, "DESCRIPTOR"):
        from google.protobuf.json_format import MessageToDict

        return MessageToDict(value, preserving_proto_field_name=True)
    if isinstance(value, dict):
        return {str(key): as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    return value


def json_text(value: Any) -> str:
    """Return a decoded value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def no_registry() -> Refused:
    """Return the refusal of what needs a registry."""
    return Refused(
        Failure(
            404,
            say("No schema registry"),
            say("This console was started without a schema registry."),
            say("Start it with --schema-registry http://host:8081."),
        )
    )


def _failure_of(error: SchemaError, url: str) -> Failure:
    sentence = as_is(f"{error}.")
    if isinstance(error, RegistryUnavailable):
        return Failure(
            503,
            say("The schema registry does not answer"),
            sentence,
            say("Check that one runs at {url}.", url=url),
        )
    if isinstance(error, SchemaNotFound):
        return Failure(404, say("Not found"), sentence, say("Look at the list of subjects."))
    if isinstance(error, IncompatibleSchema):
        return Failure(
            409,
            say("The registry refuses this schema"),
            sentence,
            say("Change the schema, or the compatibility level of the subject."),
        )
    if isinstance(error, MissingExtra):
        return Failure(
            501, say("A library is missing"), sentence, say("Start the console again with it.")
        )
    status = error.status if isinstance(error, RegistryError) else 400
    if status in (401, 403):
        return Failure(
            403,
            say("The schema registry refuses the console"),
            sentence,
            say("Check the file of --schema-registry-config."),
        )
    return Failure(
        422,
        say("The schema registry refuses this"),
        sentence,
        say("Correct the values and try again."),
    )
