"""The verdict over a history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kavka.ids import TopicPartition
from kavka.testing.history.anomalies import ANOMALIES, Anomaly
from kavka.testing.history.cycles import dependency_cycles
from kavka.testing.history.facts import Facts
from kavka.testing.history.operations import Event, Poll, Scan, Send, pair
from kavka.testing.history.polls import poll_order
from kavka.testing.history.promises import Promises, allowed_because
from kavka.testing.history.reads import (
    duplicates,
    forbidden_reads,
    inconsistent_offsets,
    lost_writes,
    vanished_reads,
)
from kavka.testing.history.sends import send_order
from kavka.testing.history.staleness import unseen, worst_lag_ns

CHECKS: tuple[Callable[[Facts], Iterator[Anomaly]], ...] = (
    lost_writes,
    vanished_reads,
    duplicates,
    inconsistent_offsets,
    forbidden_reads,
    poll_order,
    send_order,
    dependency_cycles,
)


@dataclass(slots=True)
class Finding:
    """All anomalies of one kind: how many, the first of them, and why they are allowed (None: they are not)."""

    kind: type[Anomaly]
    allowed: str | None
    count: int = 0
    examples: list[Anomaly] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of checking a history."""

    promises: Promises
    findings: dict[str, Finding]
    """By the anomaly's name, in the order of `ANOMALIES`; only what was found."""
    counts: dict[str, int]
    """Number of operations by outcome, and of records read."""
    unseen: dict[TopicPartition, int]
    """Acknowledged records that were not read; after a scan of everything each of them is a lost write."""
    worst_lag_ns: dict[TopicPartition, int]

    @property
    def passed(self) -> bool:
        """Return whether no forbidden anomaly was found."""
        return not self.forbidden

    @property
    def forbidden(self) -> dict[str, Finding]:
        """The findings that break a promise."""
        return {name: found for name, found in self.findings.items() if found.allowed is None}

    def report(self) -> str:
        """Return the verdict as a text of several lines."""
        lines = [", ".join(f"{count} {name}" for name, count in self.counts.items())]
        for name, finding in self.findings.items():
            state = "FORBIDDEN" if finding.allowed is None else f"allowed ({finding.allowed})"
            lines.append(f"{name}: {finding.count}, {state}: {finding.kind.says}")
            if finding.allowed is None:
                lines += [f"  - {example.explain()}" for example in finding.examples]
        if self.unseen:
            shown = ", ".join(
                f"{topic_partition}: {count}" for topic_partition, count in self.unseen.items()
            )
            lines.append(f"acknowledged, but never read: {shown}")
        if self.worst_lag_ns:
            worst = max(self.worst_lag_ns.values()) / 1e6
            lines.append(
                f"worst lag of a poll behind the acknowledgements: at least {worst:.0f} ms"
            )
        broken = ", ".join(self.forbidden)
        lines.append(
            "verdict: no forbidden anomaly" if self.passed else f"verdict: BROKEN: {broken}"
        )
        return "\n".join(lines)


def check(
    events: list[Event], promises: Promises | None = None, *, max_examples: int = 5
) -> Verdict:
    """Find all anomalies in a history; return at most `max_examples` of each kind. Raise MalformedHistory."""
    promises = promises or Promises()
    facts = Facts(pair(events), read_committed=promises.read_committed)
    findings: dict[type[Anomaly], Finding] = {}
    for look in CHECKS:
        for anomaly in look(facts):
            kind = type(anomaly)
            finding = findings.get(kind)
            if finding is None:
                finding = findings[kind] = Finding(kind, allowed_because(kind, promises))
            finding.count += 1
            if len(finding.examples) < max_examples:
                finding.examples.append(anomaly)
    ordered = {kind.name: findings[kind] for kind in ANOMALIES if kind in findings}
    return Verdict(promises, ordered, _counts(facts), unseen(facts), worst_lag_ns(facts))


def _counts(facts: Facts) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for operation in facts.operations:
        match operation.action:
            case Send():
                counts[f"sends {operation.outcome}"] += 1
            case Poll(records):
                counts["polls"] += 1
                counts["records polled"] += len(records)
            case Scan(_, _, _, records):
                counts["records scanned"] += len(records)
            case _:
                pass
    for transaction in facts.transactions:
        counts[f"transactions {transaction.outcome}"] += 1
    return dict(sorted(counts.items()))
