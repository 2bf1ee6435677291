"""The history: the file with its tiers and bounds, gaps, groups that are stuck or fall behind."""

from __future__ import annotations

import math
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.client.admin.topics import TopicDescription
from kavka.client.metadata import PartitionMetadata
from kavka.console.history.file import HistoryError, HistoryFile
from kavka.console.history.groups import Found, GroupOffsets, GroupTracker, falling_behind
from kavka.console.history.recorder import left_out
from kavka.console.history.series import (
    DAY_S,
    MINUTES,
    RAW,
    TENS,
    Key,
    tier_for,
    topic_of_group,
    with_gaps,
)
from kavka.console.history.snapshot import EndsTracker, seconds_until_full
from kavka.errors import ErrorCode
from kavka.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition

LAG = Key("group", "g", "lag_records")
RATE = Key("topic", "t", "records_in")
BEGIN = 1_800_000_000 // DAY_S * DAY_S


@pytest.fixture
def file(tmp_path: Path) -> Iterator[HistoryFile]:
    opened = HistoryFile(tmp_path / "h.sqlite", 1 << 30, 1000)
    yield opened
    opened.close()


def points(file: HistoryFile, key: Key, tier=RAW, from_s: int = 0, until_s: int = 1 << 40):
    return [
        (at - BEGIN, round(value, 3))
        for at, value in file.points([key], tier, from_s, until_s)[key]
        if not math.isnan(value)
    ]


def test_samples_are_kept_across_a_restart(tmp_path: Path, file: HistoryFile) -> None:
    file.add(BEGIN + 7, {LAG: 5, RATE: 0.5})
    file.close()
    again = HistoryFile(tmp_path / "h.sqlite", 1 << 30, 1000)
    again.add(BEGIN + 27, {LAG: 7})
    assert points(again, LAG) == [(0, 5), (20, 7)]
    assert points(again, RATE) == [(0, 0.5)]
    again.close()


def test_longer_steps_have_the_mean_of_rates_and_the_largest_lag(file: HistoryFile) -> None:
    for second in range(0, 1300, 20):
        file.add(BEGIN + second, {LAG: second, RATE: second})
    assert points(file, LAG, MINUTES)[:2] == [(0, 40), (60, 100)]
    assert points(file, RATE, MINUTES)[:2] == [(0, 20), (60, 80)]
    tens = points(file, LAG, TENS)
    assert tens[:2] == [(0, 580), (600, 1180)]
    # What is in no ten minutes yet comes from the minutes, and what is in no minute from the samples.
    assert tens[2:] == [(1200, 1240), (1260, 1260), (1280, 1280)]


def test_a_step_without_samples_is_a_gap(file: HistoryFile) -> None:
    for second in (0, 20, 40, 400, 420):
        file.add(BEGIN + second, {LAG: 1})
    assert points(file, LAG, MINUTES) == [(0, 1), (360, 1), (420, 1)]
    times, values = with_gaps([(0, 1.0), (20, 2.0), (400, 3.0)], 0, 500, 10, 50, "max")
    assert (times, values) == ([0, 20, 30, 400, 500], [1, 2, None, 3, None])
    assert with_gaps([], 0, 500, 10, 50, "max") == ([0, 500], [None, None])
    together = with_gaps([(0, 1.0), (20, 3.0), (30, math.nan)], 0, 30, 30, 75, "mean")
    assert together == ([0, 30], [2, None])


def test_ranges_have_the_finest_step_that_reaches_back() -> None:
    assert [tier_for(span) for span in (3600, 6 * 3600, DAY_S, 3 * DAY_S, 30 * DAY_S)] == [
        (RAW, 10),
        (RAW, 30),
        (MINUTES, 120),
        (MINUTES, 300),
        (TENS, 3000),
    ]


