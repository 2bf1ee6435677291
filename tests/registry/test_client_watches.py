"""What a client of ZooKeeper keeps of its watches."""

import pytest

from kavka.core.znodes import Event, EventType
from kavka.registry.client_watches import ClientWatches, WatchTable


def hear(_event: Event) -> None:
    """Be told."""


def hear_too(_event: Event) -> None:
    """Be told as well."""


def test_a_watch_is_there_before_its_call_goes_and_after_it():
    table = WatchTable()
    with table.asking("/n", hear):
        assert "/n" in table
    assert table.pop("/n") == [hear]
    assert "/n" not in table


def test_a_watch_whose_call_fails_is_taken_back_and_no_other():
    table = WatchTable()
    with table.asking("/n", hear):
        pass
    for watch in (hear, hear_too):
        with pytest.raises(ConnectionError), table.asking("/n", watch):
            raise ConnectionError
    assert table.pop("/n") == [hear]


def test_the_last_watch_that_is_taken_back_leaves_no_path():
    table = WatchTable()
    with pytest.raises(ConnectionError), table.asking("/n", hear):
        raise ConnectionError
    assert table.paths() == []


def test_a_watch_that_is_told_while_its_call_fails_is_not_missed():
    table = WatchTable()

    def fail() -> None:
        assert table.pop("/n") == [hear]
        raise ConnectionError

    with pytest.raises(ConnectionError), table.asking("/n", hear):
        fail()
    assert len(table) == 0


def test_a_watch_that_is_set_anew_is_kept_once():
    table = WatchTable()
    for watch in (hear, hear_too, hear):
        with table.asking("/n", watch):
            pass
    assert sorted(map(id, table.pop("/n"))) == sorted(map(id, (hear, hear_too)))


def test_nothing_is_kept_of_a_call_without_watch():
    watches = ClientWatches()
    with watches.nodes.asking("/n", None):
        watches.node_seen("/n", exists=False)
    assert watches.paths() == ([], [], [])


@pytest.mark.parametrize(
    ("kind", "told", "left"),
    [
        (EventType.CREATED, [hear], (False, True)),
        (EventType.DATA_CHANGED, [hear], (False, True)),
        (EventType.CHILDREN_CHANGED, [hear, hear_too], (True, False)),
        (EventType.DELETED, [hear, hear_too], (False, False)),
    ],
)
def test_an_event_takes_out_the_watches_that_it_is_for(kind, told, left):
    watches = ClientWatches()
    with watches.nodes.asking("/n", hear):
        pass
    for watch in (hear, hear_too):
        with watches.children.asking("/n", watch):
            pass
    assert watches.pop(kind, "/n") == told
    assert ("/n" in watches.nodes, "/n" in watches.children) == left


def test_a_member_is_told_which_nodes_were_there():
    watches = ClientWatches()
    for path in ("/there", "/gone", "/made"):
        with watches.nodes.asking(path, hear):
            watches.node_seen(path, exists=path == "/there")
    with watches.nodes.asking("/made", hear):
        watches.node_seen("/made", exists=True)
    with watches.children.asking("/there", hear):
        pass
    assert watches.paths() == (["/there", "/made"], ["/gone"], ["/there"])


@pytest.mark.parametrize(
    ("node", "children", "left"),
    [(True, False, (False, True)), (False, True, (True, False)), (True, True, (False, False))],
)
def test_watches_are_dropped_by_type(node, children, left):
    watches = ClientWatches()
    with watches.nodes.asking("/n", hear), watches.children.asking("/n", hear):
        watches.node_seen("/n", exists=False)
    watches.drop("/n", node=node, children=children)
    assert ("/n" in watches.nodes, "/n" in watches.children) == left
    assert watches.paths().exist == ([] if node else ["/n"])


def test_a_session_that_is_over_watches_nothing():
    watches = ClientWatches()
    with watches.nodes.asking("/n", hear), watches.children.asking("/n", hear):
        watches.node_seen("/n", exists=False)
    watches.clear()
    assert watches.paths() == ([], [], [])
    with watches.nodes.asking("/n", hear):
        assert watches.paths().data == ["/n"]
