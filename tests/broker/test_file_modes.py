"""Files have the mode that the umask gives, as Apache Kafka's have; those of the registry are their user's alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kavka.broker.metadata.cache import OFFSETS_TOPIC
from support.one_broker import Run, Served

REGISTRY = {"kavka-registry.journal", "kavka-registry.snapshot"}


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o002])
def test_files_of_a_broker_have_the_mode_of_the_umask(run: Run, tmp_path: Path, mask: int) -> None:
    data = tmp_path / "data"

    async def write(served: Served) -> None:
        await served.broker.topics.create_automatically(OFFSETS_TOPIC)
        await served.create("t", min__insync__replicas="1")
        for _ in range(2):
            assert (await served.produce("t", b"v")).error_code == 0
            for replica in served.broker.replica_manager:
                replica.log.roll()

    with umask(mask):
        run(write)
        run(write)
    found = {path: path.stat().st_mode & 0o777 for path in data.rglob("*")}
    modes = {
        True: {oct(mode) for path, mode in found.items() if path.is_dir()},
        False: {oct(m) for p, m in found.items() if not p.is_dir() and p.name not in REGISTRY},
    }
    assert modes == {True: {oct(0o777 & ~mask)}, False: {oct(0o666 & ~mask)}}
    private = {path.name: oct(mode) for path, mode in found.items() if path.name in REGISTRY}
    assert private == dict.fromkeys(REGISTRY, "0o600")
    assert data.stat().st_mode & 0o777 == 0o777 & ~mask
    names = {path.name for path in found}
    assert {"meta.properties", ".lock", "partition.metadata", "leader-epoch-checkpoint"} <= names
    assert {path.suffix for path in found} >= {".log", ".index", ".timeindex", ".snapshot"}