def test_each_tier_is_kept_for_its_time(file: HistoryFile) -> None:
    file.add(BEGIN, {LAG: 1})
    for hours in (1, 7, 80, 31 * 24):
        file.add(BEGIN + hours * 3600, {LAG: 2})
        kept = [
            tier
            for (tier,) in file.connection.execute("select tier from rows where at = ?", (BEGIN,))
        ]
        assert kept == {1: [0, 1, 2], 7: [1, 2], 80: [2], 31 * 24: []}[hours]


def test_a_number_is_used_again_for_a_series_that_is_gone(file: HistoryFile) -> None:
    file.add(BEGIN, {LAG: 1, RATE: 1})
    file.add(BEGIN + 20 * DAY_S, {RATE: 2})
    new = Key("group", "new", "lag_records")
    file.add(BEGIN + 32 * DAY_S, {RATE: 3, new: 4})
    numbers = file.connection.execute("select number, name from series order by number").fetchall()
    assert numbers == [(0, "new"), (1, "t")]
    assert points(file, new) == [(32 * DAY_S, 4)]
    assert points(file, LAG) == []


def test_more_series_than_there_is_room_for_are_counted(tmp_path: Path) -> None:
    file = HistoryFile(None, 1 << 30, 2)
    file.add(BEGIN, {Key("topic", str(n), "size"): n for n in range(5)})
    names = [name for (name,) in file.connection.execute("select name from series order by name")]
    assert (file.left_out, names) == (3, ["0", "1"])


def test_topics_of_groups_are_known_from_the_first_sample_that_has_them_all(tmp_path: Path) -> None:
    def open_file() -> HistoryFile:
        return HistoryFile(tmp_path / "h.sqlite", 1 << 30, 1, 2)

    file = open_file()
    file.add(BEGIN, {LAG: 1, topic_of_group("t", "g"): 1, topic_of_group("u", "g/x"): math.nan})
    assert file.topics_of_group("g") == ({"t"}, 0)
    assert file.topics_of_group("g/x") == ({"u"}, 0)
    # There is no room for one more: what the group had then is unknown, though it is gone later.
    file.add(BEGIN + 100, {LAG: 9, topic_of_group("t", "g"): 1, topic_of_group("v", "g"): 8})
    file.add(BEGIN + 200, {LAG: 2, topic_of_group("t", "g"): 2})
    file.close()
    file = open_file()
    assert file.topics_of_group("g") == ({"t"}, BEGIN + 101)
    file.close()


def test_lags_of_groups_in_topics_take_no_room_of_other_series(tmp_path: Path) -> None:
    def open_file() -> HistoryFile:
        return HistoryFile(tmp_path / "h.sqlite", 1 << 30, 3, 2)

    of_topics = {topic_of_group(f"t{n}", "g"): n for n in range(4)}
    file = open_file()
    file.add(BEGIN, {**of_topics, LAG: 1})
    assert (file.left_out, file.left_out_of_topics) == (0, 2)
    file.close()
    file = open_file()
    file.add(BEGIN + 20, {**of_topics, LAG: 2, RATE: 3, Key("topic", "u", "size"): 4})
    assert (file.left_out, file.left_out_of_topics) == (0, 2)
    file.add(BEGIN + 40, {Key("topic", "v", "size"): 5, **of_topics})
    assert (file.left_out, file.left_out_of_topics) == (1, 2)
    assert points(file, RATE) == [(20, 3)]
    assert points(file, topic_of_group("t1", "g")) == [(0, 1), (20, 1), (40, 1)]
    file.close()


def test_the_page_says_how_many_series_are_left_out() -> None:
    assert left_out(0, 0) == ""
    assert left_out(3, 2).startswith("5 series are not kept")
    assert left_out(0, 2).startswith("2 series of a group in one topic are not kept")


