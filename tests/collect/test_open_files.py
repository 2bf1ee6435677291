"""Reading of files: fingerprints, archives that are complete or not, descriptors."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.collect.delivery import CollectorError
from kavka.collect.files.archive import Archive, DamagedArchive
from kavka.collect.files.content import Content, fingerprint_of, window_start
from kavka.collect.files.file_state import FileEntry, FingerprintRequest
from kavka.collect.files.fingerprint_cache import FingerprintCache
from kavka.collect.files.open_files import OpenFiles

DATA = b"".join(b"line %d of a log that is compressed\n" % n for n in range(5000))


def zstd(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd,
}


def open_files(limit: int = 10, state: Path | None = None) -> OpenFiles:
    return OpenFiles(limit, FingerprintCache(state))


def only_entry(files: OpenFiles, folder: Path) -> FileEntry:
    (entry,) = files.list_files([str(folder / "*")], []).files
    return entry


def expected(data: bytes, *offsets: int) -> dict[int, str]:
    return {
        offset: fingerprint_of(data[window_start(offset) : offset])
        for offset in (*offsets, len(data))
    }


def content_of(entry: FileEntry, position: int, data: bytes) -> Content:
    fingerprints = (
        {position: fingerprint_of(data[window_start(position) : position])} if position else {}
    )
    return Content(1, entry.path, position, fingerprints, entry.path, entry.identity)


def read_all(files: OpenFiles, content: Content, data: bytes, size: int) -> bytes:
    """Read from the position on, as the collector does, up to the last whole line of each chunk."""
    read = b""
    while True:
        chunk = files.chunk(content, size)
        assert chunk is not None
        if not chunk.data:
            return read
        taken = chunk.data[: chunk.data.rfind(b"\n") + 1] or chunk.data
        read += taken
        content.position += len(taken)
        content.fingerprints = expected(data[: content.position])


def test_fingerprints_of_a_plain_file(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(DATA)
    files = open_files()
    entry = only_entry(files, tmp_path)
    assert not entry.is_compressed
    result = files.read_fingerprints(FingerprintRequest(entry.identity, (16, 5000, len(DATA) + 1)))
    assert result == (len(DATA), expected(DATA, 16, 5000))
    files.close()


@pytest.mark.parametrize("suffix", COMPRESS)
def test_archives_are_read_as_what_is_in_them(tmp_path: Path, suffix: str) -> None:
    half = len(DATA) // 2
    path = tmp_path / f"a.log.1.{suffix}"
    path.write_bytes(COMPRESS[suffix](DATA[:half]) + COMPRESS[suffix](DATA[half:]))  # two members
    files = open_files()
    entry = only_entry(files, tmp_path)
    assert entry.is_compressed
    assert files.read_fingerprints(FingerprintRequest(entry.identity, (16, 5000))) == (
        len(DATA),
        expected(DATA, 16, 5000),
    )
    for start, size in ((0, 1 << 20), (0, 5000), (60_000, 3000)):
        content = content_of(entry, start, DATA)
        assert read_all(files, content, DATA, size) == DATA[start:]
        chunk = files.chunk(content, size)
        assert chunk is not None
        assert (chunk.is_end, chunk.is_complete) == (True, True)
    files.close()


@pytest.mark.parametrize("suffix", COMPRESS)
def test_an_archive_that_is_being_written_has_no_end(tmp_path: Path, suffix: str) -> None:
    noise = os.urandom(300_000)
    packed = COMPRESS[suffix](noise)
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    files = open_files()
    entry = only_entry(files, tmp_path)
    assert files.read_fingerprints(FingerprintRequest(entry.identity, (16,))).end is None
    path.write_bytes(packed)
    assert files.read_fingerprints(FingerprintRequest(entry.identity, (16,))).end == len(noise)
    files.close()


def test_an_empty_file_with_the_name_of_an_archive_is_one(tmp_path: Path) -> None:
    (tmp_path / "a.gz").touch()
    files = open_files()
    entry = only_entry(files, tmp_path)
    assert entry.is_compressed
    assert files.read_fingerprints(FingerprintRequest(entry.identity, (16,))) == (None, {})
    files.close()


def test_a_damaged_archive_is_logged_once_and_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    packed = bytearray(gzip.compress(os.urandom(50_000)))
    packed[20_000:20_100] = bytes(100)
    (tmp_path / "a.gz").write_bytes(packed)
    with pytest.raises(DamagedArchive):
        Archive("gzip", lambda size, at: bytes(packed[at : at + size])).read(1 << 20)
    files = open_files()
    entry = only_entry(files, tmp_path)
    for _ in range(2):
        assert files.read_fingerprints(FingerprintRequest(entry.identity, (16,))).end is None
    assert caplog.text.count("file cannot be read") == 1
    files.close()


def test_a_file_that_was_deleted_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(DATA)
    files = open_files()
    content = content_of(only_entry(files, tmp_path), 0, DATA)
    path.unlink()
    assert read_all(files, content, DATA, 1 << 20) == DATA
    files.close()


def test_changed_bytes_before_the_position_are_detected(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(DATA)
    files = open_files()
    content = content_of(only_entry(files, tmp_path), 4000, DATA)
    path.write_bytes(DATA.replace(b"log", b"LOG"))
    assert files.chunk(content, 1000) is None
    path.write_bytes(DATA[:100])
    assert files.chunk(content, 1000) is None
    files.close()


def test_no_more_files_are_open_than_may_be(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.log").write_bytes(b"a line of %d\n" % number)
    files = open_files(limit=8)
    listing = files.list_files([str(tmp_path / "*.log")], [str(tmp_path / "0*")])
    assert len(listing.files) == 20
    assert files.open_count <= 8
    (tmp_path / "10.log").rename(tmp_path / "99.log")
    files.list_files([str(tmp_path / "*.log")], [])
    for entry in listing.files:
        result = files.read_fingerprints(FingerprintRequest(entry.identity, ()))
        assert result.end == entry.size
    assert files.open_count <= 8
    files.remove(files.identities())
    assert files.open_count == 0


def test_links_to_one_file_and_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x\n")
    (tmp_path / "b.log").symlink_to("a.log")
    (tmp_path / "c.log").hardlink_to(tmp_path / "a.log")
    (tmp_path / "d.log").mkdir()
    os.mkfifo(tmp_path / "e.log")
    (tmp_path / "f.log").symlink_to("nowhere")
    files = open_files()
    assert only_entry(files, tmp_path).path == str(tmp_path / "a.log")
    files.close()


def test_fingerprints_of_archives_are_kept_in_the_state_directory(tmp_path: Path) -> None:
    logs, state = tmp_path / "logs", tmp_path / "state"
    logs.mkdir()
    (logs / "a.gz").write_bytes(gzip.compress(DATA))
    cache = FingerprintCache(state)
    files = OpenFiles(10, cache)
    request = FingerprintRequest(only_entry(files, logs).identity, (16, 5000))
    result = files.read_fingerprints(request)
    cache.save()
    files.close()
    entry = only_entry(files, logs)
    version = (*entry.identity, entry.size, entry.mtime_ns)
    assert FingerprintCache(state).get(version, (16, len(DATA) + 1)) == result
    assert FingerprintCache(state).get(version, (17,)) is None
    (state / "digests.json").write_text("{")
    assert FingerprintCache(state).get(version, (16,)) is None
    files.close()


def test_the_end_of_the_last_line_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(DATA + b"not yet")
    files = open_files()
    entry = only_entry(files, tmp_path)
    position, fingerprints = files.last_line_end(content_of(entry, 0, DATA))
    assert position == len(DATA)
    assert fingerprints[position] == expected(DATA)[len(DATA)]
    files.close()


def test_a_file_whose_reads_fail_holds_up_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x\n")
    (tmp_path / "b.log").symlink_to("/proc/self/mem")  # reads of its first page fail
    files = open_files()
    first, bad = files.list_files([str(tmp_path / "*")], []).files
    assert first.path == str(tmp_path / "a.log")
    assert files.read_fingerprints(FingerprintRequest(bad.identity, (16,))).fingerprints == {}
    chunk = files.chunk(content_of(bad, 0, b""), 100)
    assert chunk is not None
    assert (chunk.data, chunk.is_unreadable) == (b"", True)
    files.close()


def test_an_archive_that_is_made_to_grow_takes_little_memory(tmp_path: Path) -> None:
    (tmp_path / "a.zst").write_bytes(zstd(bytes(64 << 20)))
    files = open_files()
    entry = only_entry(files, tmp_path)
    tracemalloc.start()
    chunk = files.chunk(content_of(entry, 0, b""), 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert chunk is not None
    assert len(chunk.data) == 1000
    assert peak < 24 << 20
    files.close()


def test_a_directory_of_state_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(
        CollectorError, match="of --state cannot be made: File exists; name another"
    ):
        FingerprintCache(file)
