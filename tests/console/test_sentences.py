"""Sentences that Python makes: each has a translation with the same parts, and texts of others stay what they are."""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any, get_type_hints

from starlette.testclient import TestClient

import kavka.console
from kavka.console.alerts import records
from kavka.console.alerts.book import Change, Key, State
from kavka.console.alerts.conditions import CONDITIONS, Condition, Observation
from kavka.console.alerts.located import Problem
from kavka.console.alerts.messages import alert_of
from kavka.console.alerts.rules import parse
from kavka.console.alerts.views import AlertView, RuleView, problem_texts
from kavka.console.chinese import CHINESE_SENTENCES
from kavka.console.chinese.findings import FINDINGS
from kavka.console.chinese.outcomes import OUTCOMES
from kavka.console.chinese.refusals import REFUSALS
from kavka.console.chinese.rules import RULES
from kavka.console.failures import Failure, bad_request, failure_of, not_found
from kavka.console.history.charts import HistoryView
from kavka.console.history.file import HistoryFile
from kavka.console.history.series import Metric
from kavka.console.rendering import SCRIPT_TEXTS, environment
from kavka.console.sentences import Sentence, as_is, parts_of, restored, say
from kavka.console.subject import Outcome
from kavka.console.views.groups import GroupView
from kavka.console.views.messages import Reach
from kavka.console.views.overview import Finding
from kavka.errors import ErrorCode, KafkaError
from support.console import Cluster
from support.console_access import audited

