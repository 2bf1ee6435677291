"""CRC-32C, as record batches, snapshots and journals carry it.

Only the compiled part of the crc32c package is imported. The package's own `__init__` brings `argparse`, `email`,
`zipfile` and `importlib.metadata` with it, for a command and a version that kavka does not use: an eighth of a
broker's start.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Protocol

from kavka.io import Buffer


class Crc32c(Protocol):
    """`crc32c(data)` is the checksum of `data`; `crc32c(more, crc)` continues from one."""

    def __call__(self, data: Buffer, value: int = 0, /) -> int:
        """Return the checksum, 0 to 2^32 - 1."""
        ...


def _load() -> Crc32c:
    package = PathFinder.find_spec("crc32c")
    within = None if package is None else package.submodule_search_locations
    spec = PathFinder.find_spec("crc32c._crc32c", within)
    if spec is None or spec.loader is None:  # a release that is laid out in another way
        from crc32c import crc32c

        return crc32c  # type: ignore[no-any-return]
    compiled = module_from_spec(spec)
    spec.loader.exec_module(compiled)
    found: Crc32c = compiled.crc32c
    return found


crc32c = _load()
