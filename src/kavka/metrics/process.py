"""Facts of this process from Linux: nothing is stored, and facts that the system lacks are left out."""

from __future__ import annotations

import gc
import os
import resource
import time
from collections.abc import Iterator

from kavka.metrics.families import Family, counter, gauge, labelled


def families() -> Iterator[Family]:
    """Yield the families that Prometheus' own clients show, by the same names, and the collector's counts."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = usage.ru_utime + usage.ru_stime
    yield counter("process_cpu_seconds_total", "CPU time of the process, in seconds.", cpu_s)
    yield from _memory()
    yield from _descriptors()
    yield from _disk()
    yield from _collections()


def loop_cpu_seconds() -> float:
    """Return the CPU time of the calling thread."""
    return time.thread_time()


def _memory() -> Iterator[Family]:
    stat = _read("/proc/self/stat")
    if stat is None:
        return
    # The name of the command, in parentheses, may hold spaces.
    fields = stat.rpartition(")")[2].split()
    started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    booted_s = _booted_s()
    yield gauge("process_virtual_memory_bytes", "Address space of the process.", int(fields[20]))
    resident = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    yield gauge("process_resident_memory_bytes", "Memory of the process.", resident)
    if booted_s is not None:
        help = "When the process began, in seconds since 1970."
        yield gauge("process_start_time_seconds", help, booted_s + started_s)


def _booted_s() -> int | None:
    for line in (_read("/proc/stat") or "").splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    return None


def _descriptors() -> Iterator[Family]:
    try:
        count = len(os.listdir("/proc/self/fd")) - 1  # the one that listed them
    except OSError:
        return
    yield gauge("process_open_fds", "Open files and connections.", count)
    limit, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield gauge("process_max_fds", "How many files and connections may be open.", limit)


def _disk() -> Iterator[Family]:
    facts = dict(line.split(": ") for line in (_read("/proc/self/io") or "").splitlines())
    for word, key in (("read", "read_bytes"), ("write", "write_bytes")):
        if key in facts:
            name = f"kafka_server_kafkaserver_linux_disk_{word}_bytes"
            help = f"Bytes that this process had the disks {word}, not the page cache."
            yield gauge(name, help, int(facts[key]))


def _collections() -> Iterator[Family]:
    samples = [
        (labelled(generation=number), stats["collections"])
        for number, stats in enumerate(gc.get_stats())
    ]
    help = "Runs of Python's collector of cycles."
    yield counter("python_gc_collections_total", help, samples)


def _read(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None
