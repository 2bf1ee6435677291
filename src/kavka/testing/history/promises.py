"""Guarantees of the protocol by settings: anomalies that are findings, and documented behaviour.

Sources: KIP-98 (idempotence and transactions), Kafka's documentation of `acks`, `isolation.level` and
`unclean.leader.election.enable`, and the types that Jepsen's Kafka workload allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, Self

from kavka.testing.history.anomalies import ANOMALIES, Anomaly


@dataclass(frozen=True, slots=True)
class Promises:
    """The settings of a run, and what was done to the brokers, as far as promises depend on them."""

    acks: str = "all"
    """`acks` of all producers: all, 1 or 0."""
    idempotent: bool = True
    """`enable.idempotence` of all producers."""
    read_committed: bool = True
    """`isolation.level` of all consumers; without transactions it does not matter."""
    clean_elections: bool = True
    """No leader was elected from outside of the in-sync set, and no host lost what was not synced."""
    rebalances_recorded: bool = True
    """Consumers that subscribe record when partitions are taken and given."""

    @classmethod
    def from_fields(cls, given: Mapping[str, Any]) -> Self:
        """Read the header of a history. Raise ValueError for what is no such setting, or no value of one."""
        fields_by_name = {field.name: field for field in fields(cls)}
        for name, value in given.items():
            if name not in fields_by_name:
                raise ValueError(f"{name!r} is none of {', '.join(fields_by_name)}")
            if name == "acks" and value not in ("all", "1", "0"):
                raise ValueError(f"acks is all, 1 or 0, not {value!r}")
            if name != "acks" and not isinstance(value, bool):
                raise ValueError(f"{name} is true or false, not {value!r}")
        return cls(**given)

    def as_fields(self) -> dict[str, Any]:
        """Return the header of a history."""
        return asdict(self)


class Condition(NamedTuple):
    """A condition that allows an anomaly, in words and as a predicate."""

    when: str
    holds: Callable[[Promises], bool]


ALWAYS = Condition("always", lambda _: True)
WEAK_ACKS = Condition("`acks` is not all", lambda p: p.acks != "all")
UNCLEAN = Condition("unclean elections or lost disks", lambda p: not p.clean_elections)
REPEATS = Condition("producers are not idempotent", lambda p: not p.idempotent)
UNCOMMITTED = Condition("`read_uncommitted`", lambda p: not p.read_committed)
UNRECORDED = Condition("rebalances are not recorded", lambda p: not p.rebalances_recorded)


class Rule(NamedTuple):
    """Under which conditions an anomaly is allowed, any of them; `why` is the protocol's reason."""

    conditions: tuple[Condition, ...]
    why: str


RULES: dict[str, Rule] = {
    "lost-write": Rule((WEAK_ACKS, UNCLEAN), "only the in-sync set keeps what was acknowledged"),
    "vanished-read": Rule((UNCLEAN,), "what was read is below the high watermark: every replica in sync has it"),
    "duplicate": Rule((REPEATS,), "a request that is sent again is written again"),
    "inconsistent-offsets": Rule((WEAK_ACKS, UNCLEAN), "a new leader gives the offsets of lost records to others"),
    "unwritten-read": Rule((), "batches are stored as they were sent"),
    "failed-write-read": Rule((), "what surely failed was never stored"),
    "aborted-read": Rule((UNCOMMITTED,), "only read_committed filters aborted transactions (KIP-98)"),
    "precommitted-read": Rule((UNCOMMITTED,), "only read_committed waits for the last stable offset (KIP-98)"),
    "poll-skip": Rule((UNRECORDED, WEAK_ACKS, UNCLEAN), "positions only move forward over what is there"),
    "nonmonotonic-poll": Rule((UNRECORDED, UNCLEAN), "positions only move forward"),
    "int-poll-skip": Rule((WEAK_ACKS, UNCLEAN), "a fetch returns all visible records from its offset on"),
    "int-nonmonotonic-poll": Rule((UNCLEAN,), "a fetch returns records in the order of their offsets"),
    "nonmonotonic-send": Rule((REPEATS,), "sequence numbers keep order; without them a retry overtakes"),
    "int-nonmonotonic-send": Rule((REPEATS,), "sequence numbers keep order; without them a retry overtakes"),
    "send-skip": Rule((ALWAYS,), "producers share partitions"),
    "int-send-skip": Rule((ALWAYS,), "transactions interleave in a partition"),
    "G0": Rule((ALWAYS,), "writes are not isolated from each other"),
    "G1c": Rule((ALWAYS,), "writes are not isolated from each other, so their order says nothing"),
    "G1c-wr": Rule((UNCOMMITTED,), "read_committed shows a transaction after its commit only"),
    "G-single": Rule((ALWAYS,), "a poll is no snapshot: it may not have come so far"),
    "G2": Rule((ALWAYS,), "a poll is no snapshot: it may not have come so far"),
}  # fmt: skip


def allowed_because(kind: type[Anomaly], promises: Promises) -> str | None:
    """Return the condition under which the protocol allows an anomaly; None when it is forbidden."""
    for condition in RULES[kind.name].conditions:
        if condition.holds(promises):
            return condition.when
    return None


def table() -> str:
    """Return the rules as a Markdown table, as in `docs/reference/testing.md`."""
    rows = ["| anomaly | means | allowed | because |", "|---|---|---|---|"]
    for kind in ANOMALIES:
        rule = RULES[kind.name]
        when = ", ".join(condition.when for condition in rule.conditions) or "never"
        rows.append(f"| `{kind.name}` | {kind.says} | {when} | {rule.why} |")
    return "\n".join(rows)
