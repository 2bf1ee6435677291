"""A sampler: takes samples at an interval and sends those of one time in one transaction, which is atomic.

While no broker is available no samples are taken: missed intervals are counted, and no memory is filled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from kavka.collect.delivery import Batch, Delivery
from kavka.collect.host import Host, Sample
from kavka.collect.pages import PageFailed, Parsers, TimedSample, fetch, samples_of
from kavka.collect.record import metric_value, record_key, time_text
from kavka.collect.statistics import Reporter, Statistics
from kavka.values import field, frozen


@frozen
class SampleOptions:
    """Topic, interval and labels of samples."""

    topic: str
    host: str
    interval_s: float
    labels: Mapping[str, str] = field(factory=dict)


class Sampler:
    """Sends the samples of one source at each interval."""

    def __init__(
        self, options: SampleOptions, delivery: Delivery, statistics: Statistics, reporter: Reporter
    ) -> None:
        """Use a delivery that is started."""
        self._options = options
        self._delivery = delivery
        self.statistics = statistics
        self._reporter = reporter

    async def run(
        self,
        take: Callable[[Sampler, Batch], Awaitable[None]],
        stop: asyncio.Event,
        *,
        once: bool = False,
    ) -> None:
        """Call `take`, which adds samples to a batch, at each interval until `stop`, or once. Raise CollectorError."""
        due_s = time.monotonic()
        gauges = self.statistics.gauges
        gauges.setdefault("missed", 0)
        while not stop.is_set():
            batch = Batch()
            await take(self, batch)
            await self._delivery.send(batch)
            self._reporter.report()
            if once:
                return
            missed = int(max(0.0, time.monotonic() - due_s) // self._options.interval_s)
            gauges["missed"] += missed
            due_s += (missed + 1) * self._options.interval_s
            try:
                async with asyncio.timeout(max(0.0, due_s - time.monotonic())):
                    await stop.wait()
            except TimeoutError:
                continue

    def add(
        self,
        batch: Batch,
        source: str,
        samples: Sequence[TimedSample],
        time_ms: int,
        error: str | None = None,
    ) -> None:
        """Add the samples of one source; `error` is in the record of the last one."""
        options = self._options
        collected = time_text(time_ms)
        constant: dict[str, Any] = {
            "time": collected,
            "collected": collected,
            "kind": "metric",
            "host": options.host,
            "source": source,
        }
        values = []
        for number, ((name, value, labels), own_ms) in enumerate(samples, 1):
            all_labels = {**labels, **options.labels}
            last_error = error if number == len(samples) else None
            fields = constant if own_ms is None else {**constant, "time": time_text(own_ms)}
            values.append(metric_value(fields, name, value, all_labels, last_error))
        batch.add(options.topic, record_key(options.host, source), values)


async def sample_host(host: Host, sampler: Sampler, batch: Batch) -> None:
    """Add the samples of this machine, taken in a thread because many processes take long."""
    time_ms = int(time.time() * 1000)
    samples = await asyncio.to_thread(lambda: [TimedSample(each, None) for each in host.samples()])
    sampler.add(batch, "host", samples, time_ms)


async def sample_pages(
    urls: Sequence[str], parsers: Parsers, timeout_s: float, sampler: Sampler, batch: Batch
) -> None:
    """Fetch all pages concurrently and add their samples, and for each page `up`, duration and number of samples."""
    outcomes = await asyncio.gather(
        *(asyncio.to_thread(_page, url, parsers, timeout_s) for url in urls)
    )
    for url, (samples, duration_s, time_ms, error) in zip(urls, outcomes, strict=True):
        sampler.statistics.errors += error is not None
        scrape_samples = [
            Sample("scrape_duration_seconds", duration_s, {}),
            Sample("scrape_samples", len(samples), {}),
            Sample("up", 0 if error else 1, {}),
        ]
        all_samples = [*samples, *(TimedSample(sample, None) for sample in scrape_samples)]
        sampler.add(batch, url, all_samples, time_ms, error)


def _page(
    url: str, parsers: Parsers, timeout_s: float
) -> tuple[list[TimedSample], float, int, str | None]:
    start_s, time_ms = time.monotonic(), int(time.time() * 1000)
    try:
        text, is_openmetrics = fetch(url, timeout_s)
        samples = samples_of(text, parsers.openmetrics if is_openmetrics else parsers.text)
    except PageFailed as error:
        return [], time.monotonic() - start_s, time_ms, str(error)
    return samples, time.monotonic() - start_s, time_ms, None
