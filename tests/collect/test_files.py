"""`kavka collect files` as a process beside a real broker; what it sends is read by librdkafka and kcat."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kavka_compat.brokers import Broker
from support.collectors import collect_once, collector, messages, reader

pytestmark = pytest.mark.compat

_LOG = Path("shared/data/apache_access.log")
REAL = next((p / _LOG for p in Path(__file__).parents if (p / _LOG).is_file()), _LOG)
COMMON = ("--poll-interval", "0.05", "--report-interval", "0.2")


def lines(name: str, count: int, start: int = 0) -> str:
    return "".join(
        f"{name} line {number:06} of the test\n" for number in range(start, start + count)
    )


def append(path: Path, text: str) -> list[str]:
    with path.open("a") as file:
        file.write(text)
    return text.splitlines()


@pytest.mark.skipif(not REAL.is_file(), reason="the log of a real site is not on this machine")
def test_a_real_access_log_is_parsed_as_awk_does(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    at, pattern = kavka_broker.bootstrap, str(REAL)
    code, said = collect_once(
        tmp_path / "out", "files", at, fresh_name, pattern, "--parser", "combined"
    )
    assert code == 0, said
    kcat = [
        "kcat",
        "-b",
        at,
        "-t",
        fresh_name,
        "-C",
        "-e",
        "-q",
        "-X",
        "isolation.level=read_committed",
    ]
    printed = subprocess.run(kcat, capture_output=True, check=True, timeout=60).stdout
    records = [json.loads(line) for line in printed.splitlines()]
    assert [r["message"] for r in records] == REAL.read_text().splitlines()
    awk = ["awk", "-F", '"', '{split($3, s, " "); print s[1], s[2], $2}', pattern]
    found = subprocess.run(awk, capture_output=True, check=True, text=True, timeout=60).stdout
    ours = [r for r in records if "fields" in r]
    shown = Counter(
        f"{f['status']} {f['bytes'] or '-'} {f['request']}" for f in (r["fields"] for r in ours)
    )
    failed = Counter(r["message"] for r in records if "error" in r)
    assert sum(failed.values()) == len(records) - len(ours) <= 2  # a line of the log has no end
    theirs = Counter(found.splitlines())
    assert sum((theirs - shown).values()) == sum(failed.values())
    assert shown - theirs == Counter()


def test_a_running_collector_follows_each_kind_of_rotation(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    app, web, old = logs / "app.log", logs / "web.log", logs / "old.log"
    sent = append(app, lines("app", 100)) + append(web, lines("web", 100))
    at = kavka_broker.bootstrap
    arguments = (logs / "*", *COMMON, "--label", "site=test", "--host", "h1", "--close-after", "1")
    with collector(tmp_path / "out", "files", at, fresh_name, *arguments) as process:
        process.wait_for("collected records=200", 30)
        with reader(at, fresh_name) as topic:
            app.rename(logs / "app.log.1")  # renamed, and still written to
            sent += append(logs / "app.log.1", lines("app", 10, 100)) + append(app, lines("new", 5))
            topic.read_until(len(sent))
            (logs / "web.log.1").write_bytes(web.read_bytes())  # copied and truncated
            web.write_bytes(b"")
            sent += append(web, lines("web", 3, 500))
            topic.read_until(len(sent))
            (logs / "app.log.1.gz").write_bytes(gzip.compress((logs / "app.log.1").read_bytes()))
            (logs / "app.log.1").unlink()  # compressed
            sent += append(old, lines("old", 40))
            (logs / "never.gz").write_bytes(gzip.compress(lines("never", 60).encode()))
            sent += lines("never", 60).splitlines()
            topic.read_until(len(sent))
            with old.open("a") as file:
                old.unlink()  # deleted, while it is written to
                file.write(lines("late", 7) + "without its end")
                sent += [*lines("late", 7).splitlines(), "without its end"]
            topic.read_until(len(sent))
            assert process.stop() == 0, process.text()
            assert Counter(messages(topic.read_rest())) == Counter(sent)
            assert set(topic.keys) == {
                f"h1:{logs}/{name}".encode()
                for name in ("app.log", "web.log", "old.log", "never.gz")
            }
            assert all(record["labels"] == {"site": "test"} for record in topic.records)
            of_app = [r["message"] for r in topic.records if r["source"] == str(app)]
            assert of_app == (lines("app", 110) + lines("new", 5)).splitlines()


def test_a_restart_goes_on_behind_the_last_commit_and_lines_wait_for_their_end(
    any_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    log, at = tmp_path / "a.log", any_broker.bootstrap
    sent = append(log, lines("a", 10))
    append(log, "begun")
    arguments = (tmp_path / "a.log*", "--name", fresh_name, "--state", tmp_path / "state")
    assert collect_once(tmp_path / "out", "files", at, fresh_name, *arguments)[0] == 0
    with reader(at, fresh_name) as topic:
        assert messages(topic.read_rest()) == sent
        append(log, " and ended\n")
        sent += ["begun and ended"]
        (tmp_path / "a.log.2.gz").write_bytes(gzip.compress(log.read_bytes()))
        log.unlink()
        sent += append(tmp_path / "a.log.1", lines("b", 4))
        for _ in range(2):
            assert collect_once(tmp_path / "out", "files", at, fresh_name, *arguments)[0] == 0
        assert Counter(messages(topic.read_rest())) == Counter(sent)


def test_the_later_collector_of_a_name_fences_the_earlier_one(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    log, at = tmp_path / "a.log", kavka_broker.bootstrap
    sent = append(log, lines("a", 10))
    arguments = (log, *COMMON, "--name", fresh_name)
    with collector(tmp_path / "out1", "files", at, fresh_name, *arguments) as first:
        first.wait_for("collected records=10", 30)
        with collector(tmp_path / "out2", "files", at, fresh_name, *arguments) as second:
            second.wait_for("collected ", 30)
            sent += append(log, lines("b", 10))
            assert first._process.wait(30) == 3, first.text()
            assert "was started after this one" in first.text()
            second.wait_for("collected records=10", 30)
            assert second.stop() == 0
    with reader(at, fresh_name) as topic:
        assert messages(topic.read_rest()) == sent


def test_events_of_several_lines_and_those_that_cannot_be_parsed(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    log, at = tmp_path / "a.log", kavka_broker.bootstrap
    log.write_text("2026-01-01 one\n  at x\n  at y\n2026-01-02 two\n2026-xx no time\n")
    dead = f"{fresh_name}-dead"
    arguments = (
        log, "--event-start", r"^\d{4}-", "--parser", "regex", "--regex", r"(?s)(?P<day>\S+) (?P<text>.*)",
        "--time-field", "day", "--time-zone", "UTC", "--dead-letter-topic", dead,
    )  # fmt: skip
    code, said = collect_once(tmp_path / "out", "files", at, fresh_name, *arguments)
    assert code == 0, said
    with reader(at, fresh_name) as topic, reader(at, dead) as letters:
        good = topic.read_rest()
        assert [(r["time"], r["fields"]["text"]) for r in good] == [
            ("2026-01-01T00:00:00.000Z", "one\n  at x\n  at y"),
            ("2026-01-02T00:00:00.000Z", "two"),
        ]
        (bad,) = letters.read_rest()
        assert bad["message"] == "2026-xx no time"
        assert "no time in ISO 8601" in bad["error"]


def test_what_was_there_before_the_first_start_may_be_left_out(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    log, at = tmp_path / "a.log", kavka_broker.bootstrap
    append(log, lines("old", 10))
    arguments = (tmp_path / "*.log", "--start-at", "end", "--name", fresh_name)
    assert collect_once(tmp_path / "out", "files", at, fresh_name, *arguments)[0] == 0
    sent = append(log, lines("new", 3)) + append(tmp_path / "b.log", lines("other", 3))
    assert collect_once(tmp_path / "out", "files", at, fresh_name, *arguments)[0] == 0
    with reader(at, fresh_name) as topic:
        assert Counter(messages(topic.read_rest())) == Counter(sent)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("files", "x", "--parser", "regex"), "--parser regex and --regex are given together"),
        (("files", "x", "--label", "a"), "--label 'a' is not KEY=VALUE"),
        (("files", "x", "--time-zone", "Moon"), "'Moon' is no time zone"),
        (("files", "x", "--dead-letter-topic", "d"), "need a --parser"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    kind, *rest = arguments
    code, printed = collect_once(tmp_path / "out", kind, "127.0.0.1:9", "t", *rest)
    assert code == 1
    assert said in printed
    assert "Traceback" not in printed


def test_a_topic_of_positions_that_forgets_is_refused(
    kavka_broker: Broker, fresh_name: str, tmp_path: Path
) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    at = kavka_broker.bootstrap
    admin = AdminClient({"bootstrap.servers": at})
    admin.create_topics([NewTopic(f"{fresh_name}-p", 1, 1)])[f"{fresh_name}-p"].result(30)
    arguments = (tmp_path / "x", "--positions-topic", f"{fresh_name}-p")
    code, printed = collect_once(tmp_path / "out", "files", at, fresh_name, *arguments)
    assert code == 1
    assert "cleanup.policy=delete, which would remove positions" in printed
