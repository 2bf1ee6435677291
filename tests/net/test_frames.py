import struct
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.net.frames import FrameReader, InvalidFrameSize


def feed(reader, data, steps):
    """Put `data` into the reader's buffers, at most the next of `steps` bytes each time."""
    position = 0
    turn = 0
    while position < len(data):
        buffer = reader.get_buffer(-1)
        assert len(buffer) > 0
        count = min(len(buffer), steps[turn % len(steps)], len(data) - position)
        buffer[:count] = data[position : position + count]
        reader.buffer_updated(count)
        position += count
        turn += 1


def framed(frames):
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


@given(
    st.lists(st.sampled_from([0, 1, 5, 4000, 32_768, 32_769, 65_535, 65_536, 200_000]), max_size=6),
    st.lists(st.sampled_from([1, 3, 4, 7, 1000, 65_536, 1_000_000]), min_size=1, max_size=4).filter(
        lambda steps: max(steps) >= 1000
    ),
)
def test_frames_come_out_as_they_went_in_however_the_bytes_arrive(sizes, steps):
    frames = [bytes([i % 256]) * size for i, size in enumerate(sizes)]
    seen: list[Any] = []
    feed(FrameReader(seen.append, 1 << 20), framed(frames), steps)
    assert [bytes(frame) for frame in seen] == frames


def test_frames_stay_valid_and_writable_after_later_ones_arrived() -> None:
    seen: list[Any] = []
    reader = FrameReader(seen.append, 4 << 20)
    large = bytes(range(256)) * 8192
    feed(reader, framed([b"first", large, b"last"]), [65_536])
    seen[0][0:1] = b"F"
    seen[1][0:1] = b"!"
    assert bytes(seen[0]) == b"First"
    assert bytes(seen[1]) == b"!" + large[1:]
    assert bytes(seen[2]) == b"last"


def test_a_size_above_the_limit_is_refused_after_the_frames_before_it() -> None:
    seen: list[Any] = []
    reader = FrameReader(seen.append, 10)
    with pytest.raises(InvalidFrameSize, match="frame of 11 bytes"):
        feed(reader, framed([b"good", b"x" * 11]), [1000])
    assert [bytes(frame) for frame in seen] == [b"good"]


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(InvalidFrameSize):
        feed(FrameReader(lambda frame: None, 10), b"\xff\xff\xff\xff", [4])


@pytest.mark.parametrize("come", [0, 1, 1000, 40_000])
def test_a_length_that_lies_costs_memory_in_proportion_to_what_has_come(come: int) -> None:
    reader = FrameReader(lambda frame: None, 1 << 20)
    feed(reader, struct.pack(">i", 1 << 20) + bytes(come), [65_536])
    assert len(reader.get_buffer(-1)) <= max(32 * come, 65_536)


@pytest.mark.parametrize(
    ("begins", "says"),
    [
        (b"GET / HTTP/1.1\r\n", "speaks HTTP"),
        (b"HTTP/1.1 400 Bad Request\r\n", "speaks HTTP"),
        (b"\x16\x03\x01\x02\x00\x01", "speaks TLS"),
        (b"\x15\x03\x03\x00\x02\x02", "speaks TLS"),
        (b"\x7f\xff\xff\xff", "allowed are 0 to 1048576$"),
    ],
)
def test_the_beginning_of_another_protocol_is_named(begins: bytes, says: str) -> None:
    reader = FrameReader(lambda frame: None, 1 << 20)
    with pytest.raises(InvalidFrameSize, match=says):
        feed(reader, begins, [100])


def test_a_frame_for_which_there_is_no_memory_is_refused() -> None:
    """Address space is limited in a process of its own: the reader must say so in the one way that is caught."""
    program = """
import resource, struct
from kavka.net.frames import FrameReader, InvalidFrameSize
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
reader = FrameReader(lambda frame: None, 1 << 30)
buffer = reader.get_buffer(-1)
buffer[:4] = struct.pack(">i", 1 << 29)
try:
    reader.buffer_updated(4)
except InvalidFrameSize as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "no memory for a frame of 536870912 bytes" in done.stdout, done.stderr
