"""Waiting for a condition, with a message that says what was there instead."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

__tracebackhide__ = True  # pytest shows the line of the test that called
_POLL_S = 0.01


class NotInTime(AssertionError, TimeoutError):
    """A test waited in vain, and fails."""


def require_number(name: str, value: object, *, least: int) -> None:
    """Raise TypeError or ValueError for an argument that is no whole number from `least` on."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: give a whole number")
    if value < least:
        raise ValueError(f"{name}={value}: give a number from {least} on")


def wait_for(
    condition: Callable[[], T],
    message: str | Callable[[], str] = "",
    *,
    timeout_s: float = 10.0,
    poll_s: float = _POLL_S,
) -> T:
    """Call `condition` until it returns something true, and return that.

    An AssertionError counts as not yet, so a condition may assert. Raise NotInTime after `timeout_s` seconds, with the
    last value or the last AssertionError; `message`, or what it returns then, says what was waited for.
    """
    if math.isnan(timeout_s):
        raise ValueError("timeout_s=nan: it would wait without end")
    end = time.monotonic() + timeout_s
    while True:
        failure: AssertionError | None = None
        value: T | None = None
        try:
            value = condition()
        except AssertionError as error:
            failure = error
        if value:
            return value
        if time.monotonic() >= end:
            text = message() if callable(message) else message
            last = f"the last assertion: {failure}" if failure else f"the last value: {value!r}"
            what = text or getattr(condition, "__qualname__", "the condition")
            raise NotInTime(f"waited {timeout_s:g} s for {what}; {last}") from failure
        time.sleep(poll_s)
