"""Declarations of expectations that are wrong say what to do. What they do to rows is tested with Spark."""

from typing import Any

import pytest

from kavka.pipelines import expect, expect_all, expect_or_drop, quarantine
from kavka.pipelines.expectations import ExpectationError


def test_a_condition_without_a_name_is_refused():
    with pytest.raises(
        ExpectationError, match="expect_or_drop needs a name as its first argument: @expect_or_drop"
    ):
        expect_or_drop(" ", "user IS NOT NULL")


@pytest.mark.parametrize("condition", ["", None, True, lambda row: row])
def test_what_is_no_condition_is_refused(condition):
    with pytest.raises(ExpectationError, match="the condition of expect 'u'"):
        expect("u", condition)


def test_a_decorator_above_that_of_the_table_says_where_it_belongs():
    with pytest.raises(ExpectationError, match=r"put @expect below @dp\.table"):
        expect("u", "user IS NOT NULL")(None)


def test_only_functions_and_frames_have_expectations():
    with pytest.raises(ExpectationError, match=r"decorates a function .*, not a str"):
        expect_all({"u": "user IS NOT NULL"})("events")


@pytest.mark.parametrize("given", [{}, ["user IS NOT NULL"]])
def test_several_expectations_have_names(given):
    with pytest.raises(ExpectationError, match="conditions by name"):
        expect_all(given)


@pytest.mark.parametrize("missing", ["topic", "bootstrap_servers"])
def test_a_quarantine_has_a_topic_and_brokers(missing):
    given: Any = {"topic": "bad", "bootstrap_servers": "here:1", missing: ""}
    with pytest.raises(ExpectationError, match=f"quarantine wants {missing}="):
        quarantine("u", "user IS NOT NULL", **given)


def test_a_decorated_function_keeps_its_name():
    def events(table):
        """From a table."""
        return table

    decorated = expect("u", "user IS NOT NULL")(events)
    assert (decorated.__name__, decorated.__doc__) == ("events", "From a table.")
