"""Carries a schedule out."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence

from kavka_chaos.cluster import ChaosCluster, broker_machine, machines
from kavka_chaos.network import CLIENTS
from kavka_chaos.schedule import BROKERS, Fault

Log = Callable[[str], None]


class Faults:
    """The faults of one round."""

    def __init__(self, cluster: ChaosCluster, members: int, log: Log) -> None:
        """`log` is called at each beginning and end."""
        self._cluster = cluster
        self._machines = machines(members)
        self._log = log

    def run(self, faults: Sequence[Fault]) -> None:
        """Begin and end all of them in their time. Raise NotWell when a broker ends by itself."""
        began = time.monotonic()
        steps = [(fault.begin, 0, fault) for fault in faults]
        steps += [(fault.end, 1, fault) for fault in faults]
        for at, is_end, fault in sorted(steps, key=lambda step: step[:2]):
            while (left := began + at - time.monotonic()) > 0:
                self._cluster.check_alive()
                time.sleep(min(left, 0.1))  # time: faults begin and end at their times
            self._log(f"{'end of' if is_end else 'begin'} {fault}")
            (self._end if is_end else self._begin)(fault)

    def _begin(self, fault: Fault) -> None:
        cluster, name = self._cluster, fault.kind.name
        for number in fault.brokers:
            if name.startswith("kill"):
                cluster.kill(number)
            elif name.startswith("pause"):
                cluster.signal(number, signal.SIGSTOP)
            elif name.startswith("fill"):
                cluster.may_end(number)
                cluster.disks[number].fill()
            else:
                cluster.ask_to_stop(number)
        for number in fault.members:
            if name.startswith("kill"):
                cluster.registry.kill(number)
            else:
                cluster.registry.signal(number, signal.SIGSTOP)
        for sender, receiver in self._cuts(fault):
            cluster.network.cut(sender, receiver)

    def _end(self, fault: Fault) -> None:
        cluster, name = self._cluster, fault.kind.name
        for number in fault.brokers:
            if name.startswith("pause"):
                cluster.signal(number, signal.SIGCONT)
                continue
            if name.startswith("fill"):
                cluster.disks[number].free()
                cluster.ask_to_stop(number)  # a failed directory stays offline until a restart
            cluster.wait_stopped(number)
            cluster.launch(number)
        for number in fault.members:
            if name.startswith("kill"):
                cluster.registry.revive(number)
            else:
                cluster.registry.signal(number, signal.SIGCONT)
        for sender, receiver in self._cuts(fault):
            cluster.network.join(sender, receiver)

    def _cuts(self, fault: Fault) -> Iterator[tuple[str, str]]:
        """Return the cut pairs of sender and receiver."""
        if not fault.ends:
            return
        here = broker_machine(fault.ends[0])
        brokers = [broker_machine(number) for number in range(BROKERS)]
        registry = self._machines[BROKERS:]
        others = {
            "cut broker from broker": [broker_machine(number) for number in fault.ends[1:]],
            "cut a broker from the other brokers": brokers,
            "cut a broker from the registry": registry,
            "cut a broker from clients": [CLIENTS],
            "cut a broker off": [*brokers, *registry, CLIENTS],
        }[fault.kind.name.removesuffix(", one way")]
        is_one_way = fault.kind.name.endswith(", one way")
        for other in others:
            if other == here:
                continue
            if not is_one_way or not fault.is_inward:
                yield here, other
            if not is_one_way or fault.is_inward:
                yield other, here
