"""The registry's shell, against a served registry of this process; tests/compat show that its output is ZooKeeper's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kavka.cli.main import main
from kavka.cli.zookeeper.shell_commands import sentence_about
from kavka.cli.zookeeper.shell_words import BadCommand, Syntax, parse_words, split_line
from kavka.registry.zookeeper_connection import ServerRefused
from support.served_registry import served_registry

Typed = Callable[..., tuple[int, str, str]]

OPENED = "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n"


@pytest.fixture
def served() -> Iterator[str]:
    """A registry in memory; gives its address."""
    with served_registry() as registry:
        yield f"127.0.0.1:{registry.port}"


@pytest.fixture
def typed(
    served: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Typed:
    """Type lines into the shell; return its code and what it wrote after the greeting."""

    def run(*lines: str, at: str = "") -> tuple[int, str, str]:
        path = tmp_path / "typed"
        path.write_text("".join(f"{line}\n" for line in lines))
        with path.open() as file, monkeypatch.context() as patch:
            patch.setattr("sys.stdin", file)
            code = main(["zookeeper-shell", served + at])
            for thread in threading.enumerate():
                if thread.name == "typed":  # it reads the file until its end
                    thread.join()
        out, err = capsys.readouterr()
        greeting = f"Connecting to {served}{at}\nWelcome to ZooKeeper!\nJLine support is disabled\n{OPENED}"
        assert out.startswith(greeting)
        return code, out.removeprefix(greeting), err

    return run


def test_nodes_are_made_read_changed_and_removed(typed: Typed) -> None:
    code, out, err = typed(
        "create /a first",
        "create /a/b",
        "create -s /a/n- 'two words'",
        "get /a",
        "get /a/b",
        "get /a/n-0000000001",
        "set /a second",
        "get /a",
        "ls /a",
        "ls -R /a",
        "getAllChildrenNumber /a",
        "delete /a/b",
        "ls /a",
        "deleteall /a",
        "ls /",
    )
    assert code == 0
    assert out.splitlines() == [
        *("first", "null", "two words", "second"),
        "[b, n-0000000001]",
        *("/a", "/a/b", "/a/n-0000000001"),
        "2",
        "[n-0000000001]",
        "[]",
    ]
    assert err == "Created /a\nCreated /a/b\nCreated /a/n-0000000001\n"


def test_a_tree_is_listed_branch_by_branch(typed: Typed) -> None:
    nodes = ("/a", "/a/c", "/a/b", "/a/c/y", "/a/b/x", "/a/b/x/1", "/a/b/w")
    _, out, _ = typed(*(f"create {node}" for node in nodes), "ls -R /a")
    assert out.split() == [
        "/a", "/a/b", "/a/c", "/a/b/w", "/a/b/x", "/a/b/x/1", "/a/c/y",
    ]  # fmt: skip


def test_access_lists_and_ephemeral_nodes_are_printed(typed: Typed) -> None:
    code, out, _ = typed(
        "create /a first",
        "create -e /a/z",
        "create -e /a/e",
        "create -e /b",
        "getAcl /a",
        "getEphemerals /a",
        "getEphemerals",
        "sync /a",
        "whoami",
    )
    assert code == 0
    assert out.splitlines() == [
        *("'world,'anyone", ": cdrwa"),
        *("[/a/e, /a/z]", "[/a/e, /a/z, /b]"),
        "Sync is OK",
        *("Auth scheme: User", "ip: 127.0.0.1"),
    ]
    printed = typed("getAcl -s /a")[1].splitlines()
    assert printed[2].startswith("cZxid = ")


def test_ephemeral_nodes_are_printed_inside_the_chroot(typed: Typed) -> None:
    typed("create /inner x")
    lines = ("create -e /e", "getEphemerals", "getEphemerals /e", "getEphemerals /f")
    assert typed(*lines, at="/inner")[1] == "[/e]\n[/e]\n[]\n"


def test_watches_are_removed(typed: Typed) -> None:
    watch = ("create /a x", "get -w /a", "ls -w /a")
    changes = ("create /a/b", "set /a y")
    _, out, _ = typed(*watch, "removewatches /a -c", *changes)
    assert [line for line in out.splitlines() if line.startswith("WatchedEvent")] == [
        "WatchedEvent state:SyncConnected type:ChildWatchRemoved path:/a",
        "WatchedEvent state:SyncConnected type:NodeDataChanged path:/a",
    ]
    _, out, _ = typed("deleteall /a", *watch, "removewatches -a -l /a", *changes)
    assert [line for line in out.splitlines() if line.startswith("WatchedEvent")] == [
        "WatchedEvent state:SyncConnected type:ChildWatchRemoved path:/a",
        "WatchedEvent state:SyncConnected type:DataWatchRemoved path:/a",
    ]
    code, _, err = typed("deleteall /a", *watch[:2], "removewatches -c /a")
    assert code == 1
    assert err.endswith("KeeperErrorCode = No such watcher for /a\n")


def test_a_tree_is_watched_while_it_is_listed(typed: Typed) -> None:
    _, out, _ = typed("create /a x", "create /a/b y", "ls -R -w /a", "create /a/b/c")
    assert "WatchedEvent state:SyncConnected type:NodeChildrenChanged path:/a/b\n" in out


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (-102, "Insufficient permission : /a"),
        (-999, "KeeperErrorCode = -999 for /a"),
        (None, "KeeperErrorCode = ConnectionLoss for /a"),
    ],
)
def test_what_an_ensemble_refuses_is_not_called_a_lost_connection(
    code: int | None, sentence: str
) -> None:
    error = ConnectionError("no answer")
    error.__cause__ = None if code is None else ServerRefused(code)
    assert sentence_about(error).format("/a") == sentence


def test_the_stat_of_a_node_is_printed(typed: Typed) -> None:
    _, out, _ = typed("create /a first", "set -s /a more", "stat /a")
    printed = [line.partition(" = ")[0] for line in out.splitlines()]
    assert printed[:11] == [
        *("cZxid", "ctime", "mZxid", "mtime", "pZxid", "cversion", "dataVersion", "aclVersion"),
        *("ephemeralOwner", "dataLength", "numChildren"),
    ]
    assert printed[:11] == printed[11:]
    assert "dataVersion = 1\n" in out
    assert "dataLength = 4\n" in out


def test_ephemeral_nodes_go_with_the_shell(typed: Typed) -> None:
    _, out, _ = typed("create -e /gone x", "stat /gone")
    assert "ephemeralOwner = 0x0\n" not in out
    assert typed("ls /")[1] == "[]\n"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("get /none", "Node does not exist: /none"),
        ("ls /none", "Node does not exist: /none"),
        ("stat /none", "Node does not exist: /none"),
        ("set /none x", "Node does not exist: /none"),
        ("delete /none", "Node does not exist: /none"),
        ("deleteall /none", "Node does not exist: /none"),
        ("create /a x", "Node already exists: /a"),
        ("create /none/b x", "Node does not exist: /none/b"),
        ("delete /a", "Node not empty: /a"),
        ("delete -v 7 /a/b", "version No is not valid : /a/b"),
        ("set -v 7 /a x", "version No is not valid : /a"),
        ("create /a/e/c x", "Ephemerals cannot have children: /a/e/c"),
        ("ls a", "Path must start with / character"),
        ("ls /a/", "Path must not end with / character"),
        ("ls /a//b", 'Invalid path string "/a//b"'),
        ("ls", "ls [-s] [-w] [-R] path"),
        ("get -x /a", "org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: -x"),
        ("set -v", "org.apache.commons.cli.MissingArgumentException: Missing argument for option: v"),
        ("set -v x /a b", 'For input string: "x"'),
        ("delete -v 2147483648 /a", 'For input string: "2147483648"'),
        ("ls -R /none", "Node does not exist: /none"),
        ("getAcl /none", "Node does not exist: /none"),
        ("removewatches /a", "KeeperErrorCode = No such watcher for /a"),
        ("setAcl /a world:anyone", "world:anyone does not have the form scheme:id:perm"),
        ("setAcl /a world:anyone:rx", "Unknown perm type: x"),
        ("setAcl /a world:everybody:r", "Acl is not valid : /a"),
        ("setAcl /a auth::r", "Acl is not valid : /a"),
        ("setAcl /none world:anyone:r", "Node does not exist: /none"),
        ("setAcl -v 3 /a world:anyone:r", "version No is not valid : /a"),
        ("addauth card mine", "ZooKeeper refused the identity of the scheme card"),
        ("unheard of", "Command not found: Command not found unheard"),
    ],
)  # fmt: skip
def test_a_command_that_fails_says_why_and_is_the_exit_code(
    typed: Typed, line: str, sentence: str
) -> None:
    code, out, err = typed("create /a x", "create /a/b y", "create -e /a/e z", line)
    assert code == 1
    assert out == ""
    assert err.splitlines()[-1] == sentence


def test_the_last_command_is_the_exit_code(typed: Typed) -> None:
    assert typed("get /none", "ls /")[0] == 0
    code, out, _ = typed("get /none", "quit", "ls /")
    assert code == 1
    assert out == "\nWATCHER::\n\nWatchedEvent state:Closed type:None path:null\n"


def test_watches_print_once_unless_they_are_disabled(typed: Typed) -> None:
    lines = ("create /a x", "get -w /a", "set /a y", "set /a z", "ls -w /a", "create /a/b")
    _, out, _ = typed(*lines)
    assert [line for line in out.splitlines() if line.startswith("WatchedEvent")] == [
        "WatchedEvent state:SyncConnected type:NodeDataChanged path:/a",
        "WatchedEvent state:SyncConnected type:NodeChildrenChanged path:/a",
    ]
    _, out, _ = typed("deleteall /a", "printwatches off", "printwatches", *lines)
    assert "WATCHER" not in out
    assert out.startswith("printwatches is off\n")


def test_a_chroot_is_the_root_of_what_is_seen(typed: Typed) -> None:
    typed("create /inner x")
    typed("create /a y", at="/inner")
    assert typed("ls -R /inner")[1] == "/inner\n/inner/a\n"
    assert typed("ls /", "history", at="/inner")[1] == "[a]\n0 - ls /\n1 - history\n"


def test_one_command_may_stand_in_the_call(served: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zookeeper-shell", served, "ls", "/"]) == 0
    assert capsys.readouterr().out == f"Connecting to {served}\n{OPENED}[]\n"
    assert main(["zookeeper-shell", "-server", served, "get", "/none"]) == 1
    assert capsys.readouterr().err == "Node does not exist: /none\n"


def test_bytes_of_the_call_that_are_no_text_are_stored_as_they_are(
    served: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["zookeeper-shell", served, "create", "/a", "\udcff"]) == 0
    assert main(["zookeeper-shell", served, "get", "-s", "/a"]) == 0
    assert "dataLength = 1\n" in capsys.readouterr().out
    assert main(["zookeeper-shell", served, "create", "/\udcff"]) == 1


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "USAGE: kavka zookeeper-shell"),
        (["--help"], "delete [-v version] path"),
        (["a:b"], "zookeeper.connect must be host:port"),
        (["a:1", "-zk-tls-config-file"], "the name of the file is missing"),
        (["a:1", "-zk-tls-config-file", "none", "ls", "/"], "No such file"),
    ],
)
def test_calls_that_make_no_sense_are_refused(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["zookeeper-shell", *argv]) == 1
    assert sentence in capsys.readouterr().err


def test_words_are_taken_apart() -> None:
    assert split_line("""  set /a "two  words" 'x"y' z'w """) == [
        "set",
        "/a",
        "two  words",
        'x"y',
        "z'w",
    ]
    syntax = Syntax("usage", 1, 1, "sw", "v")
    words = parse_words(syntax, ["-sw", "-v", "-1", "/a"])
    assert (words.has("s"), words.has("w"), words.version(), words.rest) == (True, True, -1, ["/a"])
    with pytest.raises(BadCommand, match="usage"):
        parse_words(syntax, ["/a", "/b"])


def test_access_lists_are_set_shown_and_obeyed(typed: Typed) -> None:
    code, out, err = typed(
        "create /a x",
        "create /a/b y digest:me:HASH:rw,world:anyone:r",
        "getAcl /a/b",
        "set /a/b z",
        "addauth digest me:secret",
        "setAcl -s /a auth::cdrwa",
        "getAcl /a",
        "setAcl -R /a auth::r",
        "getAcl /a/b",
        "whoami",
        "create /a/c",
    )
    assert code == 1
    assert "'digest,'me:x\n: rw\n'world,'anyone\n: r\n" in out
    assert "aclVersion = 1\n" in out
    assert "'digest,'me:" in out
    assert "ip: 127.0.0.1\ndigest: me\n" in out
    assert "Insufficient permission : /a/b" in err
    assert "Insufficient permission : /a/c" in err
