"""Rules that are changed in the page: the text of the file, what is refused, and conflicts with an editor."""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from kavka.console.alerts.editing import CannotEdit, edited, entry_of, fields_of, rule_in
from kavka.console.alerts.rules import parse
from support.console import console

FILE = """\
# of the team
address: https://console.example.org   # for links
rules:
  # the worst first
  - alert: Offline      # a name
    watch: offline
    for: 30s

  - {alert: Stuck, watch: group_stuck, above: 15m}   # in one line
  -
    alert: Silent
    watch: topic_no_data
    topics: [orders]
    above: 10m
    advice: |
      Look at
      the writer.

# nothing is sent yet
channels: []
"""
LATE = {
    "alert": "Late",
    "watch": "group_lag_records",
    "subjects": "a*\nb: c",
    "above": "5",
    "for": "2m",
    "advice": 'Say: "x" # y',
}
ADDED = """\
  - alert: Late
    watch: group_lag_records
    groups: [a*, 'b: c']
    above: 5
    for: 2m
    advice: 'Say: "x" # y'
"""


def test_a_new_rule_is_the_last_and_all_other_lines_stay() -> None:
    assert edited(FILE, "", entry_of(LATE)) == FILE.replace(
        "      the writer.\n", f"      the writer.\n{ADDED}"
    )


def test_a_rule_is_replaced_and_removed_with_its_own_lines_alone() -> None:
    for name in ("Offline", "Stuck", "Silent"):
        entry = entry_of(LATE)
        lines = edited(FILE, name, entry)
        assert ADDED in lines
        assert f"alert: {name}" not in lines
        removed = edited(FILE, name, None)
        assert removed == lines.replace(ADDED, "")
        for comment in ("# of the team", "# the worst first", "# for links", "# nothing is sent"):
            assert comment in removed


@pytest.mark.parametrize(
    "text",
    [
        "rules: []\n",
        "rules:",
        "rules: # none yet\nchannels: []\n",
        "rules: [{alert: A, watch: offline}, {alert: B, watch: offline}]  # c\nchannels: []\n",
        "rules:\n- alert: A\n  watch: offline",
        "rules:\r\n  - alert: A\r\n    watch: offline\r\nchannels: []\r\n",
        "maintenance: []\nrules:\n    - alert: A\n      watch: offline\n",
    ],
)
def test_a_rule_is_added_to_each_form_of_a_list(text: str) -> None:
    made = edited(text, "", entry_of(LATE))
    before, _ = parse(text, Path())
    after, problems = parse(made, Path())
    assert problems == []
    assert [one.name for one in after.rules] == [*(one.name for one in before.rules), "Late"]
    assert made.count("\r\n") == (made.count("\n") if "\r" in text else 0)
    assert rule_in(made, "Late") == entry_of(LATE)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{rules: [{alert: A, watch: offline}]}", "not valid YAML"),
        ("rules: &all\n  - &a {alert: A, watch: offline}\n  - *a\n", "not valid YAML"),
        ("rules: 5", "cannot be edited here|form of its YAML"),
        ("- a", "form of its YAML"),
        ("rules: [", "not valid YAML"),
        ("rules: []", "it has no rule 'A'"),
        ("rules: [\n  {alert: A, watch: offline}, # why\n]\n", "form of its YAML"),
    ],
)
def test_a_file_that_would_say_something_else_is_not_written(text: str, reason: str) -> None:
    with pytest.raises(CannotEdit, match=reason):
        edited(text, "A", entry_of(LATE))


def test_the_last_rule_may_end_in_an_alias() -> None:
    text = "rules:\n- {alert: A, channels: &all [x]}\n- alert: B\n  channels: *all\nchannels: []\n"
    new = "- alert: L\n  watch: offline\n"
    made = edited(text, "", {"alert": "L", "watch": "offline"})
    assert made == text.replace("*all\n", f"*all\n{new}")


@pytest.mark.parametrize(
    ("advice", "lines"),
    [
        ("Look at\r\n\r\n# it", "advice: |-\n    Look at\n\n    # it\n"),
        ("a\u2028b\x85c", 'advice: "a\\Lb\\Nc"\n'),
        ("--- &a *b\x00", r'advice: "--- &a *b\0"'),
    ],
)
def test_a_text_of_several_lines_is_written_as_it_was_given(advice: str, lines: str) -> None:
    entry = entry_of({"alert": "L", "watch": "offline", "advice": advice})
    made = edited("rules: []\n", "", entry)
    assert f"    {lines}".replace("\n    ", "\n      ") in made
    assert rule_in(made, "L") == {**entry, "advice": advice.replace("\r\n", "\n")}