def test_lags_of_groups_in_topics_are_cut_before_other_series(tmp_path: Path) -> None:
    def open_file(most_bytes: int) -> HistoryFile:
        return HistoryFile(tmp_path / "h.sqlite", most_bytes, 1000)

    file, of_topic = open_file(1 << 30), topic_of_group("1", "g")
    for number in range(30):
        noise = [(n * 7919 + number) % 9973 for n in range(250)]
        file.add(
            BEGIN + number * 20,
            {topic_of_group(str(n), "g"): noise[n] for n in range(250)} | {RATE: 1},
        )
    used = file.used_bytes()
    file.close()
    file = open_file(used - 10_000)
    file.tidy(BEGIN + 600)
    assert file.used_bytes() < used - 10_000
    assert len(points(file, RATE)) == 30
    assert 0 < len(points(file, of_topic)) < 28
    file.close()


def test_topics_of_groups_are_known_from_the_beginning_of_a_new_file() -> None:
    file = HistoryFile(None, 1 << 30, 3)
    sample = {LAG: 1, topic_of_group("t", "g"): 1}
    for at_s in (BEGIN + 310, BEGIN + TENS.step_s):
        file.add(at_s, sample)
    assert points(file, LAG, TENS, BEGIN, BEGIN) == [(0, 1)]  # it begins before the first sample
    assert file.topics_of_group("g") == ({"t"}, 0)


def test_topics_of_groups_are_unknown_in_a_file_of_before(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "h.sqlite", 1 << 30, 3)
    file.add(BEGIN, {LAG: 1})
    file.connection.execute("delete from about where name = 'topics of groups'")
    assert file.topics_of_group("g") == (set(), sys.maxsize)
    file.add(BEGIN + 100, {LAG: 1, topic_of_group("t", "g"): 1})
    assert file.topics_of_group("g") == ({"t"}, BEGIN + 100)
    file.close()


