"""The disk of the operating system."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.storage.disk.linux_calls import cached_pages
from kavka.storage.disk.os_disk import OsDisk, OsFile


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


@pytest.fixture
def disk_directory() -> Iterator[Path]:
    """A directory in the checkout: temporary ones may be in memory, where nothing can be dropped."""
    build = Path(__file__).parents[2] / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as directory:
        yield Path(directory)


def _with_a_hole(path: Path) -> OsFile:
    """Return an open file of 1 MiB in memory, but for its second quarter, which is not in the page cache."""
    file = _dropped_file(path)
    file.read_at(1 << 18, 0)
    file.read_at(1 << 19, 1 << 19)
    return file


def _dropped_file(path: Path) -> OsFile:
    """Return an open file of 1 MiB of which nothing is in the page cache, and which is not read ahead."""
    file = OsDisk().open(str(path), create=True)
    file.write_at(os.urandom(1 << 20), 0)
    file.sync()
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
    return file


@pytest.mark.parametrize("counts", [True, False], ids=["counted", "probed"])
def test_a_range_with_a_hole_is_not_cached(
    disk_directory: Path, monkeypatch: pytest.MonkeyPatch, counts: bool
) -> None:
    if not counts:
        monkeypatch.setattr("kavka.storage.disk.os_disk.cached_pages", lambda *_: -1)
    file = _with_a_hole(disk_directory / "f")
    assert not file.is_cached(1 << 20, 0)
    assert not file.is_cached(1 << 19, 0)
    assert file.is_cached(1 << 18, 0)
    assert file.is_cached((1 << 19) - 1, (1 << 19) + 1)
    file.read_at(1 << 20, 0)
    assert file.is_cached(1 << 20, 0)
    file.close()


def test_a_kernel_that_does_not_count_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, ...]] = []

    def refuse(*of: int) -> int:
        asked.append(of)
        return -1

    monkeypatch.setattr("kavka.storage.disk.os_disk.cached_pages", refuse)
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    file.write_at(bytes(300_000), 0)
    assert file.is_cached(300_000, 0)
    assert file.is_cached(300_000, 0)
    assert asked == [(file.fileno(), 0, 300_000)]
    file.close()


def test_one_missing_page_between_the_probes_is_seen_where_the_kernel_counts(
    disk_directory: Path,
) -> None:
    file = _dropped_file(disk_directory / "f")
    page = os.sysconf("SC_PAGE_SIZE")
    hole = (1 << 18) + page
    file.read_at(hole, 0)
    file.read_at((1 << 20) - hole - page, hole + page)
    pages = cached_pages(file.fileno(), 0, 1 << 20)
    assert pages in {-1, (1 << 20) // page - 1}
    assert file.is_cached(1 << 20, 0) is (pages == -1)
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


def test_a_short_range_is_read_when_all_of_it_is_in_memory(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    file.write_at(b"0123456789", 0)
    assert file.read_cached(4, 3) == b"3456"
    assert file.read_cached(4, 8) is None, "a part of it is behind the end of the file"
    file.close()
