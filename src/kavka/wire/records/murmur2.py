"""The murmur2 hash of a key, from which its partition comes, in Python.

Source: Kafka's protocol guide names the hash of the default partitioner; the constants are murmur2's.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

_MASK: Final = 0xFFFFFFFF
_FACTOR: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C


@lru_cache(maxsize=256)
def _words(count: int) -> Struct:
    return Struct(f"<{count}I")


@lru_cache(maxsize=65_536)
def murmur2(data: bytes) -> int:
    """Return the 32-bit hash, without sign, that Java's default partitioner takes of a key.

    Hashes of keys seen lately are remembered.
    """
    length = len(data)
    count = length >> 2
    hashed = _SEED ^ length
    for word in _words(count).unpack_from(data):
        mixed = (word * _FACTOR) & _MASK
        mixed = ((mixed ^ (mixed >> 24)) * _FACTOR) & _MASK
        hashed = ((hashed * _FACTOR) & _MASK) ^ mixed
    rest = data[count << 2 :]
    if rest:
        hashed = ((hashed ^ int.from_bytes(rest, "little")) * _FACTOR) & _MASK
    hashed = ((hashed ^ (hashed >> 13)) * _FACTOR) & _MASK
    return hashed ^ (hashed >> 15)
