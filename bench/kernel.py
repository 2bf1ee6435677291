"""Records decoded and encoded per second: by the kernel, its twin, and aiokafka's Cython records.

Medians over rounds that alternate between the contestants, of one uncompressed batch of 150 records of 100 bytes with
a key. What is compared: aiokafka makes one object per record, so its rivals are `records` and `encode`; columns
have no counterpart there.

Run: .venv/bin/python bench/kernel.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import aiokafka.record.default_records as theirs

from kavka.wire.records import _kernel, pure
from kavka.wire.records.batch import BatchBuilder, Record
from kavka.wire.records.batch_check import Checked
from kavka.wire.records.header import HEADER_SIZE, read_header
from kavka.wire.records.validate import BatchRules, begin_check

COUNT = 150
ROUNDS = 15
START_MS = 1_700_000_000_000
KEYS: list[bytes | None] = [b"key%07d" % index for index in range(COUNT)]
VALUES: list[bytes | None] = [b"v" * 90] * COUNT
TIMES = list(range(START_MS, START_MS + COUNT))


def our_calls(batch: bytearray) -> dict[str, Callable[[], object]]:
    """Return the calls of both kernels over the batch."""
    calls: dict[str, Callable[[], object]] = {}
    end = len(batch)
    part = (batch, HEADER_SIZE, end, COUNT, 0, START_MS, 0, -1)
    for kernel in (_kernel, pure):
        name = kernel.NAME
        calls |= {
            f"check     {name}": lambda k=kernel: k.check(  # type: ignore[misc]
                batch, HEADER_SIZE, end, 0, COUNT, True, True, START_MS, 0, 2**62
            ),
            f"columns   {name}": lambda k=kernel: k.decode([part], 0),  # type: ignore[misc]
            f"records   {name}": lambda k=kernel: k.records(*part, Record),  # type: ignore[misc]
            f"encode    {name}": lambda k=kernel: k.encode(  # type: ignore[misc]
                COUNT, TIMES, KEYS, VALUES, None, START_MS, HEADER_SIZE
            ),
        }
    return calls


def build_ours() -> bytearray:
    """Build a sealed batch record by record."""
    builder = BatchBuilder()
    for key, value, timestamp in zip(KEYS, VALUES, TIMES, strict=True):
        builder.append(key, value, timestamp)
    return builder.build()


def build_theirs() -> bytes:
    """Build the same batch with aiokafka."""
    builder = theirs.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for index in range(COUNT):
        builder.append(index, TIMES[index], KEYS[index], VALUES[index], [])
    return bytes(builder.build())


def read_theirs(batch: bytes) -> list[object]:
    """Read all records with aiokafka, their fields too, which it makes when they are asked for."""
    return [
        (r.offset, r.timestamp, r.key, r.value, r.headers) for r in theirs.DefaultRecordBatch(batch)
    ]


def median_seconds(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median time of each call; a round goes through all of them."""
    repeats = {name: max(1, int(0.01 / once(call, 3))) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(once(call, repeats[name]))
    return {name: statistics.median(found) for name, found in times.items()}


def once(call: Callable[[], object], repeats: int) -> float:
    """Return the seconds that a call takes, from the mean of some."""
    started = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - started) / repeats


def main() -> None:
    """Print the table."""
    batch = build_ours()
    foreign = bytes(batch)
    assert [r[2:4] for r in read_theirs(foreign)] == list(zip(KEYS, VALUES, strict=True))  # type: ignore[index]
    rules = BatchRules()
    assert isinstance(begin_check(batch, rules, START_MS).finish(), Checked)
    calls = our_calls(batch) | {
        "records   aiokafka": lambda: read_theirs(foreign),
        "build     kavka": build_ours,
        "build     aiokafka": build_theirs,
        "header    read": lambda: read_header(batch),
        "leader    check": lambda: begin_check(batch, rules, START_MS).finish(),
    }
    print(f"aiokafka: {theirs.DefaultRecordBatch.__module__}; {len(batch)} bytes, {COUNT} records")
    for name, seconds in median_seconds(calls).items():
        rate = COUNT / seconds / 1e6
        print(f"{name:<20} {seconds * 1e6:9.2f} us per batch {rate:9.2f} million records/s")


if __name__ == "__main__":
    main()
