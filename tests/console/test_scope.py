"""Users with prefixes beside a broker: what they see of topics, groups and records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kavka.client import blocking
from kavka.console.access.roles import Grant, Need, Role, User
from kavka.console.failures import Refused
from kavka.console.history.charts import finding_of
from kavka.console.history.groups import GroupFigures
from kavka.console.history.series import METRICS
from kavka.console.history.snapshot import Snapshot, TopicFigures
from kavka.console.sampler import RateHistory
from kavka.console.scope import ScopedAdmin, scoped
from kavka.console.sentences import as_is
from support.console import Cluster, with_services
from support.console_access import NAMES, access, browsers

CARD = "4111222233334444"
MASKS = [
    {"topics": ["team-"], "field": "$.card", "unmasked-for": "administrator"},
    {"header": "authorization"},
    {"pattern": r"\d{3}-\d{3}"},
]
TEAM = User("vera", "local", (Grant(Role.VIEWER, ("team-",), ("team-",)),))


@pytest.fixture(scope="module")
def browser(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    for topic in ("team-a", "other-b"):
        cluster.create(topic, 2)
        cluster.write(
            topic,
            [
                (b"k1", json.dumps({"card": CARD, "name": "x"}).encode()),
                (b"k2", f"call 555-123 {CARD}".encode()),
                (b"555-987", b'{"name": "y"}'),
            ],
            headers=[("Authorization", b"Bearer token-value"), ("trace", b"t1")],
        )
    cluster.commit("team-readers", {("team-a", 0): 0, ("other-b", 0): 1})
    cluster.commit("other-readers", {("other-b", 0): 0})
    grants = [{"users": [name], **grant} for name, grant in NAMES.items()]
    grants.append({"users": ["none"], "role": "administrator", "topics": ["team-"]})
    users = access(tmp_path_factory.mktemp("access"), masks=MASKS, grants=grants)
    with browsers(cluster.bootstrap, users) as opened:
        yield opened


PAGES = (
    "/", "/brokers", "/brokers/1", "/topics", "/topics?internal=true", "/topics?sort=state", "/topics?sort=rate",
    "/groups", "/groups?search=other", "/group?id=team-readers", "/topics/team-a", "/topics/team-a/messages",
    "/topics/team-a/settings",
)  # fmt: skip


def test_names_of_others_are_on_no_page(browser: Any) -> None:
    vera, ada = browser(user="vera"), browser(user="ada")
    seen = ""
    for path in PAGES:
        for place in (path, f"/api{'/overview' if path == '/' else path}"):
            answer = vera.get(place)
            assert answer.status_code == 200, place
            assert "other-b" not in answer.text, place
            assert "other-readers" not in answer.text, place
            if path != "/brokers/1":  # settings name it in their documentation
                assert "__consumer_offsets" not in answer.text, place
            seen += ada.get(place).text
    assert {"other-b", "other-readers", "__consumer_offsets"} <= set(seen.replace('"', " ").split())


def test_counts_sizes_and_lags_are_of_what_the_user_sees(browser: Any) -> None:
    vera, ada = browser(user="vera"), browser(user="ada")
    few, all_ = (one.get("/api/overview").json() for one in (vera, ada))
    assert (few["topics"], few["groups"], few["health"]["partitions"]) == (1, 1, 2)
    assert (all_["topics"], all_["groups"]) == (2, 2)
    assert few["brokers"][0]["replicas"] == 2
    assert few["size_bytes"] < all_["size_bytes"]
    directories = vera.get("/api/brokers/1").json()["log_dirs"]
    assert sum(one["replicas"] for one in directories) == 2
    group, whole = (one.get("/api/group?id=team-readers").json() for one in (vera, ada))
    assert [row["topic"] for row in group["partitions"]] == ["team-a"]
    assert (group["lag_records"], whole["lag_records"]) == (3, 5)
    (row,) = vera.get("/api/groups").json()["rows"]
    assert (row["topics"], row["lag_records"]) == (["team-a"], 3)
    assert vera.get("/api/topics?search=other").json()["paging"]["total"] == 0


def test_offsets_of_topics_of_others_are_not_set_with_a_groups_own(
    browser: Any, cluster: Cluster
) -> None:
    otto = browser(user="otto")
    plan = otto.get("/api/group/reset?id=team-readers&scenario=latest").json()
    assert plan["topics"] == ["team-a"]
    named = {"id": "team-readers", "scenario": "latest", "topic": "other-b"}
    assert otto.client.post("/api/group/reset", json=named).status_code == 403
    done = otto.client.post("/api/group/reset", json={"id": "team-readers", "scenario": "latest"})
    assert done.status_code == 200
    after = cluster.committed("team-readers")
    assert after["other-b", 0] == 1
    assert after["team-a", 0] == 3
    cluster.commit("team-readers", {("team-a", 0): 0})


def test_a_group_with_offsets_in_topics_of_others_is_not_deleted(
    browser: Any, cluster: Cluster
) -> None:
    local = browser(user="none")
    body = {"id": "team-readers", "confirm": "team-readers"}
    refused = local.client.post("/api/group/delete", json=body)
    assert refused.status_code == 403
    assert "topics of which you are not administrator" in refused.json()["detail"]
    assert "other" not in refused.text
    assert len(cluster.committed("team-readers")) == 2
    cluster.commit("team-own", {("team-a", 0): 1})
    body = {"id": "team-own", "confirm": "team-own"}
    assert browser(user="otto").client.post("/api/group/delete", json=body).status_code == 403
    assert local.client.post("/api/group/delete", json=body).status_code == 200
    assert cluster.committed("team-own") == {}


def test_rates_of_all_topics_are_those_of_the_users() -> None:
    history = RateHistory()
    history.add(0, {"team-a": 0, "other": 0})
    history.add(10, {"team-a": 20, "other": 1000})
    seen = history.restricted(lambda topic: topic.startswith("team-"))
    assert (seen.latest(), history.latest()) == (2, 102)
    assert seen.latest("other") is None
    assert [rate.per_second for rate in seen.rates()] == [2]


def test_each_part_of_the_services_is_scoped(cluster: Cluster) -> None:
    async def use(services: Any) -> None:
        made = scoped(services, TEAM, Need(Role.VIEWER, "any"), None)
        # A schema says nothing about other topics' records; the page of schemas needs a role on everything.
        for name in services.__dataclass_fields__.keys() - {"registry"}:
            assert getattr(made, name) is not getattr(services, name), f"scope.scoped has no {name}"
        assert scoped(services, TEAM, Need(Role.VIEWER, "cluster"), None) is services

    with_services(cluster.bootstrap, use)


def test_the_finding_of_a_group_names_no_topic_of_others(cluster: Cluster) -> None:
    def stuck(partition: str) -> GroupFigures:
        return GroupFigures("Empty", 1, None, None, 900.0, True, partition, None, 0.0)

    groups = {"team-1": stuck("other-b-0"), "team-2": stuck("team-a-0"), "other": stuck("t-0")}
    topics = {"other-b": TopicFigures(None, None, None, 0.0, True)}

    async def use(services: Any) -> None:
        services.history.latest = Snapshot(0.0, topics=topics, groups=groups)
        services.history.note = as_is("The last look failed: other-b.")
        assert "other-b" not in scoped(services, TEAM, Need(Role.VIEWER, "any"), None).history.note
        seen = scoped(services, TEAM, Need(Role.VIEWER, "any"), None).history.latest
        assert seen is not None
        assert (set(seen.groups), seen.topics) == ({"team-1", "team-2"}, {})
        assert finding_of(seen.groups["team-1"], 600.0) == ""
        assert "team-a-0" in finding_of(seen.groups["team-2"], 600.0)

    with_services(cluster.bootstrap, use)


@pytest.mark.usefixtures("browser")  # it makes the topics
def test_charts_of_a_group_are_of_the_topics_that_the_user_sees(cluster: Cluster) -> None:
    cluster.commit("team-own", {("team-a", 0): 1})
    cluster.commit("team-blind", {("other-b", 0): 0})

    async def use(services: Any) -> None:
        await services.history.look()
        await services.history.look()
        mine = scoped(services, TEAM, Need(Role.VIEWER, "any"), None).history

        async def shown(history: Any, group: str) -> dict[str, list[float]]:
            charts = await history.charts("group", group, METRICS["group"], 3600)
            return {
                chart.metric.name: [v for v in chart.values if v is not None] for chart in charts
            }

        whole = await shown(services.history, "team-readers")
        assert set(whole) == {"lag_seconds", "lag_records", "records_out"}
        assert set(whole["lag_records"]) == {5}
        part = await shown(mine, "team-readers")
        assert set(part) == {"lag_records"}
        assert set(part["lag_records"]) == {3}
        assert "does not cover" in await mine.limits("group", "team-readers")
        assert await shown(mine, "team-blind") == {}
        assert "does not cover" in await mine.limits("group", "team-blind")
        own = await shown(mine, "team-own")
        assert own == await shown(services.history, "team-own")
        assert set(own["lag_records"]) == {2}
        assert await mine.limits("group", "team-own") == ""
        figures = mine.latest.groups["team-readers"]
        assert (figures.lag_records, figures.lag_seconds, figures.records_out) == (3, None, None)
        assert set(figures.lags) == {"team-a"}

    with_services(cluster.bootstrap, use)


def test_calls_that_are_not_known_are_refused(cluster: Cluster) -> None:
    admin = ScopedAdmin(None, TEAM)  # type: ignore[arg-type]  # it is not asked
    for name in ("describe_acls", "remove_members", "delete_records", "list_offsets_of_groups"):
        assert hasattr(blocking.Admin, name)
        with pytest.raises(Refused):
            getattr(admin, name)


# Masks


def records(browser: Any, query: str = "", topic: str = "team-a") -> list[dict[str, Any]]:
    found = browser.get(f"/api/topics/{topic}/messages?{query}").json()["records"]
    assert isinstance(found, list)
    return found


def test_masked_fields_are_covered_in_each_way_out(browser: Any) -> None:
    vera = browser(user="vera")
    pages = [
        vera.get("/topics/team-a/messages").text,
        vera.get("/api/topics/team-a/messages").text,
        *(vera.get(f"/topics/team-a/records/0/{n}").text for n in range(3)),
        *(vera.get(f"/api/topics/team-a/records/0/{n}").text for n in range(3)),
        *(vera.get(f"/topics/team-a/records/0/{n}/value").text for n in range(3)),
    ]
    for page in pages:
        for secret in (CARD, "token-value", "555-123", "555-987"):
            assert secret not in page
    assert json.loads(vera.get("/topics/team-a/records/0/0/value").content) == {
        "card": "***",
        "name": "x",
    }
    assert vera.get("/topics/team-a/records/0/1/value").content == b"***"
    assert "t1" in pages[0]


def test_a_search_does_not_find_what_is_covered(browser: Any) -> None:
    vera, ada = browser(user="vera"), browser(user="ada")
    for query in (
        f"text={CARD}",
        "text=4111",
        "text=555-1",
        "key=555-9",
        "header=authorization=Bearer",
    ):
        assert records(vera, query) == [], query
        assert (records(ada, query) == []) is ("4111" not in query)
    assert len(records(vera, "text=%2A%2A%2A")) == 3
    assert len(records(vera, "header=authorization")) == 3
    reach = vera.get(f"/api/topics/team-a/messages?text={CARD}").json()["reach"]
    same = vera.get("/api/topics/team-a/messages?text=none-of-them").json()["reach"]
    assert reach == same


def test_a_record_that_masks_cover_is_not_copied(browser: Any) -> None:
    otto = browser(user="otto")
    path = "/api/topics/team-a/records/0/0/copy"
    assert otto.get(path).status_code == 403
    refused = otto.client.post(path, json={"to": "team-a", "same": True})
    assert (refused.status_code, refused.json()["title"]) == (403, "Masks hold for you")


def test_a_role_sees_what_a_mask_leaves_to_it(browser: Any) -> None:
    ada = browser(user="ada")
    value = ada.get("/topics/team-a/records/0/0/value").json()
    assert value["card"] == CARD
    assert ada.get("/topics/team-a/records/0/1/value").text == f"call *** {CARD}"
    assert "token-value" not in ada.get("/topics/team-a/records/0/0").text
    assert json.loads(records(ada, "", "other-b")[-1]["value"])["card"] == CARD


@pytest.mark.slow
def test_the_tail_is_masked_and_ends_with_the_session(browser: Any, cluster: Cluster) -> None:
    vera = browser(user="vera")
    with vera.client.stream("GET", "/api/topics/team-a/tail") as answer:
        events = answer.iter_lines()
        assert next(events) == "event: records"
        cluster.write("team-a", [(b"k", json.dumps({"card": CARD}).encode())], partition=1)
        line = next(line for line in events if "offset" in line)
        assert "***" in line
        assert CARD not in line
        browser.gate._sessions.end(vera.client.cookies["kavka_session"])
        assert "event: failure" in [line for line in events if line.startswith("event")][-1]
