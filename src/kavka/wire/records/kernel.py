"""The choice between the compiled kernel and its twin in Python.

`NAME` is `compiled` or `python`. The twin serves where the extension was not built, or when KAVKA_PURE is 1 in
the environment as the process starts. `pure` documents the calls.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("KAVKA_PURE") == "1":
    from kavka.wire.records import pure as chosen
else:
    try:
        from kavka.wire.records import _kernel as chosen
    except ImportError:
        from kavka.wire.records import pure as chosen

NAME: str = chosen.NAME
check = chosen.check
sound = chosen.sound
records = chosen.records
decode = chosen.decode
encode = chosen.encode
encode_columns = chosen.encode_columns
keep = chosen.keep
keys = chosen.keys
gather = chosen.gather

__all__ = [
    "NAME",
    "check",
    "decode",
    "encode",
    "encode_columns",
    "gather",
    "keep",
    "keys",
    "records",
    "sound",
]
