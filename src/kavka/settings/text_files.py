"""Text of files that users name: settings and plans. It is bounded, because a wrong path may have no end."""

from __future__ import annotations

from typing import Final

MAX_SETTINGS: Final = 16 << 20
"""Bytes of a file of settings, far above any that is written by hand."""
MAX_DOCUMENT: Final = 1 << 30
"""Bytes of a plan: a million partitions take a tenth."""


def read_text(path: str, max_bytes: int = MAX_SETTINGS) -> str:
    """Return the UTF-8 text of a file, whose ends of lines are as they are. Raise OSError.

    Raise ValueError, which says why without the path, when it is no text or has more bytes.
    """
    return decoded(read_bytes(path, max_bytes))


def read_bytes(path: str, max_bytes: int) -> bytes:
    """Return the content of a file. Raise OSError, or ValueError when it has more bytes."""
    # Unbuffered: of /dev/zero no byte too many is read.
    with open(path, "rb", buffering=0) as file:
        pieces: list[bytes] = []
        left = max_bytes + 1
        while left and (piece := file.read(min(left, _PIECE))):
            pieces.append(piece)
            left -= len(piece)
    if not left:
        raise ValueError(f"it has more than {max_bytes} bytes: this is not the file that was meant")
    return b"".join(pieces)


def decoded(content: bytes) -> str:
    """Return text. Raise ValueError, which says where it is none."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        byte = content[error.start]
        raise ValueError(f"it is no text in UTF-8: byte {byte:#04x} at {error.start}") from None


_PIECE: Final = 1 << 20
