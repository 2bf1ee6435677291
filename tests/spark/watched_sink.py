"""`format("kavka-watched")`: our data source, whose exactly-once sink notes each step that it reaches, and stops there.

`KAVKA_WATCH` is a directory shared by all processes of a job. Each step is noted as a file `<step>.<n>`, n from 1. A
file `<step>.<n>.hold` has the process stay there until the file is gone, one `<step>.<n>.die` has it kill itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from kavka.spark.data_source import KavkaDataSource
from kavka.spark.driver import Reach


async def watch(step: str) -> None:
    """Note a step, and stop or die where a test wants it."""
    directory = Path(os.environ["KAVKA_WATCH"])
    number = 1
    while True:
        noted = directory / f"{step}.{number}"
        try:
            noted.touch(exist_ok=False)
            break
        except FileExistsError:
            number += 1
    if noted.with_suffix(f".{number}.die").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    while noted.with_suffix(f".{number}.hold").exists():  # noqa: ASYNC110  another process has the say
        await asyncio.sleep(0.02)


class WatchedDataSource(KavkaDataSource):
    """Spark finds it by its class."""

    @classmethod
    def name(cls) -> str:
        """Return what stands in `format(...)`."""
        return "kavka-watched"

    def _reach(self) -> Reach:
        return watch