HERE = Path(kavka.console.__file__).parent
CHINESE_LETTER = re.compile("[\u4e00-\u9fff]")
PUNCTUATION_ALONE = {
    "{code}: {reason}",
    "{kind}: {error}",
    "{detail}.",
    "{days}, {day}",
    "{fault}.",
    "at: {error}.",
    "path: {error}.",
    "Broker {broker_id}: {note}.",
    "broker {broker}",
}
"""Templates whose words are names, so that their translation has no Chinese word."""
CHECKED: dict[Any, tuple[str, ...]] = {
    Failure: ("title", "detail", "advice"),
    Outcome: ("message",),
    Finding: ("sentence",),
    Observation: ("sentence",),
    Condition: ("summary", "advice"),
    AlertView: ("sentence", "advice", "muted"),
    RuleView: ("summary", "advice"),
    HistoryView: ("finding", "limits", "note"),
    Metric: ("label",),
    Problem: ("sentence",),
    Reach: ("sentence",),
    GroupView: ("note",),
}
"""The places of sentences: mypy refuses a `str` there."""
SAID_BY = {
    "Failure": 1,
    "Refused": 0,
    "bad_request": 0,
    "not_found": 0,
    "forbidden": 0,
    "Outcome": 0,
    "confirm": 1,
}
"""Calls that take sentences, and the first argument that is one; the places of `Outcome` are addresses."""


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Yield each call of a name in the package, with the place where it stands."""
    for path in sorted(HERE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                name = node.func.id if isinstance(node.func, ast.Name) else name
                yield f"{path.relative_to(HERE)}:{node.lineno}", name, node


def literals(node: ast.expr | None) -> list[str]:
    """Return the texts with words that an expression may be, as it stands."""
    if isinstance(node, ast.IfExp):
        return [*literals(node.body), *literals(node.orelse)]
    if isinstance(node, ast.BoolOp):
        return [text for value in node.values for text in literals(value)]
    if isinstance(node, ast.BinOp):
        return [*literals(node.left), *literals(node.right)]
    if isinstance(node, ast.JoinedStr):
        return ["".join(literals(one)[0] for one in node.values if literals(one)) or "f-string"]
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return [node.value] if is_text and re.search("[A-Za-z]{2}", node.value) else []


def names_in(template: str) -> set[tuple[str, str, str]]:
    """Return the names in a template with their forms."""
    parsed = Formatter().parse(template)
    return {
        (name, form or "", change or "") for _, name, form, change in parsed if name is not None
    }


def is_ending(name: str) -> bool:
    return name == "s" or name.startswith("s_")


def test_each_sentence_of_the_package_has_a_translation() -> None:
    templates: dict[str, str] = {}
    for where, name, call in calls():
        if name != "say" or where.startswith("sentences.py"):
            continue
        [first] = call.args
        assert isinstance(first, ast.Constant), f"{where}: the template is no literal"
        assert isinstance(first.value, str), where
        templates[first.value] = where
        names = {one.arg for one in call.keywords}
        wanted = {part for part, _, _ in names_in(first.value)} if names else set()
        assert names == wanted, f"{where}: other values than the template has"
        for one in call.keywords:
            said = literals(one.value)
            assert not said or is_ending(one.arg or ""), f"{where}: {one.arg} is English: {said}"
    assert len(templates) > 400
    missing = {text: where for text, where in templates.items() if text not in CHINESE_SENTENCES}
    assert missing == {}, "add them to kavka.console.chinese"
    assert CHINESE_SENTENCES.keys() - templates.keys() == set(), "no sentence has these"
    tables = (REFUSALS, FINDINGS, OUTCOMES, RULES)
    assert sum(map(len, tables)) == len(CHINESE_SENTENCES), "a sentence stands twice"


def test_a_translation_has_the_parts_of_its_sentence() -> None:
    for template, translated in CHINESE_SENTENCES.items():
        assert translated != template
        assert CHINESE_LETTER.search(translated) or template in PUNCTUATION_ALONE, template
        if "{" not in template or '{"' in template:
            continue
        lacking = names_in(template) - names_in(translated)
        assert names_in(translated) <= names_in(template), template
        assert all(is_ending(name) for name, _, _ in lacking), template


def test_what_people_read_is_a_sentence() -> None:
    for cls, names in CHECKED.items():
        hints = get_type_hints(cls)
        assert {name: hints[name] for name in names} == dict.fromkeys(names, Sentence), cls
    for function in (bad_request, not_found):
        hints = get_type_hints(function)
        assert (hints["detail"], hints["advice"]) == (Sentence, Sentence)
    seen = 0
    for where, name, call in calls():
        if name in SAID_BY and not where.startswith("alerts/delivery.py"):
            chosen = call.args[SAID_BY[name] : 1 if name == "Outcome" else None]
            assert [text for one in chosen for text in literals(one)] == [], where
            seen += 1
        if name == "as_is":
            assert [t for one in call.args for t in literals(one) if t != "f-string"] == [], where
    assert seen > 150


def test_a_text_of_others_is_never_translated() -> None:
    hostile = ["Not found", "{name}", "{0.__class__}", "No leader", "Try again.", "未找到", "%s"]
    for text in hostile:
        made = say("There is no channel {name!r}.", name=text)
        assert made == f"There is no channel {text!r}."
        assert made.translated(CHINESE_SENTENCES) == f"没有通知渠道 {text!r}。"
        assert as_is(text).translated(CHINESE_SENTENCES) == text
        nested = say("Broker {broker_id}: {note}.", broker_id=1, note=as_is(text))
        assert nested.translated(CHINESE_SENTENCES) == f"Broker 1\uff1a{text}。"


def test_sentences_within_sentences_are_translated_and_others_stay_english() -> None:
    inner = say("is {share:.0%} used", share=0.914)
    made = say("The disk of broker {name} {said}.", name=3, said=inner)
    assert made == "The disk of broker 3 is 91% used."
    assert made.translated(CHINESE_SENTENCES) == "Broker 3 的磁盘已使用 91%。"
    assert say("A sentence of tomorrow: {said}.", said=inner).translated(CHINESE_SENTENCES) == (
        "A sentence of tomorrow: is 91% used."
    )
    assert made.strip(".") == "The disk of broker 3 is 91% used"
    assert copy.deepcopy(made).translated(CHINESE_SENTENCES) == made.translated(CHINESE_SENTENCES)
    assert json.dumps({"said": made}) == '{"said": "The disk of broker 3 is 91% used."}'
    braces = 'Send JSON such as {"user": "anna", "password": "..."}.'
    assert (
        say(braces).translated(CHINESE_SENTENCES).endswith('{"user": "anna", "password": "..."}。')
    )


def test_a_kept_sentence_is_one_again_and_a_wrong_one_its_text() -> None:
    made = say(
        "The disk of broker {name} {said}.",
        name="{0}",
        said=say("is {share:.0%} used", share=0.914),
    )
    kept = json.loads(json.dumps(parts_of(made)))
    again = restored(str(made), kept)
    assert again == made
    assert again.translated(CHINESE_SENTENCES) == made.translated(CHINESE_SENTENCES) != made
    assert parts_of("text") is parts_of(as_is("Not found")) is None
    for text, parts in [
        ("Not found", None), ("Not found", {}), ("other", kept), ("x", {"template": "{a}", "values": {}}),
        ("x", {"template": "Not found", "values": {"a": {"values": 1}}}), ("x", [1]),
    ]:  # fmt: skip
        assert restored(text, parts).translated(CHINESE_SENTENCES) == text


def test_alerts_that_a_file_kept_are_said_in_chinese() -> None:
    said = say("Group {name} goes on.", name="g")
    state = State.from_json(State(sentence=said, muted=say("silenced")).to_json())
    assert isinstance(state.sentence, Sentence)
    assert isinstance(state.muted, Sentence)
    assert (state.sentence.translated(CHINESE_SENTENCES), state.muted) == (
        CHINESE_SENTENCES["Group {name} goes on."].format(name="g"),
        "silenced",
    )
    change = Change("firing", "r", "g", state, 1, True, False)
    file = HistoryFile(None, 1 << 20, 10)
    records.write(file, {Key("r", "g"): state}, [(1, alert_of(change, None, ""))], [], {})
    [[alert], _] = records.events(file, 1, 10)
    assert alert.sentence == said
    assert isinstance(alert.sentence, Sentence)
    assert alert.sentence.translated(CHINESE_SENTENCES) != said
    file.connection.execute("update alert_events set document = json_remove(document, '$.parts')")
    [[old], _] = records.events(file, 1, 10)
    assert old == alert


def test_templates_escape_a_sentence_and_its_values() -> None:
    made = say("There is no channel {name!r}.", name="<b>")
    for language, expected in (("en", "There is no channel"), ("zh", "没有通知渠道")):
        text = environment(language).from_string('<p title="{{ x }}">{{ x }}</p>').render(x=made)
        assert text.count(expected) == 2
        assert text.count("&lt;b&gt;") == 2
        assert "<b>" not in text


def test_the_script_has_its_sentences_from_the_page(pages: TestClient) -> None:
    script = (HERE / "assets" / "console.js").read_text("utf-8")
    asked = set(re.findall(r'said\("(\w+)"', script)) | set(
        re.findall(r'\? "(\w+)" : "(\w+)", values', script)[0]
    )
    assert asked == SCRIPT_TEXTS.keys()
    assert re.findall(r"""textContent =\s*["`][A-Z][a-z]""", script) == []
    page = pages.get("/", headers={"Accept-Language": "zh"}).text
    assert 'data-following="\u6b63\u5728\u8ddf\u8e2a' in page
    assert "{total}" in page


