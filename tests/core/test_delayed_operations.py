"""Operations that wait leave exactly once: complete, expired or cancelled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kavka.core.delayed_operations import CHECKED_KEYS, DelayedOperations


class Wait:
    def __init__(self) -> None:
        self.ready = False

    def is_complete(self) -> bool:
        return self.ready


def waits(max_operations: int = 100) -> DelayedOperations[str, Wait]:
    return DelayedOperations(max_operations)


def test_touched_key_gives_back_only_what_is_complete() -> None:
    delayed, first, second = waits(), Wait(), Wait()
    delayed.register(["a"], 10, first)
    delayed.register(["a", "b"], 10, second)
    assert delayed.check_and_complete("a") == []
    second.ready = True
    assert delayed.check_and_complete("c") == []
    assert delayed.check_and_complete("b") == [second]
    assert delayed.check_and_complete("a") == []
    assert len(delayed) == 1


def test_operations_expire_in_the_order_of_their_deadlines() -> None:
    delayed, late, early = waits(), Wait(), Wait()
    delayed.register(["a"], 20, late)
    delayed.register(["a"], 10, early)
    assert delayed.deadline_ms() == 10
    assert list(delayed.expire(9)) == []
    assert list(delayed.expire(20)) == [early, late]
    assert delayed.deadline_ms() is None
    assert "a" not in delayed.keys


def test_full_set_refuses_and_takes_again_when_one_has_left() -> None:
    delayed = waits(1)
    waiting = delayed.register(["a"], 10, Wait())
    assert waiting is not None
    assert delayed.register(["a"], 10, Wait()) is None
    assert delayed.cancel(waiting)
    assert not delayed.cancel(waiting)
    assert delayed.register(["a"], 10, Wait()) is not None


def test_all_waiting_for_a_lost_partition_are_taken() -> None:
    delayed, one = waits(), Wait()
    delayed.register(["a", "b"], 10, one)
    assert delayed.remove_all("b") == [one]
    assert len(delayed) == 0
    assert delayed.deadline_ms() is None


def test_operations_beyond_the_bound_are_checked_later_and_once() -> None:
    delayed, operations = waits(2 * CHECKED_KEYS), [Wait() for _ in range(CHECKED_KEYS + 3)]
    waiting = [delayed.register(["a"], 10, operation) for operation in operations]
    for operation in operations:
        operation.ready = True
    operations[-2].ready = False
    assert delayed.check_and_complete("a") == operations[:CHECKED_KEYS]
    last = waiting[-1]
    assert last is not None
    assert delayed.cancel(last)
    assert delayed.has_postponed
    assert list(delayed.check_postponed()) == [operations[CHECKED_KEYS], None]
    assert not delayed.has_postponed
    assert len(delayed) == 1


def test_an_operation_of_many_keys_is_postponed_and_those_of_few_are_not() -> None:
    delayed, large, small = waits(), Wait(), Wait()
    large.ready = small.ready = True
    delayed.register(map(str, range(CHECKED_KEYS + 1)), 10, large)
    delayed.register(["0"], 10, small)
    assert delayed.check_and_complete("0") == [small]
    assert list(delayed.check_postponed()) == [large]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.booleans()), max_size=300))
def test_every_operation_leaves_exactly_once(steps: list[tuple[int, int, bool]]) -> None:
    delayed, left, registered = waits(10_000), list[Wait](), list[Wait]()
    for key, deadline, ready in steps:
        operation = Wait()
        delayed.register([str(key), str(key + 1)], deadline, operation)
        registered.append(operation)
        operation.ready = ready
        left += delayed.check_and_complete(str(key))
        left += delayed.expire(deadline // 2)
    left += delayed.expire(50)
    assert len(delayed) == 0
    assert sorted(map(id, left)) == sorted(map(id, registered))