def test_the_file_stays_below_its_bound(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = HistoryFile(tmp_path / "h.sqlite", 120_000, 1000)
    for number in range(160):
        at_s = BEGIN + number * 20
        file.add(
            at_s, {Key("topic", str(n), "size"): (n * 7919 + number) % 9973 for n in range(250)}
        )
        assert file.used_bytes() <= 120_000
    assert "history cut" in caplog.text
    assert points(file, Key("topic", "1", "size"))[-1][0] == 159 * 20
    file.close()


def test_two_consoles_do_not_share_a_file(tmp_path: Path, file: HistoryFile) -> None:
    with pytest.raises(HistoryError, match="another console keeps its history"):
        HistoryFile(tmp_path / "h.sqlite", 1 << 30, 10)


@pytest.mark.parametrize("content", [b"no database at all, but a text" * 50, None])
def test_a_file_that_is_no_history_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "h.sqlite"
    if content is None:
        with sqlite3.connect(path) as database:
            database.execute("pragma user_version = 99")
        database.close()
    else:
        path.write_bytes(content)
    with pytest.raises(HistoryError, match=r"another release|cannot be opened"):
        HistoryFile(path, 1 << 30, 10)


def test_a_history_is_of_one_cluster(file: HistoryFile) -> None:
    assert file.is_of_cluster("a")
    assert not file.is_of_cluster("b")
    assert file.is_of_cluster("a")


# Groups

AT = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def looked(tracker: GroupTracker, at_s: float, committed: int, end: int, other: int = 0):
    groups = {"g": GroupOffsets("Stable", {AT: committed, OTHER: other})}
    ends = {AT: end, OTHER: 0}
    tracker.look(at_s, groups, ends)
    return tracker.figures(at_s, groups, ends, at_s)["g"]


def test_a_group_is_stuck_while_records_wait_and_its_offset_stands() -> None:
    tracker = GroupTracker()
    assert looked(tracker, 0, 5, 5).stuck_s == 0
    assert looked(tracker, 100, 5, 8).stuck_s == 0
    stuck = looked(tracker, 400, 5, 9)
    assert (stuck.stuck_s, stuck.is_stuck_known, stuck.stuck_partition) == (300, True, "t-0")
    moved = looked(tracker, 500, 6, 9)
    assert (moved.stuck_s, moved.records_out) == (0, 0.01)
    assert looked(tracker, 600, 9, 9).stuck_s == 0


def test_what_stood_before_the_first_look_is_not_taken_for_good() -> None:
    tracker = GroupTracker()
    first = looked(tracker, 0, 5, 8)
    assert (first.stuck_s, first.is_stuck_known) == (0, False)
    later = looked(tracker, 100, 5, 8)
    assert (later.stuck_s, later.is_stuck_known) == (100, False)


def test_the_time_of_a_lag_is_that_of_the_first_unread_record() -> None:
    tracker = GroupTracker()
    assert looked(tracker, 1000, 5, 8).lag_seconds is None
    [wanted] = tracker.wanted(1000, 10)
    tracker.found(1000, [(wanted, Found(6, 940_000))])
    assert tracker.wanted(1010, 10) == []  # it stands: its time is known
    figures = looked(tracker, 1020, 5, 8)
    assert (figures.lag_seconds, figures.lag_records) == (80, 2)  # the log begins at 6
    assert looked(tracker, 1040, 8, 8).lag_seconds == 0
    assert len(tracker.wanted(1040, 10)) == 0
    looked(tracker, 1060, 8, 9)
    assert [one.position for one in tracker.wanted(1060, 10)] == [8]


def test_a_lag_that_grows_in_each_third_falls_behind() -> None:
    def lags(values: list[int]) -> list[tuple[float, int]]:
        return [(number * 60.0, value) for number, value in enumerate(values)]

    is_behind, growth = falling_behind(lags(list(range(100, 1600, 100))))
    assert (is_behind, round(growth, 1)) == (True, 1.8)
    assert falling_behind(lags([0, 50, 0, 60, 0, 900, 0, 70, 0, 50, 0, 60, 0, 50, 0]))[0] is False
    assert falling_behind(lags([1000] * 15))[0] is False
    assert (
        falling_behind(lags([1000, 900, 800, 700, 600, 500, 400, 300, 200, 100] * 2)[:15])[0]
        is False
    )
    assert falling_behind(lags([5, 6, 7]))[0] is None
    assert falling_behind(lags([0]))[0] is False


def topic(partitions: int) -> TopicDescription:
    parts = [
        PartitionMetadata(
            number, BrokerId(1 + number % 2), LeaderEpoch(0), (), (), (), ErrorCode.NONE
        )
        for number in range(partitions)
    ]
    return TopicDescription("t", TopicId(bytes(16)), False, tuple(parts))


def test_rates_and_idle_times_come_from_the_ends() -> None:
    tracker, topics = EndsTracker(), {"t": topic(2)}
    assert tracker.look(0, topics, {AT: 10, OTHER: 10}) == ({}, {})
    assert tracker.idle(0, "t") == (0, False)
    assert tracker.look(10, topics, {AT: 30, OTHER: 10}) == ({"t": 2.0}, {1: 2.0, 2: 0.0})
    tracker.look(40, topics, {AT: 30, OTHER: 10})
    assert tracker.idle(40, "t") == (30, True)
    # A partition that was made again, and one whose leader is gone, grow by nothing.
    assert tracker.look(50, topics, {AT: 0}) == ({"t": 0.0}, {1: 0.0})


def test_a_disk_is_full_where_its_line_ends() -> None:
    grows = [(at, 0.5 + at / 36_000 * 0.1) for at in range(0, 7200, 300)]
    assert seconds_until_full(grows, 7200) == pytest.approx(172_800, rel=0.01)
    assert seconds_until_full([(at, 0.5) for at in range(0, 7200, 300)], 7200) is None
    assert seconds_until_full([(at, 0.9 - at / 1e5) for at in range(0, 7200, 300)], 7200) is None
    assert seconds_until_full(grows[:4], 900) is None
