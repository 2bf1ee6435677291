"""The history of a console: looks at the cluster every few seconds, keeps them, and gives what charts show.

SQLite runs on a thread of its own. A look that failed is a gap.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypeVar

from kavka.console.connection import ClusterConnection
from kavka.console.history.file import HistoryFile
from kavka.console.history.look import Looks
from kavka.console.history.series import METRICS, Key, Metric, tier_for, topic_of_group, with_gaps
from kavka.console.history.snapshot import Snapshot, values_of
from kavka.console.options import ConsoleOptions
from kavka.console.sentences import NOTHING, Sentence, say
from kavka.errors import KafkaError

log = logging.getLogger(__name__)

T = TypeVar("T")

_SHARE: Final = 33
"""The time between two looks is at least so many times the processor's time of one: 3% of a core at most."""

OnLook = Callable[[Snapshot | None, str], Awaitable[None]]
"""Called after each look with what it found; with None and the reason after one that failed."""


class Chart(NamedTuple):
    """The points of one series."""

    metric: Metric
    times: list[int]
    values: list[float | None]


class History:
    """The history, while the console runs: `start`, then `stop`."""

    def __init__(self, cluster: ClusterConnection, options: ConsoleOptions) -> None:
        """Open the file. Raise HistoryError."""
        self._file = HistoryFile(options.history, options.most_history_bytes, options.most_series)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kavka-console-history")
        self._looks = Looks(cluster)
        self._interval_s = options.history_interval_ms / 1000
        self._task: asyncio.Task[None] | None = None
        self._took_s = 0.0
        self._is_of_another = False
        self.on_look: OnLook | None = None
        self.latest: Snapshot | None = None
        self.note = NOTHING
        """The reason why nothing is kept, empty where all is well."""
        self.fault = ""
        """The reason why the file could not be written at the last look that had something to keep; else empty."""

    @property
    def path(self) -> str:
        """Return the file's path, empty for a history in memory."""
        return str(self._file.path or "")

    @property
    def interval_s(self) -> float:
        """Return the time between two looks."""
        return max(self._interval_s, self._took_s * _SHARE)

    async def run(self, work: Callable[[HistoryFile], T]) -> T:
        """Return what a function makes of the file, on the file's thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, work, self._file)

    def start(self) -> None:
        """Begin to look."""
        if self._interval_s > 0:
            self._task = asyncio.create_task(self._run(), name="kavka-console-history")

    async def stop(self) -> None:
        """Look no more, and close the file."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.run(HistoryFile.close)
        self._thread.shutdown()

    async def _run(self) -> None:
        while True:
            began_s = time.monotonic()
            await self.look()
            await asyncio.sleep(max(self.interval_s - (time.monotonic() - began_s), 0.1))

    async def look(self) -> None:
        """Look once, now. Nothing that fails ends the looks: the next one begins from what is kept."""
        used_s = time.thread_time()
        snapshot, reason = None, ""
        try:
            self.latest = snapshot = await self._looks.look()
            self.note = await self._keep(snapshot)
            self.fault = ""
        except (KafkaError, OSError) as error:
            log.info("look at the cluster failed reason=%s", error)
            reason = str(error) or type(error).__name__
            self.note = say(
                "The last look at the cluster failed: {reason}. Until one succeeds, charts have "
                "a gap.",
                reason=reason,
            )
        except sqlite3.Error as error:
            log.error("look was not kept path=%s reason=%s", self.path, error)
            self.fault = str(error)
            self.note = say("The last look was not kept: {error}.", error=error)
        except Exception as error:
            # A mistake of ours: alerts are decided even so, and the pages say what is missing.
            log.exception("look was not kept")
            self.note = say("The last look was not kept: {error}.", error=error)
        try:
            if self.on_look is not None and not self._is_of_another:
                await self.on_look(snapshot, reason)
        except Exception as error:
            # What was decided is undone, and is decided again at the next look.
            log.exception("alerts were not decided")
            self.note = say("Alerts were not decided at the last look: {error}.", error=error)
        self._took_s = time.thread_time() - used_s

    async def _keep(self, snapshot: Snapshot) -> Sentence:
        """Keep a look; return why it was not kept whole."""
        cluster_id = snapshot.cluster_id
        if cluster_id:
            self._is_of_another = not await self.run(lambda file: file.is_of_cluster(cluster_id))
        if self._is_of_another:
            return say(
                "{path} has the history of another cluster, so nothing is kept of this one, and "
                "no alert is decided. Start the console with another file: --history FILE",
                path=self.path,
            )
        values = values_of(snapshot)
        return left_out(*await self.run(lambda file: _add(file, int(snapshot.at_s), values)))

    async def charts(
        self, kind: str, name: str, metrics: tuple[Metric, ...], span_s: int, begin_s: int = 0
    ) -> list[Chart]:
        """Return the charts of a subject over the last seconds, of those metrics that have a point.

        Points before `begin_s` are left out.
        """
        summed = {metric: [Key(kind, name, metric.name)] for metric in metrics}
        return await self._charts(summed, span_s, begin_s)

    async def lag_in_topics(
        self, group: str, topics: Iterable[str], span_s: int, begin_s: int
    ) -> list[Chart]:
        """Return the chart of a group's lag in records, in some of its topics.

        A longer step is the sum of the highest lags that the topics had in it.
        """
        lag = next(metric for metric in METRICS["group"] if metric.name == "lag_records")
        keys = [topic_of_group(topic, group) for topic in topics]
        return await self._charts({lag: keys}, span_s, begin_s)

    async def _charts(
        self, summed: Mapping[Metric, list[Key]], span_s: int, begin_s: int
    ) -> list[Chart]:
        """Return the charts of sums of series, of those that have a point."""
        until_s = int(time.time())
        from_s = until_s - span_s
        tier, step_s = tier_for(span_s)
        wanted = [key for keys in summed.values() for key in keys]
        points = await self.run(
            lambda file: file.points(wanted, tier, max(from_s, begin_s), until_s)
        )
        longest_s = int(max(step_s, self.interval_s) * 2.5)
        charts = []
        for metric, keys in summed.items():
            times, values = with_gaps(
                _sums(points[key] for key in keys),
                from_s,
                until_s,
                step_s,
                longest_s,
                metric.aggregate,
            )
            if any(value is not None for value in values):
                charts.append(Chart(metric, times, values))
        return charts

    async def topics_of_group(self, group: str) -> tuple[set[str], int]:
        """Return `HistoryFile.topics_of_group`."""
        return await self.run(lambda file: file.topics_of_group(group))

    async def limits(self, kind: str, name: str) -> Sentence:
        """Return what the charts of a subject lack for the user; nothing here."""
        return NOTHING


def _sums(series: Iterable[list[tuple[int, float]]]) -> list[tuple[int, float]]:
    """Return the sum at each time of the series that have a value then."""
    found: dict[int, float] = {}
    for points in series:
        for at_s, value in points:
            if not math.isnan(value):
                found[at_s] = found.get(at_s, 0.0) + value
    return sorted(found.items())


def left_out(series: int, of_topics: int) -> Sentence:
    """Return that so many series, and so many of a group in a topic, are not kept; empty where all are."""
    if series:
        return say(
            "{left_out} series are not kept: there are more than the history has room for.",
            left_out=series + of_topics,
        )
    if of_topics:
        return say(
            "{left_out} series of a group in one topic are not kept: there are more than the history has room for. "
            "Users who see some topics of a group miss part of its lag.",
            left_out=of_topics,
        )
    return NOTHING


def _add(file: HistoryFile, at_s: int, values: dict[Key, float]) -> tuple[int, int]:
    file.add(at_s, values)
    return file.left_out, file.left_out_of_topics
