"""Lag, members and states of consumer groups as a page for Prometheus; names are kafka_exporter's, or begin kavka_."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kavka.client.admin import Admin
from kavka.client.admin.groups import GroupDescription
from kavka.collect.groups import group_samples, matching_groups
from kavka.collect.host import Sample
from kavka.errors import KafkaError
from kavka.io import Network
from kavka.metrics import process
from kavka.metrics.families import Family, counter, gauge, labelled

_HELP: Mapping[str, str] = {
    "kafka_consumergroup_lag": "Records of a partition that a group has not read yet.",
    "kafka_consumergroup_lag_seconds": "Age of the first record that a group has not read yet.",
    "kafka_consumergroup_members": "Members of a group.",
    "kavka_consumergroup_state": "1 for the state of a group.",
}


class GroupPage:
    """Reads the groups of a cluster at an interval. When the cluster does not answer, the page has no groups."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        pattern: re.Pattern[str],
        on_failure: Callable[[str], None],
        network: Network | None = None,
    ) -> None:
        """Take a client's settings, a pattern for the whole names of groups, and the client's network (default: TCP).

        `on_failure` is called with the reason of a failure, once while it stays the same.
        """
        self._settings = settings
        self._network = network
        self._pattern = pattern
        self._on_failure = on_failure
        self._samples: Sequence[Sample] = ()
        self._is_up = False
        self._failures = 0
        self._read_s = 0.0
        self._last_failure = ""

    async def run(self, stop: asyncio.Event, interval_s: float) -> None:
        """Read at each interval until `stop`, which ends a reading as well: a cluster may not answer for long.

        Raise InvalidSetting.
        """
        reading = asyncio.create_task(self._read_at_intervals(interval_s))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            stopping.cancel()
        await asyncio.wait((reading,))
        if not reading.cancelled():
            reading.result()

    async def _read_at_intervals(self, interval_s: float) -> None:
        while True:
            started_s = time.monotonic()
            await self.read()
            self._read_s = time.monotonic() - started_s
            await asyncio.sleep(max(0.0, interval_s - self._read_s))

    async def read(self) -> None:
        """Read once."""
        try:
            async with Admin(self._settings, network=self._network) as admin:
                groups, silent = await matching_groups(admin, self._pattern)
                samples, failure = await group_samples(admin, groups)
                failure = failure or silent
                samples += await _member_samples(admin, groups)
        except (KafkaError, OSError, TimeoutError) as error:
            self._samples, self._is_up = (), False
            failure = str(error) or type(error).__name__
        else:
            self._samples, self._is_up = samples, True
        self._failures += bool(failure)
        if failure and failure != self._last_failure:
            self._on_failure(failure)
        self._last_failure = failure or ""

    def families(self) -> Iterator[Family]:
        """Yield the families; may be called from another thread."""
        samples = self._samples
        for name, help in _HELP.items():
            chosen = [(labelled(**s.labels), s.value) for s in samples if s.name == name]
            yield gauge(name, help, chosen)
        yield gauge("kavka_groups_up", "1 if the cluster answered last.", int(self._is_up))
        help = "Readings that failed, of the cluster or of a group."
        yield counter("kavka_groups_failures_total", help, self._failures)
        help = "How long the last reading took."
        yield gauge("kavka_groups_read_seconds", help, round(self._read_s, 6))
        yield from process.families()


async def _member_samples(admin: Admin, groups: Sequence[str]) -> list[Sample]:
    described = await admin.describe_groups(groups)
    samples = []
    for group_id, found in sorted(described.items()):
        if isinstance(found, GroupDescription):
            labels = {"consumergroup": group_id}
            members = len(found.members)
            samples.append(Sample("kafka_consumergroup_members", members, labels))
            state = {**labels, "state": found.state}
            samples.append(Sample("kavka_consumergroup_state", 1, state))
    return samples
