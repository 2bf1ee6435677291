"""The loop with virtual time: what makes a run the same everywhere, and what it says when nothing continues."""

from __future__ import annotations

import asyncio

import pytest

from kavka.simulation.environment import SimEnvironment
from kavka.simulation.loop import Deadlock, Livelock
from kavka.simulation.process import ProcessCrashed
from kavka.simulation.world import World


def test_hours_pass_at_once() -> None:
    world = World(1)

    async def main() -> float:
        await asyncio.sleep(3600)
        return world.loop.time()

    assert world.run(main()) == 3600


def test_timers_of_equal_time_run_in_the_order_they_were_made() -> None:
    world = World(1)
    order: list[int] = []

    async def main() -> None:
        for number in range(50):
            world.loop.call_at(1.0, order.append, number)
        await asyncio.sleep(2)

    world.run(main())
    assert order == list(range(50))


def test_sets_of_tasks_iterate_by_birth() -> None:
    world = World(1)

    async def main() -> list[str]:
        tasks = {asyncio.ensure_future(asyncio.sleep(1)) for _ in range(5)}
        names = [task.get_name() for task in tasks]
        await asyncio.gather(*tasks)
        return names

    first, second = world.run(main()), World(1).run(_names())
    assert first == second


async def _names() -> list[str]:
    tasks = {asyncio.ensure_future(asyncio.sleep(1)) for _ in range(5)}
    names = [task.get_name() for task in tasks]
    await asyncio.gather(*tasks)
    return names


def test_deadlock_names_the_waiting_tasks() -> None:
    world = World(1)

    async def forgotten() -> None:
        await asyncio.get_running_loop().create_future()

    async def program(environment: SimEnvironment) -> None:
        await forgotten()

    async def main() -> None:
        world.node("a").start(program)
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match=r"a main of a .*program:\d+ > .*forgotten:\d+"):
        world.loop.run(main())
    world._end()


def test_a_loop_without_end_is_reported() -> None:
    world = World(1)

    async def main() -> None:
        while True:  # noqa: ASYNC110 - it is what must be noticed
            await asyncio.sleep(0)

    with pytest.raises(Livelock, match="time stands still"):
        world.run(main())


def test_a_wait_that_is_too_long_names_the_waiting_tasks() -> None:
    world = World(1)

    async def main() -> None:
        while True:  # noqa: ASYNC110 - it never ends on purpose
            await asyncio.sleep(1)

    with pytest.raises(TimeoutError, match=r"not done after 60 virtual s\n.*main"):
        world.run(main(), limit_s=60)


def test_an_unhandled_exception_is_a_failure() -> None:
    world = World(1)

    async def program(environment: SimEnvironment) -> None:
        task = asyncio.ensure_future(_fail())
        await asyncio.sleep(1)
        del task

    async def main() -> None:
        world.node("a").start(program)
        await asyncio.sleep(2)

    world.run(main())
    assert [(failure.source, repr(failure.exception)) for failure in world.failures] == [
        ("a", "ValueError('lost')")
    ]


async def _fail() -> None:
    raise ValueError("lost")


def test_a_task_left_behind_is_a_failure() -> None:
    world = World(1)
    kept = []

    async def program(environment: SimEnvironment) -> None:
        kept.append(asyncio.ensure_future(asyncio.sleep(100)))
        await asyncio.sleep(1)

    async def main() -> None:
        world.node("a").start(program)
        await asyncio.sleep(2)

    world.run(main())
    assert "left tasks behind" in world.failures[0].message


def test_a_killed_process_runs_no_further_step() -> None:
    world = World(1)
    done: list[str] = []

    async def program(environment: SimEnvironment) -> None:
        try:
            await asyncio.sleep(1)
            done.append("woke up")
        finally:
            with pytest.raises(ProcessCrashed):
                environment.disk.open("/late", create=True)

    async def main() -> None:
        process = world.node("a").start(program)
        await asyncio.sleep(0.5)
        world.node("a").kill()
        await process.ended
        await asyncio.sleep(5)

    world.run(main())
    assert done == []
    assert "/late" not in world.node("a").disk.names
    assert world.failures == []


def test_a_paused_process_does_everything_later_and_in_order() -> None:
    world = World(1)
    done: list[tuple[int, float]] = []

    async def program(environment: SimEnvironment) -> None:
        for number in range(5):
            world.loop.call_later(number + 1, lambda n=number: done.append((n, world.loop.time())))  # type: ignore[misc]
        await asyncio.sleep(30)

    async def main() -> None:
        node = world.node("a")
        process = node.start(program)
        await asyncio.sleep(1.5)
        node.pause()
        await asyncio.sleep(10)
        node.resume()
        await process.ended

    world.run(main())
    assert done == [(0, 1.0), (1, 11.5), (2, 11.5), (3, 11.5), (4, 11.5)]


def test_threads_are_refused() -> None:
    world = World(1)

    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"only Disk\.run"):
            await asyncio.to_thread(len, "x")

    world.run(main())


def test_clocks_of_a_node_have_different_origins_and_only_one_jumps() -> None:
    world = World(7)
    clock = world.node("a").clock

    async def main() -> None:
        wall, tick = clock.now_ms(), clock.tick_ms()
        assert abs(wall - tick) > 1_000_000
        clock.jump(-5_000)
        await asyncio.sleep(1)
        assert clock.tick_ms() - tick == 1000
        assert -4_010 < clock.now_ms() - wall < -3_990

    world.run(main())


def test_an_exception_of_a_callback_is_reported_without_a_handle_of_asyncio() -> None:
    """From Python 3.12 on asyncio reads the handle's own parts, and a step has none of them."""
    world = World(1)
    contexts: list[dict[str, object]] = []

    async def main() -> None:
        world.loop.set_exception_handler(lambda loop, context: contexts.append(context))
        world.loop.call_soon(int, "no number")
        await asyncio.sleep(1)

    world.run(main())
    (context,) = contexts
    assert isinstance(context["exception"], ValueError)
    assert "handle" not in context
