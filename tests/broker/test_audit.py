"""The audit: denied and administrative actions and authentications, one line each, and no secrets."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.broker.configs.broker_config import BrokerConfig
from kavka.broker.requests.session import AclOperation, AclResourceType, Session
from kavka.broker.security.audit import Audit
from kavka.broker.security.denied_log import DeniedLog
from kavka.net.bounded_log import LINES
from kavka.net.clock import SystemClock
from kavka.settings.declaration import InvalidSetting
from kavka.wire.apis import ApiKey
from kavka.wire.messages.create_topics import CreateTopicsRequest
from kavka.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from kavka.wire.messages.metadata import MetadataRequest
from support.access import SETTINGS, connected_as, create_acls
from support.one_broker import Run, Served
from support.storage_bench import BadDisk


def audited(run: Run, tmp_path: Path, story: Any, **settings: str) -> list[dict[str, Any]]:
    path = tmp_path / "audit.json"
    run(story, kavka__audit__log=str(path), **{**SETTINGS, **settings})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_denied_and_administrative_actions_are_recorded(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        assert (await served.create("t")).error_code == 0
        await create_acls(served, "User:bob Read Topic:t")
        alice = await connected_as(served, "alice")
        await alice.fetch("t")
        await alice.send(MetadataRequest(topics=None), 9)  # which names no topic: nothing is denied
        request = CreateTopicsRequest(topics=[served.new_topic("mine")], timeout_ms=1000)
        await alice.send(request, 5)

    created, acls, fetch, mine, refused = audited(run, tmp_path, story)
    assert created["event"] == "administrative"
    assert created["principal"] == "User:ANONYMOUS"
    assert (created["api"], created["subjects"]) == ("CreateTopics", ["t"])
    assert (created["result"], created["errors"]) == ("done", {})
    assert acls["subjects"] == ["ALLOW User:bob from * READ on TOPIC:LITERAL:t"]
    assert fetch["event"] == "denied"
    assert fetch["principal"] == "User:alice"
    assert (fetch["host"], fetch["listener"]) == ("127.0.0.1", "PLAINTEXT")
    assert (fetch["client_id"], fetch["api"], fetch["version"]) == ("other", "Fetch", 11)
    assert (fetch["operation"], fetch["resource_type"], fetch["resource"]) == ("READ", "TOPIC", "t")
    assert fetch["time"].endswith("Z")
    assert (mine["event"], mine["resource"]) == ("denied", "mine")
    assert mine["correlation_id"] == refused["correlation_id"]
    assert refused["errors"] == {"TOPIC_AUTHORIZATION_FAILED": 1}
    assert refused["result"] == "failed"


def test_a_file_that_cannot_be_written_ends_the_start_with_its_setting(
    run: Run, tmp_path: Path
) -> None:
    async def nothing(served: Served) -> None:
        raise AssertionError("it has started")

    with pytest.raises(InvalidSetting, match=r"kavka\.audit\.log: cannot be written: No such file"):
        run(nothing, kavka__audit__log=str(tmp_path / "nowhere" / "audit.json"))


def test_values_of_settings_are_not_recorded(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        change = IncrementalAlterConfigsRequestConfig(
            name="ssl.keystore.password", value="very-secret"
        )
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=4, resource_name="", configs=[change]
        )
        await served.send(IncrementalAlterConfigsRequest(resources=[resource]))

    (line,) = audited(run, tmp_path, story)
    assert line["subjects"] == ["broker <default>: ssl.keystore.password"]
    assert "very-secret" not in json.dumps(line)


def test_authentications_are_recorded(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        audit = served.broker.security.access_control.audit
        session = Session("SASL", "SASL_PLAINTEXT", "10.0.0.1")
        audit.authentication_failed(session, "SCRAM-SHA-256", "wrong password")
        audit.authentication_ended(session, "SCRAM-SHA-256", None)

    failed, done = audited(run, tmp_path, story)
    assert (failed["event"], failed["reason"]) == ("authentication_failed", "wrong password")
    assert (failed["reason"], failed["host"]) == ("wrong password", "10.0.0.1")
    assert (done["event"], done["mechanism"]) == ("authenticated", "SCRAM-SHA-256")


def test_lines_are_bounded_and_the_rest_is_counted(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        alice = await connected_as(served, "alice")
        for _ in range(400):
            await alice.fetch("t" * 249)

    lines = audited(run, tmp_path, story, kavka__audit__max__per__second="5")
    denied = [line for line in lines if line["event"] == "denied"]
    dropped = sum(line["count"] for line in lines if line["event"] == "dropped")
    assert len(denied) + dropped == 400
    assert dropped > 0


def test_a_renamed_file_is_followed_by_another(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        audit = served.broker.security.access_control.audit
        session = Session("SASL", "SASL_PLAINTEXT", "10.0.0.1")
        audit.authenticated(session, "PLAIN")
        await audit._flush()
        (tmp_path / "audit.json").rename(tmp_path / "audit.json.1")
        audit.authenticated(session, "PLAIN")

    assert len(audited(run, tmp_path, story)) == 1
    assert len((tmp_path / "audit.json.1").read_text().splitlines()) == 1


def test_lines_wait_for_a_disk_that_is_full_and_are_written_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kavka.broker.security.audit._MAX_WAITING", 3)
    caplog.set_level("INFO")
    path = tmp_path / "audit.json"
    disk = BadDisk()
    disk.suffixes = (".json",)
    config = BrokerConfig({"kavka.audit.log": str(path)})
    environment = SimpleNamespace(disk=disk)
    context: Any = SimpleNamespace(
        environment=environment, config=config, clock=SystemClock(), broker_id=1
    )

    async def story() -> None:
        audit = Audit(context)
        await audit.start()
        session = Session("SASL", "SASL_PLAINTEXT", "10.0.0.1")
        for number in range(5):
            audit.authenticated(session, f"M{number}")
            disk.write_error = OSError(28, "No space left on device")
            await audit._flush()
        assert path.read_text() == ""
        disk.write_error = None
        await audit._flush()
        audit.authenticated(session, "M5")
        await audit.stop()
        assert (audit.written, audit.dropped) == (5, 2)
        disk.close()

    asyncio.run(story())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.get("mechanism") or line["count"] for line in lines] == ["M0", "M1", "M2", "M5", 2]
    assert [line for line in caplog.messages if line.startswith("audit ")] == [
        f"audit not written path={path} reason=[Errno 28] No space left on device",
        f"audit written again path={path} lines=3",
    ]


@pytest.mark.parametrize("is_audited", [False, True])
def test_denials_are_in_the_log_too(
    run: Run, caplog: pytest.LogCaptureFixture, tmp_path: Path, is_audited: bool
) -> None:
    audit = {"kavka__audit__log": str(tmp_path / "audit.json")} if is_audited else {}

    async def story(served: Served) -> None:
        alice = await connected_as(served, "alice")
        with caplog.at_level("INFO", "kavka.broker.security.denied_log"):
            await alice.fetch("t")

    run(story, **SETTINGS, **audit)
    if is_audited:
        assert '"denied"' in (tmp_path / "audit.json").read_text()
    said = [record.getMessage() for record in caplog.records if "denied" in record.getMessage()]
    assert said == [
        "denied principal=User:alice host=127.0.0.1 operation=Read resource=Topic:'t' api=Fetch"
    ]


def test_denials_of_one_address_are_a_few_lines_a_minute(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(served: Any) -> None:
        denials = DeniedLog()
        context: Any = SimpleNamespace(api=SimpleNamespace(key=ApiKey.FETCH))
        for host in ("10.0.0.1", "10.0.0.2"):
            context.session = Session("PLAINTEXT", "PLAINTEXT", host)
            for _ in range(20):
                denials.denied(context, AclOperation.READ, AclResourceType.TOPIC, "t")

    with caplog.at_level("INFO", "kavka.broker.security.denied_log"):
        run(story)
    said = [line for line in caplog.messages if line.startswith("denied ")]
    assert [sum(f"host={host} " in line for line in said) for host in ("10.0.0.1", "10.0.0.2")] == [
        LINES,
        LINES,
    ]


def test_what_anybody_can_cause_does_not_hide_what_was_done(run: Run, tmp_path: Path) -> None:
    async def story(served: Served) -> None:
        audit = served.broker.security.access_control.audit
        session = Session("SASL", "SASL_PLAINTEXT", "10.0.0.1")
        for _ in range(100):
            audit.authentication_failed(session, "PLAIN", "wrong password")
        audit.authenticated(session, "PLAIN")

    lines = audited(run, tmp_path, story, kavka__audit__max__per__second="5")
    assert [line["event"] for line in lines].count("authenticated") == 1
