"""Prometheus' text of families."""

from __future__ import annotations

import pytest

from kavka.metrics import process
from kavka.metrics.families import counter, gauge, labelled, lines, summarized, summary
from kavka.metrics.timings import Timings


def text(*families: object) -> str:
    return "".join(line for family in families for line in lines(family))  # type: ignore[arg-type]


def test_a_gauge_without_labels_is_one_line_under_its_head() -> None:
    assert text(gauge("g", "How it is.", 7)) == "# HELP g How it is.\n# TYPE g gauge\ng 7\n"


def test_a_counter_has_a_line_for_each_of_its_labels() -> None:
    family = counter("c_total", "h", [(labelled(topic="a"), 1), (labelled(topic="b"), 2)])
    assert text(family).splitlines()[2:] == ['c_total{topic="a"} 1', 'c_total{topic="b"} 2']


def test_a_counter_whose_name_lacks_its_ending_is_refused() -> None:
    with pytest.raises(AssertionError):
        counter("c", "h", 1)


def test_labels_and_help_are_escaped() -> None:
    family = gauge("g", "one\ntwo\\", [(labelled(path='C:\\"x"\n'), 1)])
    assert text(family) == (
        "# HELP g one\\ntwo\\\\\n# TYPE g gauge\n" + 'g{path="C:\\\\\\"x\\"\\n"} 1\n'
    )


def test_a_family_without_samples_has_no_head() -> None:
    assert text(gauge("g", "h", [])) == ""


def test_a_summary_has_quantiles_sum_and_count() -> None:
    timings = Timings()
    timings.record(5)
    timings.record(7)
    found = text(summary("s", "h", summarized([timings], request="Fetch"))).splitlines()
    assert found[2] == 's{request="Fetch",quantile="0.5"} 5'
    assert found[-3:] == [
        's{request="Fetch",quantile="0.999"} 7',
        's_sum{request="Fetch"} 12',
        's_count{request="Fetch"} 2',
    ]


def test_durations_that_count_as_no_time_add_to_the_count_only() -> None:
    instant = Timings()
    instant.record(30)
    samples = dict(summarized([], instant))
    assert samples == {f'{{quantile="{q}"}}': 0 for q in (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)} | {
        "_sum": 0,
        "_count": 1,
    }


def test_the_process_reports_its_memory_its_descriptors_and_its_time() -> None:
    found = {family.name: dict(family.samples) for family in process.families()}
    assert found["process_resident_memory_bytes"][""] > 1 << 20
    assert 3 <= found["process_open_fds"][""] < found["process_max_fds"][""]
    assert found["process_cpu_seconds_total"][""] > 0
    assert found["process_start_time_seconds"][""] > 1_500_000_000
