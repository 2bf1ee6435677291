"""Groups over time: lag in records and in seconds, rates, and whether one is stuck or falls behind. Pure.

A partition is stuck while records wait and its committed offset stands still; a group is stuck as long as its partition
that stands longest. A group falls behind when its lag grew in each third of a window, though it reads: at this rate it
never arrives. What happened before the first look is unknown, and is not taken for good.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from kavka.ids import TopicPartition

WINDOW_S: Final = 900
"""The time in which growth of a lag is looked at."""
_FEWEST: Final = 9
"""Samples that a window needs."""
_LEAST_GROWTH: Final = 0.1
"""A third has to be more than the one before by this part of the first."""
_LOOKED_S: Final = 300
"""A record's time is looked up again after this, because retention may have removed it."""


class GroupOffsets(NamedTuple):
    """A group at one look."""

    state: str
    committed: Mapping[TopicPartition, int]


class GroupFigures(NamedTuple):
    """A group after a look; None where it is not known."""

    state: str
    lag_records: int | None
    lag_seconds: float | None
    records_out: float | None
    stuck_s: float
    """So long the partition that stands longest was seen to stand; 0 when none does."""
    is_stuck_known: bool
    """False: it may have stood before the first look, too."""
    stuck_partition: str
    is_falling_behind: bool | None
    growth_per_s: float
    """Records by which the lag grew, a second, over the window."""
    lags: Mapping[str, int | None] = MappingProxyType({})
    """The lag in records of each topic that the group has committed in."""


@dataclass(slots=True)
class _Place:
    """A partition of a group."""

    position: int
    since_s: float
    """Since when records wait and the offset stands."""
    is_watched: bool
    """False: it may have stood before the first look."""
    behind: bool = False
    first_unread: int = -1
    """The position, or the log's start where that is later."""
    timestamp_ms: int | None = None
    looked_s: float = -1.0


@dataclass(slots=True)
class _Known:
    """A group between looks."""

    places: dict[TopicPartition, _Place] = field(default_factory=dict)
    lags: deque[tuple[float, int]] = field(default_factory=deque)
    records_out: float | None = None


class Wanted(NamedTuple):
    """A record whose time is to be looked up."""

    group: str
    at: TopicPartition
    position: int


class Found(NamedTuple):
    """The time of a record, and the first offset that can be read there; None for a record without a time."""

    first_unread: int
    timestamp_ms: int | None


class GroupTracker:
    """All groups. For each look: `look`, then `found` with times that were looked up, then `figures`.

    `at_s` are seconds of the monotonic clock.
    """

    def __init__(self) -> None:
        """Begin without groups."""
        self._groups: dict[str, _Known] = {}
        self._before_s: float | None = None
        self.topics_out: dict[str, float] = {}
        """Records a second that all groups together have read of each topic."""

    def look(
        self,
        at_s: float,
        groups: Mapping[str, GroupOffsets],
        ends: Mapping[TopicPartition, int],
        *,
        is_whole: bool = True,
    ) -> None:
        """Take the committed offsets of groups and the ends of partitions.

        A group that is missing is forgotten, unless not all are known (`is_whole`): it may be there at the next look.
        """
        elapsed_s = None if self._before_s is None else at_s - self._before_s
        self.topics_out = {}
        for gone in self._groups.keys() - groups.keys() if is_whole else ():
            del self._groups[gone]
        for name, group in groups.items():
            is_new = name not in self._groups
            known = self._groups.setdefault(name, _Known())
            read = self._read(known, at_s, group, ends, watched=elapsed_s is not None)
            known.records_out = None if is_new or not elapsed_s else sum(read.values()) / elapsed_s
            if elapsed_s:
                for topic, count in read.items():
                    rate = self.topics_out.get(topic, 0.0) + count / elapsed_s
                    self.topics_out[topic] = rate
        self._before_s = at_s

    def _read(
        self,
        known: _Known,
        at_s: float,
        group: GroupOffsets,
        ends: Mapping[TopicPartition, int],
        *,
        watched: bool,
    ) -> dict[str, int]:
        """Note the positions of a group, and return how many records it has read of each topic."""
        read: dict[str, int] = {}
        for gone in known.places.keys() - group.committed.keys():
            del known.places[gone]
        lag, is_whole = 0, True
        for at, position in group.committed.items():
            place = known.places.get(at)
            if place is None:
                place = known.places[at] = _Place(position, at_s, watched, first_unread=position)
            elif place.position != position:
                read[at.topic] = read.get(at.topic, 0) + max(position - place.position, 0)
                known.places[at] = place = _Place(position, at_s, True, first_unread=position)
            end = ends.get(at)
            if end is None:
                is_whole = False
                continue
            was_behind, place.behind = place.behind, end > position
            if not was_behind:
                place.since_s = at_s
            if not place.behind:
                place.is_watched = True
            lag += max(end - place.first_unread, 0)
        if is_whole:
            known.lags.append((at_s, lag))
        while known.lags and known.lags[0][0] < at_s - WINDOW_S:
            known.lags.popleft()
        return read

    def wanted(self, at_s: float, most: int) -> list[Wanted]:
        """Return the records whose times are to be looked up, one of each group first, at most so many."""
        ranked: list[tuple[int, Wanted]] = []
        for name, known in self._groups.items():
            behind = [
                Wanted(name, at, place.position)
                for at, place in known.places.items()
                if place.behind and (place.looked_s < 0 or at_s - place.looked_s >= _LOOKED_S)
            ]
            # The one that stands longest has the oldest record, most likely.
            behind.sort(key=lambda one: known.places[one.at].since_s)
            ranked += enumerate(behind)
        ranked.sort(key=lambda pair: pair[0])
        return [one for _, one in ranked[:most]]

    def found(self, at_s: float, answers: Iterable[tuple[Wanted, Found]]) -> None:
        """Note times that were looked up."""
        for wanted, found in answers:
            known = self._groups.get(wanted.group)
            place = None if known is None else known.places.get(wanted.at)
            if place is not None and place.position == wanted.position:
                place.first_unread, place.timestamp_ms = found.first_unread, found.timestamp_ms
                place.looked_s = at_s

    def figures(
        self,
        at_s: float,
        groups: Mapping[str, GroupOffsets],
        ends: Mapping[TopicPartition, int],
        now_s: float,
    ) -> dict[str, GroupFigures]:
        """Return the figures of the groups of the last look; `now_s` are seconds since 1970."""
        return {
            name: self._figures(at_s, name, group, ends, now_s) for name, group in groups.items()
        }

    def _figures(
        self,
        at_s: float,
        name: str,
        group: GroupOffsets,
        ends: Mapping[TopicPartition, int],
        now_s: float,
    ) -> GroupFigures:
        known = self._groups[name]
        seconds = 0.0 if known.places else None
        unknown = False
        for at, place in known.places.items():
            if at not in ends or not place.behind:
                continue
            if place.timestamp_ms is None:
                unknown = True
            else:
                seconds = max(seconds or 0.0, now_s - place.timestamp_ms / 1000)
        if unknown and not seconds:
            seconds = None
        lags = _lags(known, ends)
        stuck_s, is_known, partition = _stuck(at_s, known)
        growing, growth = falling_behind(list(known.lags))
        return GroupFigures(
            group.state,
            _sum(lags.values()),
            seconds,
            known.records_out,
            stuck_s,
            is_known,
            partition,
            growing,
            growth,
            lags,
        )


