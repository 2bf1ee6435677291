"""The disk of the operating system."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from kavka.storage.disk.os_disk import OsDisk


def test_bytes_written_at_a_position_are_read_there(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    file.write_at(b"hello", 3)
    file.write_at(memoryview(b"HE"), 3)
    assert file.read_at(100, 0) == b"\0\0\0HEllo"
    assert file.read_at(2, 4) == b"El"
    assert file.read_at(5, 100) == b""
    assert file.size() == 8
    file.truncate(4)
    assert file.size() == 4
    file.sync()
    file.close()
    file.close()
    assert file.fileno() == -1


def test_freshly_written_bytes_are_cached(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    file.write_at(bytes(300_000), 0)
    assert file.is_cached(300_000, 0)
    assert file.is_cached(0, 0)
    file.close()


def test_a_missing_file_is_made_only_on_request(tmp_path: Path) -> None:
    disk = OsDisk()
    with pytest.raises(FileNotFoundError):
        disk.open(str(tmp_path / "missing"))
    disk.open(str(tmp_path / "made"), create=True).close()
    assert disk.list(str(tmp_path)) == ["made"]


def test_a_second_lock_is_refused_until_the_first_is_released(tmp_path: Path) -> None:
    disk = OsDisk()
    path = str(tmp_path / ".lock")
    lock = disk.lock(path)
    with pytest.raises(BlockingIOError):
        disk.lock(path)
    lock.release()
    lock.release()
    disk.lock(path).release()


def test_names_change_as_asked(tmp_path: Path) -> None:
    disk = OsDisk()
    inner = str(tmp_path / "a" / "b")
    disk.make_directories(inner)
    disk.make_directories(inner)
    disk.open(inner + "/old", create=True).close()
    disk.open(inner + "/new", create=True).close()
    disk.rename(inner + "/old", inner + "/new")
    assert disk.list(inner) == ["new"]
    disk.sync_directory(inner)
    assert disk.is_directory(inner)
    assert not disk.is_directory(inner + "/new")
    disk.remove(inner + "/new")
    disk.remove_tree(str(tmp_path / "a"))
    assert not disk.exists(str(tmp_path / "a"))


def test_the_pool_returns_results_and_raises_errors(tmp_path: Path) -> None:
    disk = OsDisk(threads=1)

    async def scenario() -> None:
        assert await disk.run(disk.list, str(tmp_path)) == []
        with pytest.raises(FileNotFoundError) as raised:
            await disk.run(disk.list, str(tmp_path / "missing"))
        assert raised.value.errno == errno.ENOENT

    asyncio.run(scenario())
    disk.close()
    disk.close()


def test_usage_returns_the_size_of_the_file_system(tmp_path: Path) -> None:
    total, usable = OsDisk().usage(str(tmp_path))
    assert 0 < usable <= total
