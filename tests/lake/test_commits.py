"""Batches, exactly once: what a commit finds, and what it leaves when another comes first."""

from __future__ import annotations

import os
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException

from kavka.ids import TopicPartition
from kavka.lake import commits, replaced_rows
from kavka.lake.commits import TableCommitter
from kavka.lake.errors import LakeError
from kavka.lake.reachable import files_of
from kavka.lake.sink_state import BatchId, Verdict
from support.lake import NAME, QUERY, Lake, rows

AT = TopicPartition("clicks", 0)


def test_a_batch_is_one_snapshot_that_says_what_it_is(lake: Lake) -> None:
    lake.commit(0, rows(range(100)))
    (snapshot,) = lake.table.snapshots()
    said = snapshot.summary.additional_properties
    assert said["kavka.sink-id"] == "load"
    assert (said["kavka.write-id"], said["kavka.batch-id"]) == (QUERY, "0")
    assert said["kavka.offsets"] == '{"clicks":{"0":[0,100,100]}}'
    assert lake.state_ends() == {AT: 100}


def test_a_repeated_batch_is_not_written_again_and_its_files_are_removed(lake: Lake) -> None:
    lake.commit(0, rows(range(100)))
    before = lake.files()
    assert lake.commit(0, rows(range(100))) is Verdict.ALREADY_THERE
    assert lake.files() == before
    assert lake.offsets() == dict.fromkeys(range(100), 1)


def test_a_repeated_batch_is_found_when_its_snapshot_has_expired(lake: Lake) -> None:
    lake.commit(0, rows(range(100)))
    lake.sink = "another"
    lake.commit(0, rows(range(100, 110)))
    lake.sink = "load"
    first = lake.table.snapshots()[0].snapshot_id
    lake.table.maintenance.expire_snapshots().by_id(first).commit()
    assert lake.commit(0, rows(range(100))) is Verdict.ALREADY_THERE


def test_of_two_drivers_that_commit_the_same_batch_one_writes_it(lake: Lake) -> None:
    lake.commit(0, rows(range(10)))
    batch, piece = BatchId(QUERY, 1), rows(range(10, 20))
    late, files = lake.write(batch, piece), lake.write(batch, piece)

    class Late(TableCommitter):
        def _swap(self, *arguments: Any) -> None:
            if lake.offsets().total() == 10:
                assert lake.commit_files(batch, files, [piece]) is Verdict.WRITE
            super()._swap(*arguments)

    assert (
        lake.commit_files(batch, late, [piece], Late(lake.catalog, NAME)) is Verdict.ALREADY_THERE
    )
    assert lake.offsets() == dict.fromkeys(range(20), 1)


@pytest.mark.slow
def test_a_commit_that_meets_another_writers_is_made_again(lake: Lake) -> None:
    lake.commit(0, rows(range(10)))
    batch, piece = BatchId(QUERY, 1), rows(range(10, 20))
    files = lake.write(batch, piece)
    other = Lake(lake.directory, sink="other")

    class Met(TableCommitter):
        met = 0

        def _swap(self, *arguments: Any) -> None:
            if self.met < 3:
                self.met += 1
                other.commit(self.met, rows([100 + self.met]))
            super()._swap(*arguments)

    lake.commit_files(batch, files, [piece], Met(lake.catalog, NAME))
    assert lake.offsets() == dict.fromkeys([*range(20), 101, 102, 103], 1)


