"""The conditions that a rule can watch: what each measures of a look at the cluster, and what to do about it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple, TypeVar
from urllib.parse import quote

from kavka.console.formats import count_text, rate_text, seconds_text
from kavka.console.history.snapshot import Snapshot, used_share
from kavka.console.sentences import Sentence, as_is, say

T = TypeVar("T")

Subjects = Literal["groups", "topics", "brokers", "pipelines", "certificates", ""]
Measure = Literal["number", "duration", "share", "flag"]


class Observation(NamedTuple):
    """The value of a subject; None where it is not known at this look."""

    subject: str
    value: float | None
    sentence: Sentence
    """The case, for people."""
    location: str = ""
    """The page of the console that shows it."""


def matches(patterns: Sequence[str], name: str) -> bool:
    """Return whether one of the patterns, with `*` and `?`, is the whole name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class Target(NamedTuple):
    """The target of a rule: patterns of subjects, and the threshold, which decides what is known."""

    patterns: tuple[str, ...]
    threshold: float

    def matches(self, name: str) -> bool:
        """Return whether a subject is meant."""
        return matches(self.patterns, name)

    def of(self, subjects: Mapping[str, T]) -> Iterator[tuple[str, T]]:
        """Return the subjects that are meant, with their names."""
        return ((name, one) for name, one in subjects.items() if self.matches(name))

    @property
    def exact(self) -> list[str]:
        """Return the patterns that are names."""
        return [pattern for pattern in self.patterns if not set(pattern) & set("*?[")]


