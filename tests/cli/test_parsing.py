"""Values of options: settings, times, ranges of partitions, plans, offset files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.cli.arguments.config_entries import parse_pairs
from kavka.cli.arguments.options import BadUsage, BadValue
from kavka.cli.arguments.topic_partitions import TopicArgument, topic_arguments
from kavka.cli.commands.delete_records import read_offsets
from kavka.cli.commands.get_offsets import any_of, offset_spec, topic_range
from kavka.cli.commands.topics import parse_assignment, topic_pattern
from kavka.cli.groups.reset import read_plan
from kavka.cli.text.times import duration_ms, moment_ms
from kavka.ids import TopicPartition

AT = TopicPartition


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a=1,b=2", {"a": "1", "b": "2"}),
        ("a=[x,y],b=2", {"a": "x,y", "b": "2"}),
        ("a=,b=[]", {"a": "", "b": ""}),
        (" a = 1 , b=c=d", {"a": "1", "b": "c=d"}),
    ],
)
def test_settings_are_parted_by_commas_outside_brackets(
    text: str, expected: dict[str, str]
) -> None:
    assert parse_pairs(text) == expected


@pytest.mark.parametrize("text", ["a", "a=1,b", "=1", "a=[x,y", ","])
def test_settings_that_are_no_pairs_are_refused(text: str) -> None:
    with pytest.raises(BadValue, match="Invalid entity config"):
        parse_pairs(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2023-11-14T22:13:20.000", 1_700_000_000_000),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2023-11-14T23:13:20.000+01:00", 1_700_000_000_000),
        ("2023-11-14T23:13:20.000+0100", 1_700_000_000_000),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(text: str, expected: int) -> None:
    assert moment_ms(text) == expected


@pytest.mark.parametrize("text", ["soon", "2023-11-14", "2023-11-14Tnoon"])
def test_words_are_no_times(text: str) -> None:
    with pytest.raises(BadValue, match="ParseException"):
        moment_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1M", 60_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("P2D", 172_800_000),
        ("-PT1.25S", -1250),
        ("PT-1.5S", -1500),
    ],
)
def test_durations_add_up(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "1D", "P1H", "P1DT", "-P99999999999999D", f"P{'9' * 5000}D"]
)
def test_words_are_no_durations(text: str) -> None:
    with pytest.raises(BadValue, match="cannot be parsed to a Duration"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("rule", "inside", "outside"),
    [
        ("t", [AT("t", 0), AT("t", 9)], [AT("tt", 0)]),
        ("t.*", [AT("tt", 3)], [AT("u", 3)]),
        ("t:1", [AT("t", 1)], [AT("t", 0), AT("t", 2)]),
        ("t:1-3", [AT("t", 1), AT("t", 2)], [AT("t", 0), AT("t", 3)]),
        ("t:1-", [AT("t", 1), AT("t", 99)], [AT("t", 0)]),
        ("t:-2", [AT("t", 0), AT("t", 1)], [AT("t", 2)]),
        (":4", [AT("anything", 4)], [AT("anything", 5)]),
    ],
)
def test_ranges_of_partitions_leave_out_their_end(
    rule: str, inside: list[TopicPartition], outside: list[TopicPartition]
) -> None:
    wanted = any_of([topic_range(rule)])
    assert all(wanted(topic_partition) for topic_partition in inside)
    assert not any(wanted(topic_partition) for topic_partition in outside)


@pytest.mark.parametrize("rule", ["t:x", "t:1:2", "t:1-2-3"])
def test_ranges_that_are_none_are_refused(rule: str) -> None:
    with pytest.raises(BadValue, match="Invalid rule specification"):
        topic_range(rule)


def test_times_of_get_offsets_have_names() -> None:
    assert offset_spec(None) == offset_spec("-1") == offset_spec("latest") == -1
    assert offset_spec("max-timestamp") == -3
    assert offset_spec("1700000000000") == 1_700_000_000_000
    with pytest.raises(BadValue, match="Malformed time argument -6"):
        offset_spec("-6")


def test_topics_of_a_group_may_name_partitions() -> None:
    assert topic_arguments(["t", "u:0,2"]) == [
        TopicArgument("t", None),
        TopicArgument("u", (0, 2)),
    ]
    for text in ("0-2", str(2**31), "1_0"):
        with pytest.raises(BadUsage, match=f"Invalid partition '{text}' specified in topic arg"):
            topic_arguments([f"t:{text}"])


def test_commas_in_topic_stand_for_alternatives() -> None:
    pattern = topic_pattern("a, b.*")
    assert [name for name in ("a", "b1", "ab", "b") if pattern.fullmatch(name)] == ["a", "b1", "b"]
    with pytest.raises(BadValue, match="invalid regex"):
        topic_pattern("a(")


def test_replicas_are_assigned_partition_by_partition() -> None:
    assert parse_assignment("0:1,1:2") == [[0, 1], [1, 2]]
    with pytest.raises(Exception, match="may not contain duplicate entries: 1"):
        parse_assignment("0:2,1:1")
    with pytest.raises(Exception, match="not a list of broker ids: 2147483648"):
        parse_assignment("2147483648")
    with pytest.raises(Exception, match="Partition 1 has different replication factor"):
        parse_assignment("0:1,1")


def test_a_plan_with_three_columns_is_for_the_only_group(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("t,0,3\nt,1,4\n\n")
    assert read_plan(str(path), ["g"]) == {"g": {AT("t", 0): 3, AT("t", 1): 4}}
    assert read_plan(str(path), ["g", "h"]) == {}


def test_a_plan_with_four_columns_names_its_groups(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("g,t,0,3\nh,t,0,4\n")
    assert read_plan(str(path), ["g"]) == {"g": {AT("t", 0): 3}, "h": {AT("t", 0): 4}}


def test_a_plan_that_is_none_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("t,0,3\nt,zero,4\n")
    with pytest.raises(BadValue, match="line 2"):
        read_plan(str(path), ["g"])
    path.write_text("t,0,1_000\n")
    with pytest.raises(BadValue, match="line 1"):
        read_plan(str(path), ["g"])
    path.write_bytes(b"t,0,\xff\n")
    with pytest.raises(BadValue, match="Unable to read file"):
        read_plan(str(path), ["g"])
    with pytest.raises(BadValue, match="Unable to read file"):
        read_plan(str(tmp_path / "missing.csv"), ["g"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "not a valid JSON"),
        ("{}", "Missing partitions field"),
        ('{"version": 2, "partitions": []}', "Not supported version field value 2"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "Missing offset field"),
        ('{"partitions": [7]}', "not of the form"),
        ('{"partitions": [{"topic": "t", "partition": 0, "offset": 9.9}]}', "not of the form"),
        ('{"partitions": [{"topic": "t", "partition": "0", "offset": 9}]}', "not of the form"),
        ("[" * 100_000, "not a valid JSON"),
        ('{"partitions": [{"topic": 5, "partition": 0, "offset": 9}]}', "not of the form"),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "offset": 1}, '
            '{"topic": "t", "partition": 0, "offset": 2}]}',
            "contains duplicate topic partitions: t-0",
        ),
    ],
)
def test_offset_files_are_checked(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(text)
    with pytest.raises(BadValue, match=sentence):
        read_offsets(str(path))


def test_offset_files_give_offsets(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 2, "offset": -1}]}')
    assert read_offsets(str(path)) == {AT("t", 2): -1}
