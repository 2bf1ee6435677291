"""Counts of requests by client and minute, with a state between batches. The decision is pure.

A client is found in the batch in which it gets above the limit, once for each minute. Windows of event time in Spark's
own aggregations are known when they are over and the watermark is behind them, which is late for a limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

if TYPE_CHECKING:
    import pandas as pd

Minute = tuple[str, int]
"""A client and the start of a minute, in seconds since 1970."""
KEPT_S = 12 * 60
"""Seconds for which a client's minutes are kept behind its newest one: as long as other windows stay open."""
EXPIRED_S = 60 * 60
"""Seconds behind the newest minute of all after which any other is forgotten."""
COUNTS = T.StructType([T.StructField("counts", T.StringType())])
"""Type of the state: a JSON list of [client, minute, requests]. Spark 4.3 cannot take lists as such there."""


def add_requests(counts: dict[Minute, int], requests: Iterable[Minute], limit: int) -> list[Minute]:
    """Count the requests of a batch and return the minutes in which their client got above the limit by them, sorted.

    Requests may come in any order. After them a client's minutes are forgotten that are `KEPT_S` older than its newest
    one, or `EXPIRED_S` older than the newest of all. If partitions are read further apart than that, a minute may be
    found twice.
    """
    above = []
    for minute in requests:
        count = counts.get(minute, 0) + 1
        counts[minute] = count
        if count == limit + 1:
            above.append(minute)
    newest: dict[str, int] = {}
    for client, start in counts:
        newest[client] = max(start, newest.get(client, start))
    oldest = max(newest.values(), default=0) - EXPIRED_S
    for minute in [one for one in counts if one[1] < max(newest[one[0]] - KEPT_S, oldest)]:
        del counts[minute]
    return sorted(above)


def count_requests(limit: int) -> Callable[[Any, Iterable[pd.DataFrame], Any], Iterator[Any]]:
    """Return the function that Spark calls with the new requests (`client`, `minute`) of a group of clients."""

    def count(_group: Any, frames: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        import pandas as pd

        counts: dict[Minute, int] = {}
        if state.exists:
            [kept] = state.get
            counts = {(client, start): count for client, start, count in json.loads(kept)}
        requests = (
            minute
            for frame in frames
            for minute in zip(frame["client"].tolist(), frame["minute"].tolist(), strict=True)
        )
        above = add_requests(counts, requests, limit)
        state.update((json.dumps([[*minute, count] for minute, count in counts.items()]),))
        yield pd.DataFrame(above, columns=["client", "minute"])

    return count
