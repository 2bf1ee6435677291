"""The watches that a client of ZooKeeper keeps."""

import pytest

from kavka.core.znodes import Event, EventType
from kavka.registry.client_watches import ClientWatches
from kavka.registry.watches import WatchKind

NODE, CHILD = WatchKind.NODE, WatchKind.CHILD
GONE = Event(EventType.DELETED, "/n")


def hear(_event: Event) -> None:
    """Receive an event."""


def hear_too(_event: Event) -> None:
    """Receive an event as well."""


def test_a_watch_is_there_before_its_call_goes_and_after_it() -> None:
    watches = ClientWatches()
    with watches.reading("/n", NODE, hear):
        assert watches.has("/n", NODE)
    assert watches.triggered(GONE) == [hear]
    assert not watches.has("/n", NODE)


def test_a_watch_whose_call_fails_is_taken_back_and_no_other() -> None:
    watches = ClientWatches()
    with watches.reading("/n", NODE, hear):
        pass
    for watch in (hear, hear_too):
        with pytest.raises(ConnectionError), watches.reading("/n", NODE, watch):
            raise ConnectionError
    assert watches.triggered(GONE) == [hear]


def test_the_last_watch_that_is_taken_back_leaves_no_path() -> None:
    watches = ClientWatches()
    with pytest.raises(ConnectionError), watches.reading("/n", NODE, hear):
        raise ConnectionError
    assert watches.paths() == ([], [], [])


def test_a_watch_that_fires_while_its_call_fails_is_not_missed() -> None:
    watches = ClientWatches()

    def fail() -> None:
        assert watches.triggered(GONE) == [hear]
        raise ConnectionError

    with pytest.raises(ConnectionError), watches.reading("/n", NODE, hear):
        fail()
    assert len(watches.table) == 0


def test_a_watch_that_is_set_again_is_kept_once() -> None:
    watches = ClientWatches()
    for watch in (hear, hear_too, hear):
        with watches.reading("/n", NODE, watch):
            pass
    assert len(watches.table) == 2
    assert sorted(map(id, watches.triggered(GONE))) == sorted(map(id, (hear, hear_too)))


def test_nothing_is_kept_of_a_call_without_watch() -> None:
    watches = ClientWatches()
    with watches.reading("/n", NODE, None):
        watches.node_read("/n", exists=False)
    assert watches.paths() == ([], [], [])


def test_a_call_that_fails_leaves_the_watch_of_one_that_was_answered_meanwhile() -> None:
    watches = ClientWatches()

    def fail() -> None:
        with watches.reading("/n", NODE, hear):
            with watches.reading("/n", NODE, hear):
                pass
            raise ConnectionError

    with pytest.raises(ConnectionError):
        fail()
    assert watches.triggered(Event(EventType.CREATED, "/n")) == [hear]


@pytest.mark.parametrize(
    ("kind", "notified", "left"),
    [
        (EventType.CREATED, [hear], (False, True)),
        (EventType.DATA_CHANGED, [hear], (False, True)),
        (EventType.CHILDREN_CHANGED, [hear, hear_too], (True, False)),
        (EventType.DELETED, [hear, hear_too], (False, False)),
    ],
)
def test_an_event_takes_out_the_watches_that_it_is_for(kind, notified, left):
    watches = ClientWatches()
    with watches.reading("/n", NODE, hear):
        pass
    for watch in (hear, hear_too):
        with watches.reading("/n", CHILD, watch):
            pass
    assert watches.triggered(Event(kind, "/n")) == notified
    assert (watches.has("/n", NODE), watches.has("/n", CHILD)) == left


def test_the_server_gets_the_kinds_of_watches_that_are_set_again() -> None:
    watches = ClientWatches()
    for path in ("/there", "/gone", "/made"):
        with watches.reading(path, NODE, hear):
            watches.node_read(path, exists=path == "/there")
    with watches.reading("/made", NODE, hear):
        watches.node_read("/made", exists=True)
    with watches.reading("/there", CHILD, hear):
        pass
    assert watches.paths() == (["/there", "/made"], ["/gone"], ["/there"])


@pytest.mark.parametrize(
    ("kinds", "left"),
    [([NODE], (False, True)), ([CHILD], (True, False)), ([NODE, CHILD], (False, False))],
)
def test_watches_are_dropped_by_type(kinds, left):
    watches = ClientWatches()
    with watches.reading("/n", NODE, hear), watches.reading("/n", CHILD, hear):
        watches.node_read("/n", exists=False)
    for kind in kinds:
        watches.drop("/n", kind)
    assert (watches.has("/n", NODE), watches.has("/n", CHILD)) == left
    assert watches.paths().exist == ([] if NODE in kinds else ["/n"])


def test_a_session_that_is_over_watches_nothing() -> None:
    watches = ClientWatches()
    with watches.reading("/n", NODE, hear), watches.reading("/n", CHILD, hear):
        watches.node_read("/n", exists=False)
    watches.clear()
    assert watches.paths() == ([], [], [])
    with watches.reading("/n", NODE, hear):
        assert watches.paths().data == ["/n"]
