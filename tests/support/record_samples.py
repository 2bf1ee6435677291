"""Records, a batch of them, and payloads to compress, for tests of our code alone and beside other clients."""

import os

from kavka.wire.records.batch import BatchBuilder, Record
from kavka.wire.records.compression import Compression

ROWS = [
    (None, b"value", 1_700_000_000_000, []),
    (b"key", None, 1_700_000_000_005, [("h", b"1"), ("h", None)]),
    (b"", b"", 1_699_999_999_000, [("\N{GREEK SMALL LETTER ALPHA}", b"")]),
    (b"k" * 200, b"v" * 70_000, 1_700_000_000_010, []),
    *((b"%d" % i, b"%d" % (i * i), 1_700_000_001_000 + i, []) for i in range(300)),
]
EXPECTED = [
    Record(i, stamp, 0, key, value, tuple(headers))  # type: ignore[arg-type]
    for i, (key, value, stamp, headers) in enumerate(ROWS)
]
"""The records of a batch of `ROWS`, as they are read."""

CODECS = list(Compression)
REAL = CODECS[1:]
"""The codecs that compress."""
PAYLOADS = {
    "one byte": b"a",
    "text": b"".join(b"record %d of the stream;" % i for i in range(20_000)),
    "zeros": bytes(300_000),
    "noise": os.urandom(150_000),
    "one block": b"x" * 65536,
}


def built(rows=ROWS, **options) -> bytearray:
    """Return a batch of rows."""
    builder = BatchBuilder()
    for key, value, timestamp, headers in rows:
        builder.append(key, value, timestamp, headers)
    return builder.build(**options)
