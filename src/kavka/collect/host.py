"""Metrics of this machine by psutil: CPU, memory, disks, network, processes.

Names end in their unit, counters in `_total`, as Prometheus' names do; labels name the device, mode or process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

from kavka.collect.delivery import CollectorError


class Sample(NamedTuple):
    """One value of a metric."""

    name: str
    value: float
    labels: dict[str, str]


_VIRTUAL_DEVICES = ("loop", "ram", "zram", "fd")


def psutil_or_error() -> ModuleType:
    """Return psutil. Raise CollectorError when it is not installed."""
    try:
        import psutil
    except ImportError as error:
        raise CollectorError(
            "Metrics of the host need psutil: pip install 'kavka[collect]'"
        ) from error
    module: ModuleType = psutil
    return module


class Host:
    """Samples of this machine; CPU rates of processes are measured since the last call."""

    def __init__(self, processes: int) -> None:
        """Sample so many processes with most CPU, and as many with most memory. Raise CollectorError."""
        self._psutil: Any = psutil_or_error()
        self._count = processes
        if processes:
            list(self._of_processes())  # the first call of a process has no rate

    def samples(self) -> Iterator[Sample]:
        """Yield the current samples, except those that this system does not have."""
        yield from self._of_cpu()
        yield from self._of_memory()
        yield from self._of_disks()
        yield from self._of_network()
        yield from self._of_processes()

    def _of_cpu(self) -> Iterator[Sample]:
        for number, times in enumerate(self._psutil.cpu_times(percpu=True)):
            for mode, seconds in times._asdict().items():
                labels = {"cpu": str(number), "mode": mode}
                yield Sample("host_cpu_seconds_total", seconds, labels)
        for minutes, load in zip((1, 5, 15), os.getloadavg(), strict=True):
            yield Sample(f"host_load{minutes}", load, {})
        stats = self._psutil.cpu_stats()
        yield Sample("host_context_switches_total", stats.ctx_switches, {})
        yield Sample("host_boot_time_seconds", self._psutil.boot_time(), {})

    def _of_memory(self) -> Iterator[Sample]:
        kinds = ("total", "available", "used", "free", "buffers", "cached", "shared")
        memory = self._psutil.virtual_memory()._asdict()
        for kind in kinds:
            if kind in memory:
                yield Sample("host_memory_bytes", memory[kind], {"kind": kind})
        swap = self._psutil.swap_memory()
        for kind in ("total", "used", "free"):
            yield Sample("host_swap_bytes", getattr(swap, kind), {"kind": kind})

    def _of_disks(self) -> Iterator[Sample]:
        for partition in self._psutil.disk_partitions(all=False):
            try:
                usage = self._psutil.disk_usage(partition.mountpoint)
            except OSError:
                continue  # unmounted since, or no permission
            labels = {"mount": partition.mountpoint, "device": partition.device}
            for kind in ("total", "used", "free"):
                size = getattr(usage, kind)
                yield Sample("host_disk_space_bytes", size, {**labels, "kind": kind})
        for device, counts in (self._psutil.disk_io_counters(perdisk=True) or {}).items():
            if device.startswith(_VIRTUAL_DEVICES):
                continue
            by_device = {"device": device}
            yield Sample("host_disk_read_bytes_total", counts.read_bytes, by_device)
            yield Sample("host_disk_written_bytes_total", counts.write_bytes, by_device)
            yield Sample("host_disk_reads_total", counts.read_count, by_device)
            yield Sample("host_disk_writes_total", counts.write_count, by_device)
            if hasattr(counts, "busy_time"):
                yield Sample("host_disk_busy_seconds_total", counts.busy_time / 1000, by_device)

    def _of_network(self) -> Iterator[Sample]:
        for interface, counts in self._psutil.net_io_counters(pernic=True).items():
            labels = {"interface": interface}
            for direction, word in (("recv", "received"), ("sent", "sent")):
                count, size = f"packets_{direction}", f"bytes_{direction}"
                yield Sample(f"host_network_{word}_bytes_total", getattr(counts, size), labels)
                yield Sample(f"host_network_{word}_packets_total", getattr(counts, count), labels)
            for direction, errors, dropped in (
                ("in", counts.errin, counts.dropin),
                ("out", counts.errout, counts.dropout),
            ):
                by_direction = {**labels, "direction": direction}
                yield Sample("host_network_errors_total", errors, by_direction)
                yield Sample("host_network_dropped_total", dropped, by_direction)

    def _of_processes(self) -> Iterator[Sample]:
        """Yield the number of processes in each state, and CPU, memory and threads of the largest ones."""
        states: dict[str, int] = {}
        processes: list[dict[str, Any]] = []
        attributes = [
            "pid",
            "name",
            "username",
            "status",
            "cpu_percent",
            "memory_info",
            "num_threads",
        ]
        for process in self._psutil.process_iter(attributes):
            facts = process.info
            states[facts["status"]] = states.get(facts["status"], 0) + 1
            if facts["memory_info"] is not None and facts["cpu_percent"] is not None:
                processes.append(facts)
        for status, count in sorted(states.items()):
            yield Sample("host_processes", count, {"status": status})
        by_cpu = sorted(processes, key=lambda facts: -facts["cpu_percent"])
        by_memory = sorted(processes, key=lambda facts: -facts["memory_info"].rss)
        largest = (*by_cpu[: self._count], *by_memory[: self._count])
        for facts in {facts["pid"]: facts for facts in largest}.values():
            labels = {"pid": str(facts["pid"]), "process": facts["name"] or ""}
            labels["user"] = facts["username"] or ""
            yield Sample("host_process_cpu_percent", facts["cpu_percent"], labels)
            yield Sample("host_process_resident_bytes", facts["memory_info"].rss, labels)
            yield Sample("host_process_threads", facts["num_threads"] or 0, labels)
