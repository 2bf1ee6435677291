"""Looks at the cluster: what one sample of the history and of the alerts needs, asked through the console's client.

Topics and offsets are asked at each look, log directories every five minutes, since they name every replica. The times
of unread records are looked up for at most 500 partitions a look, those of each group that stand longest first; a
partition that stands is asked about again after five minutes only.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

from kavka.client.admin.records import OffsetSpec
from kavka.client.admin.topics import TopicDescription
from kavka.client.lag import Lag
from kavka.client.list_offsets import OffsetAndTimestamp
from kavka.console.connection import ClusterConnection
from kavka.console.history.groups import Found, GroupOffsets, GroupTracker, Wanted
from kavka.console.history.snapshot import EndsTracker, Snapshot, TopicFigures, lacking
from kavka.console.leaders import offsets_by_leader
from kavka.console.views.brokers import LogDirs, broker_rows
from kavka.console.views.topics import replica_sizes, topic_size
from kavka.errors import KafkaError
from kavka.ids import BrokerId, TopicPartition

log = logging.getLogger(__name__)

_LOG_DIRS_EVERY_S = 300.0
_MOST_TIMES = 500
_GROUPS_AT_ONCE = 50
_CONSUMER_TYPES = ("", "consumer")
"""Protocol types of groups that commit offsets of topics; simple commits have none."""


class Looks:
    """Looks one after the other, and what is kept from one to the next."""

    def __init__(self, cluster: ClusterConnection) -> None:
        """Take the connection."""
        self._cluster = cluster
        self._ends = EndsTracker()
        self._groups = GroupTracker()
        self._log_dirs: LogDirs = {}
        self._log_dirs_s = -_LOG_DIRS_EVERY_S
        self._sizes: dict[str, int | None] = {}

    async def look(self) -> Snapshot:
        """Return the cluster as it is now. Raise KafkaError, OSError."""
        description, topics = await asyncio.gather(
            self._cluster.ask(lambda admin: admin.describe_cluster()), self._cluster.topics()
        )
        groups, is_whole = await self._committed()
        # After the offsets: a lag is never below what it was.
        ends = await self._find_ends(topics)
        await self._look_at_log_dirs(topics)
        # Durations and rates are by the monotonic clock: the other one may be set.
        at_s, monotonic_s = time.time(), time.monotonic()
        rates, brokers_in = self._ends.look(monotonic_s, topics, ends)
        self._groups.look(monotonic_s, groups, ends, is_whole=is_whole)
        await self._look_up_times(at_s, monotonic_s)
        shown = {
            name: self._topic(monotonic_s, name, rates)
            for name, topic in topics.items()
            if not topic.is_internal
        }
        return Snapshot(
            at_s=at_s,
            cluster_id=description.cluster_id or "",
            controller=description.controller_id if description.controller_id >= 0 else None,
            brokers=broker_rows(description, topics.values(), self._log_dirs),
            health=lacking(topics),
            topics=shown,
            groups=self._groups.figures(monotonic_s, groups, ends, at_s),
            brokers_in=brokers_in,
        )

    def _topic(self, monotonic_s: float, name: str, rates: Mapping[str, float]) -> TopicFigures:
        idle_s, is_known = self._ends.idle(monotonic_s, name)
        out = self._groups.topics_out.get(name, 0.0) if name in rates else None
        return TopicFigures(rates.get(name), out, self._sizes.get(name), idle_s, is_known)

    async def _find_ends(self, topics: Mapping[str, TopicDescription]) -> dict[TopicPartition, int]:
        wanted = {name: topic.partitions for name, topic in topics.items()}
        found = await offsets_by_leader(self._cluster, wanted, OffsetSpec.LATEST)
        return {
            at: answer.offset
            for at, answer in found.items()
            if isinstance(answer, OffsetAndTimestamp)
        }

    async def _committed(self) -> tuple[dict[str, GroupOffsets], bool]:
        """Return the groups whose offsets the console may see, and whether these are all.

        Those that fail, or whose coordinator does not answer, are missing until the next look.
        """
        failures: dict[BrokerId, Exception] = {}
        part_ms = self._cluster.options.part_ms
        listings = await self._cluster.ask(
            lambda admin: admin.list_groups(timeout_ms=part_ms, failures=failures)
        )
        for broker_id, error in failures.items():
            log.info("groups of broker not found broker=%d reason=%s", broker_id, error)
        states = {
            one.group_id: one.state for one in listings if one.protocol_type in _CONSUMER_TYPES
        }
        found: dict[str, GroupOffsets] = {}
        names = sorted(states)
        for begin in range(0, len(names), _GROUPS_AT_ONCE):
            some = names[begin : begin + _GROUPS_AT_ONCE]
            answers = await self._cluster.ask(
                lambda admin, some=some: admin.list_offsets_of_groups(some)  # type: ignore[misc]
            )
            for name, answer in answers.items():
                if isinstance(answer, Exception):
                    log.info("offsets of group not found group=%s reason=%s", name, answer)
                    continue
                committed = {at: value.offset for at, value in answer.items()}
                found[name] = GroupOffsets(states[name], committed)
        return found, not failures and len(found) == len(states)

    async def _look_at_log_dirs(self, topics: Mapping[str, TopicDescription]) -> None:
        if time.monotonic() - self._log_dirs_s < _LOG_DIRS_EVERY_S:
            return
        try:
            self._log_dirs = await self._cluster.ask(lambda admin: admin.describe_log_dirs())
        except KafkaError as error:
            log.info("log directories not found reason=%s", error)
            self._log_dirs = {}
        self._log_dirs_s = time.monotonic()
        sizes = replica_sizes(self._log_dirs)
        self._sizes = {name: topic_size(topic, sizes) for name, topic in topics.items()}

    async def _look_up_times(self, at_s: float, monotonic_s: float) -> None:
        for some in _rounds(self._groups.wanted(monotonic_s, _MOST_TIMES)):
            positions = {one.at: one.position for one in some}
            try:
                answers = await self._cluster.ask(
                    lambda admin, positions=positions: admin.lags(positions)  # type: ignore[misc]
                )
            except (KafkaError, OSError) as error:
                log.info("times of records not found reason=%s", error)
                return
            found = []
            for one in some:
                lag = answers.get(one.at)
                if isinstance(lag, Lag):
                    found.append((one, _found(lag, at_s)))
            self._groups.found(monotonic_s, found)


def _found(lag: Lag, at_s: float) -> Found:
    timestamp_ms = None if lag.seconds is None else round((at_s - lag.seconds) * 1000)
    return Found(lag.end_offset - lag.records, timestamp_ms)


def _rounds(wanted: Sequence[Wanted]) -> list[list[Wanted]]:
    """Return the records in rounds that have each partition once: several groups may read one."""
    rounds: list[list[Wanted]] = []
    count: dict[TopicPartition, int] = {}
    for one in wanted:
        number = count.get(one.at, 0)
        count[one.at] = number + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(one)
    return rounds
