"""Number of examples with which a property is tried."""

from __future__ import annotations

from hypothesis import settings

_ALL = 100
"""Examples of a property that asks for no number, in `make test`."""
_MIN_EXAMPLES = 2


def examples(count: int) -> int:
    """Return `count` in `make test`, and in unit tests the same share of it that other properties have there."""
    share = settings.default.max_examples / _ALL
    return max(_MIN_EXAMPLES, round(count * min(share, 1.0)))
