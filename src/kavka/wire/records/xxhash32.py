"""The xxHash32 of lz4's frames: of a frame's descriptor, and of its blocks where the frame has checksums for them.

Source: the description of the xxHash algorithms in the lz4 frame format's reference.
"""

from __future__ import annotations

from struct import Struct, unpack_from
from typing import Final

from kavka.io import Buffer

_MASK: Final = 0xFFFF_FFFF
_PRIME_1: Final = 2654435761
_PRIME_2: Final = 2246822519
_PRIME_3: Final = 3266489917
_PRIME_4: Final = 668265263
_PRIME_5: Final = 374761393
_STRIPE: Final = Struct("<4I")


def xxhash32(data: Buffer) -> int:
    """Return the hash of `data` with the seed 0."""
    length = len(data)
    position = 0
    if length >= _STRIPE.size:
        position = length - length % _STRIPE.size
        value = _of_stripes(data, position)
    else:
        value = _PRIME_5
    value = value + length & _MASK
    while position + 4 <= length:
        (word,) = unpack_from("<I", data, position)
        value = _rotated(value + word * _PRIME_3 & _MASK, 17) * _PRIME_4 & _MASK
        position += 4
    for byte in bytes(data[position:]):
        value = _rotated(value + byte * _PRIME_5 & _MASK, 11) * _PRIME_1 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _of_stripes(data: Buffer, end: int) -> int:
    lanes = [_PRIME_1 + _PRIME_2 & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK]
    for words in _STRIPE.iter_unpack(memoryview(data)[:end]):
        for index, word in enumerate(words):
            lanes[index] = _rotated(lanes[index] + word * _PRIME_2 & _MASK, 13) * _PRIME_1 & _MASK
    rotations = zip(lanes, (1, 7, 12, 18), strict=True)
    return sum(_rotated(lane, by) for lane, by in rotations) & _MASK


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _MASK
