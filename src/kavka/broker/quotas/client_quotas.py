"""The quotas of users and clients: what a request is charged, and for how long it throttles its client.

    producer_byte_rate         a Produce, by the bytes of its frame, when it is read
    consumer_byte_rate         a Fetch of a consumer, by the records that it finds; while other clients of the rate are
                               above it the response is empty, and nothing is counted
    request_percentage         any request but those between brokers, by the event loop's time, when its response is
                               ready
    controller_mutation_rate   CreateTopics, CreatePartitions, DeleteTopics, by partitions (`MutationQuota`)

Rates and keys are Apache Kafka's (`kavka.core.quota`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from hashlib import sha256
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.loop_time import LoopTime
from kavka.core.access.names import CLUSTER_NAME, AclOperation, AclResourceType
from kavka.core.quota.alterations import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from kavka.core.quota.entities import Match, QuotaEntity, QuotaKey, QuotaLimits
from kavka.core.quota.rate import MAX_THROTTLE_MS, Average, LimitedRate, Windows
from kavka.core.quota.sensors import Sensors
from kavka.core.quota.token_bucket import MutationQuota, TokenBucket
from kavka.io import Clock
from kavka.net.event_loop import iterations_of
from kavka.net.work_meter import LoopClock, WorkMeter
from kavka.wire.apis import ApiKey

BETWEEN_BROKERS: Final = frozenset(
    (
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    )
)
"""APIs that no quota of request time holds for."""
_ACT: Final = AclOperation.CLUSTER_ACTION
_NS_PER_PERCENT: Final = 10_000_000
"""One hundredth of a second of the loop's time is one percent of a second."""
_MAX_KNOWN: Final = 10_000
_MAX_ID: Final = 255
"""Characters of a client id that are kept; of a longer one, which may have 32767, a digest is."""

T = TypeVar("T")


class Metered(Generic[T]):
    """The counter of one entity, with the times for which it was throttled."""

    __slots__ = ("meter", "throttle_ms")

    def __init__(self, meter: T) -> None:
        """Begin with nothing counted."""
        self.meter = meter
        self.throttle_ms = Average()
        """Of each throttled request."""


class FetchCharge(NamedTuple):
    """The outcome of charging the bytes that a Fetch has found."""

    throttle_ms: int
    is_refused: bool
    """True if they are not sent now."""


class KindOfQuota(Generic[T]):
    """The limits of one kind, and what is counted by them."""

    def __init__(self, sensors: Sensors[QuotaKey, Metered[T]]) -> None:
        """Begin without limits."""
        self._limits = QuotaLimits({})
        self.has_limits = False
        # The matches of clients that were seen since the limits changed.
        self._known: dict[tuple[str, str], Match | None] = {}
        self.sensors = sensors

    def set_limits(self, limits: Mapping[QuotaEntity, float]) -> None:
        """Go by other limits from now on."""
        self._limits = QuotaLimits(limits)
        self.has_limits = bool(limits)
        self._known.clear()

    def match(self, context: RequestContext) -> Match | None:
        """Return the limit of a request's client, None if it has none."""
        client = (context.session.principal.name, context.client_id)
        try:
            return self._known[client]
        except KeyError:
            found = self._limits.match(*client)
            if len(client[1]) > _MAX_ID:
                return None if found is None else found._replace(key=_short(found.key))
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[client] = found
            return found

    def limit_of(self, key: QuotaKey) -> float | None:
        """Return the limit of those that share a rate, None if it was removed."""
        match = self._limits.match(key.user or "", key.client_id or "")
        return None if match is None else match.limit

    def counted(self, now_ms: int) -> Iterator[tuple[QuotaKey, Metered[T]]]:
        """Yield what is counted, for the metrics."""
        return self.sensors.items(now_ms)


def _short(key: QuotaKey) -> QuotaKey:
    """Return a key that takes little memory, and is another one for another client id."""
    if key.client_id is None:
        return key
    digest = sha256(key.client_id.encode("utf-8", "surrogatepass")).hexdigest()
    return key._replace(client_id=f"{key.client_id[:_MAX_ID]}...{digest}")


