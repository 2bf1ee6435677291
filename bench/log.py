"""Speed at which one log appends and serves its tail: medians over rounds, in microseconds per call.

Run: .venv/bin/python bench/log.py [directory]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from kavka.ids import TopicPartition
from kavka.net.clock import SystemClock, SystemRandom
from kavka.storage.directory.log_directory import LogDirectory
from kavka.storage.disk.os_disk import OsDisk
from kavka.storage.log.log import Log
from kavka.storage.log_config import LogConfig
from kavka.wire.records.header import BatchHeader, assign, batch_crc, encode_header, read_header

ROUNDS = 9


def make_batch(size: int, count: int) -> tuple[bytearray, BatchHeader]:
    """Return a sound batch of `size` bytes, and its header."""
    header = BatchHeader(
        0, 0, size - 12, size, 0, 2, 0, 0, count - 1, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, count
    )  # fmt: skip
    batch = bytearray(encode_header(header) + bytes(size - 61))
    sound = header._replace(crc=batch_crc(batch, header))
    batch[:61] = encode_header(sound)
    return batch, read_header(batch)


def append_calls(log: Log, size: int, count: int, calls: int) -> float:
    """Append `calls` batches; return microseconds per call, the patching of offsets included."""
    batch, header = make_batch(size, count)
    started = time.perf_counter()
    for _ in range(calls):
        log.append(batch, [assign(batch, header, log.log_end_offset, 0)], 0)
    return (time.perf_counter() - started) / calls * 1e6


def tail_calls(log: Log, calls: int) -> float:
    """Read the last batch `calls` times, probe the page cache and release; return microseconds per call."""
    end = log.log_end_offset
    started = time.perf_counter()
    for _ in range(calls):
        read = log.read(end - 1, 1 << 20, end)
        assert read.is_cached
        assert read.range is not None
        read.range.release()
    return (time.perf_counter() - started) / calls * 1e6


def old_calls(log: Log, calls: int) -> float:
    """Read from places all over the log, through the index; return microseconds per call."""
    end = log.log_end_offset
    started = time.perf_counter()
    for number in range(calls):
        read = log.read(number * 7919 % end, 1 << 20, end)
        if read.range is not None:
            read.range.release()
    return (time.perf_counter() - started) / calls * 1e6


async def main(path: str) -> None:
    """Print one line per measure."""
    disk = OsDisk()
    directory = LogDirectory(disk, SystemClock(), SystemRandom(), path)
    log = await Log.open(directory, TopicPartition("bench", 0), LogConfig(segment_bytes=256 << 20))
    measures: list[tuple[str, Callable[[], float]]] = [
        ("append 16 KiB", lambda: append_calls(log, 16384, 160, 2000)),
        ("append one record", lambda: append_calls(log, 200, 1, 5000)),
        ("read tail", lambda: tail_calls(log, 5000)),
        ("read anywhere", lambda: old_calls(log, 2000)),
    ]
    for name, measure in measures:
        micros = []
        for _ in range(ROUNDS):
            micros.append(measure())
            await asyncio.sleep(0)
        median = statistics.median(micros)
        print(f"{name:20} {median:8.2f} us   {1e6 / median:12,.0f}/s   best {min(micros):.2f} us")
    await directory.wait_for_tasks()
    await log.close()
    disk.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory(prefix="kavka-bench-") as temporary:
            asyncio.run(main(temporary))
