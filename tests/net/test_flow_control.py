"""The pace of a connection: frames handled while there is room, reading while nothing waits."""

import asyncio
from typing import Any

from kavka.net.flow_control import ReadFlowControl


class Pipe:
    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.closing = False

    def is_closing(self):
        return self.closing

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


def test_waiting_frames_get_one_turn_after_the_other_and_stop_reading() -> None:
    pipe, inflow, handled = Pipe(), ReadFlowControl(), []

    def handle_frames() -> None:
        handled.append(bytes(inflow.frames.popleft()))
        inflow.update(pipe, handle_frames, is_full=False)  # type: ignore[arg-type]

    async def story() -> None:
        inflow.frames.extend([memoryview(b"a"), memoryview(b"b")])
        inflow.update(pipe, handle_frames, is_full=False)  # type: ignore[arg-type]
        inflow.update(pipe, handle_frames, is_full=False)  # type: ignore[arg-type]
        assert (handled, pipe.calls) == ([], ["pause"])
        await asyncio.sleep(0)
        assert (handled, pipe.calls) == ([b"a"], ["pause"])
        await asyncio.sleep(0)
        assert (handled, pipe.calls) == ([b"a", b"b"], ["pause", "resume"])

    asyncio.run(story())


def test_a_full_connection_has_no_turns_until_there_is_room() -> None:
    pipe, inflow, handled = Pipe(), ReadFlowControl(), []

    async def story() -> None:
        inflow.frames.append(memoryview(b"a"))
        inflow.update(pipe, lambda: handled.append(1), is_full=True)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert (handled, pipe.calls, inflow.is_paused) == ([], ["pause"], True)
        inflow.update(pipe, lambda: handled.append(1), is_full=False)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert handled == [1]

    asyncio.run(story())


def test_a_full_connection_without_frames_is_not_read() -> None:
    pipe, inflow = Pipe(), ReadFlowControl()
    inflow.update(pipe, list, is_full=True)  # type: ignore[arg-type]
    inflow.update(pipe, list, is_full=True)  # type: ignore[arg-type]
    inflow.update(pipe, list, is_full=False)  # type: ignore[arg-type]
    assert pipe.calls == ["pause", "resume"]


def test_a_lost_connection_has_no_more_turns() -> None:
    pipe, inflow, handled = Pipe(), ReadFlowControl(), []

    async def story() -> None:
        inflow.frames.append(memoryview(b"a"))
        inflow.update(pipe, lambda: handled.append(1), is_full=False)  # type: ignore[arg-type]
        inflow.drop()
        await asyncio.sleep(0)
        pipe.closing = True
        inflow.update(pipe, list, is_full=True)  # type: ignore[arg-type]
        inflow.update(None, list, is_full=True)  # type: ignore[arg-type]
        assert (handled, list(inflow.frames), pipe.calls) == ([], [], ["pause"])

    asyncio.run(story())