def test_failures_of_a_cluster_are_said_in_chinese_and_its_reason_stays() -> None:
    error = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'Not found' already exists.")
    failure = failure_of(error, "b:9092")
    assert failure.translated(CHINESE_SENTENCES) == {
        "status": 409,
        "title": "集群目前拒绝此操作",
        "detail": "TOPIC_ALREADY_EXISTS\uff1aTopic 'Not found' already exists.",
        "advice": "请选择其他名称。",
    }
    assert failure.translated({})["title"] == "The cluster refuses this now"


def test_conditions_of_alerts_are_said_in_chinese() -> None:
    for condition in CONDITIONS.values():
        for said in (condition.summary, condition.advice):
            assert CHINESE_LETTER.search(said.translated(CHINESE_SENTENCES)), said


def test_mistakes_of_rules_are_said_in_chinese_and_what_the_file_says_stays() -> None:
    text = "rules: [{alert: Late, watch: 'Not found'}]\nchannels: [{channel: team, shape: x}]"
    _, problems = parse(text, Path())
    said = [one.translated(CHINESE_SENTENCES) for one in problem_texts(problems)]
    assert said[0].startswith(
        "\u7b2c 1 \u884c\uff1a\u89c4\u5219 Late \uff1awatch \u5e94\u4e3a group_lag"
    )
    assert said[0].endswith("'Not found'")
    assert said[1].startswith("\u7b2c 2 \u884c\uff1a\u901a\u77e5\u6e20\u9053 team")
    assert problems[1].sentence == (
        "the channel team: shape is one of json, slack, pagerduty, not 'x'"
    )


def test_pages_say_sentences_in_chinese_and_the_api_in_english(
    cluster: Cluster, pages: TestClient
) -> None:
    chinese = {"Accept-Language": "zh-CN"}
    cluster.create("Records")
    wrong = "/topics/Records/messages?partition=7"
    page = pages.get(wrong, headers=chinese)
    assert page.status_code == 404
    assert "<h1>未找到</h1>" in page.text
    assert "主题 Records 没有分区 7。" in page.text
    assert "其分区为 0 到 0。" in page.text
    english = pages.get(f"/api{wrong}", headers=chinese).json()
    assert english["detail"] == "Topic Records has no partition 7."
    assert "Topic Records has no partition 7." in pages.get(wrong).text
    found = pages.get("/topics/Records/messages", headers=chinese)
    assert "已查看 1 个分区的 0 条记录" in found.text
    assert "控制台没有页面 /none。" in pages.get("/none", headers=chinese).text
    assert "规则" in pages.get("/alerts/rules", headers=chinese).text
    assert "没有 Broker 担任控制器" in pages.get("/alerts/rules", headers=chinese).text


def test_an_outcome_is_said_in_the_language_of_its_reader(
    cluster: Cluster, pages: TestClient
) -> None:
    page = pages.get("/create-topic").text
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert token is not None
    form = {"csrf_token": token[1], "name": "made", "partitions": "1", "replication": "1"}
    with audited() as lines:
        answer = pages.post("/create-topic", data=form, follow_redirects=False)
        assert answer.status_code == 303, answer.text
        location = answer.headers["location"]
        assert "Topic made was created." in pages.get(location).text
        assert "已创建主题 made。" in pages.get(location, headers={"Accept-Language": "zh"}).text
        again = pages.post("/create-topic", data=form, headers={"Accept-Language": "zh"})
    assert again.status_code == 409
    assert "请选择其他名称。" in again.text
    assert lines[-1]["result"].startswith(
        "failed: The cluster refuses this now: TOPIC_ALREADY_EXISTS"
    )
