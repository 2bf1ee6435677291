"""Rules of alerts: each mistake with its line, what conditions see, what channels send."""

from __future__ import annotations

import json
from dataclasses import replace
from email import message_from_bytes
from pathlib import Path

import pytest

from kavka.cli.main import main
from kavka.console.alerts.channels import Channel, Mail
from kavka.console.alerts.conditions import CONDITIONS, Target
from kavka.console.alerts.messages import Alert, body_of, email_of, messages_of
from kavka.console.alerts.rules import DEFAULT_RULES, Rules, parse, without_channels
from kavka.console.history.groups import GroupFigures
from kavka.console.history.snapshot import PipelineFigures, Snapshot, TopicFigures
from kavka.console.sentences import NOTHING
from kavka.console.views.brokers import BrokerRow
from kavka.console.views.topics import Health

WHOLE = """\
address: https://console.example.org/
channels:
  - channel: team
    webhook_file: team.url
    shape: slack
    severities: [warning, critical]
  - channel: own
    webhook: https://example.org/hook
    body: {text: "{sentence}", more: ["{advice}", 1]}
    headers: {X-Team: ops}
    retry_for: 2h
  - channel: pager
    shape: pagerduty
    key_file: pager.key
  - channel: post
    mail: {server: "mail.example.org:587", user: kavka, password_file: mail.password,
           from: k@example.org, to: [ops@example.org]}
rules:
  - alert: OrdersLate
    watch: group_lag_seconds
    groups: ["orders-*", billing]
    above: 5m
    clear: 60
    for: 2m
    severity: critical
    channels: [team, pager]
    advice: Restart the workers.
  - {alert: Disk, watch: disk_used, brokers: [1], above: 85%, clear: 80%}
maintenance:
  - {name: weekly, days: [Sunday], from: "02:00", to: "04:00", timezone: Europe/Berlin, alerts: Disk}
"""


def read(text: str, directory: Path = Path()) -> tuple[Rules, list[tuple[int, str]]]:
    rules, problems = parse(text, directory)
    return rules, [(one.line, one.sentence) for one in problems]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "team.url").write_text("https://hooks.example.org/services/SECRET\n")
    (tmp_path / "pager.key").write_text("ROUTINGKEY\n")
    (tmp_path / "mail.password").write_text("PASSWORD\n")
    return tmp_path


def test_a_whole_file_is_read(directory: Path) -> None:
    rules, problems = read(WHOLE, directory)
    assert problems == []
    orders, disk = rules.rules
    assert (orders.threshold, orders.clear, orders.for_ms) == (300, 60, 120_000)
    assert (disk.threshold, disk.clear, disk.severity) == (0.85, 0.8, "warning")
    assert rules.address == "https://console.example.org"
    assert [one.name for one in rules.channels_of(orders)] == ["team", "pager"]
    mild = replace(disk, severity="info")
    assert [one.name for one in rules.channels_of(mild)] == ["own", "pager", "post"]
    assert rules.channels["team"].target == "https://hooks.example.org"
    assert not [secret for secret in ("SECRET", "ROUTINGKEY", "PASSWORD") if secret in repr(rules)]
    shown = without_channels(WHOLE)
    assert "OrdersLate" in shown
    assert "weekly" in shown
    assert "webhook" not in shown
    assert without_channels("{rules: [], channels: [{channel: a, webhook: secret}]}") == ""
    assert without_channels("{channels: [{channel: a,\n webhook: secret}], rules: []}") == ""


def test_the_default_rules_are_right() -> None:
    rules, problems = read(DEFAULT_RULES)
    assert problems == []
    assert len({rule.name for rule in rules.rules}) == 13