class ClientQuotas:
    """Implements `requests.policies.Quota`."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        """Begin without limits; windows are those of the settings."""
        self._clock = clock
        self._windows = windows = Windows(
            config.integer("quota.window.num"), config.integer("quota.window.size.seconds")
        )
        mutation_windows = Windows(
            config.integer("controller.quota.window.num"),
            config.integer("controller.quota.window.size.seconds"),
        )

        def rates(max_throttle_ms: int) -> Sensors[QuotaKey, Metered[LimitedRate]]:
            return Sensors(lambda: Metered(LimitedRate(windows, max_throttle_ms)))

        self.produce = KindOfQuota(rates(MAX_THROTTLE_MS))
        self.fetch = KindOfQuota(rates(MAX_THROTTLE_MS))
        self.request = KindOfQuota(rates(windows.window_ms))
        self.mutations: KindOfQuota[TokenBucket] = KindOfQuota(
            Sensors(lambda: Metered(TokenBucket(mutation_windows)))
        )

    def set_limits(self, limits: Mapping[str, Mapping[QuotaEntity, float]]) -> None:
        """Go by other limits, by key, from now on; what was counted stays."""
        self.produce.set_limits(limits[PRODUCER_BYTE_RATE])
        self.fetch.set_limits(limits[CONSUMER_BYTE_RATE])
        self.request.set_limits(limits[REQUEST_PERCENTAGE])
        self._sample_waits()
        self.mutations.set_limits(limits[CONTROLLER_MUTATION_RATE])

    # -- Quota

    def loop_time(self, context: RequestContext) -> LoopTime | None:
        """Return a stopwatch for a request whose time counts.

        Before authentication none does: all clients would share one rate, and each could use it up.
        """
        request = self.request
        if not request.has_limits or not context.session.is_authenticated:
            return None
        if context.api.key in BETWEEN_BROKERS and _is_broker(context):
            return None
        match = request.match(context)
        if match is None:
            return None
        metered = request.sensors.get(match.key, self._clock.tick_ms())
        charge = partial(self._charge_rest, metered.meter)
        connection = context.connection
        if connection.meter is None:
            connection.meter = WorkMeter(self._loop_clock, charge)
        else:
            connection.meter.charge = charge
        return LoopTime(self._clock.work_ns, connection.meter)

    @cached_property
    def _loop_clock(self) -> LoopClock:
        return LoopClock(self._clock.work_ns, iterations_of(asyncio.get_running_loop()).works)

    def _sample_waits(self) -> None:
        """Measure the loop's own work while there is a quota of request time."""
        iterations = iterations_of(asyncio.get_running_loop())
        iterations.sampler = self._loop_clock if self.request.has_limits else None

    def request_throttle_ms(self, context: RequestContext, request: Any) -> int:
        """Charge the bytes of a Produce."""
        key = context.api.key
        if key is ApiKey.PRODUCE:
            if request.acks == 0:
                context.forget_loop_time()  # as in Apache Kafka
            if self.produce.has_limits:
                return self._charge(self.produce, context, context.slot.held_bytes)
        elif key is ApiKey.FETCH and is_of_follower(request) and _is_broker(context):
            context.forget_loop_time()
        return 0

    def response_throttle_ms(self, context: RequestContext, response: Any) -> int:
        """Charge the time of a request that is handled; the rest, of its response, follows and throttles nothing."""
        time = context.loop_time
        match = None if time is None else self.request.match(context)
        if time is None or match is None:
            return 0
        now_ms = self._clock.tick_ms()
        metered = self.request.sensors.get(match.key, now_ms)
        percent = time.take_ns() / _NS_PER_PERCENT
        throttle_ms = metered.meter.record(percent, match.limit, now_ms)
        time.charge_rest(partial(self._charge_rest, metered.meter))
        if throttle_ms > 0:
            metered.throttle_ms.record(throttle_ms, now_ms)
        return throttle_ms

    def _charge_rest(self, rate: LimitedRate, taken_ns: int) -> None:
        rate.rate.record(taken_ns / _NS_PER_PERCENT, self._clock.tick_ms())

    def _charge(
        self, quota: KindOfQuota[LimitedRate], context: RequestContext, amount: float
    ) -> int:
        match = quota.match(context)
        if match is None:
            return 0
        now_ms = self._clock.tick_ms()
        metered = quota.sensors.get(match.key, now_ms)
        throttle_ms = metered.meter.record(amount, match.limit, now_ms)
        if throttle_ms > 0:
            metered.throttle_ms.record(throttle_ms, now_ms)
        return throttle_ms

    # -- for handlers

    def max_fetch_bytes(self, context: RequestContext) -> int | None:
        """Return how many bytes a Fetch may find: more would be refused each time. None: as many as it asks for."""
        if not self.fetch.has_limits:
            return None
        match = self.fetch.match(context)
        return None if match is None else int(match.limit * self._windows.burst_seconds)

    def charge_fetch(self, context: RequestContext, size: int) -> FetchCharge:
        """Charge the bytes that a consumer's Fetch has found, unless what was fetched before is not paid for yet."""
        match = self.fetch.match(context) if self.fetch.has_limits else None
        if match is None or not size:
            return FetchCharge(0, False)
        now_ms = self._clock.tick_ms()
        metered = self.fetch.sensors.get(match.key, now_ms)
        unpaid_ms = metered.meter.unpaid_ms(match.limit, now_ms)
        is_refused = unpaid_ms > 0
        throttle_ms = unpaid_ms if is_refused else metered.meter.record(size, match.limit, now_ms)
        if throttle_ms > 0:
            metered.throttle_ms.record(throttle_ms, now_ms)
        return FetchCharge(throttle_ms, is_refused)

    def mutation_quota(self, context: RequestContext, strict_since: int) -> MutationQuota | None:
        """Return the quota of a request that changes topics, None if its client has none."""
        match = self.mutations.match(context) if self.mutations.has_limits else None
        if match is None:
            return None
        metered = self.mutations.sensors.get(match.key, self._clock.tick_ms())
        return MutationQuota(metered.meter, match.limit, is_strict=context.version >= strict_since)

    def note_mutations_throttled(self, context: RequestContext, throttle_ms: int) -> None:
        """Count, for the metrics, that a request that changes topics throttles its client."""
        match = self.mutations.match(context)
        if match is not None:
            now_ms = self._clock.tick_ms()
            self.mutations.sensors.get(match.key, now_ms).throttle_ms.record(throttle_ms, now_ms)


def _is_broker(context: RequestContext) -> bool:
    """Return whether the client may do what brokers do: others are charged for what they say as such."""
    return context.allows(_ACT, AclResourceType.CLUSTER, CLUSTER_NAME, is_asked=False)


def is_of_follower(request: Any) -> bool:
    """Return whether a Fetch is a replica's."""
    return bool(request.replica_id >= 0 or request.replica_state.replica_id >= 0)
