"""The loop in C beside which broker CPU is shown moves all bytes of its logs, batch by batch."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "bench" / "load" / "floor.c"
COMPILER = shutil.which("cc") or shutil.which("gcc")


def _batch(offset: int, length: int) -> bytes:
    return struct.pack(">qi", offset, length) + bytes([offset]) * length


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_the_loop_writes_the_batches_that_it_received_and_sends_them_all(tmp_path: Path) -> None:
    logs = {
        "0.log": b"".join(_batch(n, 300 + n) for n in range(9)),
        "1.log": _batch(1, 2_000_000),
    }
    for name, content in logs.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "empty.log").touch()
    assert COMPILER is not None
    subprocess.run([COMPILER, "-Wall", "-Werror", "-o", tmp_path / "floor", SOURCE], check=True)
    written = tmp_path / "written"
    written.mkdir()
    paths = [tmp_path / name for name in (*logs, "empty.log")]
    for mode in ("produce", "consume"):
        command = [tmp_path / "floor", mode, written, *paths]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        cpu_ns, _, moved = map(int, done.stdout.split())
        assert moved == sum(map(len, logs.values()))
        assert cpu_ns > 0
    assert {path.name: path.read_bytes() for path in written.iterdir()} == logs
