from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from kavka.console.chinese import CHINESE, SAME
from kavka.console.languages import LANGUAGES, language_of, texts_of
from kavka.console.rendering import HERE, environment
from support.console import Cluster

TEMPLATES = sorted(path.name for path in (HERE / "templates").iterdir())
NOT_YET: set[str] = set()
"""Templates that are English only."""


@pytest.mark.parametrize("template", [name for name in TEMPLATES if name not in NOT_YET])
def test_each_text_of_a_template_is_in_chinese(template: str) -> None:
    missing = texts_of(environment(), template) - CHINESE.keys() - SAME
    assert missing == set(), "add them to kavka.console.chinese"


def test_the_table_has_nothing_else() -> None:
    said = {text for name in TEMPLATES for text in texts_of(environment(), name)}
    assert (CHINESE.keys() | SAME) - said - {"s"} == set()
    assert not CHINESE.keys() & SAME


@pytest.mark.slow
def test_each_template_can_be_compiled_in_each_language() -> None:
    for language in LANGUAGES:
        templates = environment(language)
        for name in TEMPLATES:
            templates.get_template(name)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (("", "", ""), "en"),
        (("", "", "zh-CN,zh;q=0.9,en;q=0.8"), "zh"),
        (("", "", "de, en;q=0.5, zh;q=0.6"), "zh"),
        (("", "", "zh;q=0, en"), "en"),
        (("", "", "zh;q=x"), "en"),
        (("", "en", "zh"), "en"),
        (("zh", "en", "en"), "zh"),
        (("<b>", "../x", "*"), "en"),
    ],
)
def test_the_language_is_that_chosen_kept_or_accepted(given: Any, found: str) -> None:
    assert language_of(*given) == found


def test_pages_are_in_chinese_and_values_stay(cluster: Cluster, pages: TestClient) -> None:
    cluster.create("Topics")
    page = pages.get("/topics", headers={"Accept-Language": "zh-CN"})
    assert '<html lang="zh">' in page.text
    assert "<h1>主题</h1>" in page.text
    assert 'placeholder="搜索主题"' in page.text
    assert '<a href="/topics/Topics">Topics</a>' in page.text
    english = pages.get("/topics")
    assert '<html lang="en">' in english.text
    assert "<h1>Topics</h1>" in english.text
    assert 'href="/topics?search=a&amp;language=zh"' in pages.get("/topics?search=a").text
    assert "概览" in pages.get("/?language=zh").text
    assert "概览" in pages.get("/").text, "the choice is kept"
    assert pages.get("/api/overview").json()["cluster_id"]
    assert "Overview" in pages.get("/?language=en").text