CHANNEL = "rules: []\nchannels:\n  - channel: c\n    "
WINDOW = "rules: []\nmaintenance:\n  - "
MAIL = CHANNEL + "mail: "
EXPIRES = "{alert: A, watch: certificate_expires, below: 14d"
RULE = "{alert: A, watch: group_lag_records, above: 5"
MISTAKES = [
    ("rules: [", 1, "not valid YAML"),
    ("a: &x [*x]", 1, "not valid YAML"),
    ("rules: []\nrules: []", 2, "'rules' stands twice"),
    ("- a", 1, "the file is no mapping"),
    ("address: x", 1, "the file has no list `rules`"),
    ("rules:\n  - watch: offline", 2, "begins with `alert: NAME`"),
    ("rules:\n  - {alert: A, watch: offline}\n  - {alert: A, watch: offline}", 3, "named 'A'"),
    ("rules:\n  - alert: A\n    watch: nothing", 3, "watch is one of group_lag_records"),
    ("rules:\n  - alert: A\n    watch: group_lag_records", 2, "has no threshold: `above`"),
    (f"rules:\n  - {RULE}, below: 1}}", 2, "has one of: above"),
    (f"rules:\n  - {RULE}, clear: 6}}", 2, "clear is beyond the threshold"),
    (f"rules:\n  - {RULE}, for: soon}}", 2, "for is a time such as 90s"),
    (f"rules:\n  - {RULE}, severity: bad}}", 2, "severity is one of info, warning, critical"),
    (f"rules:\n  - {RULE}, topics: [a]}}", 2, "group_lag_records has `groups`"),
    (f"rules:\n  - {RULE}, channels: [x]}}", 2, "there is no channel 'x'"),
    (f"rules:\n  - {RULE}, abve: 3}}", 2, "has no 'abve'"),
    ("rules:\n  - {alert: A, watch: group_lag_records, above: many}", 2, "above is a number"),
    ("rules:\n  - {alert: A, watch: disk_used, above: 85}", 2, "a share such as 85%"),
    ("rules:\n  - {alert: A, watch: offline, above: .nan}", 2, "above is a number"),
    ("rules:\n  - {alert: A, watch: group_empty, above: 1}", 2, "has no threshold"),
    ("rules:\n  - {alert: A, watch: disk_used, above: nan%}", 2, "a share such as 85%"),
    ("rules:\n  - {alert: A, watch: disk_used, above: 850%}", 2, "a share such as 85%"),
    ("rules:\n  - {alert: !!bool maybe}", 2, "a value does not fit its tag"),
    ("rules:\n  - {alert: !!int ''}", 2, "a value does not fit its tag"),
    (f"rules:\n  - {EXPIRES}}}", 2, "names no certificates"),
    (
        "rules:\n  - {alert: A, watch: certificate_expires, certificates: b, below: 1d}",
        2,
        "'b' is no address",
    ),
    ("rules: []\naddress: ftp://x", 2, "address is a URL"),
    (
        WINDOW + "{name: m, from: '25:00', to: '1:00'}",
        3,
        "from is a time of the day",
    ),
    (
        WINDOW + "{name: m, from: '01:00', to: '02:00', timezone: X/Y}",
        3,
        "no time zone",
    ),
    (
        WINDOW + "{name: m, from: '01:00', to: '02:00', days: [tag]}",
        3,
        "no day such as",
    ),
    ("rules: []\nchannels:\n  - channel: c", 3, "it needs a `webhook`"),
    (CHANNEL + "webhook: ftp://x", 4, "not a URL of a webhook"),
    (
        CHANNEL + "webhook: 'http://a b'",
        4,
        "not a URL of a webhook",
    ),
    (CHANNEL + "webhook_file: none", 4, "cannot be read"),
    (CHANNEL + "shape: teams", 4, "shape is one of json, slack"),
    (CHANNEL + "shape: pagerduty", 3, "has a `key` or `key_file`"),
    (
        CHANNEL + 'webhook: http://a\n    headers: {X: "a\\nb"}',
        5,
        "not `Name: value`",
    ),
    (
        CHANNEL + "webhook: http://a\n    headers: {Host: b}",
        5,
        "set by the command",
    ),
    (
        CHANNEL + "webhook: http://a\n    body: {a: '{nothing}'}",
        5,
        "{nothing} is not known",
    ),
    (
        MAIL + '{server: "m:25", from: a@b.c, to: ["x@y.z\\nBcc: q@r.s"]}',
        4,
        "is no address such as",
    ),
    (
        MAIL + "{server: m, from: a@b.c, to: [x@y.z]}",
        4,
        "server is a name and a port",
    ),
    (
        MAIL + "{server: 'm:25', security: none, user: u, password: p, from: a@b.c, to: x@y.z}",
        4,
        "starttls or tls only",
    ),
]


