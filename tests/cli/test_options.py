"""Options as Kafka's parser takes them."""

from __future__ import annotations

import pytest

from kavka.cli.arguments.options import BadUsage, BadValue, Given, Option, OptionSet

OPTIONS = OptionSet(
    "A tool.",
    Option("list", "List."),
    Option("delete", "Delete."),
    Option("topic", "Topics.", "topic"),
    Option("time", "A time.", "time"),
    Option("state", "States.", "states", True),
)


def test_a_value_follows_its_option_or_an_equals_sign() -> None:
    assert OPTIONS.parse(["--topic", "a", "--time=5"]).all("topic") == ["a"]
    assert OPTIONS.parse(["--topic", "a", "--time=5=6"]).one("time") == "5=6"


def test_a_value_may_begin_with_a_dash() -> None:
    assert OPTIONS.parse(["--time", "-2", "--list"]).integer("time") == -2


def test_one_dash_is_as_good_as_two() -> None:
    assert OPTIONS.parse(["-list"]).has("list")


def test_an_optional_value_does_not_swallow_the_next_option() -> None:
    given = OPTIONS.parse(["--state", "--list"])
    assert given.has("state")
    assert given.has("list")
    assert given.all("state") == []
    assert OPTIONS.parse(["--state", "Empty"]).all("state") == ["Empty"]


def test_repeated_options_keep_every_value_in_order() -> None:
    assert OPTIONS.parse(["--topic", "b", "--topic", "a"]).all("topic") == ["b", "a"]


def test_words_without_an_option_are_passed_over() -> None:
    assert OPTIONS.parse(["more", "--list", "words"]).has("list")


def test_nothing_after_two_dashes_is_an_option() -> None:
    assert not OPTIONS.parse(["--", "--list"]).has("list")


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--li"], "li is not a recognized option"),
        (["--topic"], "Option topic requires an argument"),
    ],
)
def test_what_cannot_be_parsed_is_refused(argv: list[str], sentence: str) -> None:
    with pytest.raises(BadUsage, match=f"^{sentence}$"):
        OPTIONS.parse(argv)


def test_an_option_that_is_asked_for_once_may_be_given_once() -> None:
    given = OPTIONS.parse(["--topic", "a", "--topic", "b"])
    with pytest.raises(BadValue, match="Found multiple arguments for option topic"):
        given.one("topic")


@pytest.mark.parametrize("text", ["x", "", "1_0", " 1", "1.0", "0x1", "2147483648", "-2147483649"])
def test_a_number_must_be_one_that_java_reads(text: str) -> None:
    with pytest.raises(BadValue, match=f"^Cannot parse argument '{text}' of option time$"):
        OPTIONS.parse([f"--time={text}"]).integer("time")


def test_a_number_has_the_bits_that_are_asked_for() -> None:
    assert OPTIONS.parse(["--time", "+2147483647"]).integer("time") == 2**31 - 1
    assert OPTIONS.parse(["--time", str(-(2**63))]).integer("time", 64) == -(2**63)
    with pytest.raises(BadValue, match="Cannot parse argument"):
        OPTIONS.parse(["--time", str(2**63)]).integer("time", 64)


def test_options_that_exclude_each_other_are_named() -> None:
    given = OPTIONS.parse(["--list", "--delete", "--topic", "a"])
    with pytest.raises(BadUsage, match=r'Option "\[topic\]" can\'t be used with option "\[list\]"'):
        given.forbid("topic", ("list",))
    with pytest.raises(BadUsage, match=r"exactly one action: --list or --delete$"):
        given.one_action("list", "delete", before_last=" or ")


def test_a_missing_option_is_named() -> None:
    with pytest.raises(BadUsage, match=r'^Missing required argument "\[topic\]"$'):
        OPTIONS.parse(["--list"]).require("list", "topic")


def test_help_goes_to_standard_error_with_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert OPTIONS.run(["--help"], _unreachable) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("A tool.\nOption")
    assert "--bootstrap-server <servers>" in shown
    assert "--state [states]" in shown


def test_version_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    from kavka import __version__

    assert OPTIONS.run(["--version"], _unreachable) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_no_options_at_all_show_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert OPTIONS.run([], _unreachable) == 1
    assert capsys.readouterr().err.startswith("A tool.\n")


def _unreachable(given: Given) -> int:
    raise AssertionError(f"the command ran with {given}")


def test_an_optional_number_may_be_negative() -> None:
    options = OptionSet(
        "",
        Option("period", "", "ms", value_is_optional=True, value_is_number=True),
        Option("name", "", "name", value_is_optional=True),
    )
    given = options.parse(["--name", "--period", "-1"])
    assert (given.all("period"), given.all("name")) == (["-1"], [])
    with pytest.raises(BadUsage, match="1 is not a recognized option"):
        options.parse(["--name", "-1"])
