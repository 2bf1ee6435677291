"""Coverage marks: situations that a batch of seeds must have met, or it proves little.

A simulator only finds what its workload and its faults can reach. A mark is a situation with a name, recognised
by a line of the story, so that product code need not know of marks: it logs what happens, as it should anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kavka.simulation.trace import TraceLine


@dataclass(frozen=True, slots=True)
class Mark:
    """A situation: its name, and the pattern of the story's line that shows it."""

    name: str
    pattern: str
    source: str = ""

    def is_hit_by(self, line: TraceLine) -> bool:
        """Return whether the line shows the situation."""
        return (
            line.source.startswith(self.source) and re.search(self.pattern, line.event) is not None
        )


def hits(marks: Iterable[Mark], lines: Iterable[TraceLine]) -> set[str]:
    """Return the names of the marks that the story shows."""
    missing = list(marks)
    found: set[str] = set()
    for line in lines:
        for mark in [mark for mark in missing if mark.is_hit_by(line)]:
            found.add(mark.name)
            missing.remove(mark)
    return found


BROKER_MARKS = (
    Mark("the broker was killed", "^is killed", "broker"),
    Mark("the broker was killed in the middle of a write", "^is gone", "broker"),
    Mark("the broker stood still and went on", "^goes on", "broker"),
    Mark("the broker stopped cleanly and came back", r"starts \(run [2-9]", "broker"),
    Mark("a power loss took the end of a log", r"^loses power; .*\.log: ", "broker"),
    Mark("recovery found a sound log", "log recovered .*cut_bytes=0", "broker"),
    Mark("recovery cut a log", "log truncated by recovery", "broker"),
    Mark("segments were deleted", "old segments were removed", "broker"),
    Mark("a topic was deleted", "topic deleted", "broker"),
    Mark("records were deleted", "below .*: NONE", "admin"),
    Mark("a group's offsets were loaded", "shard loaded partition=__consumer_offsets", "broker"),
    Mark(
        "a producer lost its connection with requests under way",
        "produce request failed",
        "producer",
    ),
    Mark("a producer was killed", "^is killed", "producer"),
    Mark("a member was killed", "^is killed", "member"),
    Mark("a rebalance gave a member nothing", "^gets nothing", "member"),
    Mark("a heartbeat announced a rebalance", "heartbeat failed", "member"),
    Mark("a reader fell behind the log's start", "position out of range", "member"),
    Mark("a link was cut in one direction", r"^cuts \S+$", "nemesis"),
    Mark("a disk was slow", "disk slow", "nemesis"),
    Mark("a broker gave up because its disk failed", "^gives up: .*Input/output error", "broker"),
    Mark("a broker gave up because its disk was full", "^gives up: .*No space left", "broker"),
    Mark("a wall clock was set", "has its clock set"),
)
"""Marks that a few hundred seeds of `BrokerRun` must hit."""

