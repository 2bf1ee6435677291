"""A loop that reads the registry again after each watch event: failures do not end it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kavka.broker.control.watch_loop import WatchLoop

log = logging.getLogger("kavka.test_looking")


def test_one_read_for_all_events_meanwhile() -> None:
    async def main() -> None:
        looks = asyncio.Queue()  # type: ignore[var-annotated]
        watch_loop = WatchLoop(lambda: looks.put(1), log, "not read")
        watch_loop.notify()
        watch_loop.notify()
        watch_loop.start()
        await asyncio.wait_for(looks.get(), 5)
        assert looks.empty()
        watch_loop.notify()
        await asyncio.wait_for(looks.get(), 5)
        await watch_loop.stop()
        watch_loop.notify()
        await asyncio.sleep(0)
        assert looks.empty()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("failure", "level", "traced"),
    [(ConnectionError("gone"), "INFO", False), (ValueError("odd"), "ERROR", True)],
    ids=["passing", "a fault of ours"],
)
def test_it_looks_again_after_a_failure(caplog, failure, level, traced):
    async def main() -> None:
        failures = [failure]
        looks = asyncio.Queue()  # type: ignore[var-annotated]

        async def look() -> None:
            await looks.put(1)
            if failures:
                raise failures.pop()

        watch_loop = WatchLoop(look, log, "not read", retry_s=0, expected_error_level=logging.INFO)
        watch_loop.start()
        watch_loop.notify()
        await asyncio.wait_for(looks.get(), 5)
        await asyncio.wait_for(looks.get(), 5)
        await watch_loop.stop()

    with caplog.at_level(logging.INFO, "kavka.test_looking"):
        asyncio.run(main())
    (record,) = [one for one in caplog.records if one.name == "kavka.test_looking"]
    assert record.levelname == level
    assert record.getMessage().startswith("not read")
    assert bool(record.exc_info) is traced
