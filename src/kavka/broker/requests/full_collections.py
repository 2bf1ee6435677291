"""Full collections of garbage: put off while large requests are in work.

The collector walks all objects whenever those that are new and live on are a quarter of the others. While the
objects of a large request grow it would do so again and again, each time up to 100 ms in one go, and find nothing:
a request lives until it is answered, and its objects have no cycles.
"""

from __future__ import annotations

import gc
from typing import Final

_ORDINARY: Final = gc.get_threshold()[2]
_PUT_OFF: Final = 500
"""Collections of the middle generation until a full one: four million objects that live on, more than large requests
may have by default (`kavka.requests.decoded.max.bytes`). A loss of cycles meanwhile has this bound."""


def put_off_full_collections(are_put_off: bool) -> None:
    """Put off full collections of this process, or have them when they are due again."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _PUT_OFF if are_put_off else _ORDINARY)
