"""A console in the test's process, beside one broker, and what fills its topics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from starlette.testclient import TestClient

from kavka.client import TopicPartition, blocking
from kavka.client.admin import NewTopic
from kavka.console.alerts.service import Alerts
from kavka.console.application import create_application
from kavka.console.connection import ClusterConnection
from kavka.console.history.recorder import History
from kavka.console.options import ConsoleOptions
from kavka.console.sampler import Sampler
from kavka.console.subject import Services

T = TypeVar("T")

Headers = Sequence[tuple[str, bytes | None]]


class Cluster:
    """A broker of the test, and what a program does with it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.settings = {"bootstrap.servers": bootstrap}

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        made = NewTopic(name, partitions, 1, {k.replace("__", "."): v for k, v in configs.items()})
        with blocking.Admin(self.settings) as admin:
            found = admin.create_topics([made])
        assert not isinstance(found[name], Exception), found

    def write(
        self,
        topic: str,
        records: Sequence[tuple[bytes | None, bytes | None]],
        partition: int = 0,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> None:
        with blocking.Producer(self.settings) as producer:
            for key, value in records:
                producer.send(
                    topic,
                    value,
                    key=key,
                    partition=partition,
                    headers=list(headers),
                    timestamp_ms=timestamp_ms,
                )

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        with blocking.Admin(self.settings) as admin:
            found = admin.alter_group_offsets(
                group, {TopicPartition(*key): offset for key, offset in offsets.items()}
            )
        assert not any(found.values()), found

    def committed(self, group: str) -> dict[Any, int]:
        with blocking.Admin(self.settings) as admin:
            return {key: value.offset for key, value in admin.list_group_offsets(group).items()}


@contextmanager
def console(bootstrap: str, **options: Any) -> Iterator[TestClient]:
    """Run a console and yield a client of it, which names it as a browser on this machine does."""
    chosen = ConsoleOptions(
        bootstrap, **{"sample_interval_ms": 0, "history_interval_ms": 0, **options}
    )
    with TestClient(create_application(chosen), base_url="http://127.0.0.1:8080") as client:
        yield client


def with_services(bootstrap: str, use: Callable[[Services], Awaitable[T]], **options: Any) -> T:
    """Run a coroutine with the services of a console, without its pages."""

    async def run() -> T:
        chosen = ConsoleOptions(bootstrap, **options)
        cluster = ClusterConnection(chosen)
        history = History(cluster, chosen)
        alerts = Alerts(history, cluster, chosen.rules)
        await alerts.start()
        try:
            return await use(Services(cluster, Sampler(cluster, 0), history, alerts))
        finally:
            await alerts.stop()
            await history.stop()
            await cluster.close()

    return asyncio.run(run())