def test_a_commit_whose_response_is_lost_is_found(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.commit(0, rows(range(10)))
    commit = SqlCatalog.commit_table
    lost: list[Any] = []

    def without_answer(*arguments: Any) -> Any:
        response = commit(*arguments)
        if not lost:
            lost.append(response)
            raise CommitStateUnknownException("the connection was lost")
        return response

    monkeypatch.setattr(SqlCatalog, "commit_table", without_answer)
    assert lake.commit(1, rows(range(10, 20))) is Verdict.ALREADY_THERE
    assert lake.offsets() == dict.fromkeys(range(20), 1)
    assert len(lake.files()) == 2


def test_an_older_checkpoint_and_a_new_one_are_refused(lake: Lake) -> None:
    lake.commit(3, rows(range(10)))
    with pytest.raises(LakeError, match="checkpoint is an older one"):
        lake.commit(2, rows(range(10)))
    with pytest.raises(LakeError, match="onNewCheckpoint"):
        lake.commit(0, rows(range(10)), write="query-2")
    lake.commit(0, rows(range(10, 20)), write="query-2", accepts_other_writes=True)
    with pytest.raises(LakeError, match="was replaced by query-2"):
        lake.commit(4, rows(range(20, 30)), accepts_other_writes=True)


def test_a_batch_that_was_rolled_back_while_its_tasks_ran_is_refused(lake: Lake) -> None:
    lake.commit(0, rows(range(10)))
    with pytest.raises(LakeError, match="rolled back"):
        lake.commit_files(BatchId(QUERY, 1), [], [rows([10])], was_skipped=True)


def test_a_batch_without_rows_makes_no_snapshot(lake: Lake) -> None:
    lake.commit(0, rows(range(10)))
    lake.commit(1, rows([]))
    assert len(lake.table.snapshots()) == 1


def test_a_partitioning_that_changed_while_tasks_wrote_refuses_the_batch(lake: Lake) -> None:
    lake.commit(0, rows(range(10)))
    batch, piece = BatchId(QUERY, 1), rows(range(10, 20))
    files = lake.write(batch, piece)
    with lake.table.update_spec() as update:
        update.add_identity("topic")
    with pytest.raises(LakeError, match="partitioning"):
        lake.commit_files(batch, files, [piece])


def test_a_data_frame_is_recognised_by_its_write_id_also_after_later_ones(lake: Lake) -> None:
    frame = {"is_stream": False, "accepts_other_writes": True}
    for day, first in (("monday", 0), ("tuesday", 10)):
        lake.commit(0, rows(range(first, first + 10)), write=day, **frame)
    assert lake.commit(0, rows(range(10)), write="monday", **frame) is Verdict.ALREADY_THERE
    assert lake.offsets() == dict.fromkeys(range(20), 1)


def test_all_that_a_commit_names_is_on_the_disk_before_the_catalogue_names_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, synced = os.fsync, set[str]()
    commit, staged = SqlCatalog.commit_table, set[str]()

    def noting(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    def swapping(*arguments: Any) -> Any:
        response = commit(*arguments)
        staged.update(synced)
        return response

    monkeypatch.setattr(os, "fsync", noting)
    monkeypatch.setattr(SqlCatalog, "commit_table", swapping)
    lake.commit(0, rows(range(10)))
    needed = files_of(lake.table.snapshots(), lake.table.io) | {lake.table.metadata_location}
    assert needed <= staged
    assert {os.path.dirname(path) for path in needed} <= staged


# Rows in place of others


@pytest.mark.slow
def test_a_reload_replaces_its_range_and_nothing_else(lake: Lake) -> None:
    lake.commit(0, rows(range(100)))
    lake.commit(1, rows(range(100, 200)))
    fixed = rows(range(50, 150), value=[b"fixed"] * 100)
    lake.replace({AT: (50, 150)}, fixed)
    assert lake.offsets() == dict.fromkeys(range(200), 1)
    found = lake.table.scan().to_arrow().sort_by("offset")["value"].to_pylist()
    assert found[49:51] == [b"value-49", b"fixed"]
    assert found[149:151] == [b"fixed", b"value-150"]
    assert lake.state_ends() == {AT: 200}


def test_a_reload_is_one_snapshot_and_may_be_repeated(lake: Lake) -> None:
    lake.commit(0, rows(range(100)))
    for _ in range(2):
        lake.replace({AT: (0, 50)}, rows(range(50)))
    assert lake.offsets() == dict.fromkeys(range(100), 1)
    assert len(lake.table.snapshots()) == 3


def test_a_reload_beside_a_running_load_keeps_what_came_meanwhile(lake: Lake) -> None:
    lake.commit(0, rows(range(100)))
    came: list[Verdict] = []
    kept = replaced_rows.kept_rows

    def slow(*arguments: Any) -> Any:
        found = kept(*arguments)
        if not came:
            came.append(lake.commit(1, rows(range(100, 120))))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commits, "kept_rows", slow)
        lake.replace({AT: (20, 60)}, rows(range(20, 60)))
    assert lake.offsets() == dict.fromkeys(range(120), 1)


def test_a_reload_with_no_rows_removes_its_range(lake: Lake) -> None:
    lake.commit(0, rows(range(100)))
    lake.replace({AT: (10, 90)})
    assert sorted(lake.offsets()) == [*range(10), *range(90, 100)]


def test_rows_outside_of_the_replaced_range_are_refused(lake: Lake) -> None:
    lake.commit(0, rows(range(100)))
    with pytest.raises(LakeError, match="would be doubled"):
        lake.replace({AT: (0, 50)}, rows(range(51)))
