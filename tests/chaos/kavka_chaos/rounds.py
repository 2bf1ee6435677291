"""One round: load, faults, healing, verdict; and what all rounds have shown."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kavka.testing.history import Verdict
from kavka.testing.history.anomalies import Duplicate
from kavka.testing.history.operations import Event, Send, Type
from kavka.testing.history.workload import Load, Settings
from kavka_chaos.cluster import ChaosCluster
from kavka_chaos.faults import Faults, Log
from kavka_chaos.renumbering import GIVEN_UP, renumbered_duplicates
from kavka_chaos.schedule import Fault
from kavka_chaos.security import LOAD, Changes, changing

_PARTITIONS = 4
_AFTERMATH_S = 15
"""Time after a fault in which a silence still counts as its."""
_NOTICE_S = 0.5
"""Maximum time between the last acknowledgement and a fault."""

_PATIENT = {"reconnect.backoff.ms": "200", "reconnect.backoff.max.ms": "1000"}
"""Attempts are fewer where each connection is a handshake: many of them would leave no time for the rest."""


@dataclass(frozen=True, slots=True)
class Clients:
    """The library that writes and reads, and the records a second of each producer."""

    library: str
    rate: float


@dataclass
class Outcome:
    """The result of rounds; results add up."""

    rounds: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    sends: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    anomalies: Counter[str] = field(default_factory=Counter)
    """Forbidden ones by name."""
    others: list[str] = field(default_factory=list)
    """Everything else that was wrong."""
    renumbered: int = 0
    """Duplicates that librdkafka made itself (see `renumbering`); they are not among the anomalies."""
    silence: dict[str, float] = field(default_factory=dict)
    """Worst seconds in which a partition acknowledged nothing, by the kind of the only fault at that time."""
    worst_silence: float = 0.0

    @property
    def passed(self) -> bool:
        """Return whether no promise was broken and nothing else was wrong."""
        return not self.anomalies and not self.others

    def excuse(self, anomaly: str, count: int) -> None:
        """Count so many anomalies of a name as librdkafka's own."""
        self.renumbered += count
        self.anomalies = +(self.anomalies - Counter({anomaly: count}))

    def add(self, other: Outcome) -> None:
        """Take the outcome of more rounds in."""
        self.rounds += other.rounds
        self.faults += other.faults
        self.sends += other.sends
        self.reads += other.reads
        self.anomalies += other.anomalies
        self.others += other.others
        self.renumbered += other.renumbered
        for name, seconds in other.silence.items():
            self.silence[name] = max(seconds, self.silence.get(name, 0.0))
        self.worst_silence = max(self.worst_silence, other.worst_silence)


def play(
    cluster: ChaosCluster,
    members: int,
    topic: str,
    faults: Sequence[Fault],
    clients: Clients,
    evidence: Path,
    log: Log,
    changes: Changes | None = None,
) -> Outcome:
    """Play one round; the history of one that fails stays in `evidence`. Raise NotWell, ClientFailed, TimeoutError."""
    settings = Settings(
        cluster.bootstrap,
        clients.library,
        topic,
        partitions=_PARTITIONS,
        replication_factor=3,
        min_insync_replicas=2,
        rate=clients.rate,
        seed=zlib.crc32(topic.encode()),
        timeout_seconds=180,
        config=cluster.client(LOAD) if changes is None else {**cluster.client(LOAD), **_PATIENT},
    )
    with evidence.open("w", encoding="utf-8") as sink, Load(settings, sink) as load:
        load.wait_for(100)
        began_ns = load.recorder.now_ns()
        with changing(changes):
            Faults(cluster, members, log).run(faults)
            cluster.heal([topic, "__consumer_offsets"])
        if changes is not None:
            changes.restore()
        load.wait_for(100, 120)
        verdict = load.finish()
    outcome = _outcome(verdict, faults, silences_since(load.recorder.events, began_ns))
    outcome.others += cluster.unequal_logs(topic, _PARTITIONS) + cluster.tracebacks()
    outcome.others += _failed_sends(load.recorder.events, may_be_refused=changes is not None)
    if changes is not None:
        renumbered = renumbered_duplicates(load.recorder.events, cluster.batches)
        outcome.excuse(Duplicate.name, len(renumbered))
    if outcome.passed:
        evidence.unlink()
    else:
        log(verdict.report())
    return outcome


def _outcome(
    verdict: Verdict, faults: Sequence[Fault], silences: Sequence[tuple[float, float]]
) -> Outcome:
    counts = verdict.counts
    outcome = Outcome(
        rounds=1,
        faults=Counter(fault.kind.name for fault in faults),
        sends=Counter({name: counts.get(f"sends {name}", 0) for name in ("ok", "fail", "info")}),
        reads=counts["records polled"],
        anomalies=Counter({n: f.count for n, f in verdict.findings.items() if f.allowed is None}),
        worst_silence=max((end - begin for begin, end in silences), default=0.0),
    )
    if verdict.unseen:
        outcome.others.append(f"acknowledged, but never read: {verdict.unseen}")
    for fault in faults:
        seconds = silence_of(fault, faults, silences)
        if seconds is not None:
            name = fault.kind.name
            outcome.silence[name] = max(seconds, outcome.silence.get(name, 0.0))
    return outcome


def _failed_sends(events: Sequence[Event], *, may_be_refused: bool) -> list[str]:
    """Return why sends failed, which they should not: the library has 180 s to try again.

    Of a client whose password was changed meanwhile it gives some up; that is no promise broken.
    """
    reasons = Counter(
        f"{event.type}: {event.error}"
        for event in events
        if isinstance(event.action, Send) and event.type in (Type.FAIL, Type.INFO)
    )
    return [
        f"{count} sends {reason}"
        for reason, count in reasons.items()
        if not (may_be_refused and _is_of_authentication(reason))
    ]


def _is_of_authentication(reason: str) -> bool:
    """Return whether a library gave a send up because its credential was refused."""
    return GIVEN_UP in reason or "AuthenticationFailed" in reason


def silence_of(
    fault: Fault, faults: Sequence[Fault], silences: Sequence[tuple[float, float]]
) -> float | None:
    """Return the longest silence that began in a fault or up to 15 s after it; None when it was not alone.

    What lasts into the next fault is counted up to there.
    """
    others = [other for other in faults if other is not fault]
    if any(other.begin <= fault.end and fault.begin <= other.end for other in others):
        return None
    later = [other.begin for other in others if other.begin > fault.end]
    limit = min([*later, fault.end + _AFTERMATH_S])
    spans = [
        min(end, limit) - begin
        for begin, end in silences
        if fault.begin - _NOTICE_S <= begin < limit
    ]
    return max(spans, default=0.0)


def silences_since(events: Sequence[Event], began_ns: int) -> list[tuple[float, float]]:
    """Return the times between two acknowledgements of a partition, in seconds after the first fault could begin."""
    return [span for span in _spans(events, began_ns) if span[1] > span[0]]


def _spans(events: Sequence[Event], began_ns: int) -> Iterator[tuple[float, float]]:
    last: dict[int, float] = {}
    for event in events:
        if isinstance(event.action, Send) and event.type is Type.OK:
            partition, now = event.action.partition.partition, (event.time_ns - began_ns) / 1e9
            if partition in last:
                yield last[partition], now
            last[partition] = now