CLUSTER_MARKS = (
    Mark("a transaction was committed", "^commits ", "till"),
    Mark("a producer changed its mind", "^aborts .*second thoughts", "till"),
    Mark("a transaction could not be committed", "^aborts .*: (?!.*second thoughts)", "till"),
    Mark("a producer was fenced", "^is fenced", "till"),
    Mark("an outcome was not known", "^does not know the outcome", "till"),
    Mark("a prepared transaction was committed as decided", "^commits .* as decided", "till"),
    Mark("a prepared transaction was aborted as decided", "^aborts till.* as decided", "till"),
    Mark("an earlier producer's transaction was kept", "^finds .* open", "till"),
    Mark("a transaction was aborted that was not announced", "^aborts what was not", "till"),
    Mark("a producer of transactions was killed", "^is killed", "till"),
    Mark(
        "a coordinator's transactions were loaded",
        "shard loaded partition=__transaction_state",
        "broker",
    ),
    Mark("markers could not be written at first", "^markers not written", "broker"),
    Mark("a broker was killed", "^is killed", "broker"),
    Mark("a broker stood still and went on", "^goes on", "broker"),
    Mark("a broker stopped cleanly and came back", r"starts \(run [2-9]", "broker"),
    Mark("a host lost power and a log its end", r"^loses power; .*\.log: ", "broker"),
    Mark("a controller followed another", r"controller elected .*epoch=[3-9]", "broker"),
    Mark("a controller was deposed", "controller moved to another broker", "broker"),
    Mark("a dead controller was replaced", "dead controller removed", "broker"),
    Mark("a broker was suspected", "broker suspected, connection refused", "broker"),
    Mark("a living broker was suspected", "suspected broker answers again", "broker"),
    Mark("a session expired", "registry session expired"),
    Mark("a broker registered again", "registered again", "broker"),
    Mark("a broker took over its dead registration", "stale registration removed", "broker"),
    Mark("brokers came back while no controller looked", "restarted unnoticed", "broker"),
    Mark("a follower cut its log by its leader's epochs", r"step=Truncate\(", "broker"),
    Mark("an in-sync set shrank", r"proposed .*from=\[\d, \d\] to=\[\d\]", "broker"),
    Mark("an in-sync set grew", r"proposed .*from=\[\d\] to=\[\d, \d\]", "broker"),
    Mark("a change of an in-sync set was refused", "in-sync set not changed", "broker"),
    Mark(
        "an old controller was refused", "control request of a stale controller refused", "broker"
    ),
    Mark("an unclean election lost records", "not in sync: .* records lost", "registry"),
    Mark("an unclean election lost nothing", "not in sync: nothing lost", "registry"),
    Mark("records were read from a follower", "^reads .* from ", "reader"),
    Mark("replication was throttled", "^throttle .*done", "admin"),
    Mark("a throttle held a follower back", "^holds a follower back", "broker"),
    Mark("records were written under a throttle", "^ends$", "late-producer"),
    Mark("partitions were moved", r"^move (?!between ).*done", "admin"),
    Mark("a replica was moved to another directory", "log moved partition=", "broker"),
    Mark("leaders were elected by request", r"^elect .*done", "admin"),
    Mark("a topic was deleted", r"^delete fleeting.*done", "admin"),
    Mark("a topic was grown", r"^create partitions .*done", "admin"),
    Mark("a group's offsets were loaded", "shard loaded partition=__consumer_offsets", "broker"),
    Mark("a rebalance gave a member nothing", "^gets nothing", "member"),
    Mark("brokers were split", "^cuts brokers .*, ", "nemesis"),
    Mark("a broker was cut off the registry", "off the registry", "nemesis"),
    Mark("the registry was killed", "^is killed", "registry"),
    Mark("a broker gave up because its disk failed", "^gives up: .*Input/output error", "broker"),
)
"""Marks that some dozens of seeds of `ClusterRun` must hit: `make test` runs seeds until they have."""

STORAGE_MARKS = (
    Mark("a host lost power", "^loses power; "),
    Mark("names of files were lost", "lost the last .* changes of names"),
    Mark("recovery cut a log", "log truncated by recovery"),
    Mark("a whole segment went because the one before ended early", "are missing$"),
    Mark("a checksum failed", "fails its checksum"),
    Mark("the end of a batch was lost", "cut short by the end of the file"),
    Mark("a process was killed in the middle of a write", "^is gone"),
    Mark("a write failed", "gives up: .*Input/output error"),
    Mark("the disk was full", "No space left"),
    Mark("a log was closed cleanly", "closed cleanly"),
    Mark("indexes were rebuilt", "indexes are rebuilt"),
    Mark("a bit flipped", "flips a bit"),
    Mark("a follower's log was truncated", "log was truncated"),
    Mark("a follower's log began again", "log truncated fully log=/data/t-0 "),
    Mark("a log moved to another directory", "log moved .* from="),
    Mark("a start finished a move", "log moved .* by=start"),
)
"""Marks that a few hundred seeds of `StorageRun` must hit."""
