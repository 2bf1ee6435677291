"""Compaction, expiry and orphans: what they change, what they keep, and what they do beside a running load."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table.snapshots import Operation

from kavka.lake import compaction, expiry, orphans
from kavka.lake.compaction import Compacted, LiveFile, compact
from kavka.lake.errors import LakeError
from kavka.lake.expiry import SnapshotFacts, expire
from kavka.lake.file_names import file_prefix
from kavka.lake.orphans import ListedFile, remove_orphans
from kavka.lake.sink_state import BatchId, SinkState
from support.lake import NAME, QUERY, Lake, rows

ALL = 1 << 60
"""A time after every file and snapshot, in milliseconds."""


def loaded(lake: Lake, batches: int = 6) -> Lake:
    """Batches of ten rows in one hour: as many small files."""
    for number in range(batches):
        lake.commit(number, rows(range(10 * number, 10 * number + 10), minutes=0))
    return lake


# The choice of files


def file(name: str, size: int, partition: int = 0, **more: Any) -> LiveFile:
    return LiveFile(name, size, (0, partition), **more)


def test_small_files_of_a_partition_make_a_group_when_there_are_enough() -> None:
    files = [file(f"f{n}", 10) for n in range(5)]
    assert compaction.choose(files, 1000) == [files]
    assert compaction.choose(files[:4], 1000) == []


def test_two_files_that_fill_the_target_are_enough() -> None:
    files = [file("a", 500), file("b", 400)]
    assert compaction.choose(files, 1000) == [files]


def test_files_of_a_good_size_and_files_with_deletions_stay() -> None:
    files = [file(f"f{n}", 750) for n in range(9)]
    files += [file(f"d{n}", 1, has_deletes=True) for n in range(9)]
    assert compaction.choose(files, 1000) == []


def test_partitions_are_never_mixed_and_a_group_is_at_most_the_target() -> None:
    files = [file(f"f{n}", 300, n % 2) for n in range(12)]
    groups = compaction.choose(files, 1000, min_files=2)
    assert all(len({one.partition for one in group}) == 1 for group in groups)
    assert all(sum(one.size for one in group) <= 1000 for group in groups)
    assert sorted(len(group) for group in groups) == [3, 3, 3, 3]


# Compaction


def test_compaction_keeps_the_rows_and_makes_one_file_of_many(lake: Lake) -> None:
    loaded(lake)
    assert compact(lake.catalog, NAME).files_before == 6
    assert len(list(lake.table.scan().plan_files())) == 1
    assert lake.offsets() == dict.fromkeys(range(60), 1)
    assert lake.table.current_snapshot().summary.operation is Operation.REPLACE
    assert compact(lake.catalog, NAME) == Compacted()


def test_a_dry_run_changes_nothing(lake: Lake) -> None:
    before = loaded(lake).table.metadata_location
    assert compact(lake.catalog, NAME, dry_run=True).files_before == 6
    assert lake.table.metadata_location == before


def test_a_compacted_file_has_the_sort_order_of_the_table(tmp_path: Path) -> None:
    lake = Lake(tmp_path).with_options(sort_by="offset desc")
    loaded(lake)
    compact(lake.catalog, NAME)
    (task,) = lake.table.scan().plan_files()
    assert task.file.sort_order_id == lake.table.sort_order().order_id
    assert lake.table.scan().to_arrow()["offset"].to_pylist() == list(range(59, -1, -1))


@pytest.mark.slow
def test_compaction_goes_on_after_the_commits_of_a_load(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(lake)
    real = compaction._tasks
    met: list[Any] = []

    def meeting(*arguments: Any) -> Any:
        found = real(*arguments)
        if (
            len(met) < 3
        ):  # the load commits between the look at the table and the compaction's commit
            number = 6 + len(met)
            met.append(lake.commit(number, rows([10 * number], minutes=0)))
        return found

    monkeypatch.setattr(compaction, "_tasks", meeting)
    assert compact(lake.catalog, NAME).files_after == 1
    assert lake.offsets() == dict.fromkeys([*range(60), 60, 70, 80], 1)
    assert len(list(lake.table.scan().plan_files())) == 4


def test_files_that_another_compaction_has_replaced_are_given_up(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(lake)
    real = compaction._swapped
    done: list[bool] = []

    def late(*arguments: Any) -> bool:
        if not done:
            done.append(True)
            assert compact(lake.catalog, NAME).files_after == 1
        return real(*arguments)

    monkeypatch.setattr(compaction, "_swapped", late)
    assert compact(lake.catalog, NAME).given_up == 1
    assert lake.offsets() == dict.fromkeys(range(60), 1)
    assert len(lake.files()) == 7


def test_a_compaction_that_reads_too_few_rows_changes_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(lake)
    monkeypatch.setattr(compaction, "read_file", lambda *_: iter([]))
    with pytest.raises(LakeError, match="nothing was changed"):
        compact(lake.catalog, NAME)
    assert len(lake.files()) == 6


def test_files_of_an_older_schema_are_compacted_into_todays(lake: Lake) -> None:
    loaded(lake)
    wide = Lake(lake.directory, lake.options.__class__(lake.options.partition_by, may_evolve=True))
    wide.commit(6, rows([60], minutes=0, colour=["red"]))
    compact(lake.catalog, NAME)
    found = lake.table.scan().to_arrow().sort_by("offset")["colour"].to_pylist()
    assert found == [None] * 60 + ["red"]


# Expiry


def test_old_snapshots_go_but_heads_and_the_last_ones_stay() -> None:
    chain = [SnapshotFacts(n, n - 1 if n else None, n) for n in range(6)]
    assert expiry.choose(chain, {5}, older_than_ms=4, keep_last=1) == [0, 1, 2, 3]
    assert expiry.choose(chain, {5, 1}, older_than_ms=ALL, keep_last=2) == [2, 3]
    assert expiry.choose(chain, {5}, older_than_ms=0, keep_last=1) == []


def test_expiry_removes_what_only_old_snapshots_need(lake: Lake) -> None:
    loaded(lake)
    compact(lake.catalog, NAME)
    done = expire(lake.catalog, NAME, ALL)
    assert done.snapshots == 6
    assert len(lake.files()) == 1
    assert lake.offsets() == dict.fromkeys(range(60), 1)
    assert lake.commit(5, rows(range(50, 60), minutes=0)).value == "already there"


def test_expiry_keeps_the_files_of_a_snapshot_with_a_tag(lake: Lake) -> None:
    loaded(lake)
    tagged = lake.table.current_snapshot().snapshot_id
    lake.table.manage_snapshots().create_tag(tagged, "before").commit()
    compact(lake.catalog, NAME)
    expire(lake.catalog, NAME, ALL)
    assert lake.table.scan(snapshot_id=tagged).to_arrow().num_rows == 60


def test_expiry_counts_in_a_dry_run_and_removes_nothing(lake: Lake) -> None:
    loaded(lake)
    compact(lake.catalog, NAME)
    before = lake.files()
    assert expire(lake.catalog, NAME, ALL, dry_run=True).files >= 6
    assert lake.files() == before
    assert len(lake.table.snapshots()) == 7


# Orphans


def listed(name: str, changed_ms: int = 0) -> ListedFile:
    return ListedFile(f"/w/data/{name}", 1, changed_ms)


def name(sink: str, write: str, number: int) -> str:
    return f"{file_prefix(sink, BatchId(write, number), 3)}-{'a' * 32}-00000.parquet"


def test_files_of_decided_batches_go_at_once_and_others_when_they_are_old() -> None:
    sinks = {"load": SinkState(BatchId("q-2", 7), {}, ("q-1",))}
    gone = [name("load", "q-2", 7), name("load", "q-2", 6), name("load", "q-1", 9)]
    young = [name("load", "q-2", 8), name("other", "q-2", 1), "compacted-1.parquet", "load-x"]
    files = [listed(one, changed_ms=100) for one in gone + young]
    chosen, younger = orphans.choose(files, set(), sinks, older_than_ms=50)
    assert [one.name for one in chosen] == gone
    assert younger == len(young)
    chosen, younger = orphans.choose(files, set(), sinks, older_than_ms=200)
    assert len(chosen) == len(files)


def test_sinks_and_writes_that_spell_the_same_do_not_settle_each_others_files() -> None:
    sinks = {"load": SinkState(BatchId("a-1", 7), {})}
    files = [listed(name("load", "a-1", 7)), listed(name("load-a", "1", 7))]
    assert orphans.choose(files, set(), sinks, 0) == (files[:1], 1)


def test_files_of_failed_attempts_go_and_those_of_the_running_batch_stay(lake: Lake) -> None:
    loaded(lake)
    lake.write(BatchId(QUERY, 5), rows([50]))
    running = lake.write(BatchId(QUERY, 6), rows([60]))
    done = remove_orphans(lake.catalog, NAME, older_than_ms=0)
    assert (done.files, done.younger) == (1, 1)
    assert lake.offsets() == dict.fromkeys(range(60), 1)
    lake.commit_files(BatchId(QUERY, 6), running, [rows([60])])
    assert lake.offsets() == dict.fromkeys(range(61), 1)


def test_a_batch_that_is_committed_between_the_list_and_the_look_stays(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(lake)
    real = orphans._listed
    files = lake.write(BatchId(QUERY, 6), rows([60]))

    def and_then_committed(*arguments: Any) -> Any:
        found = real(*arguments)
        lake.commit_files(BatchId(QUERY, 6), files, [rows([60])])
        return found

    monkeypatch.setattr(orphans, "_listed", and_then_committed)
    remove_orphans(lake.catalog, NAME, older_than_ms=0)
    assert lake.offsets() == dict.fromkeys(range(61), 1)


def test_old_files_of_anything_go_and_all_that_the_table_needs_stays(lake: Lake) -> None:
    loaded(lake)
    compact(lake.catalog, NAME)
    stray = Path(lake.table.location().removeprefix("file://")) / "metadata" / "stray.avro"
    stray.write_bytes(b"x")
    os.utime(stray, (0, 0))
    done = remove_orphans(lake.catalog, NAME, older_than_ms=1000)
    assert done.files == 1
    assert not stray.exists()
    for snapshot in lake.table.snapshots():
        assert lake.table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows


def test_nothing_that_is_needed_goes_even_when_all_is_old(lake: Lake) -> None:
    loaded(lake)
    remove_orphans(lake.catalog, NAME, older_than_ms=ALL)
    assert lake.offsets() == dict.fromkeys(range(60), 1)
    lake.commit(6, rows([60]))
    assert lake.offsets() == dict.fromkeys(range(61), 1)


@pytest.mark.slow
def test_a_load_and_maintenance_that_run_together_lose_and_double_nothing(lake: Lake) -> None:
    loaded(lake, 1)
    failures: list[BaseException] = []
    done = threading.Event()

    def maintain() -> None:
        own = Lake(lake.directory)
        try:
            while not done.is_set():
                compact(own.catalog, NAME, min_files=2)
                expire(own.catalog, NAME, ALL)
                remove_orphans(own.catalog, NAME, older_than_ms=0)
        except Exception as error:  # noqa: BLE001  raised again by the test
            failures.append(error)

    thread = threading.Thread(target=maintain)
    thread.start()
    try:
        for number in range(1, 40):
            lake.write(BatchId(QUERY, number), rows([number]))  # an attempt that dies
            lake.commit(number, rows(range(10 * number, 10 * number + 10), minutes=0))
    finally:
        done.set()
        thread.join()
    assert not failures
    assert lake.offsets() == dict.fromkeys(range(400), 1)
    remove_orphans(lake.catalog, NAME, older_than_ms=0)
    expire(lake.catalog, NAME, ALL)
    needed = {task.file.file_path for task in lake.table.scan().plan_files()}
    assert lake.files() == needed
