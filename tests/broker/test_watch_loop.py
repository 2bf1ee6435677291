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
        looking = WatchLoop(lambda: looks.put(1), log, "not read")
        looking.notify()
        looking.notify()
        looking.start()
        await asyncio.wait_for(looks.get(), 5)
        assert looks.empty()
        looking.notify()
        await asyncio.wait_for(looks.get(), 5)
        await looking.stop()
        looking.notify()
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

        looking = WatchLoop(look, log, "not read", retry_s=0, expected_error_level=logging.INFO)
        looking.start()
        looking.notify()
        await asyncio.wait_for(looks.get(), 5)
        await asyncio.wait_for(looks.get(), 5)
        await looking.stop()

    with caplog.at_level(logging.INFO, "kavka.test_looking"):
        asyncio.run(main())
    (record,) = [one for one in caplog.records if one.name == "kavka.test_looking"]
    assert record.levelname == level
    assert record.getMessage().startswith("not read")
    assert bool(record.exc_info) is traced
