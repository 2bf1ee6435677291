"""The choice between the compiled kernel and its twin in Python.

`NAME` is `compiled` or `python`. The twin serves where the extension was not built, or when KAVKA_PURE is 1 in
the environment as the process starts. `pure` documents the calls, `pure_cleaner` those of the cleaner.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("KAVKA_PURE") == "1":
    from kavka.wire.records import pure as chosen
    from kavka.wire.records import pure_cleaner as cleaning
else:
    try:
        from kavka.wire.records import _kernel as chosen

        cleaning = chosen
    except ImportError:
        from kavka.wire.records import pure as chosen
        from kavka.wire.records import pure_cleaner as cleaning

NAME: str = chosen.NAME
SLOW_BECAUSE = (
    "the compiled kernel is missing, so that records are encoded, decoded and checked in Python, at a third of the "
    "speed or less; install a wheel, or gcc and Python's headers and install kavka again"
    if NAME == "python" and os.environ.get("KAVKA_PURE") != "1"
    else ""
)
"""Warning for operators and developers when the pure kernel is used unintentionally; else empty."""
check = chosen.check
sound = chosen.sound
records = chosen.records
decode = chosen.decode
encode = chosen.encode
encode_columns = chosen.encode_columns
keep = chosen.keep
keys = chosen.keys
gather = chosen.gather
first_since = chosen.first_since
murmur2 = chosen.murmur2
pack_headers = chosen.pack_headers
take_keyed = chosen.take_keyed
take_values = chosen.take_values
xxhash32 = chosen.xxhash32
OffsetMap = cleaning.OffsetMap
rebase = cleaning.rebase
outline = cleaning.outline

__all__ = [
    "NAME",
    "SLOW_BECAUSE",
    "OffsetMap",
    "check",
    "decode",
    "encode",
    "encode_columns",
    "first_since",
    "gather",
    "keep",
    "keys",
    "murmur2",
    "outline",
    "pack_headers",
    "rebase",
    "records",
    "sound",
    "take_keyed",
    "take_values",
    "xxhash32",
]
