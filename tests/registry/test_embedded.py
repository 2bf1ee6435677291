"""The embedded registry: acknowledged changes survive, damaged tails are cut."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from kavka.core.znodes import Check, Create, Delete, Event, EventType, SetData, ZnodeError
from kavka.net.clock import SystemClock, SystemRandom
from kavka.registry.embedded import EmbeddedRegistry
from kavka.registry.interface import RegistryRefused, ensure_path
from kavka.registry.journal import CorruptRegistry, Journal
from kavka.storage.disk.os_disk import OsDisk


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def opened(path: Path) -> EmbeddedRegistry:
    return await EmbeddedRegistry.open(OsDisk(), str(path), SystemClock(), SystemRandom())


def test_acknowledged_nodes_survive_a_crash(tmp_path: Path) -> None:
    async def story() -> None:
        registry = await opened(tmp_path)
        await ensure_path(registry, "/brokers/topics")
        await registry.create("/brokers/topics/t", b'{"version":3}')
        await registry.set("/brokers/topics/t", b"\x00\xff")
        again = await opened(tmp_path)  # the first was never closed
        data, stat = await again.get("/brokers/topics/t")
        assert (data, stat.version) == (b"\x00\xff", 1)

    run(story())


def test_ephemeral_nodes_go_with_the_process(tmp_path: Path) -> None:
    async def story() -> None:
        registry = await opened(tmp_path)
        await registry.create("/here", ephemeral=True)
        again = await opened(tmp_path)
        assert await again.stat("/here") is None

    run(story())


def test_a_torn_tail_is_cut_and_what_was_before_stays(tmp_path: Path) -> None:
    async def story() -> None:
        registry = await opened(tmp_path)
        await registry.create("/kept")
        journal = tmp_path / "kavka-registry.journal"
        journal.write_bytes(journal.read_bytes() + b"\x00\x00\x00\x20torn")
        again = await opened(tmp_path)
        assert await again.children("/") == ["kept"]
        await again.create("/after")
        third = await opened(tmp_path)
        assert await third.children("/") == ["after", "kept"]

    run(story())


@pytest.mark.parametrize("is_folded", [False, True])
def test_null_data_survives_in_journal_and_snapshot(tmp_path: Path, is_folded: bool) -> None:
    async def story() -> None:
        registry = await opened(tmp_path)
        await registry.multi([Create("/null"), Create("/empty", b"")])
        if is_folded:
            await registry.close()
        tree = await Journal(OsDisk(), str(tmp_path)).open()
        assert (tree.data("/null"), tree.data("/empty")) == (None, b"")
        again = await opened(tmp_path)
        assert (await again.get("/null"))[0] == b""

    run(story())


def test_a_clean_close_folds_the_journal_into_the_snapshot(tmp_path: Path) -> None:
    async def story() -> None:
        registry = await opened(tmp_path)
        await registry.create("/a")
        await registry.create("/a/b", b"x")
        await registry.close()
        assert (tmp_path / "kavka-registry.journal").read_bytes() == b""
        again = await opened(tmp_path)
        assert await again.children("/a") == ["b"]

    run(story())


def test_a_damaged_snapshot_stops_the_start(tmp_path: Path) -> None:
    async def story() -> None:
        registry = await opened(tmp_path)
        await registry.create("/a")
        await registry.close()
        snapshot = tmp_path / "kavka-registry.snapshot"
        damaged = bytearray(snapshot.read_bytes())
        damaged[20] ^= 1
        snapshot.write_bytes(damaged)
        with pytest.raises(CorruptRegistry, match="checksum"):
            await opened(tmp_path)

    run(story())


def test_multi_happens_whole_or_not_at_all(tmp_path: Path) -> None:
    async def story() -> None:
        registry = await opened(tmp_path)
        await registry.create("/epoch", b"1")
        with pytest.raises(RegistryRefused) as refused:
            await registry.multi([Create("/new"), Check("/epoch", 7)])
        assert refused.value.error is ZnodeError.BAD_VERSION
        assert await registry.stat("/new") is None
        paths = await registry.multi(
            [Create("/new"), SetData("/epoch", b"2", 0), Create("/new/n-", sequence=True)]
        )
        assert paths == ["/new", "/epoch", "/new/n-0000000000"]

    run(story())


def test_watches_fire_once(tmp_path: Path) -> None:
    async def story() -> None:
        registry = await opened(tmp_path)
        seen: list[Event] = []
        await registry.stat("/a", seen.append)
        await registry.children("/", seen.append)
        await registry.create("/a")
        await registry.set("/a", b"x")
        await registry.multi([Delete("/a")])
        assert seen == [Event(EventType.CREATED, "/a"), Event(EventType.CHILDREN_CHANGED, "/")]

    run(story())


def test_concurrent_changes_all_become_durable(tmp_path: Path) -> None:
    async def story() -> None:
        registry = await opened(tmp_path)
        await asyncio.gather(*(registry.create("/n-", sequence=True) for _ in range(50)))
        again = await opened(tmp_path)
        assert len(await again.children("/")) == 50

    run(story())