def test_a_form_has_the_texts_of_a_rule_and_gives_it_back() -> None:
    for name in ("Offline", "Stuck", "Silent"):
        rule = rule_in(FILE, name)
        assert rule is not None
        given = entry_of(fields_of(rule))
        assert {**given, "advice": ""} == {**rule, "advice": ""}
    assert entry_of({"alert": "A", "watch": "no_controller", "subjects": "x", "above": "1.5"}) == {
        "alert": "A",
        "watch": "no_controller",
        "groups": ["x"],
        "above": 1.5,
    }


def version(pages: TestClient) -> str:
    found: str = pages.get("/api/alerts/rule").json()["version"]
    return found


def save(pages: TestClient, **given: Any) -> Any:
    return pages.post("/api/alerts/rule", json={"version": version(pages), **given})


def test_rules_are_made_changed_and_deleted_in_the_page(tmp_path: Path) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(FILE)
    path.chmod(0o640)
    with console("127.0.0.1:1", rules=path, timeout_ms=200) as pages:
        checked = save(pages, **LATE, check=True)
        assert (checked.status_code, path.read_text()) == (200, FILE)
        location = checked.json()["location"]
        assert "watch=group_lag_records" in location
        assert f"version={version(pages)}" in location
        assert save(pages, **LATE).json()["message"] == "The rule Late was added."
        names = [one["name"] for one in pages.get("/api/alerts/rules").json()["rules"]]
        assert names == ["Offline", "Stuck", "Silent", "Late"]
        form = pages.get("/alerts/rule?rule=Late").text
        assert "a*\nb: c</textarea>" in form
        assert 'name="clear" value=""' in form
        changed = save(pages, rule="Late", **{**LATE, "alert": "Later", "above": "7"})
        assert changed.json()["message"] == "The rule Later was changed."
        assert (path.read_text().count("above: 7"), path.stat().st_mode & 0o777) == (1, 0o640)
        given = {"rule": "Later", "version": version(pages)}
        refused = pages.post("/api/alerts/rule/delete", json=given)
        assert (refused.status_code, "Later" in path.read_text()) == (400, True)
        pages.post("/api/alerts/rule/delete", json={**given, "confirm": "Later"})
        assert path.read_text() == FILE
        assert sorted(os.listdir(tmp_path)) == ["rules.yml"]


def test_a_mistake_or_a_file_that_has_changed_is_refused_and_nothing_written(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(FILE)
    with console("127.0.0.1:1", rules=path, timeout_ms=200) as pages:
        wrong = save(pages, **{**LATE, "above": "soon"})
        assert (wrong.status_code, wrong.json()["title"]) == (
            422,
            "The file of rules would have mistakes",
        )
        assert wrong.json()["detail"] == "the rule Late: above is a number, not 'soon'."
        twice = save(pages, **{**LATE, "alert": "Stuck"})
        assert "two entries of `rules` are named 'Stuck'" in twice.json()["detail"]
        seen = version(pages)
        path.write_text(f"{FILE}# by an editor\n")
        conflict = pages.post("/api/alerts/rule", json={**LATE, "version": seen})
        assert (conflict.status_code, conflict.json()["title"]) == (
            409,
            "The file of rules has changed meanwhile",
        )
        missing = pages.get("/alerts/rule?rule=none")
        assert (missing.status_code, "has no rule" in missing.text) == (404, True)
        path.unlink()
        gone = pages.get("/api/alerts/rule")
        assert (gone.status_code, "No such file" in gone.json()["detail"]) == (422, True)


def test_the_default_rules_are_not_changed(tmp_path: Path) -> None:
    with console("127.0.0.1:1", timeout_ms=200) as pages:
        assert "save them as a file" in html.unescape(pages.get("/alerts/rule").text)
        refused = pages.post("/api/alerts/rule", json=LATE)
        assert (refused.status_code, "--rules FILE" in refused.json()["advice"]) == (400, True)
        assert "/alerts/rule?" not in pages.get("/alerts/rules").text
