"""Rates, throttle times and token buckets, beside an oracle that keeps every event."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kavka.core.quota.rate import MAX_THROTTLE_MS, LimitedRate, SampledRate, Windows
from kavka.core.quota.sensors import EXPIRY_MS, Sensors
from kavka.core.quota.token_bucket import MutationQuota, TokenBucket
from support.examples import examples

_T0 = 1_000_000


class Sample(NamedTuple):
    """A sample with all its events, of which Kafka keeps the sum."""

    begin_ms: int
    events: tuple[tuple[int, int], ...]


class Oracle:
    """Kafka's rate, said with whole samples: lists are made again at each step."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.samples: list[Sample] = []

    def record(self, value: int, now_ms: int) -> None:
        newest = self.samples[-1] if self.samples else Sample(now_ms, ())
        if now_ms - newest.begin_ms >= self.windows.window_ms:
            self.samples = [*self.samples, Sample(now_ms, ())][-self.windows.count - 1 :]
        elif not self.samples:
            self.samples = [newest]
        last = self.samples[-1]
        self.samples[-1] = Sample(last.begin_ms, (*last.events, (now_ms, value)))

    def measure(self, now_ms: int) -> Fraction:
        length = self.windows.count * self.windows.window_ms
        self.samples = [
            Sample(now_ms, ()) if now_ms - self._last(sample) >= length else sample
            for sample in self.samples
        ]
        total = sum(value for sample in self.samples for _, value in sample.events)
        return Fraction(total * 1000, self.elapsed_ms(now_ms))

    def elapsed_ms(self, now_ms: int) -> int:
        elapsed = now_ms - min([sample.begin_ms for sample in self.samples], default=now_ms)
        whole = elapsed // self.windows.window_ms
        elapsed += max(0, self.windows.count - 1 - whole) * self.windows.window_ms
        return max(1, elapsed)

    @staticmethod
    def _last(sample: Sample) -> int:
        return sample.events[-1][0] if sample.events else sample.begin_ms


_WINDOWS = st.builds(Windows, st.integers(1, 12), st.integers(1, 3))
_STEPS = st.lists(
    st.tuples(st.integers(0, 4000), st.integers(0, 1_000_000), st.booleans()), max_size=60
)


@given(_WINDOWS, _STEPS)
@settings(max_examples=examples(300))
def test_a_rate_is_the_sum_of_its_samples_over_the_time_since_the_oldest(
    windows: Windows, steps: list[tuple[int, int, bool]]
) -> None:
    rate, oracle, now_ms = SampledRate(windows), Oracle(windows), _T0
    for gap_ms, value, is_measured in steps:
        now_ms += gap_ms
        rate.record(value, now_ms)
        oracle.record(value, now_ms)
        if is_measured:
            expected = float(oracle.measure(now_ms))
            assert abs(rate.measure(now_ms) - expected) <= 1e-6 * max(1.0, expected)


def test_a_client_that_begins_may_use_all_windows_but_one_at_once() -> None:
    rate = LimitedRate(Windows())
    assert rate.record(10_000, 1000, _T0) == 0
    assert rate.record(1000, 1000, _T0) == 1000  # 1,100 a second over ten: a tenth of ten seconds
    assert rate.rate.measure(_T0) == 1100


@given(_WINDOWS, st.integers(1, 1_000_000), _STEPS)
@settings(max_examples=examples(200))
def test_a_throttle_is_never_shorter_than_kafkas(
    windows: Windows, limit: int, steps: list[tuple[int, int, bool]]
) -> None:
    rate, oracle, now_ms = LimitedRate(windows), Oracle(windows), _T0
    for gap_ms, value, _ in steps:
        now_ms += gap_ms
        oracle.record(value, now_ms)
        measured = oracle.measure(now_ms)
        window_ms = float(oracle.elapsed_ms(now_ms))
        kafkas_ms = float(measured - limit) / limit * window_ms
        assert rate.record(value, limit, now_ms) >= min(kafkas_ms, MAX_THROTTLE_MS) - 1


def test_after_all_windows_of_silence_nothing_counts() -> None:
    rate = LimitedRate(Windows())
    rate.record(1_000_000, 1000, _T0)
    assert rate.excess_ms(1000, _T0 + 10_999) > 0
    assert rate.excess_ms(1000, _T0 + 11_000) == 0


def test_a_throttle_time_fits_a_response() -> None:
    rate = LimitedRate(Windows())
    assert rate.record(1e18, 1, _T0) == MAX_THROTTLE_MS
    assert rate.record(1, 0, _T0) == MAX_THROTTLE_MS


def test_a_throttle_with_a_bound_leaves_no_more_to_pay_than_was_used() -> None:
    rate = LimitedRate(Windows(), max_throttle_ms=1000)
    assert rate.record(40_000, 1000, _T0) == 1000
    assert rate.unpaid_ms(1000, _T0) == 30_000  # what was used, above what a silent client may use
    lowered = LimitedRate(Windows(), max_throttle_ms=1000)
    for second in range(11):
        assert lowered.record(900, 1000, _T0 + 1000 * second) == 0
    assert lowered.record(1, 10, _T0 + 11_000) == 1000
    assert lowered.unpaid_ms(10, _T0 + 12_000) == 0


def test_what_is_left_to_pay_is_paid_by_the_limit_of_the_day() -> None:
    rate = LimitedRate(Windows())
    assert rate.record(20_000, 1000, _T0) == 10_000
    assert rate.unpaid_ms(1000, _T0 + 1000) == 9000
    assert rate.unpaid_ms(9000, _T0 + 1000) == 1000
    assert rate.unpaid_ms(9000, _T0 + 2000) == 0


