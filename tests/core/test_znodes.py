"""The znode tree behaves as ZooKeeper's, and its transactions give it again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.core.znodes import (
    Check,
    Create,
    Created,
    Delete,
    Event,
    EventType,
    Operation,
    Refusal,
    SessionBegun,
    SetData,
    Stat,
    Txn,
    ZnodeError,
    ZnodeTree,
    is_valid_path,
)

SESSION = 7


def do(
    tree: ZnodeTree, *operations: Operation, session: int = SESSION, now_ms: int = 100
) -> list[Event]:
    txn = tree.prepare(operations, session, now_ms)
    assert isinstance(txn, Txn), txn
    return tree.apply(txn)


def refused(tree: ZnodeTree, *operations: Operation) -> Refusal:
    outcome = tree.prepare(operations, SESSION, 100)
    assert isinstance(outcome, Refusal), outcome
    return outcome


def test_new_node_has_the_facts_of_its_transaction() -> None:
    tree = ZnodeTree()
    do(tree, Create("/a", b"data"), now_ms=50)
    do(tree, SetData("/a", b"more data"), now_ms=60)
    do(tree, Create("/a/b"))
    stat = tree.stat("/a")
    assert stat is not None
    assert (stat.czxid, stat.mzxid, stat.pzxid) == (1, 2, 3)
    assert (stat.ctime_ms, stat.mtime_ms) == (50, 60)
    assert (stat.version, stat.cversion, stat.num_children, stat.data_length) == (1, 1, 1, 9)
    assert tree.data("/a") == b"more data"
    assert tree.children("/a") == ["b"]
    assert tree.children("/") == ["a"]


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (Create("/a"), ZnodeError.NODE_EXISTS),
        (Create("/missing/b"), ZnodeError.NO_NODE),
        (Create("/e/b"), ZnodeError.NO_CHILDREN_FOR_EPHEMERALS),
        (Create("a"), ZnodeError.BAD_ARGUMENTS),
        (Create("/a/"), ZnodeError.BAD_ARGUMENTS),
        (SetData("/missing", b""), ZnodeError.NO_NODE),
        (SetData("/a", b"", 3), ZnodeError.BAD_VERSION),
        (Delete("/missing"), ZnodeError.NO_NODE),
        (Delete("/a", 3), ZnodeError.BAD_VERSION),
        (Delete("/p"), ZnodeError.NOT_EMPTY),
        (Delete("/"), ZnodeError.BAD_ARGUMENTS),
        (Check("/a", 1), ZnodeError.BAD_VERSION),
        (Check("/missing", 0), ZnodeError.NO_NODE),
    ],
)
def test_what_zookeeper_refuses_is_refused(operation: Operation, error: ZnodeError) -> None:
    tree = ZnodeTree()
    do(tree, Create("/a"), Create("/p"), Create("/p/c"), Create("/e", ephemeral=True))
    assert refused(tree, operation).error is error


def test_multi_happens_as_a_whole_or_not_at_all() -> None:
    tree = ZnodeTree()
    do(tree, Create("/a"))
    refusal = refused(tree, SetData("/a", b"x", 0), Create("/b"), Check("/a", 0))
    assert refusal == Refusal(2, ZnodeError.BAD_VERSION, "/a")
    assert tree.data("/a") is None
    assert tree.stat("/b") is None


def test_operations_of_a_multi_see_each_other() -> None:
    tree = ZnodeTree()
    do(
        tree,
        Create("/a"),
        SetData("/a", b"1", 0),
        Check("/a", 1),
        Create("/a/b"),
        Delete("/a/b"),
        Delete("/a", 1),
    )
    assert tree.stat("/a") is None
    assert tree.zxid == 1


def test_null_data_is_not_empty_data() -> None:
    tree = ZnodeTree()
    do(tree, Create("/null"), Create("/empty", b""), Create("/set", b"x"), SetData("/set", None))
    assert [tree.data(path) for path in ("/null", "/empty", "/set")] == [None, b"", None]
    stat = tree.stat("/null")
    assert stat is not None
    assert stat.data_length == 0


def test_applying_gives_the_facts_right_after_each_change() -> None:
    tree = ZnodeTree()
    operations = [Create("/a"), SetData("/a", b"x"), SetData("/a", b"xyz"), Delete("/a")]
    txn = tree.prepare(operations, SESSION, 100)  # type: ignore[arg-type]
    assert isinstance(txn, Txn)
    stats: list[Stat | None] = []
    tree.apply(txn, stats)
    assert [stat and (stat.version, stat.data_length) for stat in stats] == [
        (0, 0),
        (1, 1),
        (2, 3),
        None,
    ]


def test_a_client_session_ends_with_its_ephemeral_nodes() -> None:
    tree = ZnodeTree()
    begun = SessionBegun(SESSION, b"password", 6000)
    tree.apply(tree.prepare_session(begun, 0))
    do(tree, Create("/e", ephemeral=True))
    assert tree.clients == {SESSION: begun}
    tree.apply(tree.prepare_session_end(SESSION, 0))
    assert tree.clients == {}
    assert "/e" not in tree


def test_descendants_are_counted() -> None:
    tree = ZnodeTree()
    do(tree, Create("/a"), Create("/a/b"), Create("/a/b/c"), Create("/ab"))
    assert [tree.descendants(path) for path in ("/", "/a", "/a/b", "/ab")] == [4, 2, 1, 0]


def test_sequences_count_creations_and_not_deletions() -> None:
    tree = ZnodeTree()
    do(tree, Create("/q"))
    txn = tree.prepare([Create("/q/n-", sequence=True), Create("/q/", sequence=True)], SESSION, 0)
    assert isinstance(txn, Txn)
    assert [c.path for c in txn.changes if isinstance(c, Created)] == [
        "/q/n-0000000000",
        "/q/0000000001",
    ]
    tree.apply(txn)
    do(tree, Delete("/q/n-0000000000"))
    do(tree, Create("/q/n-", sequence=True))
    assert tree.children("/q") == ["0000000001", "n-0000000002"]


def test_ephemeral_nodes_die_with_their_session() -> None:
    tree = ZnodeTree()
    do(tree, Create("/ids"), Create("/ids/1", ephemeral=True))
    do(tree, Create("/ids/2", ephemeral=True), session=8)
    assert tree.sessions() == [SESSION, 8]
    tree.apply(tree.prepare_session_end(SESSION, 0))
    assert tree.children("/ids") == ["2"]
    assert tree.sessions() == [8]


def test_changes_say_which_watches_fire() -> None:
    tree = ZnodeTree()
    assert do(tree, Create("/a")) == [
        Event(EventType.CREATED, "/a"),
        Event(EventType.CHILDREN_CHANGED, "/"),
    ]
    assert do(tree, SetData("/a", b"x")) == [Event(EventType.DATA_CHANGED, "/a")]
    assert do(tree, Delete("/a")) == [
        Event(EventType.DELETED, "/a"),
        Event(EventType.CHILDREN_CHANGED, "/"),
    ]
    do(tree, Create("/b"))
    assert do(tree, Check("/b", 0)) == []


@pytest.mark.parametrize(
    "path", ["", "a", "/a/", "//", "/a//b", "/./a", "/a/..", "/a\0", "/a\n", "/\x7f", "/\ue000"]
)
def test_paths_that_zookeeper_does_not_take(path: str) -> None:
    assert not is_valid_path(path)


@pytest.mark.parametrize("path", ["/", "/a", "/a/b-c_d", "/...", "/ä", "/<default>"])
def test_paths_that_zookeeper_takes(path: str) -> None:
    assert is_valid_path(path)


paths = st.sampled_from(["/a", "/a/b", "/a/b/c", "/d", "/d/e", "/"])
operations = st.one_of(
    st.builds(Create, paths, st.binary(max_size=3), st.booleans(), st.booleans()),
    st.builds(SetData, paths, st.binary(max_size=3), st.integers(-1, 2)),
    st.builds(Delete, paths, st.integers(-1, 2)),
    st.builds(Check, paths, st.integers(0, 2)),
)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.lists(operations, min_size=1, max_size=4), st.integers(1, 2)), max_size=25
    )
)
def test_journal_and_dump_give_the_tree_again(batches: list[tuple[list[Operation], int]]) -> None:
    tree, journal = ZnodeTree(), list[Txn]()
    for number, (batch, session) in enumerate(batches):
        txn = tree.prepare(batch, session, number)
        if number % 7 == 6:
            txn = tree.prepare_session_end(session, number)
        if isinstance(txn, Txn):
            journal.append(txn)
            tree.apply(txn)
    replayed = ZnodeTree()
    for txn in journal:
        replayed.apply(txn)
    loaded = ZnodeTree.load(tree.dump(), tree.zxid)
    for other in (replayed, loaded):
        assert list(other.dump()) == list(tree.dump())
        assert sorted(other.sessions()) == sorted(tree.sessions())
    for path, _data, stat, _access in tree.dump():
        assert stat.num_children == len(tree.children(path) or [])
        assert stat.cversion >= stat.num_children
