"""The two stop commands; that they find servers is held by the tests that stop servers."""

import subprocess
import sys

import pytest

from kavka.cli.commands import server_stop, zookeeper_server_stop

COMMANDS = pytest.mark.parametrize(
    ("command", "name", "server"),
    [
        (server_stop, "server-stop", "kafka"),
        (zookeeper_server_stop, "zookeeper-server-stop", "zookeeper"),
    ],
)


@COMMANDS
def test_help_stops_nothing(command, name, server, capsys):
    assert command.main(["--help"]) == 0
    assert capsys.readouterr().out == f"usage: kavka {name}\n"


@COMMANDS
def test_an_option_that_would_choose_a_server_stops_nothing(
    command, name, server, monkeypatch, capsys
):
    monkeypatch.setattr("os.listdir", lambda path: pytest.fail("servers are looked for"))
    assert command.main(["--node-id=1"]) == 1
    assert capsys.readouterr().err.startswith(f"kavka {name}: --node-id=1: there are no options")


@COMMANDS
def test_without_a_server_a_sentence_says_so(command, name, server, monkeypatch, capsys):
    monkeypatch.setattr("os.listdir", lambda path: ["1", "self", "999999999"])
    assert command.main(["server.properties"]) == 1
    assert capsys.readouterr().err == f"No {server} server to stop\n"


@COMMANDS
def test_the_servers_of_its_kind_are_signalled(command, name, server, monkeypatch):
    start = name.replace("stop", "start")
    waiting = "import sys; print(); sys.stdout.flush(); sys.stdin.read()"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", waiting, "/opt/bin/kavka", other],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for other in (start, "topics")
    ]
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()  # a process has no command line before it is another program
        monkeypatch.setattr("os.listdir", lambda path: [str(child.pid) for child in children])
        assert command.main([]) == 0
        assert children[0].wait(60) == -15
        assert children[1].poll() is None
    finally:
        for child in children:
            child.kill()
            child.communicate()
