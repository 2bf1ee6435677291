"""The console's way to the cluster: one admin client, consumers as they are needed, and bounds on both.

The admin client is made with the first question, and made again after it could not be: a console may start before its
cluster. Answers about all topics are kept for two seconds, so that several pages ask once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from kavka.client.admin.admin import Admin
from kavka.client.admin.topics import TopicDescription
from kavka.client.config import ADMIN, CONSUMER, PRODUCER
from kavka.client.consumer.consumer import Consumer
from kavka.client.producer.producer import Producer
from kavka.client.setting_names import settings_for
from kavka.console.failures import Failure, Refused
from kavka.console.options import ConsoleOptions
from kavka.console.sentences import say
from kavka.errors import KafkaError

log = logging.getLogger(__name__)

T = TypeVar("T")

_TOPICS_AGE_S: Final = 2.0
_NOT_OURS: Final = ("group.id", "group.instance.id", "key.deserializer", "value.deserializer")
"""Settings of the program that shares the file."""
_OF_PRODUCERS: Final = (
    "transactional.id", "key.serializer", "value.serializer", "interceptor.classes", "linger.ms", "acks",
    "enable.idempotence",
)  # fmt: skip


class ClusterConnection:
    """All that pages ask goes through here. Use `ask` for the admin client, `consumer` to read; `close` at the end."""

    def __init__(self, options: ConsoleOptions) -> None:
        """Take the options; nothing is opened yet. Raise InvalidSetting for settings that no client takes."""
        self.options = options
        self.is_masked = False
        """See `scope.ScopedCluster`."""
        # A client gives up before the page does, and says why; it asks another broker before that.
        self._settings: dict[str, Any] = {
            "client.id": "kavka-console",
            "request.timeout.ms": str(options.timeout_ms // 2),
            "default.api.timeout.ms": str(options.timeout_ms * 3 // 4),
            # A broker that stands still takes connections, and never answers: another is asked in time.
            "socket.connection.setup.timeout.ms": str(options.part_ms),
            **{k: v for k, v in options.settings.items() if k not in _NOT_OURS},
            "bootstrap.servers": options.bootstrap_servers,
        }
        # These say what is wrong before the first page.
        Admin(settings_for(ADMIN, self._settings))
        self._make_consumer({})
        self._admin: Admin | None = None
        self._starting: asyncio.Task[Admin] | None = None
        self._calls = asyncio.Semaphore(options.most_calls)
        self._readers = 0
        self._closing: set[asyncio.Task[None]] = set()
        self._topics: tuple[float, dict[str, TopicDescription]] | None = None
        self._asking_topics: asyncio.Task[dict[str, TopicDescription]] | None = None

    def masks(self, topic: str) -> bool:
        """Return whether masks hold in a topic: `scope.ScopedCluster` knows them."""
        return False

    async def close(self) -> None:
        """Close the admin client, and wait for consumers that are being closed."""
        await asyncio.gather(*self._closing, return_exceptions=True)
        tasks: list[asyncio.Task[Any]] = [
            task for task in (self._asking_topics, self._starting) if task is not None
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._admin is not None:
            await self._admin.close()
            self._admin = None

    async def _open_admin(self) -> Admin:
        """Return the admin client; those that ask while it connects share the attempt, and its failure."""
        if self._admin is not None:
            return self._admin
        if self._starting is None:
            self._starting = asyncio.create_task(self._start_admin())
            self._starting.add_done_callback(self._has_started)
        return await asyncio.shield(self._starting)

    async def _start_admin(self) -> Admin:
        admin = Admin(settings_for(ADMIN, self._settings))
        await admin.start()
        self._admin = admin
        return admin

    def _has_started(self, task: asyncio.Task[Admin]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # it is raised to those that wait, if there are any

    async def ask(self, call: Callable[[Admin], Awaitable[T]]) -> T:
        """Return what the admin client answers, within the page's time. Raise what it raises, TimeoutError."""
        limit_ms = self.options.timeout_ms
        limit = asyncio.timeout(limit_ms / 1000)
        try:
            async with limit, self._calls:
                return await call(await self._open_admin())
        except TimeoutError as error:
            if limit.expired():
                raise TimeoutError(f"no answer in {limit_ms} ms") from error
            raise

    async def topics(self) -> dict[str, TopicDescription]:
        """Return all topics, as of two seconds ago at most; those that ask at the same time share one request."""
        loop = asyncio.get_running_loop()
        if self._topics is not None and loop.time() - self._topics[0] < _TOPICS_AGE_S:
            return self._topics[1]
        if self._asking_topics is None:
            self._asking_topics = asyncio.create_task(self._ask_topics())
            self._asking_topics.add_done_callback(self._has_asked)
        return await asyncio.shield(self._asking_topics)

    async def _ask_topics(self) -> dict[str, TopicDescription]:
        found = await self.ask(lambda admin: admin.describe_topics())
        topics = {
            name: topic
            for name, topic in sorted(found.items())
            if not isinstance(topic, KafkaError)
        }
        self._topics = (asyncio.get_running_loop().time(), topics)
        return topics

    def _has_asked(self, task: asyncio.Task[dict[str, TopicDescription]]) -> None:
        self._asking_topics = None
        if not task.cancelled():
            task.exception()  # it is raised to those that wait, if there are any

    def forget_topics(self) -> None:
        """Ask again for all topics: one was created, deleted or changed."""
        self._topics = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the console's clients, those of the cluster's credential among them."""
        return dict(self._settings)

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[Producer]:
        """Open a producer for one record. Raise what it raises."""
        wanted = {
            **{k: v for k, v in self._settings.items() if k not in _OF_PRODUCERS},
            "request.timeout.ms": str(self.options.timeout_ms * 3 // 4),
            "max.block.ms": str(self.options.timeout_ms * 3 // 4),
            "delivery.timeout.ms": str(self.options.timeout_ms),
        }
        async with self._calls, Producer(settings_for(PRODUCER, wanted)) as made:
            yield made

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Count a reader while it reads. Raise Refused when as many as may be are open."""
        if self._readers >= self.options.most_readers:
            raise Refused(
                Failure(
                    503,
                    say("Too many readers"),
                    say(
                        "{readers} pages of this console read messages at this moment, which is its "
                        "limit.",
                        readers=self._readers,
                    ),
                    say("Close one that follows a topic, or wait until a search has ended."),
                )
            )
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    def _make_consumer(self, settings: dict[str, str]) -> Consumer:
        # A topic that is deleted while one reads it stays deleted.
        fixed = {"enable.auto.commit": "false", "allow.auto.create.topics": "false"}
        wanted = {**self._settings, **fixed, **settings}
        return Consumer(settings_for(CONSUMER, wanted))

    @asynccontextmanager
    async def consumer(self, **settings: str) -> AsyncIterator[Consumer]:
        """Open a consumer without a group. Raise Refused when as many as may be are open, and what it raises."""
        async with self.reading():
            consumer = self._make_consumer(
                {name.replace("_", "."): value for name, value in settings.items()}
            )
            await consumer.start()
            try:
                yield consumer
            finally:
                # In a task of its own: where a browser has left, every await here is cancelled at once.
                closing = asyncio.create_task(consumer.close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
