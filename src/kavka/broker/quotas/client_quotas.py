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
from hashlib import sha256
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.quotas.request_time import Metered, RequestTime
from kavka.broker.requests.context import RequestContext
from kavka.broker.requests.loop_time import LoopTime
from kavka.broker.requests.session import Session
from kavka.core.access.entries import Principal
from kavka.core.access.names import CLUSTER_NAME, AclOperation, AclResourceType
from kavka.core.quota.alterations import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from kavka.core.quota.entities import Match, QuotaEntity, QuotaKey, QuotaLimits
from kavka.core.quota.rate import MAX_THROTTLE_MS, LimitedRate, Windows
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
_KNOWN_MS: Final = 1000
"""Milliseconds after which the counters of a session's client are looked up again, which notes their use."""
_MAX_KNOWN: Final = 10_000
_MAX_ID: Final = 255
"""Characters of a client id that are kept; of a longer one, which may have 32767, a digest is."""

T = TypeVar("T")


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


class _Client:
    """The limits of one client, as its session remembers them for a while."""

    __slots__ = ("client_id", "epoch", "expires_ms", "fetch", "principal", "produce", "request")

    def __init__(self, epoch: object, principal: Principal, client_id: str, now_ms: int) -> None:
        """Begin without a limit."""
        self.epoch = epoch
        self.principal = principal
        self.client_id = client_id
        self.expires_ms = now_ms + _KNOWN_MS
        self.request: RequestTime | None = None
        self.produce: _Rate | None = None
        self.fetch: _Rate | None = None