def _lags(known: _Known, ends: Mapping[TopicPartition, int]) -> dict[str, int | None]:
    """Return the lag in records of each topic of a group; None where the end of a partition is not known."""
    found: dict[str, int | None] = {}
    for at, place in known.places.items():
        lag = max(ends[at] - place.first_unread, 0) if at in ends else None
        found[at.topic] = _sum((found.get(at.topic, 0), lag))
    return found


def _sum(lags: Iterable[int | None]) -> int | None:
    """Return a sum; None where there is nothing, or something is not known."""
    known = list(lags)
    return None if not known or None in known else sum(one or 0 for one in known)


def of_topics(group: GroupFigures, sees: Callable[[str], bool]) -> GroupFigures:
    """Return a group as one sees it who sees some of its topics; figures that only the whole group has are unknown."""
    partition = group.stuck_partition
    if partition and not sees(partition.rpartition("-")[0]):
        group = group._replace(stuck_s=0.0, stuck_partition="")
    lags = {topic: lag for topic, lag in group.lags.items() if sees(topic)}
    if len(lags) == len(group.lags):
        return group
    return group._replace(
        lag_records=_sum(lags.values()),
        lag_seconds=None,
        records_out=None,
        is_falling_behind=None,
        growth_per_s=0.0,
        lags=lags,
    )


def _stuck(at_s: float, known: _Known) -> tuple[float, bool, str]:
    behind = [(place.since_s, at) for at, place in known.places.items() if place.behind]
    if not behind:
        return 0.0, True, ""
    since_s, at = min(behind)
    is_known = all(place.is_watched for place in known.places.values() if place.behind)
    return at_s - since_s, is_known, str(at)


def falling_behind(lags: list[tuple[float, int]]) -> tuple[bool | None, float]:
    """Return whether a lag grew in each third of a window, None where it is too short; and the growth a second."""
    if not lags or lags[-1][0] - lags[0][0] < WINDOW_S * 0.8 or len(lags) < _FEWEST:
        return (False if lags and lags[-1][1] == 0 else None), 0.0
    begin_s = lags[0][0]
    length_s = (lags[-1][0] - begin_s) / 3
    thirds: list[list[int]] = [[], [], []]
    for at_s, lag in lags:
        thirds[min(int((at_s - begin_s) / length_s), 2)].append(lag)
    if not all(thirds):
        return None, 0.0
    first, second, third = (sum(one) / len(one) for one in thirds)
    least = max(first * _LEAST_GROWTH, 1.0)
    growth = (third - first) / (2 * length_s)
    never_caught_up = all(lag > 0 for lag in thirds[1] + thirds[2])
    return never_caught_up and second - first >= least and third - second >= least, growth