Observe = Callable[[Snapshot, Target], Iterator[Observation]]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: the subjects that it has, the measure of its threshold, and its default."""

    name: str
    summary: Sentence
    subjects: Subjects
    measure: Measure
    observe: Observe
    advice: Sentence
    is_above: bool | None = True
    """True if values above the threshold are bad, False if those below; None: the rule says."""
    default: float | None = None


def _known(value: float, is_known: bool, threshold: float) -> float | None:
    """Return a duration that may be longer than was seen: None unless what was seen decides."""
    return value if is_known or value > threshold else None


def _group(name: str) -> str:
    return f"/group?id={quote(name, safe='')}"


def _lag_records(look: Snapshot, target: Target) -> Iterator[Observation]:
    for name, group in target.of(look.groups):
        said = say(
            "Group {name} has {lag_records} records to read.",
            name=name,
            lag_records=count_text(group.lag_records),
        )
        yield Observation(name, group.lag_records, said, _group(name))


def _lag_seconds(look: Snapshot, target: Target) -> Iterator[Observation]:
    for name, group in target.of(look.groups):
        said = say(
            "Group {name} is {lag} behind, {lag_records} records.",
            name=name,
            lag=seconds_text(group.lag_seconds),
            lag_records=count_text(group.lag_records),
        )
        yield Observation(name, group.lag_seconds, said, _group(name))


def _stuck(look: Snapshot, target: Target) -> Iterator[Observation]:
    for name, group in target.of(look.groups):
        value = _known(group.stuck_s, group.is_stuck_known, target.threshold)
        said = say(
            "Group {name} has committed nothing in {partition} for {time}, and records wait.",
            name=name,
            partition=group.stuck_partition,
            time=seconds_text(group.stuck_s),
        )
        if not group.stuck_partition:
            said = say("Group {name} goes on.", name=name)
        yield Observation(name, value, said, _group(name))


def _falling_behind(look: Snapshot, target: Target) -> Iterator[Observation]:
    for name, group in target.of(look.groups):
        value = None if group.is_falling_behind is None else float(group.is_falling_behind)
        growth, lag = rate_text(group.growth_per_s), count_text(group.lag_records)
        said = say(
            "The lag of group {name} grows by {growth}, to {lag} records.",
            name=name,
            growth=growth,
            lag=lag,
        )
        if not value:
            said = say("Group {name} keeps up.", name=name)
        yield Observation(name, value, said, _group(name))


def _empty(look: Snapshot, target: Target) -> Iterator[Observation]:
    for name, group in target.of(look.groups):
        waits = group.lag_records
        value = 0.0 if group.state != "Empty" else None if waits is None else float(waits > 0)
        said = say(
            "Group {name} has no member, and {waits} records wait.",
            name=name,
            waits=count_text(waits),
        )
        if not value:
            said = say("Group {name} is {state}.", name=name, state=group.state or say("there"))
        yield Observation(name, value, said, _group(name))


def _no_data(look: Snapshot, target: Target) -> Iterator[Observation]:
    for name, topic in target.of(look.topics):
        value = _known(topic.idle_s, topic.is_idle_known, target.threshold)
        said = say(
            "Topic {name} has had no record for {idle_s}.",
            name=name,
            idle_s=seconds_text(topic.idle_s),
        )
        yield Observation(name, value, said, _topic(name))


def _topic(name: str) -> str:
    return f"/topics/{quote(name, safe='')}"


def _rate(look: Snapshot, target: Target) -> Iterator[Observation]:
    for name, topic in target.of(look.topics):
        said = say(
            "{records_in} records are written to topic {name}.",
            records_in=rate_text(topic.records_in),
            name=name,
        )
        yield Observation(name, topic.records_in, said, _topic(name))


def _under_replicated(look: Snapshot, target: Target) -> Iterator[Observation]:
    yield from _partitions(
        look, target, "under_replicated", say("fewer replicas in sync than assigned")
    )


def _offline(look: Snapshot, target: Target) -> Iterator[Observation]:
    yield from _partitions(look, target, "offline", say("no leader"))


def _partitions(look: Snapshot, target: Target, what: str, said: Sentence) -> Iterator[Observation]:
    for name in {*look.topics, *look.health}:
        if target.matches(name):
            health = look.health.get(name)
            count = 0 if health is None else getattr(health, what)
            yield Observation(
                name,
                count,
                say(
                    "Topic {name}: {count} partition{s_have} {said}.",
                    name=name,
                    count=count,
                    s_have=" has" if count == 1 else "s have",
                    said=said,
                ),
                _topic(name),
            )


def _broker_gone(look: Snapshot, target: Target) -> Iterator[Observation]:
    live = {str(row.broker_id): row.is_live for row in look.brokers}
    # A broker that the rule names is missing even where no replica is assigned to it.
    for name in {*live, *target.exact}:
        if target.matches(name):
            is_live = live.get(name, False)
            said = (
                say("Broker {name} is in the cluster.", name=name)
                if is_live
                else say("Broker {name} is not in the cluster.", name=name)
            )
            yield Observation(name, float(not is_live), said, "/brokers")


def _no_controller(look: Snapshot, target: Target) -> Iterator[Observation]:
    gone = look.controller is None
    said = (
        say("No broker is the controller.")
        if gone
        else say("Broker {controller} is the controller.", controller=look.controller)
    )
    yield Observation("cluster", float(gone), said, "/brokers")


def _disk_used(look: Snapshot, target: Target) -> Iterator[Observation]:
    for row in look.brokers:
        name, share = str(row.broker_id), used_share(row)
        if target.matches(name) and row.is_live:
            said = say("is not known") if share is None else say("is {share:.0%} used", share=share)
            yield Observation(
                name,
                share,
                say("The disk of broker {name} {said}.", name=name, said=said),
                f"/brokers/{name}",
            )


def _disk_full_in(look: Snapshot, target: Target) -> Iterator[Observation]:
    for row in look.brokers:
        name = str(row.broker_id)
        if target.matches(name) and row.is_live:
            if row.broker_id not in look.disk_full_s:
                yield Observation(
                    name,
                    None,
                    say("The disk of broker {name} is not known for long enough.", name=name),
                )
                continue
            left_s = look.disk_full_s[row.broker_id]
            said = (
                say("does not fill")
                if left_s is None
                else say("is full in {left_s}, as it fills now", left_s=seconds_text(left_s))
            )
            value = float("inf") if left_s is None else left_s
            yield Observation(
                name,
                value,
                say("The disk of broker {name} {said}.", name=name, said=said),
                f"/brokers/{name}",
            )


def _pipeline_failing(look: Snapshot, target: Target) -> Iterator[Observation]:
    for name, flow in target.of(look.pipelines or {}):
        failing = flow.state == "failed" or (flow.state == "waiting" and bool(flow.error))
        said = (
            say(
                "Flow {name} is {state}: {error}",
                name=name,
                state=flow.state,
                error=flow.error[:300],
            )
            if failing
            else say("Flow {name} is {state}.", name=name, state=flow.state)
        )
        yield Observation(name, float(failing), said)


def _pipeline_lag(look: Snapshot, target: Target) -> Iterator[Observation]:
    for name, flow in target.of(look.pipelines or {}):
        if not flow.is_over:
            said = say(
                "Flow {name} is {lag} behind.", name=name, lag=seconds_text(flow.lag_seconds)
            )
            yield Observation(name, flow.lag_seconds, said)


def _pipeline_silent(look: Snapshot, target: Target) -> Iterator[Observation]:
    for name, flow in target.of(look.pipelines or {}):
        value = 0.0 if flow.is_over else flow.silent_s
        said = say(
            "Flow {name} has reported nothing for {silent_s}.",
            name=name,
            silent_s=seconds_text(flow.silent_s),
        )
        yield Observation(name, value, said)


def _certificate(look: Snapshot, target: Target) -> Iterator[Observation]:
    for address in target.exact:
        found = look.certificates.get(address)
        if isinstance(found, float):
            left_s = found - look.at_s
            said = (
                say("expires in {left_s}", left_s=seconds_text(left_s))
                if left_s > 0
                else say("has expired")
            )
            yield Observation(
                address,
                left_s,
                say("The certificate of {address} {said}.", address=address, said=said),
            )
        else:
            said = as_is(found) if found else say("it was not asked yet")
            yield Observation(
                address,
                None,
                say(
                    "The certificate of {address} is not known: {said}.", address=address, said=said
                ),
            )


def _unreachable(look: Snapshot, target: Target) -> Iterator[Observation]:
    yield Observation("cluster", 0.0, say("The console reaches the cluster."), "/")


def _not_kept(look: Snapshot, target: Target) -> Iterator[Observation]:
    said = say("The history is kept.")
    if look.history_fault:
        said = say("The history cannot be written: {reason}.", reason=look.history_fault)
    yield Observation("history", float(bool(look.history_fault)), said, "/alerts")


UNREACHABLE: Final = "cluster_unreachable"
HISTORY_NOT_KEPT: Final = "history_not_kept"
DISK_FULL_IN: Final = "disk_full_in"

_LAG_ADVICE: Final = say(
    "Look at the group's page which partitions are behind. Add members up to the number of partitions, or make the "
    "work on a record shorter."
)

_CONDITIONS: Final = (
    Condition("group_lag_records", say("a group has more records to read"), "groups", "number", _lag_records,
              _LAG_ADVICE),
    Condition("group_lag_seconds", say("the oldest unread record of a group is older"), "groups", "duration",
              _lag_seconds,
              _LAG_ADVICE),
    Condition("group_stuck", say("records wait, and a group's offset stands still for longer"), "groups", "duration",
              _stuck,
              say("Look at the log of the member that has this partition: it may hang, or fail at the "
              "same record again and again. A record that cannot be handled is seen from the committed offset on the "
              "group's page."),
              default=600.0),
    Condition("group_falling_behind", say("a group reads, and its lag grows through a quarter of an hour"), "groups",
              "flag",
              _falling_behind,
              say("Records come faster than the group reads them. Add members up to the number of partitions, or make "
              "the work on a record shorter."), default=0.5),
    Condition("group_empty", say("a group has no member, and records wait"), "groups", "flag", _empty,
              say("Start the group's program, or delete the group if it is not needed any more."), default=0.5),
    Condition("topic_no_data", say("no record came into a topic for longer"), "topics", "duration", _no_data,
              say("Look whether the programs that write to it run, and what their logs say.")),
    Condition("topic_rate", say("records are written to a topic faster, or slower"), "topics", "number", _rate,
              say("Look at the topic's chart when it began, and which program writes more or less since."),
              is_above=None),
    Condition("under_replicated", say("more partitions of a topic lack replicas in sync"), "topics", "number",
              _under_replicated,
              say("Look whether a broker is gone, or its disk or network is slow. Records are safe while one replica "
              "in sync remains."), default=0.0),
    Condition("offline", say("more partitions of a topic have no leader"), "topics", "number", _offline,
              say("Nothing can be written or read there. Start the brokers that hold a replica in sync."), default=0.0),
    Condition("broker_gone", say("a broker that has replicas, or that the rule names, is not in the cluster"),
              "brokers",
              "flag", _broker_gone, say("Look at the broker's machine and its log, and start it again."), default=0.5),
    Condition("no_controller", say("no broker is the controller"), "", "flag", _no_controller,
              say("No leader is elected meanwhile. Look at the brokers' logs, and at the registry or the controllers."),
              default=0.5),
    Condition("disk_used", say("more of a broker's disks is used"), "brokers", "share", _disk_used,
              say("Shorten the retention of large topics, move replicas to other brokers, or add disks."),
              default=0.85),
    Condition(DISK_FULL_IN, say("a broker's disks are full sooner, as they fill in six hours"), "brokers", "duration",
              _disk_full_in,
              say("Look which topic grows. Shorten its retention, move replicas to other brokers, or add disks."),
              is_above=False),
    Condition("pipeline_failing", say("a flow of a pipeline has failed, or waits for its next start after a failure"),
              "pipelines", "flag", _pipeline_failing,
              say("See the error with `kavka pipelines status`, mend the pipeline, and start it again."), default=0.5),
    Condition("pipeline_lag_seconds", say("the oldest unread record of a flow is older"), "pipelines", "duration",
              _pipeline_lag, say("See the rates with `kavka pipelines status`; give the pipeline more cores.")),
    Condition("pipeline_silent", say("a flow that should run has not reported for longer"), "pipelines", "duration",
              _pipeline_silent,
              say("The run has died, or cannot reach the brokers: look at its log, and start it again."),
              default=60.0),
    Condition("certificate_expires", say("a certificate expires sooner"), "certificates", "duration", _certificate,
              say("Renew the certificate; brokers take a new key store without a restart."), is_above=False),
    Condition(UNREACHABLE, say("the console cannot look at the cluster"), "", "flag", _unreachable,
              say("Look whether brokers run and whether this machine reaches them."), default=0.5),
    Condition(HISTORY_NOT_KEPT, say("the console cannot write its history"), "", "flag", _not_kept,
              say("Free space on the disk of the history's file, or mend it. Until then charts have a gap, and what is "
              "sent and silenced is known to this run of the console alone."), default=0.5),
)  # fmt: skip

CONDITIONS: Final[Mapping[str, Condition]] = {one.name: one for one in _CONDITIONS}
"""All conditions, by name."""