@pytest.mark.parametrize(("text", "line", "sentence"), MISTAKES, ids=lambda one: str(one)[:40])
def test_a_mistake_is_said_with_its_line(text: str, line: int, sentence: str) -> None:
    _, problems = read(text)
    assert any(at == line and sentence in said for at, said in problems), problems


def test_the_command_checks_files(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    Path("good.yml").write_text(WHOLE)
    Path("bad.yml").write_text("rules:\n  - alert: A\n    watch: nothing\n  - watch: offline\n")
    assert main(["console", "check-rules", "good.yml"]) == 0
    assert capsys.readouterr().out == "good.yml: 2 rules, 4 channels, 1 maintenance window\n"
    assert main(["console", "check-rules", "good.yml", "bad.yml", "none.yml"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("bad.yml:3: the rule A: watch is one of ")
    assert said[1] == "bad.yml:4: an entry of `rules` begins with `alert: NAME`"
    assert said[2] == "none.yml:1: cannot be read: No such file or directory"
    assert main(["console", "check-rules"]) == 1
    assert "usage" in capsys.readouterr().err


# What conditions see


def group(**changes: object) -> GroupFigures:
    known = GroupFigures("Stable", 0, 0.0, 0.0, 0.0, True, "", False, 0.0)
    return known._replace(**changes)  # type: ignore[arg-type]


def broker(number: int, *, live: bool = True, usable: int = 20) -> BrokerRow:
    return BrokerRow(number, "", "", live, False, 0, 1, 0, 0, usable, 100, NOTHING)


LOOK = Snapshot(
    at_s=1_800_000_000.0,
    controller=None,
    brokers=[broker(1), broker(2, live=False)],
    health={"t": Health(3, 1, 2)},
    topics={
        "t": TopicFigures(5.0, 1.0, 10, 90.0, True),
        "new": TopicFigures(0.0, 0.0, 10, 90.0, False),
    },
    groups={
        "late": group(lag_records=7, lag_seconds=400.0, stuck_s=700.0, stuck_partition="t-1"),
        "young": group(lag_records=7, stuck_s=100.0, is_stuck_known=False, stuck_partition="t-1"),
        "old": group(lag_records=7, stuck_s=700.0, is_stuck_known=False, stuck_partition="t-1"),
        "gone": group(state="Empty", lag_records=3),
        "done": group(state="Empty"),
        "slow": group(is_falling_behind=True, growth_per_s=3.0),
    },
    disk_full_s={1: 3600.0},
    pipelines={
        "p/f": PipelineFigures("failed", "no leader", 5.0, 100.0, False),
        "p/g": PipelineFigures("done", "", None, 9999.0, True),
    },
    certificates={"b:9093": 1_800_086_400.0, "c:9093": "refused"},
)


@pytest.mark.parametrize(
    ("name", "patterns", "threshold", "values"),
    [
        ("group_lag_records", ("late", "do*"), 5, {"late": 7, "done": 0}),
        ("group_lag_seconds", ("late",), 5, {"late": 400}),
        ("group_stuck", ("*",), 600, {"late": 700, "young": None, "old": 700, "gone": 0, "done": 0, "slow": 0}),
        ("group_falling_behind", ("slow", "late"), 0.5, {"slow": 1, "late": 0}),
        ("group_empty", ("gone", "done", "late"), 0.5, {"gone": 1, "done": 0, "late": 0}),
        ("topic_no_data", ("*",), 100, {"t": 90, "new": None}),
        ("topic_rate", ("t",), 1, {"t": 5}),
        ("under_replicated", ("*",), 0, {"t": 1, "new": 0}),
        ("offline", ("t",), 0, {"t": 2}),
        ("broker_gone", ("1", "2", "3"), 0.5, {"1": 0, "2": 1, "3": 1}),
        ("broker_gone", ("*",), 0.5, {"1": 0, "2": 1}),
        ("no_controller", ("*",), 0.5, {"cluster": 1}),
        ("disk_used", ("*",), 0.85, {"1": 0.8}),
        ("disk_full_in", ("*",), 86400, {"1": 3600}),
        ("pipeline_failing", ("*",), 0.5, {"p/f": 1, "p/g": 0}),
        ("pipeline_lag_seconds", ("*",), 1, {"p/f": 5}),
        ("pipeline_silent", ("*",), 60, {"p/f": 100, "p/g": 0}),
        ("certificate_expires", ("b:9093", "c:9093", "d:9093"), 1, {"b:9093": 86400, "c:9093": None, "d:9093": None}),
        ("cluster_unreachable", ("*",), 0.5, {"cluster": 0}),
    ],
)  # fmt: skip
def test_a_condition_sees(name, patterns, threshold, values) -> None:
    seen = list(CONDITIONS[name].observe(LOOK, Target(patterns, threshold)))
    assert {one.subject: one.value for one in seen} == values
    assert all(one.sentence.endswith((".", "no leader")) for one in seen)


def test_every_condition_has_a_case_and_advice() -> None:
    assert all(one.advice.endswith(".") for one in CONDITIONS.values())


# What channels send

HOSTILE = 'g\r\nBcc: x@y.z <!channel> <http://e|x> "quote"'
FIRED = Alert(
    "1f", "firing", "Late", HOSTILE, "critical", f"Group {HOSTILE} is late.", "Look.",
    "https://c.example.org/group?id=g", 400.0, "2027-01-15T08:00:00.000+00:00", "2027-01-15T08:01:00.000+00:00",
)  # fmt: skip
RESOLVED = replace(FIRED, event="resolved")


def sent(channel: Channel, *alerts: Alert) -> list[object]:
    return [
        json.loads(body_of(channel, json.loads(json.dumps(document))))
        for _, document in messages_of(channel, alerts)
    ]


def test_names_of_the_cluster_are_only_values() -> None:
    [slack] = sent(Channel("c", "http://a", "slack"), FIRED)
    assert "<!channel>" not in str(slack)
    assert "&lt;!channel&gt;" in str(slack)
    assert "<https://c.example.org/group?id=g|Look>" in str(slack)
    own = Channel("c", "http://a", body={"text": "{alert}: {sentence}", "n": [1, "{value}"]})
    assert sent(own, FIRED) == [{"text": f"Late: Group {HOSTILE} is late.", "n": [1, "400"]}]
    mail = Mail("m", 25, "none", "k@example.org", ("o@example.org", "p@example.org"))
    [(key, document)] = messages_of(Channel("c", mail=mail), [FIRED])
    message = email_of(mail, document, key, 1_800_000_000)
    parsed = message_from_bytes(message.as_bytes())
    assert sorted(parsed.keys()) == sorted(
        ["Subject", "From", "To", "Date", "Message-ID", "Auto-Submitted", "Content-Type",
         "Content-Transfer-Encoding", "MIME-Version"]
    )  # fmt: skip
    assert parsed["To"] == "o@example.org, p@example.org"
    assert "\n" not in message["Subject"]


def test_pagerduty_opens_and_closes_the_same_incident() -> None:
    pager = Channel("p", "http://a", "pagerduty", key="K")
    opened, closed = (sent(pager, one)[0] for one in (FIRED, RESOLVED))
    assert isinstance(opened, dict)
    assert (opened["routing_key"], opened["dedup_key"]) == ("K", "1f")
    assert opened["event_action"] == "trigger"
    assert opened["payload"]["severity"] == "critical"
    assert closed == {"routing_key": "K", "event_action": "resolve", "dedup_key": "1f"}
    [(_, document)] = messages_of(pager, [FIRED])
    assert "routing_key" not in document  # it is added when it is sent: the file does not keep it


def test_a_long_list_is_cut_for_people() -> None:
    many = [replace(FIRED, incident=str(n), subject=f"g{n}") for n in range(30)]
    [slack] = sent(Channel("c", "http://a", "slack"), *many)
    assert isinstance(slack, dict)
    assert "30 of them" in slack["text"]
    assert "and 10 more" in slack["text"]
    [plain] = sent(Channel("c", "http://a"), *many)
    assert isinstance(plain, dict)
    assert (plain["count"], len(plain["alerts"])) == (30, 30)
