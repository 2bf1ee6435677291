"""Memory of large frames is used again, and never while something looks at a frame."""

import os
import struct

import pytest

from kavka.net.frame_memory import KEPT_BYTES, FrameMemory, Slices
from kavka.net.frames import FrameReader

MEBIBYTE = 1024 * 1024


def filled(memory: FrameMemory, size: int, content: int) -> memoryview:
    frame = memory.take(size)
    assert len(frame) == size
    frame[:1] = frame[-1:] = bytes([content])
    return frame


def test_memory_is_used_again_when_the_last_view_is_gone() -> None:
    memory = FrameMemory()
    frame = filled(memory, 2 * MEBIBYTE, 7)
    part = frame[5:]
    del frame
    assert filled(memory, 2 * MEBIBYTE, 1)[0] == 1
    assert part[-1] == 7  # the other frame is elsewhere
    del part
    first = memory.take(2 * MEBIBYTE)
    second = memory.take(2 * MEBIBYTE)
    assert {first[0], second[0]} == {1, 7}


def test_a_view_of_another_module_counts() -> None:
    memory = FrameMemory()
    frame = filled(memory, MEBIBYTE + 1, 7)
    other = memoryview(frame).cast("B").toreadonly()
    frame.release()
    filled(memory, MEBIBYTE + 1, 1)
    assert other[0] == 7


def test_what_is_kept_is_bounded() -> None:
    memory = FrameMemory()
    frames = [filled(memory, 5 * MEBIBYTE, number) for number in range(20)]
    assert memory._bytes == sum(map(len, memory._maps)) <= KEPT_BYTES
    assert [frame[0] for frame in frames] == list(range(20))
    filled(memory, KEPT_BYTES, 1)
    assert memory._bytes <= KEPT_BYTES


def test_nothing_waits_for_the_lock() -> None:
    memory = FrameMemory()
    with memory._lock:
        filled(memory, 2 * MEBIBYTE, 1)
    assert not memory._maps


def test_a_forked_child_keeps_its_frames() -> None:
    memory = FrameMemory()
    frame = filled(memory, 2 * MEBIBYTE, 7)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(frame[0])
    os.close(reader)
    del frame
    filled(memory, 2 * MEBIBYTE, 1)
    os.write(writer, b"x")
    os.close(writer)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("step", [MEBIBYTE, 300_000])
def test_frames_of_a_reader_are_whole_whatever_came_before(step: int) -> None:
    seen: list[memoryview] = []
    reader = FrameReader(seen.append, 1 << 30, memory=FrameMemory())
    for content in range(1, 9):
        size = (content % 3 + 1) * MEBIBYTE + content
        stream = struct.pack(">i", size) + bytes([content]) * size
        while stream:
            buffer = reader.get_buffer(-1)
            taken = min(len(buffer), len(stream), step)
            buffer[:taken] = stream[:taken]
            reader.buffer_updated(taken)
            stream = stream[taken:]
        assert bytes(seen[-1]) == bytes([content]) * size
        if content % 2:
            seen.pop()
    assert [frame[0] for frame in seen] == [2, 4, 6, 8]


def test_a_small_frame_leaves_a_large_map_to_others() -> None:
    memory = FrameMemory()
    frames = [memory.take(size * MEBIBYTE) for size in (8, 2)]
    maps = [frame.obj for frame in frames]
    frames.clear()
    assert memory.take(MEBIBYTE + 1).obj is maps[1]  # the smallest that will do
    assert memory.take(100).obj not in maps


def test_memory_of_no_size_is_given() -> None:
    assert len(FrameMemory().take(0)) == 0


def test_a_memory_made_for_more_keeps_more() -> None:
    memory = FrameMemory(2 * KEPT_BYTES)
    frame = memory.take(KEPT_BYTES // 2)
    first = frame.obj
    del frame
    assert memory.take(KEPT_BYTES // 2).obj is first


def test_slices_share_memory_until_the_last_is_gone() -> None:
    memory = FrameMemory()
    slices = Slices(memory)
    first, second = slices.take(10), slices.take(20)
    first[:], second[:] = bytes([1]) * 10, bytes([2]) * 20
    assert first.obj is second.obj
    large = slices.take(3 * MEBIBYTE)
    assert len(large) == 3 * MEBIBYTE
    assert large.obj is not first.obj
    kept = first.obj
    del first, slices
    assert memory.take(MEBIBYTE).obj is not kept
    assert bytes(second) == bytes([2]) * 20
    del second
    assert memory.take(MEBIBYTE).obj is kept


def test_no_bytes_take_no_memory() -> None:
    memory = FrameMemory()
    assert len(memory.take(0)) == 0
    assert not memory._maps
