"""The two stop commands; that they find servers is held by the tests that stop servers."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kavka.cli.commands import server_stop, zookeeper_server_stop

COMMANDS = pytest.mark.parametrize(
    ("command", "name", "server"),
    [
        (server_stop, "server-stop", "kafka"),
        (zookeeper_server_stop, "zookeeper-server-stop", "zookeeper"),
    ],
)


@pytest.fixture
def finds_no_processes(monkeypatch):
    """Fail the test where servers are looked for."""
    monkeypatch.setattr("os.listdir", lambda path: pytest.fail("servers are looked for"))


@COMMANDS
def test_help_stops_nothing(command, name, server, finds_no_processes, capsys):
    assert command.main(["--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: kavka {name}")


def test_an_option_that_would_choose_a_registry_stops_nothing(finds_no_processes, capsys):
    assert zookeeper_server_stop.main(["--node-id=1"]) == 1
    sentence = "kavka zookeeper-server-stop: --node-id=1: there are no options"
    assert capsys.readouterr().err.startswith(sentence)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--broker-id", "one"], "--broker-id needs a number, not 'one'"),
        (["--node-id"], "--node-id needs a number, not ''"),
        (["--process-role=controller"], "--process-role 'controller': only broker is a role"),
        (["--every-one"], "unknown option --every-one"),
        (["2"], "2: to stop one broker say --broker-id 2"),
    ],
)
def test_wrong_options_stop_nothing(arguments, sentence, finds_no_processes, capsys):
    assert server_stop.main(arguments) == 1
    assert capsys.readouterr().err.startswith(f"kavka server-stop: {sentence}")


@contextmanager
def _idle(words: list[str], cwd: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that has the command line of a server and waits."""
    waiting = "import sys; print(); sys.stdout.flush(); sys.stdin.read()"
    command = [sys.executable, "-c", waiting, "/opt/bin/kavka", *words]
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=cwd)
    try:
        assert child.stdout is not None
        child.stdout.readline()  # a process has no command line before it is another program
        yield child
    finally:
        child.kill()
        child.communicate()


def test_one_broker_is_chosen_by_its_id(monkeypatch, capsys, tmp_path):
    (tmp_path / "two.properties").write_text("broker.id=2\n")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/meta.properties").write_text("version=0\nbroker.id=1003\n")
    started = (
        ["server-start", "--override", "broker.id=1"],
        ["server-start", "two.properties"],
        ["server-start", "--override", "log.dirs=logs"],
    )
    with ExitStack() as stack:
        children = [stack.enter_context(_idle(words, cwd=tmp_path)) for words in started]
        monkeypatch.setattr("os.listdir", lambda path: [str(child.pid) for child in children])
        assert server_stop.main(["--broker-id", "4"]) == 1
        sentence = "No kafka server with broker.id 4 to stop; brokers 1, 2, 1003 run\n"
        assert capsys.readouterr().err == sentence
        assert server_stop.main(["--node-id=2", "--process-role", "broker"]) == 0
        assert children[1].wait(60) == -15
        assert server_stop.main(["--broker-id", "1003"]) == 0
        assert children[2].wait(60) == -15
        assert children[0].poll() is None
        with _idle(["server-start", "--override", "broker.id=1"]) as twin:
            children.append(twin)  # of another cluster
            assert server_stop.main(["--broker-id", "4"]) == 1
        sentence = "No kafka server with broker.id 4 to stop; broker 1 runs\n"
        assert capsys.readouterr().err == sentence


@COMMANDS
def test_without_a_server_a_sentence_says_so(command, name, server, monkeypatch, capsys):
    monkeypatch.setattr("os.listdir", lambda path: ["1", "self", "999999999"])
    assert command.main(["server.properties"]) == 1
    assert capsys.readouterr().err == f"No {server} server to stop\n"


@COMMANDS
def test_the_servers_of_its_kind_are_signalled(command, name, server, monkeypatch):
    start = name.replace("stop", "start")
    with _idle([start]) as child, _idle(["topics"]) as other:
        children = [child, other]
        monkeypatch.setattr("os.listdir", lambda path: [str(child.pid) for child in children])
        assert command.main([]) == 0
        assert children[0].wait(60) == -15
        assert children[1].poll() is None
