"""Messages to bytes and back. The code for a (class, version, direction) is written and compiled on its first use.

`python -m kavka.wire show MetadataResponse 12` prints that code.
"""

from __future__ import annotations

from collections.abc import Generator
from struct import error as StructError
from typing import Any, Final, TypeVar

from kavka.io import Buffer, Sendable
from kavka.wire.compile_decode import (
    Decoder,
    SlicedDecoder,
    compile_decoder,
    compile_sliced_decoder,
    has_records,
)
from kavka.wire.compile_encode import (
    Encoder,
    SlicedEncoder,
    compile_encoder,
    compile_sliced_encoder,
)
from kavka.wire.schema import schema_of

M = TypeVar("M")


class CorruptFrame(Exception):
    """Bytes that are not what they claim to be; the connection that they came on cannot be trusted further."""

    def __init__(self, message: str, version: int, position: int, reason: str) -> None:
        """Name what was decoded, its version, and the byte of the buffer up to which decoding succeeded."""
        super().__init__(f"{message} v{version} is corrupt near byte {position}: {reason}")
        self.message = message
        self.version = version
        self.position = position
        self.reason = reason


_decoders: dict[tuple[type, int], tuple[Decoder, bool]] = {}
_encoders: dict[tuple[type, int], Encoder] = {}
_sliced_decoders: dict[tuple[type, int], tuple[SlicedDecoder, bool]] = {}
_sliced_encoders: dict[tuple[type, int], SlicedEncoder] = {}
_COPIED_BYTES: Final = 1 << 20
"""Up to this size a frame that is decoded in slices is copied into bytes: above, the copy would take too long."""


def decoder_of(cls: type, version: int) -> tuple[Decoder, bool]:
    """Return the decoder and whether the message can carry records. Raise ValueError for a version it does not have."""
    found = _decoders.get((cls, version))
    if found is None:
        _check_version(cls, version)
        found = _decoders[cls, version] = compile_decoder(cls, version), has_records(cls)
    return found


def encoder_of(cls: type, version: int) -> Encoder:
    """Return the encoder. Raise ValueError for a version that the message does not have."""
    found = _encoders.get((cls, version))
    if found is None:
        _check_version(cls, version)
        found = _encoders[cls, version] = compile_encoder(cls, version)
    return found


def _check_version(cls: type, version: int) -> None:
    if version not in schema_of(cls).versions:
        raise ValueError(f"{cls.__name__} has no version {version}")


def decode(cls: type[M], version: int, buffer: Buffer, position: int = 0) -> M:
    """Return the message that fills `buffer` from `position` to its end.

    Records are memoryviews of `buffer` (writable if it is), everything else is copied. Raise CorruptFrame for bytes
    that are not such a message, and ValueError for a version that the class does not have.
    """
    message, end = decode_front(cls, version, buffer, position)
    if end != len(buffer):
        raise CorruptFrame(cls.__name__, version, end, f"the frame has {len(buffer)} bytes")
    return message


def decode_front(cls: type[M], version: int, buffer: Buffer, position: int = 0) -> tuple[M, int]:
    """Return as `decode` the message that begins at `position`, and the position after it; more may follow."""
    decoder, may_have_records = decoder_of(cls, version)
    # Bytes are the fastest to index and to cut; a copy would break the tie between records and the frame.
    data = buffer if may_have_records or type(buffer) is bytes else bytes(buffer)
    try:
        return decoder(data, memoryview(data), position, len(data))
    except (IndexError, StructError, ValueError) as error:
        raise CorruptFrame(cls.__name__, version, _position_of(error), str(error)) from error


class SlicedDecoding:
    """Decodes as `decode_front`, a slice at a time."""

    __slots__ = ("_cls", "_steps", "_version", "end", "message", "weight")

    def __init__(self, cls: type, version: int, buffer: Buffer, position: int = 0) -> None:
        """Begin at `position`. Raise ValueError for a version that the class does not have."""
        found = _sliced_decoders.get((cls, version))
        if found is None:
            _check_version(cls, version)
            found = compile_sliced_decoder(cls, version), has_records(cls)
            _sliced_decoders[cls, version] = found
        decoder, may_have_records = found
        is_kept = may_have_records or type(buffer) is bytes or len(buffer) > _COPIED_BYTES
        data = buffer if is_kept else bytes(buffer)
        self._cls = cls
        self._version = version
        self._steps = decoder(data, memoryview(data), position, len(data))
        self.weight = 0
        """Bytes of memory that the objects take which were made so far, about."""
        self.message: Any = None
        """The message, after all is decoded."""
        self.end = position
        """End of the message, after all is decoded."""

    def step(self) -> bool:
        """Decode some of the objects; return whether all are decoded. Raise CorruptFrame."""
        try:
            self.weight += next(self._steps)
        except StopIteration as stop:
            self.message, self.end = stop.value
            return True
        except (IndexError, StructError, ValueError) as error:
            name, position = self._cls.__name__, _position_of(error)
            raise CorruptFrame(name, self._version, position, str(error)) from error
        return False


def _position_of(error: Exception) -> int:
    """Return how far the decoder had come: its `pos` is still in the frame of the traceback."""
    traceback = error.__traceback__
    if traceback is None or traceback.tb_next is None:
        return 0
    position: int = traceback.tb_next.tb_frame.f_locals.get("pos", 0)
    return position


def encode(message: object, version: int) -> list[Sendable]:
    """Return the bytes of a message as parts to be sent in order: buffers, and the ranges of files that it carries."""
    parts: list[Sendable] = []
    out = encode_into(message, version, bytearray(), parts)
    if out or not parts:
        parts.append(out)
    return parts


def encode_into(message: Any, version: int, out: bytearray, parts: list[Sendable]) -> bytearray:
    """Append a message to `out`, or to `parts` where it carries records; return the buffer to continue with.

    Raise KafkaError(UNSUPPORTED_VERSION) when the version cannot say a value that the message has, and ValueError
    for values outside of their type.
    """
    cls = type(message)
    try:
        return encoder_of(cls, version)(message, out, parts)
    except StructError as error:
        raise ValueError(f"{cls.__name__} v{version}: {error}") from error


def encode_in_slices(
    message: Any, version: int, out: bytearray, parts: list[Sendable]
) -> Generator[int, None, bytearray]:
    """Encode as `encode_into`, step by step; yield how many bytes `out` has after each."""
    cls = type(message)
    encoder = _sliced_encoders.get((cls, version))
    if encoder is None:
        _check_version(cls, version)
        encoder = _sliced_encoders[cls, version] = compile_sliced_encoder(cls, version)
    try:
        return (yield from encoder(message, out, parts))
    except StructError as error:
        raise ValueError(f"{cls.__name__} v{version}: {error}") from error
