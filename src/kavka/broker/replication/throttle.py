"""Throttles of replication (KIP-73): a rate over the last eleven seconds, and the replicas that it is for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from kavka.broker.configs.effective_configs import EffectiveConfigs
from kavka.broker.context import BrokerContext
from kavka.broker.partitions.replica import Replica, ReplicaObserver
from kavka.ids import BrokerId, TopicPartition
from kavka.io import Clock
from kavka.settings.declaration import LONG_MAX, Value

_SAMPLE_MS: Final = 1000
_SAMPLES: Final = 11
_CHECK_MS: Final = 100


class Throttle:
    """Bytes per second of one side."""

    def __init__(self, clock: Clock, rate: Callable[[], int]) -> None:
        """`rate` is asked each time: it may change."""
        self._clock = clock
        self._rate = rate
        # (beginning of the sample, bytes), oldest first.
        self._samples: deque[tuple[int, int]] = deque()
        self._waiting: dict[ReplicaObserver, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_limited(self) -> bool:
        """Return whether there is a limit at all."""
        return self._rate() < LONG_MAX

    @property
    def holds_back(self) -> bool:
        """Return whether requests wait for the rate to fall below the throttle."""
        return bool(self._waiting)

    def record(self, size: int) -> None:
        """Count bytes."""
        now_ms = self._clock.tick_ms()
        if self._samples and now_ms - self._samples[-1][0] < _SAMPLE_MS:
            begin_ms, counted = self._samples.pop()
            self._samples.append((begin_ms, counted + size))
        else:
            self._samples.append((now_ms, size))

    @property
    def is_exceeded(self) -> bool:
        """Return whether the rate was exceeded over the samples, at least one second."""
        if not self._samples:
            return False
        rate = self._rate()
        now_ms = self._clock.tick_ms()
        while self._samples and now_ms - self._samples[0][0] >= _SAMPLES * _SAMPLE_MS:
            self._samples.popleft()
        total = sum(counted for _begin_ms, counted in self._samples)
        # As Kafka's SimpleRate: the time since the first sample, and never less than one whole sample.
        elapsed_ms = max(now_ms - self._samples[0][0], _SAMPLE_MS) if self._samples else _SAMPLE_MS
        return total * 1000 > rate * elapsed_ms

    def call_when_free(self, observer: ReplicaObserver) -> None:
        """Notify an observer when the rate is below the limit again."""
        self._waiting[observer] = None
        if self._timer is None:
            self._schedule_check()

    def _schedule_check(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_CHECK_MS / 1000, self._check)

    def _check(self) -> None:
        self._timer = None
        if self.is_exceeded:
            self._schedule_check()
            return
        waiting, self._waiting = self._waiting, {}
        for observer in waiting:
            observer.notify()

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ThrottledReplicas:
    """The throttled replicas of a topic's setting: pairs of partition and broker, or all by `*`."""

    def __init__(self, effective_configs: EffectiveConfigs, setting: str) -> None:
        """Read `setting` of each topic as it is now."""
        self._effective_configs = effective_configs
        self._setting = setting
        self._known: dict[str, tuple[Mapping[str, Value], frozenset[str]]] = {}

    def includes(self, topic_partition: TopicPartition, replica: BrokerId) -> bool:
        """Return whether a replica is named."""
        values = self._effective_configs.topic(topic_partition.topic)
        known = self._known.get(topic_partition.topic)
        if known is None or known[0] is not values:
            named = values[self._setting]
            assert isinstance(named, list)
            known = self._known[topic_partition.topic] = (values, frozenset(named))
        return "*" in known[1] or f"{topic_partition.partition}:{replica}" in known[1]


class LeaderThrottle(Throttle):
    """The throttle of what followers are given (`leader.replication.throttled.rate`)."""

    def __init__(self, context: BrokerContext) -> None:
        """Apply the settings of the broker and of its topics as they are at each time."""
        effective_configs = context.effective_configs
        super().__init__(
            context.clock,
            partial(effective_configs.broker_integer, "leader.replication.throttled.rate"),
        )
        self._context = context
        self._replicas = ThrottledReplicas(
            effective_configs, "leader.replication.throttled.replicas"
        )

    def throttles(self, replica: Replica, follower: BrokerId, now_ms: int) -> bool:
        """Return whether a follower must not get records now; one that the high watermark waits for always may."""
        if not self.is_exceeded or replica.partition.waits_for(follower, now_ms):
            return False
        return self._replicas.includes(replica.topic_partition, self._context.broker_id)

    def record_served(self, replica: Replica, follower: BrokerId, size: int) -> None:
        """Count bytes that a follower got, if they count."""
        if (
            size
            and follower not in replica.partition.in_sync_replicas
            and self.is_limited
            and self._replicas.includes(replica.topic_partition, self._context.broker_id)
        ):
            self.record(size)


class FollowerThrottle(Throttle):
    """The throttle of what is fetched from leaders (`follower.replication.throttled.rate`)."""

    def __init__(self, context: BrokerContext) -> None:
        """Apply the settings of the broker and of its topics as they are at each time."""
        effective_configs = context.effective_configs
        super().__init__(
            context.clock,
            partial(effective_configs.broker_integer, "follower.replication.throttled.rate"),
        )
        self._context = context
        self._replicas = ThrottledReplicas(
            effective_configs, "follower.replication.throttled.replicas"
        )

    def throttles(self, replica: Replica) -> bool:
        """Return whether a replica must not be fetched now; one that has all that is committed always may."""
        if not self.is_exceeded or replica.has_all_committed:
            return False
        return self._replicas.includes(replica.topic_partition, self._context.broker_id)

    def record_fetched(self, replica: Replica, size: int) -> None:
        """Count bytes that were fetched, if they count."""
        if self.is_limited and self._replicas.includes(
            replica.topic_partition, self._context.broker_id
        ):
            self.record(size)
