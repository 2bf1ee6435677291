"""`python -m kavka_chaos`: rounds of chaos for so many minutes, and a table."""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kazoo.handlers.threading import KazooTimeoutError

from kavka.testing.history.workload.client import ClientFailed
from kavka_chaos.cluster import DISKS, ChaosCluster, NotWell, run_cluster
from kavka_chaos.network import Namespaces, isolate
from kavka_chaos.proxies import Proxies
from kavka_chaos.report import table
from kavka_chaos.rounds import Clients, Outcome, play
from kavka_chaos.schedule import Schedule
from kavka_chaos.security import ADMIN, Changes
from kavka_compat.processes import ProcessDied

_MEMBERS = {"zookeeper": 3, "served": 1}
_MAX_FAILED = 5
"""Clusters that were not well: then the rest will not be, either."""
_NOT_WELL = (NotWell, ClientFailed, ProcessDied, TimeoutError, KafkaException, KazooTimeoutError)
_FAILED = 1
_NOT_ABLE = 2


class Run:
    """All clusters of a command, one after another."""

    def __init__(
        self, options: argparse.Namespace, network: type[Namespaces] | type[Proxies]
    ) -> None:
        """Begin the clock."""
        self._options = options
        self._network = network
        self._began = time.monotonic()
        self._round = 0
        self.outcomes = {name: Outcome() for name in options.registry}

    def go(self) -> None:
        """Play until the time, or the number of rounds, is over. What was wrong ends its cluster, not the run."""
        failed = 0
        for number, kind in enumerate(cycle(self._options.registry)):
            directory = Path(self._options.directory) / f"cluster-{number}"
            if self._cluster(number, kind, directory):
                shutil.rmtree(directory)
            else:
                self._log(f"the evidence is in {directory}")
                failed += 1
            if self._is_over() or failed == _MAX_FAILED:
                return

    def _is_over(self) -> bool:
        options = self._options
        if options.rounds is not None:
            return bool(self._round >= options.rounds)
        return bool(time.monotonic() - self._began > options.minutes * 60)

    def _cluster(self, number: int, kind: str, directory: Path) -> bool:
        """Return whether all was well."""
        options = self._options
        disks = DISKS if self._network.has_disks else ()
        schedule = Schedule(options.seed + number, _MEMBERS[kind], disks=disks)
        directory.mkdir(parents=True)
        self._log(f"cluster {number}: three brokers, registry {kind}, seed {options.seed + number}")
        try:
            secured = options.security
            with run_cluster(directory, kind, self._network, is_secured=secured) as cluster:
                changes = self._changes(cluster)
                for _ in range(options.rounds_of_a_cluster):
                    if not self._play(cluster, kind, schedule, directory, changes):
                        return False
                    if self._is_over():
                        break
        except _NOT_WELL as error:
            self._log("".join(traceback.format_exception(error)))
            self.outcomes[kind].others.append(f"{type(error).__name__}: {error}")
            return False
        return True

    def _changes(self, cluster: ChaosCluster) -> Changes | None:
        if cluster.secured is None:
            return None
        changes = Changes(cluster.secured, cluster.bootstrap, self._log)
        changes.allow()
        return changes

    def _play(
        self,
        cluster: ChaosCluster,
        kind: str,
        schedule: Schedule,
        directory: Path,
        changes: Changes | None,
    ) -> bool:
        self._round += 1
        faults = schedule.round(self._options.seconds)
        self._log(f"round {self._round}, {len(faults)} faults:")
        for fault in faults:
            print(f"    {fault}", flush=True)
        topic = f"round-{self._round}"
        evidence = directory / f"{topic}.jsonl"
        found = play(
            cluster,
            _MEMBERS[kind],
            topic,
            faults,
            Clients(self._options.client, self._options.rate),
            evidence,
            self._log,
            changes,
        )
        self.outcomes[kind].add(found)
        verdict = "well" if found.passed else f"BROKEN: {dict(found.anomalies)} {found.others}"
        self._log(
            f"round {self._round}: {found.sends['ok']} acknowledged, {found.reads} read,"
            f" worst silence {found.worst_silence:.1f} s, {verdict}"
        )
        if changes is not None:
            self._log(", ".join(f"{name}: {count}" for name, count in changes.done.items()))
        if found.passed:
            admin = AdminClient(cluster.client(ADMIN))
            admin.delete_topics([topic])[topic].result(60)
        return found.passed

    def _log(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:6.1f} s] {text}", flush=True)


def main(argv: list[str]) -> int:
    """Return 0 when all was well, 1 when something was lost or did not heal, 2 when it cannot run here."""
    options = _parser().parse_args(argv)
    if options.schedule:
        for line in _schedule(options):
            print(line)
        return 0
    network: type[Namespaces] | type[Proxies] = Namespaces
    refusal = isolate(argv) if options.network != "proxies" else "as was asked for"
    if refusal is not None:
        if options.network == "namespaces":
            print(f"error: no namespaces on this machine: {refusal}", file=sys.stderr)
            return _NOT_ABLE
        print(f"no namespaces: {refusal}")
        network = Proxies
    for library in ("kavka", "kazoo"):  # broken connections are expected
        logging.getLogger(library).setLevel(logging.CRITICAL)
    print(f"network: {network.description}; directory: {options.directory}", flush=True)
    run = Run(options, network)
    try:
        run.go()
    finally:
        print(table({name: o for name, o in run.outcomes.items() if o.rounds or o.others}))
    return 0 if all(outcome.passed for outcome in run.outcomes.values()) else _FAILED


def _schedule(options: argparse.Namespace) -> Iterator[str]:
    schedule = Schedule(options.seed, _MEMBERS[options.registry[0]], disks=DISKS)
    for number in range(1, options.rounds_of_a_cluster + 1):
        yield f"round {number}:"
        yield from (f"    {fault}" for fault in schedule.round(options.seconds))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kavka_chaos",
        description="Kill, pause, cut off and starve the processes of a cluster under load; judge what clients saw.",
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="begin no round after that")
    parser.add_argument("--rounds", type=int, help="play so many rounds instead")
    parser.add_argument("--seconds", type=float, default=45.0, help="of faults in a round")
    parser.add_argument("--rounds-of-a-cluster", type=int, default=8, help="then a new one begins")
    parser.add_argument(
        "--registry", nargs="+", choices=sorted(_MEMBERS), default=["zookeeper", "served"]
    )
    parser.add_argument(
        "--network",
        choices=["auto", "namespaces", "proxies"],
        default="auto",
        help="auto: proxies where namespaces are not allowed",
    )
    parser.add_argument(
        "--rate", type=float, default=100.0, help="records/s of each of 2 producers"
    )
    parser.add_argument(
        "--client",
        choices=["confluent", "kavka"],
        default="confluent",
        help="the library that writes and reads",
    )
    parser.add_argument(
        "--security",
        action="store_true",
        help="SASL_SSL and ACLs; certificates, credentials and ACLs change all the time",
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--directory", help="for logs and evidence (default: a new one in /tmp)")
    parser.add_argument(
        "--schedule", action="store_true", help="print the first cluster's, do not play"
    )
    return parser


def _with_directory(argv: list[str]) -> list[str]:
    """Fix values that are drawn by default, because the process begins again in its namespaces."""
    options = _parser().parse_args(argv)
    more = ["--seed", str(options.seed)]
    if options.directory is None:
        more += ["--directory", tempfile.mkdtemp(prefix="kavka-chaos-")]
    return [*argv, *more]


if __name__ == "__main__":
    sys.exit(main(_with_directory(sys.argv[1:])))