class _Rate(NamedTuple):
    """A limit, and what is counted by it."""

    metered: Metered[LimitedRate]
    limit: float


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
        self.request: KindOfQuota[LimitedRate] = KindOfQuota(
            Sensors(lambda: RequestTime(LimitedRate(windows, windows.window_ms), clock))
        )
        self._epoch = object()
        """Another one after each change of limits: what sessions remember of before is void."""
        self._loop_clock: LoopClock | None = None
        self.mutations: KindOfQuota[TokenBucket] = KindOfQuota(
            Sensors(lambda: Metered(TokenBucket(mutation_windows)))
        )

    def set_limits(self, limits: Mapping[str, Mapping[QuotaEntity, float]]) -> None:
        """Go by other limits, by key, from now on; what was counted stays."""
        self.produce.set_limits(limits[PRODUCER_BYTE_RATE])
        self.fetch.set_limits(limits[CONSUMER_BYTE_RATE])
        self.request.set_limits(limits[REQUEST_PERCENTAGE])
        self.mutations.set_limits(limits[CONTROLLER_MUTATION_RATE])
        self._epoch = object()
        # The loop is measured again from the first client on that has a limit.
        self._loop_clock = iterations_of(asyncio.get_running_loop()).sampler = None

    # -- Quota

    def loop_time(self, context: RequestContext) -> LoopTime | None:
        """Return a stopwatch for a request whose time counts.

        Before authentication none does: all clients would share one rate, and each could use it up.
        """
        session = context.session
        if not self.request.has_limits or not session.is_authenticated:
            return None
        account = self._client(context, session, context.received_ms).request
        if account is None or (context.api.key in BETWEEN_BROKERS and _is_broker(context)):
            return None
        meter = context.connection.meter
        if meter is None:
            meter = context.connection.meter = WorkMeter(self._clock_of_loop(), account.charge)
        elif meter.charge is not account.charge:
            meter.charge = account.charge
        return LoopTime(meter, account)

    def _client(self, context: RequestContext, session: Session, now_ms: int) -> _Client:
        """Return what limits the client of a request."""
        known: _Client | None = session.quota_client
        if (
            known is not None
            and known.epoch is self._epoch
            and known.principal is session.principal
            and known.client_id == (context.header.client_id or "")
            and now_ms < known.expires_ms
        ):
            return known
        known = _Client(self._epoch, session.principal, context.client_id, now_ms)
        known.request = self._request_time(context, now_ms)
        known.produce = _rate_of(self.produce, context, now_ms)
        known.fetch = _rate_of(self.fetch, context, now_ms)
        if len(known.client_id) <= _MAX_ID:
            session.quota_client = known
        return known

    def _request_time(self, context: RequestContext, now_ms: int) -> RequestTime | None:
        match = self.request.match(context) if self.request.has_limits else None
        if match is None:
            return None
        account = cast(RequestTime, self.request.sensors.get(match.key, now_ms))
        account.set_limit(match.limit)
        return account

    def _clock_of_loop(self) -> LoopClock:
        """Return the clock of all meters; with it the loop's own work is measured."""
        if self._loop_clock is None:
            iterations = iterations_of(asyncio.get_running_loop())
            self._loop_clock = LoopClock(self._clock.work_ns, iterations.works)
            iterations.sampler = self._loop_clock
        return self._loop_clock

    def request_throttle_ms(self, context: RequestContext, request: Any) -> int:
        """Charge the bytes of a Produce."""
        key = context.api.key
        if key is ApiKey.PRODUCE:
            if request.acks == 0:
                context.forget_loop_time()  # as in Apache Kafka
            if self.produce.has_limits:
                now_ms = self._clock.tick_ms()
                rate = self._client(context, context.session, now_ms).produce
                if rate is not None:
                    return self._charge(rate, context.slot.held_bytes, now_ms)
        elif key is ApiKey.FETCH and is_of_follower(request) and _is_broker(context):
            context.forget_loop_time()
        return 0

    def response_throttle_ms(self, context: RequestContext, response: Any) -> int:
        """Charge the time of a request that is handled; the rest, of its response, follows and throttles nothing."""
        time = context.loop_time
        if time is None:
            return 0
        now_ms = self._clock.tick_ms()
        if now_ms < time.account.free_until_ms:
            time.charge_rest(time.account.charge)
            return 0
        account = self._client(context, context.session, now_ms).request
        if account is None:
            return 0
        throttle_ms = account.record(time.take_ns(), now_ms)
        time.charge_rest(account.charge)
        return throttle_ms

    def _charge(self, rate: _Rate, amount: float, now_ms: int) -> int:
        metered, limit = rate
        throttle_ms = metered.meter.record(amount, limit, now_ms)
        if throttle_ms > 0:
            metered.throttle_ms.record(throttle_ms, now_ms)
        return throttle_ms

    # -- for handlers

    def max_fetch_bytes(self, context: RequestContext) -> int | None:
        """Return how many bytes a Fetch may find: more would be refused each time. None: as many as it asks for."""
        if not self.fetch.has_limits:
            return None
        rate = self._client(context, context.session, self._clock.tick_ms()).fetch
        return None if rate is None else int(rate.limit * self._windows.burst_seconds)

    def charge_fetch(self, context: RequestContext, size: int) -> FetchCharge:
        """Charge the bytes that a consumer's Fetch has found, unless what was fetched before is not paid for yet."""
        if not size or not self.fetch.has_limits:
            return FetchCharge(0, False)
        now_ms = self._clock.tick_ms()
        rate = self._client(context, context.session, now_ms).fetch
        if rate is None:
            return FetchCharge(0, False)
        metered, limit = rate
        unpaid_ms = metered.meter.unpaid_ms(limit, now_ms)
        is_refused = unpaid_ms > 0
        throttle_ms = unpaid_ms if is_refused else metered.meter.record(size, limit, now_ms)
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


def _rate_of(kind: KindOfQuota[LimitedRate], context: RequestContext, now_ms: int) -> _Rate | None:
    match = kind.match(context) if kind.has_limits else None
    return None if match is None else _Rate(kind.sensors.get(match.key, now_ms), match.limit)


def _is_broker(context: RequestContext) -> bool:
    """Return whether the client may do what brokers do: others are charged for what they say as such."""
    return context.allows(_ACT, AclResourceType.CLUSTER, CLUSTER_NAME, is_asked=False)


def is_of_follower(request: Any) -> bool:
    """Return whether a Fetch is a replica's."""
    return bool(request.replica_id >= 0 or request.replica_state.replica_id >= 0)
