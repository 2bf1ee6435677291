"""Rules, baselines and incidents of the operations pipeline: what holds for all samples. Scenarios: tests/scripts."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.pipelines.operations.baseline import Baseline, BaselineSettings
from kavka.pipelines.operations.evaluation import Evaluation, Sample, Source
from kavka.pipelines.operations.incidents import Event
from kavka.pipelines.operations.rules import RuleError, Rules, load_rules, parse_rules
from support.examples import examples

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "src/kavka/pipelines/templates/operations"
SOURCE = Source("host", "http://page")

values = st.sampled_from([0.0, 4.0, 5.0, 6.0, 9.0, 10.0, 11.0, 20.0, math.nan])
"""Around the thresholds 10 and 5; nan is a time at which the series has no value."""
durations = st.integers(0, 4).map(lambda steps: steps * 10)


def one_rule(**fields: Any) -> Rules:
    return parse_rules({"rules": [{"alert": "A", "metric": "m", **fields}]})


@st.composite
def stories(draw: st.DrawFn) -> tuple[Rules, list[Sample]]:
    """A rule, and samples of a series that comes and goes on a page that goes on."""
    fields = {"above": 10, "clear": draw(st.sampled_from([5, 10]))}
    for name in ("for", "clear_for"):
        fields[name] = draw(durations)
    rules = one_rule(**fields, stale_after=draw(st.integers(2, 5)) * 10)
    samples, time_ms = [], 0
    for value in draw(st.lists(values, max_size=40)):
        time_ms += draw(st.integers(1, 3)) * 10_000
        samples.append(Sample(time_ms, "up", 1, {}))
        if not math.isnan(value):
            samples.append(Sample(time_ms, "m", value, {"l": "x"}))
    return rules, samples


def run(rules: Rules, batches: list[list[Sample]]) -> list[Event]:
    """Return the events of batches, between which the state is JSON."""
    state, events = None, []
    for batch in batches:
        evaluation = Evaluation(rules, SOURCE, None if state is None else json.loads(state))
        evaluation.evaluate(batch, 1_000_000_000)
        state = json.dumps(evaluation.state, allow_nan=False)
        events += evaluation.events
    return events


def cut(samples: list[Sample], at: set[int]) -> list[list[Sample]]:
    edges = [0, *sorted(one for one in at if one < len(samples)), len(samples)]
    return [samples[start:end] for start, end in pairwise(edges)]


@settings(max_examples=examples(300))
@given(stories(), st.sets(st.integers(0, 80)), st.data())
def test_batches_and_records_that_come_again_change_nothing(
    story: tuple[Rules, list[Sample]], at: set[int], data: st.DataObject
) -> None:
    rules, samples = story
    whole = run(rules, [samples])
    batches = cut(samples, at)
    again: list[list[Sample]] = []
    for number, batch in enumerate(batches):
        # A backfill brings any batch before this one once more.
        earlier = batches[data.draw(st.integers(0, number))]
        again += [batch, earlier if data.draw(st.booleans()) else []]
    assert run(rules, batches) == whole
    assert run(rules, again) == whole


@settings(max_examples=examples(300))
@given(stories())
def test_each_incident_begins_once_and_ends_once(story: tuple[Rules, list[Sample]]) -> None:
    rules, samples = story
    [rule] = rules.values
    events = run(rules, [samples])
    assert [event.event for event in events] == ["firing", "resolved"] * (len(events) // 2) + (
        ["firing"] * (len(events) % 2)
    )
    assert len({(event.event, event.incident) for event in events}) == len(events)
    for firing, resolved in zip(events[::2], events[1::2], strict=False):
        assert firing.incident == resolved.incident
        assert firing.since_ms <= firing.time_ms < resolved.time_ms
    by_time = {one.time_ms: one.value for one in samples if one.name == "m"}
    for event in events[::2]:
        since = [value for at, value in by_time.items() if event.since_ms <= at <= event.time_ms]
        assert event.time_ms - event.since_ms >= rule.for_ms
        assert all(value > 10 for value in since)
    for event in events[1::2]:
        if "reason" not in event.facts:
            assert by_time[event.time_ms] <= rule.clear


@settings(max_examples=examples(300))
@given(stories())
def test_no_incident_is_missed(story: tuple[Rules, list[Sample]]) -> None:
    rules, samples = story
    [rule] = rules.values
    events = run(rules, [samples])
    open_times = [
        (firing.time_ms, resolved.time_ms if resolved else math.inf)
        for firing, resolved in zip(events[::2], [*events[1::2], None], strict=False)
    ]
    begun_ms, last_ms = None, 0
    for sample in (one for one in samples if one.name == "m"):
        if sample.value <= 10:
            begun_ms = None
        elif begun_ms is None or sample.time_ms - last_ms > rule.stale_ms:
            begun_ms = sample.time_ms
        last_ms = sample.time_ms
        if begun_ms is not None and sample.time_ms - begun_ms >= rule.for_ms:
            assert any(start <= sample.time_ms < end for start, end in open_times)


any_number = st.floats(allow_nan=False, allow_infinity=False)
KINDS = [
    {"above": 10, "by": [], "aggregate": "sum"},
    {"above": 10, "by": [], "divide_by": {"metric": "up"}},
    {"above": 10, "rate": True},
    {"anomaly": {"half_life": 0.001, "warmup": 2}},
]


@settings(max_examples=examples(200))
@given(st.sampled_from(KINDS), st.lists(st.tuples(any_number, any_number, any_number), max_size=10))
def test_whatever_numbers_come_state_and_events_are_json(
    kind: dict[str, Any], rows: list[tuple[float, float, float]]
) -> None:
    state = None
    for number, (first, second, up) in enumerate(rows):
        evaluation = Evaluation(one_rule(**kind), SOURCE, state)
        series = (("m", first, "x"), ("m", second, "y"), ("up", up, ""))
        samples = [
            Sample(number * 1000, name, value, {"l": label}) for name, value, label in series
        ]
        evaluation.evaluate(samples, number * 1000)
        state = json.loads(json.dumps(evaluation.state, allow_nan=False))
        for event in evaluation.events:
            assert json.loads(event.to_json())["event"] == event.event


# Baselines

AT_ONCE = BaselineSettings(half_life_ms=60_000, warmup=3)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(-1e9, 1e9)), max_size=50))
def test_a_baseline_stays_within_its_values_and_its_scores_are_numbers(
    steps: list[tuple[int, float]],
) -> None:
    baseline, time_ms = Baseline(), 0
    for step_ms, value in steps:
        time_ms += step_ms
        score = baseline.score(AT_ONCE, value)
        assert score is None or (math.isfinite(score) and abs(score) <= 1000)
        assert (score is None) == (baseline.count < AT_ONCE.warmup)
        baseline = baseline.learn(AT_ONCE, value, time_ms)
        assert baseline.variance >= 0
    if steps:
        least, most = min(value for _, value in steps), max(value for _, value in steps)
        slack = 1e-9 * max(abs(least), abs(most))
        assert least - slack <= baseline.mean <= most + slack


@pytest.mark.parametrize("step_ms", [1000, 20_000])
def test_a_baseline_forgets_half_in_a_half_life_whatever_the_distance_of_samples(
    step_ms: int,
) -> None:
    moving = BaselineSettings(half_life_ms=60_000, warmup=1000)
    baseline = Baseline(
        count=900, mean=0.0, last_ms=0
    )  # behind the time when all samples count the same
    for time_ms in range(step_ms, 60_001, step_ms):
        baseline = baseline.learn(moving, 1.0, time_ms)
    assert baseline.mean == pytest.approx(0.5, abs=1e-9)


def test_a_new_level_becomes_the_baseline() -> None:
    baseline = Baseline()
    for number in range(100):
        baseline = baseline.learn(AT_ONCE, 100 + number % 3, number * 10_000)
    assert baseline.score(AT_ONCE, 1000) == 1000
    for number in range(100, 160):
        baseline = baseline.learn(AT_ONCE, 1000 + number % 3, number * 10_000)
    score = baseline.score(AT_ONCE, 1001)
    assert score is not None
    assert abs(score) < 1


# Files of rules


def test_the_rules_of_the_template_are_rules() -> None:
    rules = load_rules(TEMPLATE / "alerts.yml")
    assert len(rules.values) + len(rules.silences) >= 15
    names = " ".join(rules.metrics)
    subjects = ("underreplicated", "offlinepartitions", "consumergroup_lag", "stalled_ms", "disk_")
    for wanted in subjects:
        assert wanted in names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is not a mapping, but NoneType"),
        ("rules: {}", "the file has no list `rules`"),
        ("rules: [{metric: m}]", "rule 1 has no name: write `alert: NAME` first"),
        ("rules: [{alert: A, above: 1}]", "the rule A has no `metric`"),
        ("rules: [{alert: A, metric: m}]", "the rule A needs one of `above` and `below`"),
        ("RULEabove: 1, below: 0}]", "needs one of `above` and `below`"),
        ("RULEabove: 1, clear: 2}]", "clear is 2, beyond the threshold 1"),
        ("RULEbelow: 1, clear: 0}]", "clear is 0, beyond the threshold 1"),
        ("RULEabove: 1, for: soon}]", "the rule A: for is a time such as 90s, 5m or 1h30m, not 'soon'"),
        ("RULEabov: 1}]", "rule 1 has no 'abov'; it may have alert, metric"),
        ("RULEabove: true}]", "above is a number, not True"),
        ("RULEabove: .nan}]", "above is a number, not nan"),
        ("RULEabove: 1, severity: bad}]", "severity is one of info, warning, critical, not 'bad'"),
        ("RULEabove: 1, labels: {a: '~['}}]", "'~[' is no regular expression"),
        ("RULEabove: 1, labels: {a: null}}]", "is a text, a list of texts, or ~REGEX, not None"),
        ("RULEabove: 1, divide_by: {metric: n}}]", "the rule A has `divide_by`, so it needs `by`"),
        ("RULEabove: 1, by: mount}]", "by is a list of labels, not 'mount'"),
        ("RULEanomaly: true, below: 1}]", "`above` is its z-score"),
        ("RULEanomaly: {warmup: 1}}]", "warmup is a number of samples, 2 or more, not 1"),
        ("rules: [{alert: A, silent: 5m, above: 1}]", "is about silence, so it has no `above`"),
        ("rules: [{alert: A, silent: 0}]", "silent is more than 0"),
        ("rules: [{alert: A, silent: 1m}, {alert: A, silent: 2m}]", "two rules are named 'A'"),
        ("rules: [}", "is not valid YAML"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_a_sentence(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "alerts.yml"
    file.write_text(text.replace("RULE", "rules: [{alert: A, metric: m, "))
    with pytest.raises(RuleError) as caught:
        load_rules(file)
    assert said in str(caught.value)
    assert str(file) in str(caught.value)


def test_the_rules_of_the_page_are_rules(tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/template-operations.md").read_text()
    [text] = re.findall(r"cat > ops/alerts.yml <<'END'\n(.*?)END\n", page, re.S)
    (tmp_path / "alerts.yml").write_text(text)
    rules = load_rules(tmp_path / "alerts.yml")
    assert [rule.name for rule in rules.values] == [
        "DiskAlmostFull",
        "RequestsFail",
        "LoadIsUnusual",
    ]
    assert [rule.silent_ms for rule in rules.silences] == [600_000]


def test_times_are_texts_or_seconds() -> None:
    rule = {"alert": "A", "metric": "m", "above": 1, "for": "1h30m", "clear_for": 1.5}
    [found] = parse_rules(yaml.safe_load(json.dumps({"rules": [rule]}))).values
    assert (found.for_ms, found.clear_for_ms, found.stale_ms) == (5_400_000, 1500, 300_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: []".encode("utf-16"), "is not UTF-8 at byte 0"),
        (b"rules: " + b"[" * 5000, "nests values too deeply"),
        (b"rules: !!python/object/apply:os.system [ls]", "is not valid YAML"),
        (b"rules: []\n---\nrules: []\n", "has 2 documents"),
    ],
)
def test_a_file_that_is_no_yaml_is_one_sentence_with_its_path(
    text: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / "alerts.yml").write_bytes(text)
    with pytest.raises(RuleError, match=said) as caught:
        load_rules(tmp_path / "alerts.yml")
    assert str(caught.value).startswith(str(tmp_path))
