"""A short notation for histories. Everything is in topic `t`, in partition 0 unless `1/` stands before.

p send a ok 7           producer p sent `a`, acknowledged at offset 7 (`ok` alone: offset unknown)
p send 1/a fail         to partition 1, and it surely failed; `info`: it is unknown
p send? a   p send! a ok 7      the invocation and the completion, with other things between
c poll 0:a 1:b 1/0:x    consumer c read; `poll? ` and `poll! 0:a` as above; `poll info`
s scan 0-2 0:a 1:b      all of partition 0, which holds offsets 0 to 1, was read; `scan 1/0-0`
c assign 0 1            partitions; `subscribe`; `seek 5`, `seek 1/`; `rebalance -0 +1`
p begin, p commit ok, p abort ok; also `commit? ` and `commit! info`
"""

from __future__ import annotations

from kavka.ids import TopicPartition
from kavka.testing.history import (
    Abort,
    Action,
    Assign,
    Begin,
    Commit,
    Event,
    Poll,
    Promises,
    Rebalance,
    Record,
    Scan,
    Seek,
    Send,
    Subscribe,
    Type,
    Verdict,
    check,
)

INSTANT = ("assign", "subscribe", "seek", "rebalance", "begin")


def history(text: str) -> list[Event]:
    """Return the events of a text; each line takes a millisecond."""
    events: list[Event] = []
    open_operations: dict[tuple[str, str, str], int] = {}
    number = 0
    for time_ms, line in enumerate(filter(None, map(str.strip, text.splitlines()))):
        process, verb, *words = line.split()
        name = verb.rstrip("?!")
        key = process, name, words[0] if name == "send" else ""
        action, outcome = _action(name, words)
        if verb.endswith("!"):
            mine = open_operations.pop(key)
        else:
            mine, number = number, number + 1
            if name not in INSTANT:
                asked = Send(action.partition, action.value) if isinstance(action, Send) else action
                asked = type(action)() if isinstance(action, Poll | Commit | Abort) else asked
                asked = Scan(action.partition) if isinstance(action, Scan) else asked
                events.append(Event(mine, process, Type.INVOKE, time_ms * 1_000_000, asked))
        if verb.endswith("?"):
            open_operations[key] = mine
        else:
            events.append(Event(mine, process, outcome, time_ms * 1_000_000 + 500_000, action))
    return events


def _action(name: str, words: list[str]) -> tuple[Action, Type]:
    outcome = Type.OK
    for word in words:
        if word in ("ok", "fail", "info"):
            outcome = Type(word)
    rest = [word for word in words if word not in ("ok", "fail", "info")]
    match name:
        case "send":
            topic_partition, value = _split(rest[0])
            return Send(topic_partition, value, int(rest[1]) if len(rest) > 1 else None), outcome
        case "poll":
            return Poll(tuple(map(_record, rest))), outcome
        case "scan":
            topic_partition, bounds = _split(rest[0])
            start, end = map(int, bounds.split("-"))
            return Scan(topic_partition, start, end, tuple(map(_record, rest[1:]))), outcome
        case "assign":
            return Assign(tuple(TopicPartition("t", int(p)) for p in rest)), outcome
        case "subscribe":
            return Subscribe(("t",)), outcome
        case "seek":
            topic_partition, offset = _split(rest[0])
            return Seek(topic_partition, int(offset) if offset else None), outcome
        case "rebalance":
            gone = tuple(TopicPartition("t", int(p[1:])) for p in rest if p[0] == "-")
            came = tuple(TopicPartition("t", int(p[1:])) for p in rest if p[0] == "+")
            return Rebalance(gone, came), outcome
        case "begin":
            return Begin(), outcome
        case "commit":
            return Commit(), outcome
        case "abort":
            return Abort(), outcome
    raise ValueError(name)


def _split(word: str) -> tuple[TopicPartition, str]:
    partition, slash, rest = word.rpartition("/")
    return TopicPartition("t", int(partition) if slash else 0), rest


def _record(word: str) -> Record:
    topic_partition, rest = _split(word)
    offset, _, value = rest.partition(":")
    return Record(topic_partition, int(offset), value)


def judge(text: str, **promises: object) -> Verdict:
    """Check a history in the notation."""
    return check(history(text), Promises(**promises))  # type: ignore[arg-type]


def found(text: str, **promises: object) -> set[str]:
    """Return the names of the anomalies of a history that its promises forbid."""
    return set(judge(text, **promises).forbidden)


def allowed(text: str, **promises: object) -> set[str]:
    """Return the names of the anomalies of a history that its promises allow."""
    verdict = judge(text, **promises)
    return set(verdict.findings) - set(verdict.forbidden)