@given(
    st.integers(1000, 10_000_000),
    st.lists(st.floats(0.02, 1.0), min_size=5, max_size=20),
    st.integers(1, 4),
    st.integers(0, 40),
    st.booleans(),
)
@settings(max_examples=examples(60))
def test_clients_that_obey_keep_the_rate_over_any_thirty_seconds(
    limit: int, sizes: list[float], clients: int, work_ms: int, asks_first: bool
) -> None:
    rate, at = LimitedRate(Windows()), 0
    used: list[tuple[int, float]] = []
    ready = [_T0 + client for client in range(clients)]
    while (now_ms := min(ready)) < _T0 + 75_000:
        client = ready.index(now_ms)
        ready[client] += work_ms + 1
        if asks_first and (unpaid_ms := rate.unpaid_ms(limit, now_ms)) > 0:
            ready[client] += unpaid_ms
            continue
        size = limit * sizes[at % len(sizes)]
        at += 1
        used.append((now_ms, size))
        ready[client] += rate.record(size, limit, now_ms)
    assert sum(size for _, size in used) <= limit * (75 + 10 + clients)
    for begin_ms in range(_T0 + 20_000, _T0 + 45_000, 5000):
        total = sum(size for when, size in used if begin_ms <= when < begin_ms + 30_000)
        assert total <= limit * (30 + clients) * 1.01
        if clients == 1 or not asks_first:
            assert total >= limit * (30 - clients) * 0.95


@given(
    st.floats(0.1, 100), st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 50)), max_size=40)
)
@settings(max_examples=examples(200))
def test_a_bucket_holds_what_came_in_less_what_went_out(
    limit: float, steps: list[tuple[int, int]]
) -> None:
    bucket, now_ms = TokenBucket(Windows()), _T0
    burst = 11 * limit
    tokens = burst
    for gap_ms, permits in steps:
        now_ms += gap_ms
        tokens = min(burst, tokens + limit * gap_ms / 1000)
        assert abs(bucket.tokens(limit, now_ms) - tokens) < 1e-6
        missing_ms = bucket.missing_ms(limit, now_ms)
        assert (missing_ms > 0) is (tokens < 0 and round(-tokens / limit * 1000) > 0)
        bucket.take(permits, limit, now_ms)
        tokens -= permits


def test_a_strict_quota_accepts_until_the_tokens_are_below_zero_and_then_nothing() -> None:
    bucket = TokenBucket(Windows())
    quota = MutationQuota(bucket, 2, is_strict=True)
    assert quota.accept(100, _T0)  # more than the 22 that there are: what is large is accepted once
    assert quota.throttle_ms(_T0) == 0
    assert not quota.accept(1, _T0)
    assert quota.throttle_ms(_T0) == 39_000
    assert quota.throttle_ms(_T0 + 9_000) == 30_000  # it may be asked for after a wait
    assert bucket.tokens(2, _T0) == -78  # what is refused takes nothing
    assert MutationQuota(bucket, 2, is_strict=True).accept(1, _T0 + 39_000)


def test_a_permissive_quota_accepts_everything_and_throttles() -> None:
    bucket = TokenBucket(Windows())
    quota = MutationQuota(bucket, 2, is_strict=False)
    assert quota.accept(22, _T0)
    assert quota.throttle_ms(_T0) == 0
    assert quota.accept(1, _T0)
    assert quota.throttle_ms(_T0) == 500
    assert quota.accept(1, _T0)
    assert quota.throttle_ms(_T0) == 1000


def test_sensors_are_forgotten_after_an_hour_of_silence() -> None:
    sensors: Sensors[str, list[int]] = Sensors(list)
    sensors.get("a", 0).append(1)
    assert sensors.get("a", EXPIRY_MS - 1) == [1]
    sensors.get("b", EXPIRY_MS)
    assert dict(sensors.items(2 * EXPIRY_MS - 2)) == {"a": [1], "b": []}
    assert sensors.get("a", 2 * EXPIRY_MS - 1) == []
    assert len(sensors) == 2


def test_sensors_are_bounded_and_the_stalest_makes_room() -> None:
    sensors: Sensors[str, list[int]] = Sensors(list, max_sensors=2)
    for now_ms, key in enumerate(("a", "b", "a", "c")):
        sensors.get(key, now_ms)
    assert [key for key, _ in sensors.items(4)] == ["a", "c"]
    assert (sensors.find("b"), sensors.find("a")) == (None, [])


@given(
    used=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 3)), max_size=8),
    later=st.lists(st.tuples(st.integers(0, 2000), st.floats(0, 1)), min_size=1, max_size=8),
    limit=st.sampled_from([1.0, 7.0, 100.0]),
    windows=st.sampled_from([Windows(), Windows(2), Windows(2, 3)]),
)
@settings(max_examples=examples(200))
def test_what_is_less_than_the_headroom_throttles_nothing_whenever_it_is_recorded(
    used: list[tuple[int, int]],
    later: list[tuple[int, float]],
    limit: float,
    windows: Windows,
) -> None:
    rate, now_ms = LimitedRate(windows), _T0
    for after_ms, value in used:
        now_ms += after_ms
        rate.record(value * limit / 4, limit, now_ms)
    left = rate.headroom(limit, now_ms) * 0.999
    assume(left > 0)
    for after_ms, share in later:
        now_ms += after_ms
        rate.pay(left * share, limit, now_ms)
        left -= left * share
        assert rate.record(0, limit, now_ms) == 0


def test_a_silent_client_has_all_of_its_burst_as_headroom() -> None:
    rate = LimitedRate(Windows())
    assert rate.headroom(5, _T0) == 50
    rate.record(20, 5, _T0)
    assert rate.headroom(5, _T0) == 30
    rate.record(40, 5, _T0)
    assert rate.headroom(5, _T0) == 0
    assert rate.headroom(0, _T0) == 0
