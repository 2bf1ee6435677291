"""Brokers: where they are, what they lead and hold, and their log directories. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kavka.client.admin.nodes import ClusterDescription, LogDir
from kavka.client.admin.topics import TopicDescription
from kavka.console.sentences import Sentence, as_is, say
from kavka.console.views.settings import SettingView
from kavka.ids import BrokerId

LogDirs = Mapping[BrokerId, Mapping[str, LogDir] | Exception]


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A broker that gave no answer in time, or refused; `sentence` says what is missing because of it."""

    broker_id: int
    reason: str
    sentence: Sentence


def unanswered(failures: Mapping[BrokerId, Exception], missing: Sentence) -> list[Unanswered]:
    """Return the brokers that failed; `missing` names what only they know."""
    return [
        Unanswered(
            int(broker_id),
            str(error),
            say(
                "Broker {broker_id} gave no answer, so {missing}: {reason}.",
                broker_id=broker_id,
                missing=missing,
                reason=str(error).rstrip("."),
            ),
        )
        for broker_id, error in sorted(failures.items())
    ]


def unanswered_sizes(log_dirs: LogDirs) -> list[Unanswered]:
    """Return the brokers that did not say what their log directories hold; one that may not be asked is none."""
    failures = {broker: one for broker, one in log_dirs.items() if isinstance(one, OSError)}
    return unanswered(failures, say("the sizes of its replicas are missing"))


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker; one that only replicas name is not live, and has no address."""

    broker_id: int
    address: str
    rack: str
    is_live: bool
    is_controller: bool
    leaders: int
    replicas: int
    out_of_sync: int
    """Replicas of this broker that are not in the in-sync set of their partition."""
    size_bytes: int | None
    """Bytes of all replicas."""
    usable_bytes: int | None
    total_bytes: int | None
    note: Sentence
    """The reason why sizes are missing."""


@dataclass(frozen=True, slots=True)
class BrokerList:
    """The brokers of the cluster."""

    cluster_id: str
    rows: list[BrokerRow]


@dataclass(frozen=True, slots=True)
class LogDirView:
    """A log directory; bytes of the disk are null before Kafka 3.3."""

    path: str
    state: str
    """ok, or the error that the broker has with it."""
    replicas: int
    moving: int
    """Replicas that are being moved here."""
    size_bytes: int
    usable_bytes: int | None
    total_bytes: int | None


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One broker with its directories and settings."""

    broker: BrokerRow
    log_dirs: list[LogDirView]
    settings: list[SettingView]
    settings_note: Sentence
    search: str
    changed: bool


def broker_rows(
    cluster: ClusterDescription, topics: Iterable[TopicDescription], log_dirs: LogDirs
) -> list[BrokerRow]:
    """Return the live brokers, and those that replicas name and that are gone."""
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    lagging: dict[int, int] = {}
    for topic in topics:
        for part in topic.partitions:
            leaders[part.leader] = leaders.get(part.leader, 0) + 1
            for broker_id in part.replicas:
                replicas[broker_id] = replicas.get(broker_id, 0) + 1
                if broker_id not in part.in_sync_replicas:
                    lagging[broker_id] = lagging.get(broker_id, 0) + 1
    live = {broker.broker_id: broker for broker in cluster.brokers}
    rows = []
    for number in sorted({*live, *map(BrokerId, replicas)}):
        broker = live.get(number)
        size, usable, total, note = _disk(log_dirs.get(number))
        rows.append(
            BrokerRow(
                broker_id=number,
                address=f"{broker.host}:{broker.port}" if broker else "",
                rack=(broker.rack or "") if broker else "",
                is_live=broker is not None,
                is_controller=number == cluster.controller_id,
                leaders=leaders.get(number, 0),
                replicas=replicas.get(number, 0),
                out_of_sync=lagging.get(number, 0),
                size_bytes=size,
                usable_bytes=usable,
                total_bytes=total,
                note=as_is(note) if broker else say("not in the cluster at this moment"),
            )
        )
    return rows


def _disk(
    answer: Mapping[str, LogDir] | Exception | None,
) -> tuple[int | None, int | None, int | None, str]:
    """Return bytes held, bytes free and bytes of the disks, and why they are missing."""
    if answer is None:
        return None, None, None, ""
    if isinstance(answer, Exception):
        return None, None, None, str(answer)
    views = log_dir_views(answer)
    failed = [view for view in views if view.state != "ok"]
    totals = [view.total_bytes for view in views if view.total_bytes is not None]
    usable = [view.usable_bytes for view in views if view.usable_bytes is not None]
    return (
        sum(view.size_bytes for view in views),
        sum(usable) if usable else None,
        sum(totals) if totals else None,
        "; ".join(f"{view.path}: {view.state}" for view in failed),
    )


def log_dir_views(log_dirs: Mapping[str, LogDir]) -> list[LogDirView]:
    """Return the directories of one broker."""
    return [
        LogDirView(
            path=path,
            state="ok" if log_dir.error is None else str(log_dir.error),
            replicas=sum(not replica.is_future for replica in log_dir.replicas.values()),
            moving=sum(replica.is_future for replica in log_dir.replicas.values()),
            size_bytes=sum(replica.size for replica in log_dir.replicas.values()),
            usable_bytes=log_dir.usable_bytes if log_dir.usable_bytes >= 0 else None,
            total_bytes=log_dir.total_bytes if log_dir.total_bytes >= 0 else None,
        )
        for path, log_dir in sorted(log_dirs.items())
    ]
