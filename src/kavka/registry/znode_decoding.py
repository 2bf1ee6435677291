"""A znode may hold anything: people and tools write there, too. One must not stop what works without it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)


def decode_or_none(data: bytes, decode: Callable[[bytes], T], path: str) -> T | None:
    """Return what a znode says, or None, with a warning, when `decode` cannot read it."""
    try:
        return decode(data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        log.warning("znode not decoded path=%s reason=%r", path, error)
        return None
