"""Our broker as a process: how it starts, refuses to start, and stops."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kavka_compat.clients import Librdkafka, Message
from kavka_compat.ours import kavka_command, run_kavka, start_kavka
from kavka_compat.processes import Running, free_port

pytestmark = pytest.mark.compat


def _refused(*arguments: str) -> str:
    """Start a broker that must not start, and return what it says."""
    done = subprocess.run(
        kavka_command("server-start", *arguments),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode != 0
    assert "ready" not in done.stdout
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def _overrides(directory: Path, *more: str) -> list[str]:
    settings = [f"listeners=PLAINTEXT://127.0.0.1:{free_port()}", f"log.dirs={directory}", *more]
    return [part for setting in settings for part in ("--override", setting)]


def test_second_broker_on_a_directory_is_refused_with_the_reason(tmp_path: Path) -> None:
    with run_kavka(tmp_path) as broker:
        said = _refused(*_overrides(broker.log_directory))
        assert str(broker.log_directory) in said
        assert "lock" in said.lower()
        assert broker.process.alive()


def test_taken_port_is_refused_with_the_reason(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = _refused(
            *("--override", f"listeners=PLAINTEXT://127.0.0.1:{port}"),
            *("--override", f"log.dirs={tmp_path / 'logs'}"),
        )
    assert str(port) in said


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("num.partitions=many", "num.partitions"),
        ("log.segment.bytes=1", "log.segment.bytes"),
        ("compression.type=brotli", "compression.type"),
        ("log.cleanup.policy=keep", "log.cleanup.policy"),
        ("listeners=nonsense", "listeners"),
    ],
)
def test_invalid_setting_stops_the_start_with_the_reason(
    setting: str, reason: str, tmp_path: Path
) -> None:
    assert reason in _refused(*_overrides(tmp_path / "logs", setting))


def test_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    assert "nowhere.properties" in _refused(str(tmp_path / "nowhere.properties"))


def test_unknown_setting_warns_and_serves(tmp_path: Path) -> None:
    with run_kavka(tmp_path, {"no.such.setting": "1"}) as broker:
        assert "no.such.setting" in broker.process.text()


def test_properties_file_is_read_and_overridden(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "# a comment\nnum.partitions=7\n"
        f"listeners=PLAINTEXT://127.0.0.1:1\nlog.dirs={tmp_path / 'logs'}\n"
    )
    override = ("--override", "listeners=PLAINTEXT://127.0.0.1:0")
    process = Running(kavka_command("server-start", str(file), *override), tmp_path / "out")
    try:
        port = process.wait_for("ready: ", 30).rsplit(":", 1)[1].split()[0]
        Librdkafka().produce(f"127.0.0.1:{port}", "auto", [Message(b"v")], "none", True)
        topics = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics("auto", 10)
        assert len(topics.topics["auto"].partitions) == 7
    finally:
        process.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_cleanly_and_nothing_is_lost(number: signal.Signals, tmp_path: Path) -> None:
    broker = start_kavka(tmp_path)
    messages = [Message(b"%d" % n, b"key") for n in range(1000)]
    Librdkafka().produce(broker.bootstrap, "t", messages, "zstd", idempotent=True)
    broker.process.signal(number)
    assert broker.process.stop() == 0
    assert (broker.log_directory / ".kafka_cleanshutdown").exists()
    with run_kavka(tmp_path) as again:
        assert not (again.log_directory / ".kafka_cleanshutdown").exists()
        found = Librdkafka().consume(again.bootstrap, "t", 1000)
        assert [f.message for f in found] == messages


def test_broker_that_is_stopped_as_soon_as_it_is_ready_stops_cleanly(tmp_path: Path) -> None:
    command = kavka_command("server-start", *_overrides(tmp_path / "logs"))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert b"ready" in process.stdout.readline()
        process.terminate()
        assert process.wait(30) == 0
    assert (tmp_path / "logs" / ".kafka_cleanshutdown").exists()


def test_broker_stops_in_time_while_consumers_wait(tmp_path: Path) -> None:
    broker = start_kavka(tmp_path, {"group.min.session.timeout.ms": "1000"})
    Librdkafka().produce(broker.bootstrap, "t", [Message(b"v")], "none", True)
    command = [sys.executable, "-m", "kavka_compat.member", "confluent-kafka", broker.bootstrap]
    sources = {"PYTHONPATH": str(Path(__file__).parent)}
    member = Running([*command, "t", "g"], tmp_path / "member.out", sources)
    try:
        member.wait_for('"read"', 30)
        assert broker.process.stop(seconds=60) == 0
    finally:
        member.kill()
